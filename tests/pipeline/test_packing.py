"""Batches of several topics share a job, and each gets its own result, whatever fails."""

from __future__ import annotations

import math
import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.model.ledger import StagedOffsets
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.plan import SchemaPlan, StagePlan, StageResult
from tabletopic_kernel.pipeline.stage import StageTask
from tabletopic_kernel.pipeline.worker.jobs import Batches, Job, ReadTask
from tabletopic_kernel.pipeline.worker.packing import Batch, first_part, packed, shares, spread

WAIT_S = 240
JOB_S, JOB_BYTES, RECORDS_PER_TASK = 2.0, 800_000, 50_000


def batch(
    topic: str,
    *,
    since_s: float = 0.0,
    cost_s: float = 0.0,
    shares: int = 1,
    size: int = 0,
    **more: Any,
) -> Batch:
    """A batch of a topic, whose shares differ."""
    parts = [StagedOffsets({number: 0}, {number: 1}) for number in range(shares)]
    given: Any = None, None, SimpleNamespace(size=size)
    return Batch(topic, topic, *given, parts, since_s, cost_s, lambda: False, **more)


CORES = st.integers(1, 5)
BATCHES = st.lists(
    st.builds(
        batch,
        st.just("clicks"),
        since_s=st.integers(0, 20).map(float),
        cost_s=st.floats(0, 8),
        shares=st.integers(1, 5),
        size=st.integers(0, 500_000),
        is_alone=st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


@given(BATCHES, CORES)
def test_a_job_has_the_batch_that_waits_longest_and_others_that_fit(waiting: list[Batch], cores: int) -> None:
    """It is bounded in time and size, also each share, and full; who may share no job has one of its own."""
    alone = [batch for batch in waiting if batch.is_alone or batch.cost_s / len(batch.shares) > JOB_S]
    job = packed(waiting, cores)
    assert job[0].since_s == min(batch.since_s for batch in waiting)
    assert len({id(batch) for batch in job}) == len(job)
    cost_s = sum(batch.cost_s for batch in job)
    left = [batch for batch in waiting if all(batch is not other for other in job)]
    assert len(job) + len(left) == len(waiting)
    assert len(job) == 1 or not any(batch in alone for batch in job)
    size = sum(batch.stage.size for batch in job)
    assert len(job) == 1 or (cost_s <= JOB_S * cores + 1e-6 and size <= JOB_BYTES)
    for batch in () if job[0] in alone else left:
        is_too_much = batch.cost_s + cost_s >= JOB_S * cores - 1e-6 or batch.stage.size + size > JOB_BYTES
        assert batch in alone or is_too_much


@given(BATCHES, CORES)
def test_each_share_is_read_by_one_task(batches: list[Batch], cores: int) -> None:
    """No task is empty, and none has two shares more than it would need to be as long as the others."""
    tasks = spread(batches, cores)
    pieces = [(at, share) for task in tasks for at, share in task]
    wanted = [(at, share) for at, batch in enumerate(batches) for share in batch.shares]
    assert sorted(pieces, key=str) == sorted(wanted, key=str)
    assert len(tasks) == min(cores, len(wanted))
    assert all(tasks)
    costs = [sum(batches[at].cost_s / len(batches[at].shares) for at, _ in task) for task in tasks]
    longest = max((batch.cost_s / len(batch.shares) for batch in batches), default=0.0)
    assert not tasks or max(costs) - min(costs) <= longest + 1e-6


@given(st.integers(1, 200_000), st.floats(1e-7, 0.1), st.integers(1, 20))
def test_a_slow_batch_has_enough_shares(records: int, record_s: float, cores: int) -> None:
    """None takes longer than a job may, while there are cores and its file has a thousand records."""
    whole = StagedOffsets({0: 5, 1: 0}, {0: 5 + records, 1: records // 3})
    parts = shares(whole, cores, record_s)
    assert sum(part.records for part in parts) == whole.records
    assert len(parts) <= cores
    longest = max(part.records for part in parts)
    assert len(parts) == cores or longest <= max(JOB_S / record_s, 2 * 1_000) + 1
    is_slow = whole.records * record_s > JOB_S
    assert is_slow or len(parts) <= math.ceil(whole.records / RECORDS_PER_TASK)


@given(st.integers(1, 10_000_000), st.floats(1e-7, 1.0), CORES, st.booleans())
def test_a_part_takes_as_long_as_a_job_may(
    records: int, record_s: float, cores: int, is_crowded: bool
) -> None:
    """Or has a thousand records, five times as many if nobody waits; it begins where the batch begins."""
    whole = StagedOffsets({0: 5, 1: 0}, {0: 5 + records, 1: records // 3})
    part = first_part(whole, record_s, cores, is_crowded=is_crowded)
    assert part.start == whole.start
    assert all(part.start[p] <= part.end[p] <= whole.end[p] for p in (0, 1))
    most = max(1_000, JOB_S * cores / record_s) * (1 if is_crowded else 5)
    assert min(most, whole.records) <= part.records + 1e-6
    assert part.records <= most + 2


class Model(Job):
    """A job as Spark's: some topics fail by a value, some kill their task, and with it the job."""

    poison: frozenset[str] = frozenset()
    bad: frozenset[str] = frozenset()
    ran: list[list[str]]

    def run(self) -> list[StageResult]:
        """Each result names its topic by its records."""
        topics = [batch.topic for batch in self.batches]
        self.ran.append(topics)
        for batch in self.batches:
            batch.cost_s = 1.0
        if dead := self.poison.intersection(topics):
            raise OSError(f"a Python worker died of {min(dead)}, in a job of {len(topics)}")
        return [
            StageResult(records=int(topic), error=RetryableError(topic) if topic in self.bad else None)
            for topic in topics
        ]


TOPICS = st.frozensets(st.integers(0, 11).map(str))


@given(count=st.integers(1, 12), poison=TOPICS, bad=TOPICS, rounds=st.integers(1, 3), cores=CORES)
def test_every_batch_gets_its_own_result(
    count: int, poison: frozenset[str], bad: frozenset[str], rounds: int, cores: int
) -> None:
    """Of its topic and round, whatever happens to those that share its job; nobody waits for ever."""
    ran: list[list[str]] = []
    model = type("Run", (Model,), {"poison": poison, "bad": bad, "ran": ran})
    batches, start = Batches(new_job=model), threading.Barrier(count)

    def work(topic: str) -> list[StageResult | Exception]:
        outcomes: list[StageResult | Exception] = []
        start.wait(WAIT_S)
        for _ in range(rounds):
            try:
                outcomes.append(batches.staged(batch(topic, since_s=batches.clock()), cores))
            except OSError as error:
                outcomes.append(error)
        return outcomes

    with ThreadPoolExecutor(count) as pool:
        for topic, outcomes in zip(
            map(str, range(count)), pool.map(work, map(str, range(count))), strict=True
        ):
            for outcome in outcomes:
                if topic in poison:
                    assert str(outcome) == f"a Python worker died of {topic}, in a job of 1"
                else:
                    assert isinstance(outcome, StageResult)
                    assert outcome.records == int(topic)
                    assert (outcome.error is None) == (topic not in bad)
    for topic in poison | bad:  # from its second batch on it is alone at once
        assert sum(topic in job for job in ran if len(job) > 1) <= 1


@given(sick=st.integers(1, 4), cores=CORES)
def test_sick_topics_hold_up_no_healthy_one(sick: int, cores: int) -> None:
    """However many hang as they are tried again, healthy ones share two jobs as before, and lose none."""
    ran: list[list[str]] = []
    topics, over, held = [str(at) for at in range(sick)], threading.Event(), threading.Event()

    class Sick(Model):
        def run(self) -> list[StageResult]:
            if held.is_set() and self.bad.intersection(batch.topic for batch in self.batches):
                assert over.wait(WAIT_S)
            return super().run()

    batches = Batches(new_job=type("Run", (Sick,), {"bad": frozenset(topics), "ran": ran}))
    assert all(batches.staged(batch(topic), cores).error is not None for topic in topics)
    held.set()
    with ThreadPoolExecutor(sick + 1) as pool:
        waits = [pool.submit(batches.staged, batch(topic), cores) for topic in topics]
        while sum(batches.waits_since(topic) is not None for topic in topics) < sick - 1:
            pass
        try:
            healthy = [pool.submit(batches.staged, batch("99", since_s=9.0), cores) for _ in range(3)]
            assert [wait.result(WAIT_S).records for wait in healthy] == [99] * 3
            assert not any(wait.done() for wait in waits)
        finally:
            over.set()
        assert [wait.result(WAIT_S).records for wait in waits] == list(range(sick))
    assert all(len(job) == 1 for job in ran if set(job).intersection(topics))


def test_an_error_of_one_topic_is_a_value() -> None:
    """Of whatever kind: the others of its task are staged, and Spark does not hear of it."""

    class Source:
        def __init__(self, error: Exception | None) -> None:
            self.error = error

        def read(self, _: StagedOffsets) -> Iterator[pa.RecordBatch]:
            if self.error is not None:
                raise self.error
            yield from ()

    def plan(topic: str) -> StagePlan:
        return StagePlan(topic, None, None, 1, SchemaPlan(), True, TopicSettings())

    errors = [None, ValueError("not a number"), MemoryError(), None, RetryableError("the broker is away")]
    sources: Any = [(Source(error), StageTask(plan(str(at)))) for at, error in enumerate(errors)]
    share = StagedOffsets({0: 0}, {0: 1})
    read = ReadTask(sources, [[(at, share) for at in range(5)]])
    batches, _, results = zip(*read([0]), strict=True)
    assert batches == (0, 1, 2, 3, 4)
    found = [pickle.loads(result).error for result in results]
    assert (found[0], found[3], str(found[4])) == (None, None, "the broker is away")
    assert str(found[1]).splitlines()[-1] == "ValueError: not a number"
    assert str(found[2]).splitlines()[-1] == "MemoryError"
