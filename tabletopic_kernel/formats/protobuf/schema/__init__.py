"""Protobuf schemas: compiled, as a tree, as columns of a table."""
