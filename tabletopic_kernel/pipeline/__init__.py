"""A batch on an executor, in its order: source, split, keys, decode, transform, conform, write."""
