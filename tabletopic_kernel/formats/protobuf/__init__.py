"""Protobuf: a fast engine for whole groups, and an exact one for single records."""
