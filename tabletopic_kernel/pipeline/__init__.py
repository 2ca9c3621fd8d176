"""A batch on an executor, step by step: source, split, decode, transform, conform, sink."""
