"""Loads what a topic's first batch needs, before there is one: classes of the JVM, and Python workers."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping

from pyspark.sql import SparkSession

from tabletopic_kernel.clients.spark.java_errors import text_of
from tabletopic_kernel.clients.spark.session import new_checkpoint
from tabletopic_kernel.model.errors import RetryableError

_LOG = logging.getLogger(__name__)
_LIMIT_S = 120


def warm_up_workers(session: SparkSession) -> None:
    """Run the smallest job, so that the first batch finds Python workers; raises RetryableError."""
    try:
        session.sparkContext.parallelize(range(1), 1).mapPartitions(lambda numbers: numbers).collect()
    except Exception as error:  # Py4J wraps what the JVM throws
        raise RetryableError(f"Spark did not warm up: {text_of(error)}") from error


def warm_up_source(session: SparkSession, kafka: Mapping[str, str]) -> None:
    """Plan a batch of Spark's source with the options ``kafka``; errors are for the topics to report."""
    checkpoint = new_checkpoint(session)
    try:
        rows = session.readStream.format("kafka").options(**kafka).load()
        query = (
            rows.writeStream.foreachBatch(lambda *_: None)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        if not query.awaitTermination(_LIMIT_S):
            query.stop()
    except Exception as error:  # Py4J wraps what the JVM throws
        _LOG.info("Spark's source for Kafka: %s", text_of(error))
    finally:
        shutil.rmtree(checkpoint, ignore_errors=True)
