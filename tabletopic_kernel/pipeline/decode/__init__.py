"""The records of one schema become rows."""
