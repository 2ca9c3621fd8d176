"""JSON Schemas, draft 4 to 2020-12, as columns of a table."""
