"""Where records come from: Kafka, by librdkafka; ``host/replay/letters.py`` has dead letters.

Spark's streaming query says when a batch begins and how far it goes; a batch is read where it is staged.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, TypeVar

import pyarrow as pa

from tabletopic_kernel.clients.kafka.ranges.batches import schema_of
from tabletopic_kernel.clients.kafka.ranges.reading import read_ranges
from tabletopic_kernel.model.errors import InternalError
from tabletopic_kernel.model.ledger import Offsets, StagedOffsets
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.topic_names import kafka_topic

SOURCE_SCHEMA: Final = schema_of(headers=True)
Position_contra = TypeVar("Position_contra", contravariant=True)
Batch = TypeVar("Batch")


@dataclass(frozen=True)
class Limits:
    """Where a batch ends: before the offsets ``end``, and after about this many records."""

    end: Offsets
    records: int | None = None


class Source(Protocol[Position_contra, Batch]):
    """Records of a topic, batch by batch."""

    def next(self, position: Position_contra, limits: Limits) -> Batch | None:
        """The batch that begins at the position; None: there is nothing to read up to the limits."""

    def read(self, batch: Batch) -> Iterator[pa.RecordBatch]:
        """Its records, of ``SOURCE_SCHEMA``, without ``headers`` if nobody needs them."""


def next_offsets(position: Offsets, limits: Limits) -> StagedOffsets | None:
    """The offsets of the next batch of a topic: all of short partitions, and equal shares of the others.

    >>> next_offsets({0: 5}, Limits({0: 9, 1: 1}))
    StagedOffsets(start={0: 5, 1: 0}, end={0: 9, 1: 1}, newest_ms={}, outliers={}, last_records={})
    >>> next_offsets({}, Limits({0: 90, 1: 2, 2: 0}, records=10)).end
    {2: 0, 1: 2, 0: 8}
    >>> next_offsets({0: 9, 1: 1}, Limits({0: 9, 1: 1}))
    """
    start = {partition: position.get(partition, 0) for partition in limits.end}
    end = dict(limits.end)
    if limits.records is not None:
        end, left = {}, limits.records
        by_length = sorted(start, key=lambda partition: limits.end[partition] - start[partition])
        for at, partition in enumerate(by_length):
            length = limits.end[partition] - start[partition]
            end[partition] = start[partition] + min(length, left // (len(start) - at))
            left -= max(0, end[partition] - start[partition])
    offsets = StagedOffsets(start, end)
    return offsets if offsets.records else None


@dataclass(frozen=True)
class KafkaRanges:
    """Ranges of a topic's offsets, read by librdkafka where ``read`` is called."""

    topic: str
    properties: Mapping[str, str] = field(repr=False)  # librdkafka's, with the login
    headers: bool
    seconds: float = math.inf

    def next(self, position: Offsets, limits: Limits) -> StagedOffsets | None:
        return next_offsets(position, limits)

    def read(self, batch: StagedOffsets) -> Iterator[pa.RecordBatch]:
        """See ``Source``; raises as ``read_ranges``."""
        return read_ranges(
            self.properties,
            kafka_topic(self.topic),
            batch.start,
            batch.end,
            headers=self.headers,
            seconds=self.seconds,
        )


# A batch begins early once this many records wait, to stage a busy topic while the commit interval runs; a
# quiet topic waits for the interval and makes one file (``worker/ends.py``).
MIN_RECORDS = 200_000
# The maximum of a batch: bounds the work that a failed batch loses, and the memory of its tasks.
MAX_RECORDS = 1_000_000
_WARM_UP_RECORDS = 100
# How often a topic whose batch is due is looked at, as a share of the commit interval, within these bounds
# (ms): often enough to be fresh, rarely enough that an idle topic costs little.
_POLL_SHARE, _POLL_MIN_MS, _POLL_MAX_MS = 10, 50, 1_000


@dataclass(frozen=True)
class SourceSpec:
    """What one streaming query reads, with the properties of Kafka's two clients."""

    topic: str
    java: Mapping[str, str] = field(repr=False)  # with the login
    start: Offsets
    settings: TopicSettings
    max_records: int = MAX_RECORDS
    librdkafka: Mapping[str, str] = field(default_factory=dict, repr=False)  # with the login

    @property
    def headers(self) -> bool:
        """Whether records must be read with their headers."""
        settings = self.settings
        names_schema = "by_schema_id" in (settings.value_format, settings.key_format)
        is_letter = settings.errors == "dead_letter"  # a letter has the whole record
        return "header" in settings.metadata_columns or names_schema or is_letter


def reader_options(spec: SourceSpec) -> dict[str, str]:
    """Options for ``spark.readStream.format("kafka")``, which plans batches and reads none."""
    starting = json.dumps(
        {kafka_topic(spec.topic): {str(p): offset for p, offset in sorted(spec.start.items())}}
    )
    properties = {"isolation.level": "read_committed", **spec.java}
    return {
        **{f"kafka.{key}": value for key, value in properties.items()},
        "subscribe": kafka_topic(spec.topic),
        "startingOffsets": starting,
        "failOnDataLoss": "true",  # a gap is never skipped silently (I8)
        "maxOffsetsPerTrigger": str(spec.max_records),
    }


def warm_up_options(java: Mapping[str, str], topic: str) -> dict[str, str]:
    """Options for a warm-up query that reads a few records of ``topic`` and ends."""
    options = reader_options(SourceSpec(topic, java, {}, TopicSettings(), max_records=_WARM_UP_RECORDS))
    return options | {"startingOffsets": "earliest"}


def poll_interval_ms(commit_interval_ms: int) -> int:
    """How often to look for new records."""
    return max(_POLL_MIN_MS, min(_POLL_MAX_MS, commit_interval_ms // _POLL_SHARE))


def batch_end_offsets(checkpoint: Path, batch_id: int, topic: str) -> dict[int, int]:
    """The end offsets of a batch, from Spark's log: control records and gaps of log compaction included."""
    path = checkpoint / "offsets" / str(batch_id)
    for line in path.read_text().splitlines():
        if line.startswith("{"):
            offsets = json.loads(line).get(kafka_topic(topic))
            if offsets is not None:
                return {int(partition): int(offset) for partition, offset in offsets.items()}
    raise InternalError(f"no offsets of {topic} in {path}")
