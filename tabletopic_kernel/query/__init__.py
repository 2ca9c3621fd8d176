"""SQL over the tables: DuckDB and Spark."""
