"""Spark jobs that read and stage a batch in Python workers: no record passes through the JVM (ADR 0035)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from tabletopic_kernel.model.ledger import StagedOffsets
from tabletopic_kernel.pipeline.plan import StagedBatch, StagePlan, StageResult
from tabletopic_kernel.pipeline.source import KafkaRanges
from tabletopic_kernel.pipeline.stage import RESULT_SCHEMA, StageTask

# Below this many records, another task costs more than it saves, and makes another file.
_RECORDS_PER_TASK: Final = 50_000
_Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def shares(offsets: StagedOffsets, cores: int) -> list[StagedOffsets]:
    """The offsets in up to ``cores`` equal shares, one for each task; a share may end within a partition.

    >>> two = shares(StagedOffsets({0: 5, 1: 0}, {0: 100_005, 1: 20_000}), 2)
    >>> [(share.start, share.end) for share in two]
    [({0: 5}, {0: 60005}), ({0: 60005, 1: 0}, {0: 100005, 1: 20000})]
    >>> len(shares(StagedOffsets({0: 5, 1: 0}, {0: 9, 1: 3}), 2))
    1
    """
    size = math.ceil(offsets.records / max(1, min(cores, math.ceil(offsets.records / _RECORDS_PER_TASK))))
    result: list[StagedOffsets] = []
    room = 0
    for partition, end in sorted(offsets.end.items()):
        at = offsets.start[partition]
        while at < end:
            if not room:
                result.append(StagedOffsets({}, {}))
                room = size
            until = min(end, at + room)
            share = result[-1]
            result[-1] = StagedOffsets({**share.start, partition: at}, {**share.end, partition: until})
            room -= until - at
            at = until
    return result


def first_part(offsets: StagedOffsets, records: int) -> StagedOffsets:
    """The first ``records`` of the offsets or a few more: of each partition the same share.

    >>> first_part(StagedOffsets({0: 5, 1: 0}, {0: 905, 1: 100}), 100).end
    {0: 95, 1: 10}
    """
    share = min(1.0, records / offsets.records)
    start = offsets.start
    return StagedOffsets(
        start, {p: start[p] + math.ceil((end - start[p]) * share) for p, end in offsets.end.items()}
    )


@dataclass(frozen=True)
class ReadTask:
    """The function for ``mapInArrow``: the number of a share in, the result of ``stage`` for it out."""

    source: KafkaRanges
    shares: Sequence[StagedOffsets]
    stage: _Task

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the share, and stage its records."""
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        yield from self.stage(read for number in numbers for read in self.source.read(self.shares[number]))


def staged(
    spark: SparkSession, source: KafkaRanges, plan: StagePlan, offsets: StagedOffsets, cores: int
) -> StageResult:
    """The result of staging the records of ``offsets`` with ``plan``."""
    tasks = shares(offsets, cores)
    stage = StageTask(replace(plan, tasks=len(tasks)))
    read: Any = ReadTask(source, tasks, stage)  # the stubs want a function of any iterable
    total = StageResult()
    for row in spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(read, RESULT_SCHEMA).collect():
        total.add(row["result"])
    return total


def batch_of_result(offsets: StagedOffsets, result: StageResult, seconds: float) -> StagedBatch:
    """What is to be committed of a batch that took so long."""
    read = StagedOffsets(offsets.start, offsets.end, result.newest_ms, result.outliers, result.last_records)
    return StagedBatch(
        read,
        tuple(result.files),
        result.rows,
        seconds,
        tuple(result.dead_letters),
        result.refused,
        tuple(result.samples),
        result.passed_over,
        tuple(result.deletes),
    )
