"""Reads a batch with librdkafka, in the task that stages it: for records on which Spark's source fails.

Spark keeps a record's timestamp as microseconds in 64 bits. A producer that sends nanoseconds instead of
milliseconds exceeds them, and brokers before Kafka 4 accept its records: Spark's source then fails each batch
that has one, again and again. Here such a timestamp is null, and the record a row like any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import Message
from pyspark.sql import DataFrame, SparkSession

from tabletopic_kernel.clients.kafka.reader import Reader
from tabletopic_kernel.clients.spark.java_errors import text_of
from tabletopic_kernel.model.ledger import StagedOffsets
from tabletopic_kernel.pipeline.source import SourceSpec
from tabletopic_kernel.pipeline.stage import RESULT_SCHEMA, SOURCE_HEADERS

# Java's error when it multiplies milliseconds to microseconds.
_OVERFLOW: Final = re.compile(r"java\.lang\.ArithmeticException: long overflow")
_LONGEST_MS: Final = (2**63 - 1) // 1000
_SCHEMA = pa.schema(
    [
        ("value", pa.binary()),
        ("key", pa.binary()),
        ("headers", SOURCE_HEADERS),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)
_Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def is_overflow(error: Exception) -> bool:
    """Whether Spark's source failed on a timestamp that it cannot represent.

    >>> is_overflow(Exception("Lost task 0.0 in stage 1.0: java.lang.ArithmeticException: long overflow"))
    True
    """
    return bool(_OVERFLOW.search(text_of(error)))


@dataclass(frozen=True)
class ReadTask:
    """The function for ``mapInArrow``: numbers of ``ranges`` in, the result of ``stage`` for these out.

    A range is a partition, its first offset, and the offset before which it ends.
    """

    topic: str
    properties: Mapping[str, str] = field(repr=False)  # librdkafka's, with the login
    ranges: Sequence[tuple[int, int, int]]
    headers: bool
    stage: _Task

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the ranges, one after the other, and stage their records."""
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        yield from self.stage(self._read([self.ranges[number] for number in numbers]))

    def _read(self, ranges: Sequence[tuple[int, int, int]]) -> Iterator[pa.RecordBatch]:
        # Missing offsets are an error, and never skipped silently (I8).
        with Reader(self.properties, f"tabletopic-{self.topic}", auto_offset_reset="error") as reader:
            for partition, start, end in ranges:
                for messages in reader.read_range(self.topic, {partition: start}, {partition: end}):
                    yield batch_of(messages, headers=self.headers)


def batch_of(messages: Sequence[Message], *, headers: bool) -> pa.RecordBatch:
    """Records in the format of Spark's source, without the column of headers if it is not needed."""
    columns: dict[str, list[Any]] = {
        "value": [message.value() for message in messages],
        "key": [message.key() for message in messages],
        "headers": [_headers(message) for message in messages] if headers else [],
        "partition": [message.partition() for message in messages],
        "offset": [message.offset() for message in messages],
        "timestamp": [_micros(message.timestamp()[1]) for message in messages],
    }
    schema = _SCHEMA if headers else pa.schema([one for one in _SCHEMA if one.name != "headers"])
    return pa.RecordBatch.from_arrays(
        [pa.array(columns[one.name], one.type) for one in schema], schema=schema
    )


def _headers(message: Message) -> list[dict[str, Any]] | None:
    pairs: Any = message.headers() or ()  # the stubs say a dict, too
    return [{"key": key, "value": value} for key, value in pairs] or None


def _micros(milliseconds: int) -> int | None:
    return milliseconds * 1000 if abs(milliseconds) <= _LONGEST_MS else None


def staged_by_librdkafka(
    spark: SparkSession, spec: SourceSpec, stage: _Task, offsets: StagedOffsets, tasks: int
) -> DataFrame:
    """A frame of ``RESULT_SCHEMA`` for the records of ``offsets``, by partition, in up to ``tasks`` tasks."""
    ranges = [
        (partition, offsets.start[partition], end)
        for partition, end in sorted(offsets.end.items())
        if offsets.start[partition] < end
    ]
    count = len(ranges)
    read: Any = ReadTask(spec.topic, spec.librdkafka, ranges, spec.headers, stage)  # as for StageTask
    return spark.range(0, count, 1, min(tasks, count)).mapInArrow(read, RESULT_SCHEMA)
