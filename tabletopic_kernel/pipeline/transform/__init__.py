"""Fields become columns: of batches, and of schemas."""
