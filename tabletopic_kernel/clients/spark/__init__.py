"""Spark: its session, how its JVM is launched, and whether its executors share the storage."""
