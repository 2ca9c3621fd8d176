"""Protobuf schemas: compiled, as a tree, and as a table's columns."""
