"""Progress of topics: events, and the views folded from them."""
