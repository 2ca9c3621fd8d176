"""Errors of catalogs and storage, sorted by who has to act: the table, and the look into it."""
