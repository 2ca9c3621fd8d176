"""The path of a record, one file per step."""
