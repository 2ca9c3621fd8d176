"""Columns of a table: their names and types, and how they follow the schemas of records."""
