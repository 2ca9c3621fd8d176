"""A broker that denies access: each client tries one login, and then waits for a minute."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from confluent_kafka import TopicPartition

from tabletopic_kernel.clients import login_gate
from tabletopic_kernel.clients.kafka import connection as broker_module
from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.clients.kafka.idle_clients import IdleClients
from tabletopic_kernel.clients.kafka.reader import Reader
from tabletopic_kernel.host import host as module
from tabletopic_kernel.host.host import Host
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.host.topics.control_topic import ControlLog
from tabletopic_kernel.model.errors import LoginRefusedError
from tabletopic_kernel.model.progress.events import HostHeartbeat
from tabletopic_kernel.model.topic_names import CONTROL_TOPIC
from tests.recovery.waiting import wait_until
from tests.servers.refusing_kafka import RefusingKafka
from tests.table.samples import FakeRegistry

# librdkafka would log in four times at least in this time, and up to seventy times.
WATCHED_S = 3.5
MOST = 3  # until it is noticed


@pytest.fixture
def kafka() -> Iterator[RefusingKafka]:
    """It counts the logins."""
    with RefusingKafka() as broker:
        yield broker


def _watch(kafka: RefusingKafka, act: Callable[[], object] = lambda: None) -> None:
    """After a refusal is known, nobody logs in any more; one attempt may have been under way."""
    before, until = len(kafka.logins), time.monotonic() + WATCHED_S
    while time.monotonic() < until:
        act()
        time.sleep(0.1)
    assert len(kafka.logins) <= before + 1


@pytest.mark.integration
@pytest.mark.parametrize("ask", ["topics", "facts"])
def test_questions_log_in_once(kafka: RefusingKafka, ask: str) -> None:
    """Nor does the client in between; a minute later the next question does."""
    broker = Broker(kafka.properties)

    def refused() -> None:
        with pytest.raises(LoginRefusedError, match=r"refuses the login.*sasl\.password"):
            broker.topics() if ask == "topics" else broker.facts("clicks")

    refused()
    assert kafka.logins
    _watch(kafka, refused)
    counts: list[int] = []
    while min(counts, default=MOST + 1) > MOST and len(counts) < 5:  # a machine that stalls notices late
        kafka.logins.clear()
        broker._gate._open_at = 0.0
        refused()
        counts.append(len(kafka.logins))
    assert 1 <= min(counts) <= MOST


@pytest.mark.integration
def test_an_idle_client_stops_logging_in(kafka: RefusingKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its password has changed, and nobody uses it: librdkafka alone would try once a second."""
    watched = IdleClients(look_s=0.3)
    monkeypatch.setattr(broker_module, "IDLE_CLIENTS", watched)
    client = Broker(kafka.properties)
    wait_until("it rests", lambda one=client: one._admin is None)  # type: ignore[misc]
    assert kafka.logins
    open_at = client._gate._open_at
    _watch(kafka)
    assert client._gate._open_at == open_at  # what was seen of a client that is gone shuts nothing for longer
    with pytest.raises(LoginRefusedError, match=r"sasl\.password"):
        client.topics()
    del client
    wait_until("the thread ends with the last client", lambda: watched._thread is None)


@pytest.mark.integration
def test_events_log_in_once(kafka: RefusingKafka) -> None:
    """They are dropped meanwhile, and counted; a minute later the next one logs in."""
    control = ControlLog(kafka.properties)
    heartbeat = HostHeartbeat(
        topic="", at_ms=1, host="h", started_ms=1, version="1", memory_bytes=1, topics=[]
    )

    def is_refused() -> bool:
        control.write(heartbeat)
        return not control._gate.is_open

    for _ in range(2):
        kafka.logins.clear()
        control._gate._open_at = 0.0
        wait_until("it is refused", is_refused)
        assert kafka.logins
        dropped = control.dropped
        for _ in range(20):
            control.write(heartbeat)
        assert control.dropped == dropped + 20
        _watch(kafka, lambda: control.write(heartbeat))
    control.close()


def test_a_reader_ends(kafka: RefusingKafka) -> None:
    """Whoever follows a topic decides when to try again."""
    with Reader(kafka.properties, "g") as reader, pytest.raises(LoginRefusedError, match="refuses the login"):
        list(reader.follow([TopicPartition(CONTROL_TOPIC, 0, 0)], lambda: True))
    assert kafka.logins


@pytest.mark.integration
def test_a_host_logs_in_once_a_minute(kafka: RefusingKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves, says why, and joins again later."""
    monkeypatch.setattr(Host, "_ensure_topics", lambda self: not self._stop.is_set())  # another client's
    monkeypatch.setattr(module, "REFUSED_S", WATCHED_S + 1)
    broker, control = Broker(kafka.properties), ControlLog(kafka.properties)
    host = Host(
        Services(
            catalog=lambda: None,  # type: ignore[arg-type,return-value]
            spark=lambda: None,  # type: ignore[arg-type,return-value]
            broker=broker,
            registry=FakeRegistry(),  # type: ignore[arg-type]
            control=control,
            host="test",
        )
    )
    host.start()
    try:
        wait_until("it says why", lambda: "refuses the login" in (host.waits_for or ""))

        def has_rested() -> bool:
            return any(after - before > WATCHED_S for before, after in pairwise(list(kafka.logins)))

        wait_until("it rests, and joins again", has_rested)
    finally:
        host.stop()
    assert host.error is None


def test_the_gate_is_shut_for_a_minute() -> None:
    """By a refused login and by nothing else."""
    gate = login_gate.LoginGate()
    gate.note(ValueError("something else"))
    gate.check()
    before = time.monotonic()
    gate.note(LoginRefusedError("no"))
    after = time.monotonic()
    with pytest.raises(LoginRefusedError, match=r"^no$"):
        gate.check()
    assert before + 60 <= gate._open_at <= after + 60
