"""Catalogs: opened with PyIceberg, and their properties translated for the engines."""
