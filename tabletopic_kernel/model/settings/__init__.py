"""The settings, their names and sources."""
