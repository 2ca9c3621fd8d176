"""A user's SELECT over decoded rows: checked, planned and run within limits."""
