"""A host's topics: those with the desired state and the events, and the table topics that it runs."""
