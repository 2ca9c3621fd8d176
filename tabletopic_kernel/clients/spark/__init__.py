"""Spark: its session, the launch of its JVM, and whether its executors share the storage."""
