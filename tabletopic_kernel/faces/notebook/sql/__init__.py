"""SQL in cells: its text, what completes it, where an error is, its format, what was asked before."""
