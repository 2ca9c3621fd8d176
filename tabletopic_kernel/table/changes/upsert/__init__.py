"""Commits of tables that are kept by key: which rows they replace, and which deleted keys are remembered."""
