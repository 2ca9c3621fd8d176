"""What Spark's Kafka source is told."""

from __future__ import annotations

import pytest

from tabletopic_kernel.clients.spark import session as spark
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.source import SourceSpec, reader_options


def options(partitions: int, **more: int) -> dict[str, str]:
    """Those of a topic with so many partitions."""
    return reader_options(
        SourceSpec(
            "t", {}, dict.fromkeys(range(partitions), 0), TopicSettings(commit_interval_ms=1_000), **more
        )
    )


def test_an_empty_fetch_ends_at_once() -> None:
    """Between two polls of a partition nobody waits for records that are not there yet."""
    assert int(options(1)["kafka.fetch.max.wait.ms"]) <= 20


def test_consumers_of_a_wide_topic_outlive_their_batch() -> None:
    """The cache holds those of a hundred partitions; what it cannot hold is made anew for every batch."""
    assert int(spark._DEFAULTS["spark.kafka.consumer.cache.capacity"]) >= 2 * 100


@pytest.mark.parametrize("partitions", [1, 4, 16, 100, 250])
def test_consumers_fit_into_the_drivers_memory(partitions: int) -> None:
    """What all consumers of a topic may hold is bounded, and polls stay larger than Kafka's defaults."""
    told = options(partitions)
    fetch, records = int(told["kafka.max.partition.fetch.bytes"]), int(told["kafka.max.poll.records"])
    assert fetch >= 1024**2
    assert records >= 500
    assert partitions * fetch <= 256 * 1024**2
    assert partitions * records <= 250_000
    cached = int(spark._DEFAULTS["spark.kafka.consumer.cache.capacity"])
    assert cached * fetch <= 1024**3 * 4 // 5


def test_a_batch_that_is_limited_begins_with_as_many_records() -> None:
    """Spark refuses a least that is above the most."""
    told = options(1, max_records=10_000)
    assert told["minOffsetsPerTrigger"] == told["maxOffsetsPerTrigger"] == "10000"
