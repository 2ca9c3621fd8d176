"""A worker is a Spark query whose batches begin when the worker says, and are read once."""

from __future__ import annotations

import contextlib
import json
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.manifest import DataFile

from tabletopic_kernel.model.errors import ActionNeededError, BadRecordError, RetryableError, Trouble
from tabletopic_kernel.model.ledger import StagedOffsets
from tabletopic_kernel.model.redact import learn
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.arrange import ScatteredError
from tabletopic_kernel.pipeline.plan import RefusedRecord, SchemaPlan, StagePlan, StageResult
from tabletopic_kernel.pipeline.source import SourceSpec
from tabletopic_kernel.pipeline.worker import query as stream
from tabletopic_kernel.pipeline.worker.ends import Ends, Wait
from tabletopic_kernel.pipeline.worker.jobs import Batches, Job
from tabletopic_kernel.pipeline.worker.packing import Batch
from tabletopic_kernel.pipeline.worker.turns import Turns
from tabletopic_kernel.pipeline.worker.worker import Worker
from tests.clients.samples import error_of_an_ended_jvm

WAIT_S = 240


class FakeQuery:
    """Ends when it is stopped, and waits for the batch under way as Spark does."""

    def __init__(self, options: dict[str, str], on_batch: Any, checkpoint: str) -> None:
        self._log = Path(checkpoint) / "offsets"
        self._log.mkdir(exist_ok=True)
        self.start = {int(p): at for p, at in json.loads(options["startingOffsets"])["clicks"].items()}
        self.most = int(options["maxOffsetsPerTrigger"])
        self._on_batch = on_batch
        self.gone = threading.Event()
        self.status = {"message": "Waiting for data to arrive"}

    def on_batch(self, end: dict[int, int], number: int) -> None:
        """Begin a batch up to these offsets."""
        (self._log / str(number)).write_text(f"v1\n{json.dumps({'clicks': end})}\n")
        self._on_batch(None, number)

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        """As Spark's."""
        return not self.gone.is_set()

    def stop(self) -> None:
        """As Spark's."""
        self.gone.set()

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802 - Spark's name
        """As Spark's."""
        has_ended = self.gone.wait(timeout or WAIT_S)
        assert has_ended or timeout
        return has_ended


class FakeSpark:
    """Where a worker asks for its queries; reader and writer in one."""

    def __init__(self, folder: Path) -> None:
        self.query_class = FakeQuery
        self.queries: list[FakeQuery] = []
        self.made = threading.Condition()
        self.is_busy = False  # queries do not come to reading
        self.readStream = self.writeStream = self.sparkContext = self
        self.defaultParallelism, self.master = 1, "local[1]"
        self.conf = {"spark.local.dir": str(folder)}

    def options(self, **options: str) -> FakeSpark:
        """Keep where the query begins."""
        self._options = options
        return self

    def foreachBatch(self, on_batch: Any) -> FakeSpark:  # noqa: N802 - Spark's name
        """Keep what takes the batches."""
        self._on_batch = on_batch
        return self

    def format(self, *_: Any, **__: Any) -> FakeSpark:
        """Nothing to keep."""
        return self

    load = queryName = trigger = format  # noqa: N815 - Spark's names

    def option(self, _: str, checkpoint: str) -> FakeSpark:
        """Keep the folder of the query."""
        self._checkpoint = checkpoint
        return self

    def start(self) -> FakeQuery:
        """The next query."""
        query = self.query_class(self._options, self._on_batch, self._checkpoint)
        if self.is_busy:
            query.status = {"message": "Initializing sources"}
        with self.made:
            self.queries.append(query)
            self.made.notify_all()
        return query

    def query(self, number: int) -> FakeQuery:
        """Wait for the query of this number."""
        with self.made:
            assert self.made.wait_for(lambda: len(self.queries) > number, WAIT_S)
        return self.queries[number]


class Ended:
    """A listener that wants to know one thing."""

    def __init__(self) -> None:
        self.told: list[Exception | None] = []
        self.discarded: list[Any] = []
        self.over = threading.Event()

    def ended(self, error: Exception | None) -> None:
        """The worker is over."""
        self.told.append(error)
        self.over.set()

    def discard(self, *files: Any) -> None:
        """Keep them."""
        self.discarded.append(files)


class AtOnce(Ends):
    """No worker waits for records; keeps what they would have waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[Wait] = []

    def wait(self, broker: Any, wait: Wait, given_up: Callable[[], bool]) -> None:
        """As if there were records."""
        self.waits.append(wait)


class FakeBroker:
    """A broker with these end offsets."""

    def __init__(self, **ends: dict[int, int]) -> None:
        self.ends = ends

    def partition_counts(self) -> dict[str, int]:
        """As the real one's."""
        return {topic: len(ends) for topic, ends in self.ends.items()}

    def ends_now(self, partitions: dict[str, int]) -> dict[str, dict[int, int]]:
        """As the real one's."""
        return {topic: dict(self.ends[topic]) for topic in partitions if topic in self.ends}


class Scripted(Worker):
    """Stages its batches, and runs them, as the test says."""

    stages: Callable[..., None] | None = None
    runs: Callable[..., StageResult] | None = None

    def stage_batch(self, *given: Any) -> None:
        """As the test says, if it says something."""
        (self.stages or super().stage_batch)(*given)

    def run_once(self, *given: Any) -> StageResult:
        """As the test says, if it says something."""
        return (self.runs or super().run_once)(*given)


class HeldJob(Job):
    """A job that ends when the test says; its batches have no records."""

    def __init__(self, batches: list[Batch], cores: int) -> None:
        super().__init__(batches, cores)
        self.over, self.is_cancelled = threading.Event(), False

    def run(self) -> list[StageResult]:
        """Wait."""
        assert self.over.wait(WAIT_S)
        return [StageResult() for _ in self.batches]

    def cancel(self) -> None:
        """As Spark's."""
        self.is_cancelled = True
        self.over.set()


class Rig:
    """A worker whose batches end where the test says."""

    def __init__(self, folder: Path) -> None:
        self.spark, self.listener = FakeSpark(folder), Ended()
        self.staged: list[tuple[dict[int, int], dict[int, int]]] = []
        self.spec = SourceSpec(
            "clicks", {}, {0: 5}, TopicSettings(commit_interval_ms=3_600_000, max_refused_share=1)
        )
        self.jobs: list[HeldJob] = []
        self.batches, self.starts, self.ends = Batches(new_job=self._new_job), Turns(), AtOnce()
        self.broker = FakeBroker(clicks={0: 5})
        self.worker = self.new_worker()
        self.worker.stages = self._stage

    def new_worker(self) -> Scripted:
        """Another of the same host, which has one core."""
        shared: Any = self.broker, self.ends, self.batches, self.starts
        return Scripted(self.spark, self.spec, None, self.listener, *shared)  # type: ignore[arg-type]

    def _stage(self, offsets: StagedOffsets) -> None:
        self.staged.append((dict(offsets.start), dict(offsets.end)))
        self.worker._position = {**self.worker._position, **offsets.end}

    def _new_job(self, batches: list[Batch], cores: int) -> HeldJob:
        self.jobs.append(HeldJob(batches, cores))
        return self.jobs[-1]

    def stage_in_job(self, offsets: StagedOffsets) -> None:
        """As ``_stage``, once its job has ended."""
        plan = StagePlan("clicks", None, None, 1, SchemaPlan(), True, TopicSettings())
        self.worker._staged(offsets, plan)
        self._stage(offsets)

    def wait_for_jobs(self, count: int) -> None:
        """Until so many have begun."""
        while len(self.jobs) < count:
            self.listener.over.wait(0.01)

    def line_up(self, topic: str) -> threading.Thread:
        """A batch of another topic, which waits for its result."""
        share = StagedOffsets({0: 0}, {0: 1})
        stage = SimpleNamespace(size=0)
        given: Any = topic, topic, self.spark, None, stage, [share], self.batches.clock(), 0.0, lambda: False
        thread = threading.Thread(target=self.batches.staged, args=(Batch(*given), 1))
        thread.start()
        return thread

    def line_up_in_jobs(self, *topics: str) -> list[threading.Thread]:
        """A batch of each of the other topics, in a job of its own."""
        threads = []
        for topic in topics:
            threads.append(self.line_up(topic))
            self.wait_for_jobs(len(threads))
        return threads


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A worker that has begun at offset 5."""
    made = Rig(tmp_path)
    made.worker.start()
    made.spark.query(0)
    yield made
    made.worker.stop()
    assert made.listener.over.wait(WAIT_S)


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Rig]:
    """A worker whose query has started and does not read yet."""
    made = Rig(tmp_path)
    made.spark.is_busy = True
    made.worker.start()
    made.spark.query(0)
    yield made
    made.worker.stop()


def test_a_batch_begins_when_there_is_something_to_read(tmp_path: Path) -> None:
    """No query starts before, and a batch returns to Spark only then, or when a commit is requested."""
    rig = Rig(tmp_path)
    rig.ends = Ends()  # type: ignore[assignment]
    rig.worker = rig.new_worker()
    rig.worker.stages = rig._stage
    rig.worker.start()
    while rig.worker._pace._wait is None or not rig.ends._waiting:
        rig.listener.over.wait(0.01)
    assert rig.spark.queries == []
    rig.broker.ends["clicks"] = {0: 8, 1: 0}
    query = rig.spark.query(0)
    assert query.start == {0: 5, 1: 0}  # names the new partition, too
    batch = threading.Thread(target=query.on_batch, args=({0: 8, 1: 0}, 0))
    batch.start()
    while not rig.staged or rig.worker._batch_lock.locked():
        rig.listener.over.wait(0.01)
    rig.worker.read_up_to({0: 8, 1: 0})
    batch.join(0.01)
    assert batch.is_alive()  # all of that is staged
    rig.worker.read_up_to({0: 9, 1: 0})
    batch.join(WAIT_S)
    batch = threading.Thread(target=query.on_batch, args=({0: 9, 1: 0}, 1))
    batch.start()
    while len(rig.staged) < 2 or rig.worker._batch_lock.locked():
        rig.listener.over.wait(0.01)
    rig.worker.stop()
    batch.join(WAIT_S)
    assert not batch.is_alive()
    assert rig.staged == [({0: 5, 1: 0}, {0: 8, 1: 0}), ({0: 8, 1: 0}, {0: 9, 1: 0})]
    assert rig.listener.told == [None]


def test_a_quiet_topic_waits_for_its_interval(rig: Rig) -> None:
    """The first batch is due at once, the next one an interval after it began, or with many records."""
    rig.spark.query(0).on_batch({0: 8}, 0)
    rig.spark.query(0).on_batch({0: 300_000}, 1)
    first, small, large = rig.ends.waits
    assert first.due_s <= rig.ends.clock()
    assert first.look_s <= rig.ends.clock()
    assert small.due_s > rig.ends.clock() + 3_000
    assert (small.position, small.least) == ({0: 8}, 200_000)
    assert rig.ends.clock() - 2 < small.look_s < rig.ends.clock() + 3
    assert large.position == {0: 300_000}
    assert large.look_s <= rig.ends.clock()  # there may be more already


@pytest.mark.parametrize("call", ["stop", "awaitTermination"])
def test_a_worker_ends_although_the_jvm_ends_as_it_tells_of_an_error(rig: Rig, call: str) -> None:
    """Its coordinator waits for the end: else the topic would neither go on nor stop."""
    ends = getattr(FakeQuery, call)

    def fail(query: FakeQuery) -> None:
        ends(query)
        raise error_of_an_ended_jvm()

    rig.spark.query_class = type("Failing", (FakeQuery,), {call: fail})
    worker = rig.new_worker()
    worker.start()
    rig.spark.query(1)
    with contextlib.suppress(Exception):
        worker._query.stop()
    assert rig.listener.over.wait(WAIT_S)
    assert isinstance(rig.listener.told[0], RetryableError)


def test_a_worker_that_waits_for_a_job_stops_at_once(rig: Rig) -> None:
    """Its batch is left to the next worker, and the jobs of other topics go on."""
    others = rig.line_up_in_jobs("another topic", "a third")
    rig.worker.stages = rig.stage_in_job
    batch = threading.Thread(target=rig.spark.query(0).on_batch, args=({0: 8}, 0))
    batch.start()
    while rig.worker.waits_s is None:  # it is about to line up
        batch.join(0.01)
    rig.worker.stop()
    batch.join(WAIT_S)
    assert not batch.is_alive()
    assert (rig.staged, rig.worker.waits_s, rig.listener.told) == ([], None, [None])
    for job, other in zip(rig.jobs, others, strict=True):
        assert not job.is_cancelled
        job.over.set()
        other.join(WAIT_S)


def _others(rig: Rig, count: int) -> list[Worker]:
    workers = [rig.new_worker() for _ in range(count)]
    for worker in workers:
        worker.start()
    while any(worker.waits_s is None for worker in workers):  # they are about to line up
        rig.listener.over.wait(0.01)
    return workers


def test_a_worker_that_waits_for_its_start_stops_at_once(busy: Rig) -> None:
    """It has no query then, also when it was asked to read before; its listener is told that it is over."""
    (other,) = _others(busy, 1)
    other.read_up_to({0: 12})
    other.stop()
    assert (len(busy.spark.queries), other.waits_s, busy.listener.told) == (1, None, [None])


def test_a_query_that_spark_does_not_start_is_tried_again(rig: Rig) -> None:
    """The listener is told in a sentence, and the worker is over."""

    def refuse() -> FakeQuery:
        raise ValueError("no such format")

    rig.spark.start = refuse  # type: ignore[method-assign]
    worker = rig.new_worker()
    worker.start()
    assert rig.listener.over.wait(WAIT_S)
    (error,) = rig.listener.told
    assert isinstance(error, RetryableError)
    assert "Spark did not start the query of clicks" in str(error)
    assert "no such format" in str(error)
    rig.listener.over.clear()


def test_a_worker_that_is_stopped_begins_no_query(tmp_path: Path) -> None:
    """Whoever comes first, a stop or a request: afterwards nothing runs."""
    rig = Rig(tmp_path)
    rig.ends = Ends()  # type: ignore[assignment]
    rig.worker = rig.new_worker()
    rig.worker.start()
    rig.worker.stop()
    assert rig.listener.over.wait(WAIT_S)
    rig.worker.read_up_to({0: 13})
    assert (rig.spark.queries, rig.listener.told) == ([], [None])


class Outcomes:
    """Stands in for a worker's listener and for what runs its batches."""

    def __init__(self, folder: Path, *results: StageResult, share: float = 0.5) -> None:
        self.results, self.plans, self.discarded = list(results), list[Any](), 0
        spec = SourceSpec("clicks", {}, {0: 5}, TopicSettings(max_refused_share=share))
        shared: Any = None, Ends(), Batches(), Turns()
        self.worker = Scripted(FakeSpark(folder), spec, Plan(), self, *shared)  # type: ignore[arg-type]
        self.worker.runs = self._run_once

    def _run_once(self, _records: int, plan: Any) -> StageResult:
        self.plans.append(plan)
        return self.results.pop(0)

    def discard(self, *_: Any) -> None:
        """Count."""
        self.discarded += 1

    def take(self) -> StageResult:
        """What the worker makes of the next batch."""
        result = self.worker._run(100)  # type: ignore[arg-type]
        self.worker._checks.before_staging(result, self.worker._plan)
        return result


@dataclass(frozen=True)
class Plan:
    """As much of a plan as a worker looks at."""

    table: object = "a table"
    patient: bool = False


def _failing(count: int, **more: Any) -> StageResult:
    sample = RefusedRecord(0, 5, None, "internal_error", "KeyError: 'x'")
    lines = {"KeyError: 'x'": "Traceback…"}
    return StageResult(records=count, failed={"KeyError": count}, samples=[sample], traces=lines, **more)


def test_a_batch_in_which_everything_fails_alike_is_not_taken(tmp_path: Path) -> None:
    """The topic stops with the exception as the reason, and no record of it is a letter."""
    batches = Outcomes(tmp_path, _failing(500, alike=True))
    with pytest.raises(BadRecordError, match=r"all 500 records .* fail alike.*KeyError: 'x'"):
        batches.take()
    assert len(batches.plans) == 1


def test_a_batch_given_up_too_early_is_read_record_by_record(tmp_path: Path) -> None:
    """Another task has rows, so the fault is some records' alone: these are told one by one."""
    whole = _failing(500, refused={"internal_error": 500}, rows=1_000, decoded=1_000)
    whole.records = 1_500
    batches = Outcomes(tmp_path, _failing(500, alike=True, rows=1_000, decoded=1_000), whole)
    assert batches.take() is whole
    assert [plan.patient for plan in batches.plans] == [False, True]
    assert batches.discarded == 1


def test_who_lets_all_be_refused_has_them_refused(tmp_path: Path) -> None:
    """With max_refused_share = 1 nothing stops the topic, not even that everything fails alike."""
    whole = _failing(500, refused={"internal_error": 500})
    batches = Outcomes(tmp_path, _failing(500, alike=True), whole, share=1)
    assert batches.take() is whole


class OneResult(Batches):
    """Gives each batch this result."""

    def __init__(self, *results: StageResult) -> None:
        super().__init__()
        self.results, self.tasks = list(results), list[int]()

    def staged(self, batch: Batch, _cores: int) -> StageResult:
        """Count its tasks."""
        self.tasks.append(len(batch.shares))
        return self.results.pop(0)


def test_a_batch_that_no_setting_of_today_can_stage_stops_the_topic(rig: Rig) -> None:
    """A person must act: trying again would take as much again, for ever."""
    worker, batch = rig.worker, StagedOffsets({0: 0}, {0: 1})
    worker._plan = StagePlan("clicks", None, None, 1, SchemaPlan(), True, TopicSettings())
    trouble = Trouble("is full", "make room", "the storage", doing="could not write a data file: ")
    errors = ActionNeededError("it takes too much"), RetryableError(trouble)
    worker._batches = OneResult(*(StageResult(error=error) for error in errors))
    with pytest.raises(ActionNeededError, match="clicks: it takes too much"):
        worker._run(batch)
    with pytest.raises(
        RetryableError, match=r"^a batch of clicks could not .*the storage is full; make room$"
    ):
        worker._run(batch)
    assert rig.listener.discarded == [([], [])] * 2


def test_scattered_rows_are_staged_by_one_task(rig: Rig) -> None:
    """From the batch in which they are noticed to the first one whose files have many rows again."""
    few, many = StageResult(rows=5_000, files=[DataFile()] * 10), StageResult(rows=10_000, files=[DataFile()])
    batches = OneResult(StageResult(error=ScatteredError("so many")), few, StageResult(), many, many)
    rig.worker._batches = batches
    rig.spark.defaultParallelism = 8
    plan = StagePlan("clicks", None, None, 1, SchemaPlan(), True, TopicSettings())
    taken = [rig.worker._staged(StagedOffsets({0: 0}, {0: 400_000}), plan) for _ in range(4)]
    assert (taken, batches.tasks) == ([few, StageResult(), many, many], [8, 1, 1, 1, 8])


def test_spark_is_told_of_errors_without_secrets(rig: Rig) -> None:
    """Its log keeps whole traces, with the errors of other programs behind ours; the listener gets ours."""
    learn({"sasl.password": "hunter2-secret"})

    def refuse(*_: Any) -> None:
        try:
            raise ValueError("no entry for hunter2-secret")
        except ValueError as error:
            raise RetryableError("the registry refuses") from error

    rig.worker.stages = refuse
    query = rig.spark.query(0)
    with pytest.raises(stream.RedactedError, match="the registry refuses") as caught:
        query.on_batch({0: 8}, 0)
    told = "".join(traceback.format_exception(caught.value))
    assert "no entry for ***" in told
    assert "hunter2" not in told
    query.gone.set()
    assert rig.listener.over.wait(WAIT_S)
    assert "the registry refuses" in str(rig.listener.told[0])


@pytest.mark.parametrize("stops", [False, True])
def test_spark_looks_for_an_interrupt_in_few_characters(rig: Rig, stops: bool) -> None:
    """Its regular expression overflowed the stack of the query's thread behind a batch's whole trace."""
    words = "py4j.protocol.Py4JJavaError: An error occurred while calling"
    trace = f"{words} o1.collectToPython.\n: java.lang.InterruptedException\n" + "\tat some.Class\n" * 1_000

    def fail(*_: Any) -> None:
        if stops:
            rig.worker._stopping.set()
        raise RuntimeError(f"{trace}{trace}")

    rig.worker.stages = fail
    with pytest.raises(stream.RedactedError, match="InterruptedException") as caught:
        rig.spark.query(0).on_batch({0: 8}, 0)
    _, found, behind = str(caught.value).partition(words)
    assert bool(found) is stops
    assert len(behind) < 600
    rig.spark.query(0).gone.set()
    assert rig.listener.over.wait(WAIT_S)
