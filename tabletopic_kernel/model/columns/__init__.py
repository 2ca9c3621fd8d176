"""Columns of a table: names, types, and how they evolve with the schemas of records."""
