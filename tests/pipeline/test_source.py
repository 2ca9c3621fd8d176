"""What Spark's Kafka source is told."""

from __future__ import annotations

from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.source import SourceSpec, reader_options


def test_spark_limits_a_batch_and_holds_none_back() -> None:
    """The worker lets a batch begin when it is due, and then it begins."""
    told = reader_options(SourceSpec("t", {}, {0: 7}, TopicSettings(), max_records=10_000))
    assert (told["maxOffsetsPerTrigger"], told["startingOffsets"]) == ("10000", '{"t": {"0": 7}}')
    assert not {"minOffsetsPerTrigger", "maxTriggerDelay"} & told.keys()
