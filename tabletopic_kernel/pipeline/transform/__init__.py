"""From decoded rows to the table's columns: unchanged, from change events, or by a projection."""
