"""``make bench-peers``: this product beside what people use instead, in one run."""
