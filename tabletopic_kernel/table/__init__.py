"""The Iceberg table of a topic: its columns, snapshots, dead letters, and the removal of files."""
