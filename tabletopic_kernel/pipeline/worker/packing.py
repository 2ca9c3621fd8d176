"""Which waiting batches share the next Spark job, and which of its tasks reads what (ADR 0036)."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import SparkSession

from tabletopic_kernel.model.ledger import StagedOffsets
from tabletopic_kernel.pipeline.plan import StageResult
from tabletopic_kernel.pipeline.source import KafkaRanges
from tabletopic_kernel.pipeline.stage import StageTask

# A job of several batches should take no longer than this, so that none waits long for those of other topics.
_JOB_S: Final = 2.0
# While nobody waits, one may take so many times as long: who comes next waits for all of it.
_IF_NOT_CROWDED: Final = 5
# Spark writes a larger function of a job to a file, as a broadcast, and plans have the storage's keys.
_JOB_BYTES: Final = 800_000
# Unless they are slow: below so many records, another task costs more than it saves, and makes another file.
_RECORDS_PER_TASK: Final = 50_000
# However slow they are: parts of a batch, and shares, of fewer records would make files that are too small.
_LEAST_RECORDS: Final = 1_000


@dataclass(eq=False)
class Batch:
    """Records of a topic that its worker ``who`` waits to have staged: ``shares``, each by one task.

    ``since_s``: when it began to wait. ``cost_s``: seconds of a core that it may take, later has taken.
    ``is_alone``: it shares no job, as a job with it failed as a whole, or its topic's last batch failed.
    ``job_s``: how long its last job took. ``given_up``: whether the worker stops.
    """

    who: Hashable
    topic: str
    spark: SparkSession
    source: KafkaRanges
    stage: StageTask
    shares: Sequence[StagedOffsets]
    since_s: float
    cost_s: float
    given_up: Callable[[], bool]
    is_alone: bool = False
    job_s: float = 0.0
    outcome: Future[StageResult] = field(default_factory=Future)

    @property
    def may_share(self) -> bool:
        """Whether it shares a job: others wait for its longest share."""
        return not self.is_alone and self.cost_s / len(self.shares) <= _JOB_S


def packed(waiting: Iterable[Batch], cores: int) -> list[Batch]:
    """The batches of the next job: the one that waits longest, and others while they fit in its time."""
    by_age = sorted(waiting, key=lambda batch: batch.since_s)
    if not by_age or not by_age[0].may_share:
        return by_age[:1]
    job: list[Batch] = []
    room, space = _JOB_S * cores, _JOB_BYTES
    for batch in by_age:
        fits = batch.may_share and batch.cost_s <= room and batch.stage.size <= space
        if fits or not job:
            job.append(batch)
            room, space = room - batch.cost_s, space - batch.stage.size
    return job


def spread(batches: Sequence[Batch], cores: int) -> list[list[tuple[int, StagedOffsets]]]:
    """For each task of a job its shares, with the index of their batch; tasks take about equally long."""
    costs = [(batch.cost_s / len(batch.shares), at) for at, batch in enumerate(batches) for _ in batch.shares]
    tasks: list[list[tuple[int, StagedOffsets]]] = [[] for _ in range(min(len(costs), cores))]
    left, loads = [list(batch.shares) for batch in batches], [0.0] * len(tasks)
    for cost, at in sorted(costs, reverse=True):
        task = min(range(len(tasks)), key=lambda number: (loads[number], len(tasks[number])))
        tasks[task].append((at, left[at].pop()))
        loads[task] += cost
    return tasks


def shares(offsets: StagedOffsets, cores: int, record_s: float) -> list[StagedOffsets]:
    """The offsets in up to ``cores`` equal shares, one for each task; a share may end within a partition.

    ``record_s``: seconds of a core that a record takes.

    >>> two = shares(StagedOffsets({0: 5, 1: 0}, {0: 100_005, 1: 20_000}), 2, 0.00002)
    >>> [(share.start, share.end) for share in two]
    [({0: 5}, {0: 60005}), ({0: 60005, 1: 0}, {0: 100005, 1: 20000})]
    >>> len(shares(StagedOffsets({0: 5, 1: 0}, {0: 9, 1: 3}), 2, 0.00002))
    1
    """
    records = offsets.records
    slow = min(math.ceil(records * record_s / _JOB_S), records // _LEAST_RECORDS)
    size = math.ceil(records / max(1, min(cores, max(slow, math.ceil(records / _RECORDS_PER_TASK)))))
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


def first_part(offsets: StagedOffsets, record_s: float, cores: int, *, is_crowded: bool) -> StagedOffsets:
    """What one job takes of the offsets if a record takes so long: of each partition the same share.

    >>> first_part(StagedOffsets({0: 5, 1: 0}, {0: 90_005, 1: 10_000}), 0.0001, 1, is_crowded=True).end
    {0: 18005, 1: 2000}
    """
    records = max(_LEAST_RECORDS, _JOB_S * cores / record_s) * (1 if is_crowded else _IF_NOT_CROWDED)
    share = min(1.0, records / offsets.records)
    start = offsets.start
    return StagedOffsets(
        start, {p: start[p] + math.ceil((end - start[p]) * share) for p, end in offsets.end.items()}
    )
