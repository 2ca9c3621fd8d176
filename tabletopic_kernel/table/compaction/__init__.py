"""Compaction of a table: which files are merged, and how the result replaces them."""
