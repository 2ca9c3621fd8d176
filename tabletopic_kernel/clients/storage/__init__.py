"""The storage of tables: files, and whether they can be written."""
