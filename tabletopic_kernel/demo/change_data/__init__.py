"""A database whose changes become a table: PostgreSQL, Debezium in Kafka Connect, and a small shop."""
