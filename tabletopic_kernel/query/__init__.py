"""SQL over the tables: DuckDB, Spark and Athena."""
