"""What Spark's Kafka source is told."""

from __future__ import annotations

from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.source import SourceSpec, reader_options


def options(partitions: int, **more: int) -> dict[str, str]:
    """Those of a topic with so many partitions."""
    return reader_options(
        SourceSpec(
            "t", {}, dict.fromkeys(range(partitions), 0), TopicSettings(commit_interval_ms=1_000), **more
        )
    )


def test_a_batch_that_is_limited_begins_with_as_many_records() -> None:
    """Spark refuses a least that is above the most."""
    told = options(1, max_records=10_000)
    assert told["minOffsetsPerTrigger"] == told["maxOffsetsPerTrigger"] == "10000"
