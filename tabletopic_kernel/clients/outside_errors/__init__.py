"""Errors of catalogs and storage, classified by who has to act: the table, and its lookup."""
