"""Kafka: queries to a cluster, properties for librdkafka and Spark, and connection errors."""
