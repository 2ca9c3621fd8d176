"""Keeps a table's columns ahead of its records: whose schemas, which versions, what they change."""
