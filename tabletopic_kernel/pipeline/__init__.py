"""A batch on an executor, step by step: source, split, keys, decode, transform, conform, write."""
