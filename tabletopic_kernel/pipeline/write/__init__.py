"""Rows to files: data files of the table, and those of its dead letters."""
