"""Kafka: questions to a cluster, properties for librdkafka and for Spark, and why nobody answers."""
