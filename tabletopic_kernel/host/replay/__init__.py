"""Dead letters that are tried again, in rounds, and what a replay would do."""
