"""JSON, with a JSON Schema or without: a fast engine for groups, and an exact one for single records."""
