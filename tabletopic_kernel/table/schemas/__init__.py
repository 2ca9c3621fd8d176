"""Keeps a table's columns ahead of its records: which schemas, which versions, what they change."""
