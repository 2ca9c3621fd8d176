"""Reading a range of a topic, from a real broker and from one that does not respond."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from tabletopic_kernel.clients.kafka import reader as kafka_reader
from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.clients.kafka.reader import Reader
from tabletopic_kernel.local.stack import StackInfo
from tabletopic_kernel.model.errors import RetryableError


@pytest.fixture(scope="module")
def topic(stack: StackInfo) -> tuple[Broker, str]:
    """Two partitions: three records and an aborted transaction, and a committed one."""
    properties = {"bootstrap.servers": stack.bootstrap_servers}
    name = f"range-{uuid.uuid4().hex[:8]}"
    broker = Broker(properties)
    broker.ensure_topic(name, 2, {})
    producer = Producer({**properties, "transactional.id": name})
    producer.init_transactions()
    for partition, values, keep in ((0, b"abc", True), (0, b"xx", False), (1, b"d", True)):
        producer.begin_transaction()
        for value in values:
            producer.produce(name, bytes([value]), partition=partition)
        producer.flush()
        producer.commit_transaction() if keep else producer.abort_transaction()
    return broker, name


def values(reader: Reader, topic: str, starts: dict[int, int], ends: dict[int, int]) -> list[bytes | None]:
    """The records of a range, sorted."""
    return sorted(one.value() for batch in reader.read_range(topic, starts, ends) for one in batch)


@pytest.mark.integration
def test_a_range_ends_behind_control_records(topic: tuple[Broker, str]) -> None:
    """What was given up is not in it, and its end is found though no record stands there."""
    broker, name = topic
    facts = broker.facts(name)
    with Reader(broker.properties, "reads-a-range") as reader:
        assert values(reader, name, facts.first, facts.end) == [b"a", b"b", b"c", b"d"]
        # The same reader goes back, and stops before the end of the partition.
        assert values(reader, name, {0: 1, 1: 0}, {0: 2, 1: 0}) == [b"b"]
        assert values(reader, name, {0: 0}, {0: 0}) == []
        first, end = reader.bounds(name, 0)
        assert (first, end) == (0, facts.end[0])
        assert reader.offset_at(name, 0, 0) == 0
        assert reader.offset_at(name, 0, 2**41) is None


@pytest.mark.integration
def test_what_is_followed_ends_when_nobody_wants_more(topic: tuple[Broker, str]) -> None:
    """Records come as they are there, and a partition that was paused has no more of them."""
    broker, name = topic
    seen: list[bytes | None] = []
    with Reader(broker.properties, "follows") as reader:
        places = [TopicPartition(name, 0, 0), TopicPartition(name, 1, 0)]
        for batch in reader.follow(places, lambda: len(seen) < 4):
            seen.extend(one.value() for one in batch)
    assert sorted(filter(None, seen)) == [b"a", b"b", b"c", b"d"]


class Silent:
    """A consumer whose broker is unavailable, or denies access."""

    def __init__(self, error: KafkaException | None = None) -> None:
        self._error = error
        self.closed = False

    def list_topics(self, _: str, timeout: float) -> None:
        """Metadata is renewed."""

    def assign(self, _: Any) -> None:
        """Taken."""

    def consume(self, _: int, timeout: float) -> list[Any]:
        """Nothing."""
        if self._error is not None:
            raise self._error
        return []

    def position(self, places: list[TopicPartition]) -> list[TopicPartition]:
        """Where it was."""
        return places

    def close(self) -> None:
        """Kept."""
        self.closed = True


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (None, "did not deliver clicks"),
        (KafkaException(KafkaError(KafkaError._FATAL, "no")), "could not read"),
    ],
)
def test_a_range_that_never_comes_is_an_error(
    monkeypatch: pytest.MonkeyPatch, error: KafkaException | None, told: str
) -> None:
    """Half a range is never taken for the whole."""
    consumer = Silent(error)
    monkeypatch.setattr(kafka_reader, "make_consumer", lambda *_, **__: consumer)
    monkeypatch.setattr(kafka_reader, "TIMEOUT_S", 0.0)
    with pytest.raises(RetryableError, match=told), Reader({}, "waits") as reader:
        list(reader.read_range("clicks", {0: 0}, {0: 5}))
    assert consumer.closed
