"""Asks DuckDB, Spark and PyIceberg the same questions, and compares the answers with the rows themselves."""
