"""The streaming query of one topic, and the processes that work for it."""
