"""A topic's owner at work: how it takes over, what is staged for it, and what other threads ask it."""
