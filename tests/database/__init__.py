"""A real PostgreSQL, whose changes a real Debezium sends: the tables are as the database is."""
