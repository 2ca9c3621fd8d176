"""JSON, with a JSON Schema or without: a fast engine for whole groups, and an exact one for single records."""
