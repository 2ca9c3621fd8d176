"""Spark jobs that read and stage batches of several topics in Python workers (ADR 0035, 0036).

No record passes through the JVM.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.model.ledger import StagedOffsets
from tabletopic_kernel.pipeline.arrange import ScatteredError
from tabletopic_kernel.pipeline.plan import StagedBatch, StageResult
from tabletopic_kernel.pipeline.source import KafkaRanges
from tabletopic_kernel.pipeline.stage import StageTask
from tabletopic_kernel.pipeline.worker.packing import Batch, packed, spread

# While one job's tasks run, the next one is planned, and uses the cores that the first one leaves.
_AT_ONCE: Final = 2
_SUSPECTS_AT_ONCE: Final = 1  # besides: they may wait for a dead store for a minute, and hold up nobody else
_POOL: Final = "topics"  # of Spark's scheduler: a notebook's queries do not hold up batches
_NAMED: Final = 3  # topics in a job's description


class GivenUpError(Exception):
    """The worker is stopping while its batch waits, or is not awaited any longer."""


class ReadTask:
    """The function for ``mapPartitions``: the number of a task in; for each share its batch, seconds, and the
    pickled ``StageResult`` out. ``sources``: of each batch, with what stages it. An error of one is a value
    (``StageTask``).
    """

    def __init__(
        self,
        sources: Sequence[tuple[KafkaRanges, StageTask]],
        tasks: Sequence[Sequence[tuple[int, StagedOffsets]]],
    ) -> None:
        self._sources, self._tasks = sources, tasks

    def __call__(self, numbers: Iterable[int]) -> Iterator[tuple[int, float, bytes]]:
        """Read the shares one after the other, and stage their records."""
        for at, share in (piece for number in numbers for piece in self._tasks[number]):
            (source, stage), began = self._sources[at], time.monotonic()
            for answer in stage(source.read(share)):
                yield at, time.monotonic() - began, answer.column(0)[0].as_py()


@dataclass(eq=False)
class Job:
    """Batches that share a Spark job, whose group is ``id``."""

    batches: list[Batch]
    cores: int
    id: str = field(default_factory=lambda: f"topics {secrets.token_hex(8)}")

    def run(self) -> list[StageResult]:
        """The result of each batch; raises what Spark raises if the job fails as a whole."""
        context, tasks = self.batches[0].spark.sparkContext, spread(self.batches, self.cores)
        names = [batch.topic for batch in self.batches]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        context.setJobGroup(self.id, f"batches of {', '.join(names[:_NAMED])}{more}")
        context.setLocalProperty("spark.scheduler.pool", _POOL)
        read = ReadTask([(batch.source, batch.stage) for batch in self.batches], tasks)
        numbers = context.parallelize(range(len(tasks)), len(tasks))  # a frame would be planned (ADR 0036)
        totals, costs = [StageResult() for _ in self.batches], [0.0] * len(self.batches)
        for at, seconds, result in numbers.mapPartitions(read).collect():
            totals[at].add(result)
            costs[at] += seconds
        for batch, cost_s in zip(self.batches, costs, strict=True):
            batch.cost_s = cost_s
        return totals

    def cancel(self) -> None:
        """End it, as nobody waits for it."""
        self.batches[0].spark.sparkContext.cancelJobGroup(self.id)


class Batches:
    """The batches of one host that wait, or share a job that runs. ``clock`` gives seconds.

    Thread-safe; ``_lock`` is never held while waiting. At most three threads run jobs, while any batch waits;
    suspects have only one of them.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, new_job: Callable[[list[Batch], int], Job] = Job
    ) -> None:
        self.clock = clock
        self._new_job = new_job
        self._lock = threading.Lock()
        self._cores = 1
        self._threads = 0
        self._waiting: list[Batch] = []
        self._jobs: list[Job] = []  # that run
        self._suspects: set[str] = set()  # topics whose newest batch made its job fail, or was in trouble

    def staged(self, batch: Batch, cores: int) -> StageResult:
        """What becomes of a batch; raises GivenUpError, or what Spark raises if its tasks die.

        ``cores``: how many tasks can run. Call ``give_up`` after the batch's ``given_up`` becomes true.
        """
        with self._lock:
            if batch.given_up():  # under the lock: after this, `give_up` finds it
                raise GivenUpError
            self._cores, batch.is_alone = max(1, cores), batch.topic in self._suspects
            self._line_up(batch)
        return batch.outcome.result()

    def give_up(self, who: Hashable) -> None:
        """Drop a batch that waits; one in a job is not affected."""
        with self._lock:
            for batch in [batch for batch in self._waiting if batch.who == who]:
                self._waiting.remove(batch)
                batch.outcome.set_exception(GivenUpError())

    def abandon(self, who: Hashable) -> None:
        """Wait no longer for a batch in a job; the job goes on for others."""
        with self._lock:
            jobs = [job for job in self._jobs if any(batch.who == who for batch in job.batches)]
            for batch in (batch for job in jobs for batch in job.batches):
                if batch.who == who and not batch.outcome.done():
                    batch.outcome.set_exception(GivenUpError())
            useless = [job for job in jobs if all(batch.outcome.done() for batch in job.batches)]
        for job in useless:
            job.cancel()

    def waits_since(self, who: Hashable) -> float | None:
        """When the current wait of a batch began, by ``clock``; None: it does not wait."""
        with self._lock:
            return min((batch.since_s for batch in self._waiting if batch.who == who), default=None)

    @property
    def is_crowded(self) -> bool:
        """Whether any batch waits."""
        with self._lock:
            return bool(self._waiting)

    def _line_up(self, batch: Batch) -> None:
        """Add a batch, and a thread for it; under the lock."""
        if self._threads < _AT_ONCE + _SUSPECTS_AT_ONCE:
            threading.Thread(target=self._work, name="batches", daemon=True).start()
            self._threads += 1
        self._waiting.append(batch)

    def _work(self) -> None:
        while (job := self._next()) is not None:
            began_s, outcomes = self.clock(), list[StageResult | Exception]()
            try:
                outcomes += job.run()
            except Exception as error:  # Py4J wraps what the JVM throws, such as that a Python worker died
                outcomes += [error] * len(job.batches)
            with self._lock:
                self._jobs.remove(job)
                for batch, outcome in zip(job.batches, outcomes, strict=True):
                    batch.job_s = self.clock() - began_s
                    if not batch.outcome.done():
                        self._end(batch, outcome, was_alone=len(job.batches) == 1)

    def _next(self) -> Job | None:
        with self._lock:
            ready = [batch for batch in self._waiting if self._may_run(batch)]
            if not (batches := packed(ready, self._cores)):
                self._threads -= 1
                return None
            self._waiting = [batch for batch in self._waiting if batch not in batches]
            self._jobs.append(job := self._new_job(batches, self._cores))
            return job

    def _may_run(self, batch: Batch) -> bool:
        """Whether fewer jobs than may run of its kind do; one of them looks again when it ends."""
        is_suspect = batch.topic in self._suspects
        kinds = [job.batches[0].topic in self._suspects for job in self._jobs]
        return kinds.count(is_suspect) < (_SUSPECTS_AT_ONCE if is_suspect else _AT_ONCE)

    def _end(self, batch: Batch, outcome: StageResult | Exception, *, was_alone: bool) -> None:
        """Hand over the outcome; a batch whose job failed with others' runs again alone, under the lock."""
        if isinstance(outcome, StageResult):
            error = outcome.error
            if isinstance(error, RetryableError) and not isinstance(error, ScatteredError):
                self._suspects.add(batch.topic)
            elif was_alone:
                self._suspects.discard(batch.topic)
            batch.outcome.set_result(outcome)
        elif was_alone:
            self._suspects.add(batch.topic)
            batch.outcome.set_exception(outcome)
        elif batch.given_up():
            batch.outcome.set_exception(GivenUpError())
        else:
            batch.is_alone = True
            self._line_up(batch)


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
        result.unavailable,
        result.expectation_failures,
    )
