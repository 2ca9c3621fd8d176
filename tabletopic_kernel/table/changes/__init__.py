"""Changes of a table as values, and the snapshots and requests that carry them out."""
