"""Catalogs: opened by PyIceberg, and their properties for the engines."""
