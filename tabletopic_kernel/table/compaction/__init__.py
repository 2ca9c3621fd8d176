"""Compaction of a table: which files are put together, and how they take the others' place."""
