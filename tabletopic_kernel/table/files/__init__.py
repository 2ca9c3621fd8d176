"""Which files are a table's own, which something reaches, and which nothing does. Nothing is removed here."""
