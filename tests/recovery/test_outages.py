"""Broker, registry or catalog are unavailable for a while: the host waits and loses nothing (I9).

A broker that is away is in test_ended_servers.py.
"""

from __future__ import annotations

import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.clients.kafka.reader import Reader
from tabletopic_kernel.host.topics.settings_topic import read_desired
from tabletopic_kernel.local.processes import send
from tabletopic_kernel.local.stack import LocalStack, StackInfo
from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.model.progress.events import Failed
from tabletopic_kernel.model.topic_names import SETTINGS_TOPIC
from tabletopic_kernel.workbench.workbench import Workbench
from tests.recovery.checks import check_exact, newest_ledger, wait_for_commits, wait_until_lag_is_0
from tests.recovery.checks import load as load_table
from tests.recovery.hosts import HostProcess, Hosts
from tests.recovery.stream import V1, V3, Stream, value_of
from tests.recovery.waiting import wait_until

pytestmark = pytest.mark.integration
FAST = {"commit_interval_ms": "500ms"}
BROKER_STALLS_S = 4.0  # longer than its own session, shorter than a host's
CATALOG_LOCKED_S = 10.0
_ASKING = 24


@pytest.fixture(scope="module")
def host(stack: StackInfo, hosts: Hosts) -> Iterator[HostProcess]:
    """The only host. It waits one second for the catalog's file, so that a lock becomes an error."""
    hosts.exactly(0)
    properties = {**stack.catalog, "uri": stack.catalog["uri"].replace("timeout=30", "timeout=1")}
    started = hosts.start(**{f"TABLETOPIC_CATALOG__{key.upper()}": text for key, text in properties.items()})
    hosts.exactly(1)
    yield started
    code, _ = started.stop()
    assert code == 0, started.last_words()


def troubles(bench: Workbench, topic: str, since_ms: int = 0) -> list[Failed]:
    """The errors that the host reported about a topic."""
    return [event for event in bench.events(topic, since_ms) if isinstance(event, Failed)]


def now_ms() -> int:
    """The current time in the form of events."""
    return time.time_ns() // 1_000_000


def flowing(bench: Workbench, new_stream: Callable[..., Stream]) -> Stream:
    """A topic that is committed while its records arrive."""
    stream = new_stream(3)
    stream.begin(per_second=100)
    bench.enable(stream.topic, FAST)
    wait_for_commits(bench, stream.topic, 2)
    return stream


def goes_on(bench: Workbench, host: HostProcess, stream: Stream) -> None:
    """It is committed again, to its end, by the same host, with each record once."""
    wait_for_commits(bench, stream.topic, 2)
    stream.end()
    wait_until_lag_is_0(bench, stream.topic)
    assert host.is_alive
    check_exact(bench, stream)


def test_the_broker_stalls(
    stack: StackInfo, bench: Workbench, host: HostProcess, new_stream: Callable[..., Stream]
) -> None:
    """It loses its session, and its partitions their leader; whoever asks in that moment is answered."""
    stream = flowing(bench, new_stream)
    brokers = [Broker(bench.broker.properties) for _ in range(_ASKING)]
    for one in brokers:
        one.topics()
    now = LocalStack(stack.state_dir).info()
    assert now is not None
    broker = psutil.Process(now.pids["kafka"])

    def ask(number: int) -> None:
        for tries_left in (2, 1, 0):
            try:
                ask_once(number)
            except RetryableError as error:  # the machine may be busy; but who leads is to be found out
                if not tries_left or "imed out" not in str(error):
                    raise
            else:
                return

    def ask_once(number: int) -> None:
        time.sleep(number * 0.02)
        with Reader(bench.broker.properties, "asks") as reader:
            assert reader.bounds(SETTINGS_TOPIC, 0)[0] == 0
        assert brokers[number].ends([SETTINGS_TOPIC])[SETTINGS_TOPIC].end
        assert stream.topic in read_desired(brokers[number])

    send(broker, signal.SIGSTOP)
    time.sleep(BROKER_STALLS_S)
    send(broker, signal.SIGCONT)
    with ThreadPoolExecutor(_ASKING) as pool:
        list(pool.map(ask, range(_ASKING)))
    goes_on(bench, host, stream)


def test_the_registry_is_away_when_a_new_schema_comes(
    stack: StackInfo, bench: Workbench, host: HostProcess, new_stream: Callable[..., Stream]
) -> None:
    """Records of a version that cannot be looked up wait; they are rows once the registry is back."""
    stream = new_stream(2)
    stream.send(100)
    bench.enable(stream.topic, FAST)
    wait_until_lag_is_0(bench, stream.topic)
    before = newest_ledger(bench, stream.topic)
    assert before is not None
    stream.serialize(V3, value_of(0, V3))  # registers it; the host has no need of it yet
    local = LocalStack(stack.state_dir)
    assert local.down(["registry"]) == ["registry"]
    began_ms = now_ms()
    stream.send(50, V3)
    stream.send(50, V1)
    wait_until("the host tells it", lambda: len(troubles(bench, stream.topic, began_ms)) >= 3)
    ledger = newest_ledger(bench, stream.topic)
    assert ledger is not None
    assert dict(ledger.next_offsets) == dict(before.next_offsets)
    local.up(die_with_parent=True)
    wait_until_lag_is_0(bench, stream.topic)
    found = troubles(bench, stream.topic)
    assert all(trouble.waits for trouble in found)
    assert any("registry" in trouble.reason for trouble in found)  # a stall may be another trouble
    assert host.is_alive
    assert "late" in load_table(bench, stream.topic).schema().column_names
    check_exact(bench, stream)


def test_the_catalog_is_locked(
    stack: StackInfo, bench: Workbench, host: HostProcess, new_stream: Callable[..., Stream]
) -> None:
    """While somebody holds the catalog's file nothing is committed, and nothing staged is lost."""
    stream = new_stream(3)
    stream.begin(per_second=100)
    bench.enable(stream.topic, FAST)
    wait_for_commits(bench, stream.topic, 2)
    bench.desired_topics()
    began_ms = now_ms()
    holder = sqlite3.connect(stack.state_dir / "catalog.db", isolation_level=None, timeout=60)
    holder.execute("BEGIN EXCLUSIVE")
    until = time.monotonic() + CATALOG_LOCKED_S
    try:
        wait_until(
            "the host tells it",
            lambda: time.monotonic() > until and troubles(bench, stream.topic, began_ms),
        )
    finally:
        holder.execute("ROLLBACK")
        holder.close()
    wait_for_commits(bench, stream.topic, 2)
    stream.end()
    wait_until_lag_is_0(bench, stream.topic)
    assert host.is_alive
    assert all(trouble.waits for trouble in troubles(bench, stream.topic))
    check_exact(bench, stream)
