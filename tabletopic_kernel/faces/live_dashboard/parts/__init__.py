"""Pieces of the pages."""
