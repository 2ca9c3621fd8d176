"""Reads a batch with librdkafka, in the task that stages it: for records on which Spark's source fails.

Spark keeps a record's timestamp as microseconds in 64 bits. A producer that sends nanoseconds instead of
milliseconds exceeds them, and brokers before Kafka 4 accept its records: Spark's source then fails each batch
that has one, again and again. Here such a timestamp is null, and the record a row like any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tabletopic_kernel.clients.spark.java_errors import text_of
from tabletopic_kernel.model.ledger import StagedOffsets
from tabletopic_kernel.pipeline.source import KafkaRanges, SourceSpec
from tabletopic_kernel.pipeline.stage import RESULT_SCHEMA

# Java's error when it multiplies milliseconds to microseconds.
_OVERFLOW: Final = re.compile(r"java\.lang\.ArithmeticException: long overflow")
_Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def is_overflow(error: Exception) -> bool:
    """Whether Spark's source failed on a timestamp that it cannot represent.

    >>> is_overflow(Exception("Lost task 0.0 in stage 1.0: java.lang.ArithmeticException: long overflow"))
    True
    """
    return bool(_OVERFLOW.search(text_of(error)))


@dataclass(frozen=True)
class ReadTask:
    """The function for ``mapInArrow``: numbers of ``shares`` in, the result of ``stage`` for these out."""

    source: KafkaRanges
    shares: Sequence[StagedOffsets]
    stage: _Task

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the shares, one after the other, and stage their records."""
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        yield from self.stage(read for number in numbers for read in self.source.read(self.shares[number]))


def staged_by_librdkafka(
    spark: SparkSession, spec: SourceSpec, stage: _Task, offsets: StagedOffsets, tasks: int
) -> DataFrame:
    """A frame of ``RESULT_SCHEMA`` for the records of ``offsets``, by partition, in up to ``tasks`` tasks."""
    source = KafkaRanges(spec.topic, spec.librdkafka, spec.headers)
    shares = [
        StagedOffsets({partition: offsets.start[partition]}, {partition: end})
        for partition, end in sorted(offsets.end.items())
        if offsets.start[partition] < end
    ]
    read: Any = ReadTask(source, shares, stage)  # as for StageTask
    return spark.range(0, len(shares), 1, min(tasks, len(shares))).mapInArrow(read, RESULT_SCHEMA)
