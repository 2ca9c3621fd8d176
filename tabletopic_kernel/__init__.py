"""Kafka topics that are Iceberg tables, from a notebook.

Importing this package is instant; Spark, PyIceberg and the Kafka client load when first used.
"""

__version__ = "0.1.0"
