"""Keeps a table's columns ahead of its records: which schemas and versions, and what they change."""
