"""Batches of many topics share Spark jobs: neither a slow topic nor one whose tasks die harms the others."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pytest

from tabletopic_kernel.host import services
from tabletopic_kernel.host.host import Host
from tabletopic_kernel.local.stack import LocalStack, StackInfo
from tabletopic_kernel.model.ledger import StagedOffsets
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.pipeline.plan import StageResult
from tabletopic_kernel.pipeline.source import KafkaRanges
from tabletopic_kernel.pipeline.worker.jobs import Batches, Job
from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.conftest import Sender, rows_by_offset
from tests.recovery.waiting import wait_until

pytestmark = pytest.mark.integration

HEALTHY = [f"healthy-{number}" for number in range(10)]
SLOW, POISON = "slow", "poison"
RECORDS, ROUNDS, PARTITIONS = 40, 3, 2
# Some milliseconds for each record.
PROJECTION = "SELECT n, list_sum(list_transform(range(20000), x -> sqrt(x + n))) AS total FROM batch"


class WatchedJob(Job):
    """A job whose tasks die with records of one topic; ``ended`` has the topics of each, and its error."""

    ended: list[tuple[list[str], Exception | None]]

    def run(self) -> list[StageResult]:
        """As usual, but for the one topic."""
        for batch in self.batches:
            if batch.topic == POISON:
                batch.source = poisoned(batch.source)
        topics = [batch.topic for batch in self.batches]
        try:
            results = super().run()
        except Exception as error:
            self.ended.append((topics, error))
            raise
        self.ended.append((topics, None))
        return results


def poisoned(source: KafkaRanges) -> KafkaRanges:
    """A source that ends the process that reads it."""

    class Poison(KafkaRanges):  # local, so that Python workers get its code
        def read(self, batch: StagedOffsets) -> Iterator[pa.RecordBatch]:
            os.kill(os.getpid(), signal.SIGKILL)
            return super().read(batch)

    return Poison(source.topic, source.properties, source.headers)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, class_archive: None) -> Iterator[StackInfo]:
    """Servers of their own: another host would take topics."""
    local = LocalStack(tmp_path_factory.mktemp("shared"))
    yield local.up(die_with_parent=True)
    local.down()


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], Exception | None]]:
    """The jobs of the next host, as they end."""
    ended: list[tuple[list[str], Exception | None]] = []
    new_job = type("Watched", (WatchedJob,), {"ended": ended})
    made = partial(services.Services, batches=Batches(new_job=new_job))
    monkeypatch.setattr(services, "Services", made)
    return ended


@pytest.fixture
def watched_host(stack: StackInfo, jobs: object) -> Iterator[tuple[Workbench, Host]]:
    """A host in this process, whose jobs are watched."""
    bench = Workbench(Settings(state_dir=str(stack.state_dir)))
    running = bench.host()
    running.start()
    yield bench, running
    running.stop()


def test_neither_a_slow_nor_a_poisonous_topic_harms_the_others(
    stack: StackInfo,
    watched_host: tuple[Workbench, Host],
    jobs: list[tuple[list[str], Exception | None]],
) -> None:
    """Each healthy topic and the slow one are exact; the poison is alone from its first failure on."""
    bench, _ = watched_host
    senders = {}
    for topic in (SLOW, POISON, *HEALTHY):
        bench.patient_broker.ensure_topic(topic, PARTITIONS, {})
        senders[topic] = Sender(stack, topic)
        more = {"projection": PROJECTION} if topic == SLOW else {}
        bench.enable(topic, {"value_format": "json", "commit_interval_ms": "500ms", **more})
    good = [SLOW, *HEALTHY]

    def is_staged() -> bool:
        statuses = {status.topic: status for status in bench.status()}
        assert not [topic for topic in good if statuses[topic].state == "failed"], statuses
        at_end = [statuses[topic].end_offsets and statuses[topic].lag_records == 0 for topic in good]
        return all(at_end) and any(error is not None for _, error in jobs)

    for number in range(ROUNDS):
        for topic, sender in senders.items():
            for record in range(RECORDS * (10 if topic == SLOW else 1)):
                value = {"n": record, "round": number}
                sender.raw(json.dumps(value).encode(), value, partition=record % PARTITIONS)
            sender.flush()
        wait_until("all healthy topics are committed", is_staged)
    for topic in good:
        rows = rows_by_offset(bench, topic)
        assert set(rows) == {(record.partition, record.offset) for record in senders[topic].sent}
        if topic != SLOW:
            sent = {(record.partition, record.offset): record.value for record in senders[topic].sent}
            assert {place: {"n": row["n"], "round": row["round"]} for place, row in rows.items()} == sent
    failed = [topics for topics, error in jobs if error is not None]
    assert all(POISON in topics for topics in failed), jobs
    assert sum(len(topics) > 1 for topics in failed) <= 1
    assert max(len(topics) for topics, error in jobs if error is None) > 1
    (status,) = bench.status(POISON)
    assert status.error is not None
    assert "memory" in status.error.casefold() or "worker" in status.error.casefold()
    for topic, sender in senders.items():
        sender.registry.close()
        bench.disable(topic)
