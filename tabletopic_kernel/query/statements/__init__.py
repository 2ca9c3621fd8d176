"""What a statement is about, and what it may do."""
