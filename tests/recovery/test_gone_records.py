"""Deleted records, and re-created topics under the same name: reported, never skipped silently (I8)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import TopicPartition

from tabletopic_kernel.model.progress.events import GapDetected
from tabletopic_kernel.workbench.topics.topic_status import TopicStatus
from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.conftest import rows_by_offset
from tests.recovery.checks import newest_ledger, wait_for_commits, wait_until_lag_is_0
from tests.recovery.hosts import Hosts
from tests.recovery.stream import Stream
from tests.recovery.waiting import wait_until

pytestmark = pytest.mark.integration
FAST = {"commit_interval_ms": "500ms"}


def filled(bench: Workbench, stream: Stream) -> None:
    """Enable a topic with 90 records and wait until they are rows."""
    stream.send(90)
    bench.enable(stream.topic, FAST)
    wait_until_lag_is_0(bench, stream.topic)


def failed(bench: Workbench, topic: str) -> TopicStatus:
    """Wait until the topic has stopped; returns its status."""

    def stopped() -> TopicStatus | None:
        (status,) = bench.status(topic)
        return status if status.state == "failed" else None

    return wait_until(f"{topic} stops", stopped)


def delete_topic(bench: Workbench, topic: str) -> None:
    """Delete a topic and wait until it is gone."""
    bench.broker.admin.delete_topics([topic])[topic].result(30)
    wait_until(f"{topic} is gone", lambda: topic not in bench.broker.topics())


def delete_records(bench: Workbench, topic: str, before: dict[int, int]) -> None:
    """Act like retention: by partition, delete the records before an offset."""
    places = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
    for future in bench.broker.admin.delete_records(places).values():
        future.result(30)


def check_untouched(bench: Workbench, stream: Stream) -> None:
    """Check that the table has the first 90 records, under a matching ledger."""
    assert rows_by_offset(bench, stream.topic).keys() == {(p, n) for p in range(3) for n in range(30)}
    ledger = newest_ledger(bench, stream.topic)
    assert ledger is not None
    assert dict(ledger.next_offsets) == {0: 30, 1: 30, 2: 30}


def check_another_table(bench: Workbench, topic: str) -> None:
    """Apply the remedy that the reason names: a new table takes everything that is there now."""
    facts = bench.broker.facts(topic)
    bench.enable(topic, {**FAST, "table": f"{topic}_anew"})
    wait_until("lag 0", lambda: bench.status(topic)[0].lag_records == 0)
    there = {(p, offset) for p, first in facts.first.items() for offset in range(first, facts.end[p])}
    assert rows_by_offset(bench, topic).keys() == there


@pytest.mark.parametrize("swift", [True, False])
def test_a_topic_made_anew(
    bench: Workbench, hosts: Hosts, new_stream: Callable[..., Stream], swift: bool
) -> None:
    """It stops, however quickly the new topic outgrows the old one; other topics go on."""
    hosts.exactly(1)
    bystander, old = new_stream(1), new_stream(3)
    bystander.begin(per_second=20)
    bench.enable(bystander.topic, FAST)
    filled(bench, old)
    delete_topic(bench, old.topic)
    if not swift:
        assert "there is no topic" in str(failed(bench, old.topic).error)
    new = new_stream(3, old.topic)
    new.send(150)
    if not swift:
        bench.resume(old.topic)
    told = wait_until("it says why", lambda: "re-created" in str(failed(bench, old.topic).error))
    assert told
    check_untouched(bench, old)
    wait_for_commits(bench, bystander.topic)
    check_another_table(bench, old.topic)


def test_records_deleted_while_no_host_runs(
    bench: Workbench, hosts: Hosts, new_stream: Callable[..., Stream]
) -> None:
    """The status says so, and so does the next host, which reads none beyond them."""
    (host,) = hosts.exactly(1)
    stream = new_stream(3)
    filled(bench, stream)
    host.stop()
    stream.send(60)
    delete_records(bench, stream.topic, {1: 45})
    missing = "partition 1: 15 records from offset 30"
    wait_until("the status says so", lambda: missing in str(bench.status(stream.topic)[0].error))
    bench.pause(stream.topic)
    (paused,) = bench.status(stream.topic)
    assert (paused.state, paused.lag_records, missing in str(paused.error)) == ("paused", 60, True)
    bench.resume(stream.topic)
    hosts.exactly(1)
    check_gap(bench, stream)
    check_another_table(bench, stream.topic)


def test_records_deleted_under_a_running_host(
    bench: Workbench, hosts: Hosts, new_stream: Callable[..., Stream]
) -> None:
    """Retention that overtakes a worker ends in the same reason; the topic may be told to go on behind it."""
    (host,) = hosts.exactly(1)
    stream = new_stream(3)
    filled(bench, stream)
    host.freeze()  # for a moment, so that it surely has not read them
    stream.send(60)
    delete_records(bench, stream.topic, {1: 45})
    host.thaw()
    check_gap(bench, stream)
    bench.alter(stream.topic, {"on_gap": "go_on"})
    wait_until_lag_is_0(bench, stream.topic)
    gone = {(1, offset) for offset in range(30, 45)}
    assert rows_by_offset(bench, stream.topic).keys() == {(p, n) for p in range(3) for n in range(50)} - gone
    skipped = [
        event for event in bench.events(stream.topic) if isinstance(event, GapDetected) and event.skipped
    ]
    assert [one.missing for one in skipped] == [{1: (30, 45)}]
    (status,) = bench.status(stream.topic)
    assert (status.lost, status.error) == ({1: 15}, None)
    ledger = newest_ledger(bench, stream.topic)
    assert ledger is not None
    assert (dict(ledger.next_offsets), dict(ledger.lost)) == ({0: 50, 1: 50, 2: 50}, {1: 15})


def check_gap(bench: Workbench, stream: Stream) -> None:
    """Partition 1 lacks its records 30 to 44: the topic has stopped and reports that."""
    status = failed(bench, stream.topic)
    assert "partition 1: 15 records from offset 30" in str(status.error)
    gaps = [event.missing for event in bench.events(stream.topic) if isinstance(event, GapDetected)]
    assert gaps  # told again by a host that was taken for dead
    assert all(gap == {1: (30, 45)} for gap in gaps)
    check_untouched(bench, stream)
