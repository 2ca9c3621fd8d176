"""Ranges of a real broker's topics are what ``confluent_kafka`` reads, with the C function and without."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.clients.kafka.ranges.consumer import PlainConsumer
from tabletopic_kernel.clients.kafka.ranges.idle_consumers import IDLE_CONSUMERS, Connect
from tabletopic_kernel.clients.kafka.ranges.native import NativeConsumer
from tabletopic_kernel.clients.kafka.ranges.reading import read_ranges
from tabletopic_kernel.local.stack import LocalStack, StackInfo
from tabletopic_kernel.model.errors import RetryableError
from tests.clients.ranges.topics import Filler, expected, full_topic, holed_topic, in_order, new_topic, slices
from tests.recovery.test_cut_log import kill_broker

pytestmark = pytest.mark.integration
BOTH = pytest.mark.parametrize("connect", [NativeConsumer, PlainConsumer])


@pytest.fixture(scope="module")
def broker(stack: StackInfo) -> Broker:
    """The broker of the stack."""
    return Broker({"bootstrap.servers": stack.bootstrap_servers})


@pytest.fixture(scope="module")
def full(broker: Broker) -> Iterator[tuple[str, pa.Table]]:
    """A topic with everything, one transaction of which is open; and what the reference reads of it."""
    name, opened = full_topic(broker, 1)
    yield name, whole(broker, name)
    opened.abort_transaction()


@pytest.fixture(scope="module")
def holed(broker: Broker) -> tuple[str, pa.Table]:
    """A compacted topic, and what the reference reads of it."""
    name = holed_topic(broker, 2)
    return name, whole(broker, name)


def whole(broker: Broker, topic: str) -> pa.Table:
    """What the reference reads of a topic."""
    facts = broker.facts(topic)
    return expected(broker, topic, facts.first, facts.end)


def check_equal(broker: Broker, topic: str, there: pa.Table, connect: Connect, seed: int, most: int) -> None:
    """The whole, and slices of it, are what the reference reads; without headers all else is the same."""
    facts = broker.facts(topic)

    def read(starts: dict[int, int], ends: dict[int, int], *, headers: bool = True) -> list[pa.RecordBatch]:
        return list(read_ranges(broker.properties, topic, starts, ends, headers=headers, connect=connect))

    batches = read(facts.first, facts.end)
    assert in_order(batches).equals(there)
    for batch in batches:
        batch.validate(full=True)
    assert max(map(len, batches)) <= 65_536
    first = {0: facts.first[0]}, {0: facts.end[0]}
    without, with_them = (pa.Table.from_batches(read(*first, headers=wanted)) for wanted in (False, True))
    assert without.equals(with_them.drop_columns(["headers"]))
    parts = [batch for part in slices(seed, facts.first, facts.end, most) for batch in read(*part)]
    assert in_order(parts).equals(there), (in_order(parts).num_rows, there.num_rows)


@BOTH
def test_everything_is_read_as_the_reference_reads_it(
    broker: Broker, full: tuple[str, pa.Table], connect: Connect
) -> None:
    """Codecs, nulls, headers, long records, times, transactions: whole, and in slices of random sizes."""
    topic, there = full
    check_equal(broker, topic, there, connect, 3, 400)
    assert there.num_rows > 2_000
    assert pa.compute.max(pa.compute.binary_length(there["value"])).as_py() == 9 * 1024**2


@BOTH
def test_holes_end_no_range_early_and_none_late(
    broker: Broker, holed: tuple[str, pa.Table], connect: Connect
) -> None:
    """Compaction leaves few records; slices begin and end between them."""
    topic, there = holed
    check_equal(broker, topic, there, connect, 4, 50)
    assert there.num_rows > 0


@BOTH
def test_a_log_that_begins_later_is_an_error(broker: Broker, connect: Connect) -> None:
    """Records that retention deleted are never passed over (I8)."""
    filler = Filler(broker, new_topic(broker, 1), 5)
    producer = Producer(broker.properties)
    filler.send(producer, 30, 0)
    producer.flush()
    place = TopicPartition(filler.topic, 0, 10)
    broker.admin.delete_records([place])[place].result(30)
    with pytest.raises(RetryableError, match="no longer has all records of partition 0"):
        list(read_ranges(broker.properties, filler.topic, {0: 9}, {0: 30}, headers=False, connect=connect))
    (batch,) = read_ranges(broker.properties, filler.topic, {0: 10}, {0: 30}, headers=False, connect=connect)
    assert len(batch) == 20


def test_a_topic_that_is_not_there_is_an_error(broker: Broker) -> None:
    """In the words of the product, and soon."""

    def read(connect: Connect) -> None:
        with pytest.raises(RetryableError, match="nowhere"):
            list(read_ranges(broker.properties, "nowhere", {0: 0}, {0: 1}, headers=False, connect=connect))

    with ThreadPoolExecutor(2) as pool:  # each waits for ten seconds
        list(pool.map(read, (NativeConsumer, PlainConsumer)))


@BOTH
def test_a_connection_is_kept_unless_it_failed(broker: Broker, connect: Connect) -> None:
    """The next task goes on with it; after an error, and when a reader leaves, it is closed."""
    properties = {**broker.properties, "client.id": connect.__name__}
    filler = Filler(broker, new_topic(broker, 1), 6)
    producer = Producer(broker.properties)
    filler.send(producer, 20, 0)
    producer.flush()

    def idle() -> object:
        consumer = IDLE_CONSUMERS.take(properties, connect)
        if consumer:
            IDLE_CONSUMERS.give(properties, connect, consumer)
        return consumer

    def read(start: int = 5) -> Iterator[pa.RecordBatch]:
        ranges = {0: start}, {0: start + 10}
        return read_ranges(properties, filler.topic, *ranges, headers=False, connect=connect)

    assert sum(map(len, read())) == 10
    first = idle()
    assert first is not None
    assert sum(map(len, read())) == 10
    assert idle() is first
    left = read()
    next(left)
    assert idle() is None
    left.close()  # type: ignore[attr-defined]
    assert idle() is None
    assert sum(map(len, read())) == 10
    with pytest.raises(RetryableError):
        list(read(1_000))  # beyond the end of the log
    assert idle() is None


def test_the_broker_restarts_within_a_range(tmp_path: Path) -> None:
    """A range is read to its end, or it fails and is read again: no record is missing, none comes twice."""
    local = LocalStack(tmp_path / "own", servers=("kafka",))
    stack = local.up(die_with_parent=True)
    try:
        broker = Broker({"bootstrap.servers": stack.bootstrap_servers})
        filler = Filler(broker, new_topic(broker, 2), 7)
        producer = Producer({**broker.properties, "linger.ms": 50})
        for partition in (0, 1):
            filler.send(producer, 6_000, partition, 1_000)  # 25 MB: a client has 8 MB of them at once
            producer.flush()
        facts = broker.facts(filler.topic)
        there = expected(broker, filler.topic, facts.first, facts.end)

        def read() -> Iterator[pa.RecordBatch]:
            ranges = facts.first, facts.end
            return read_ranges(broker.properties, filler.topic, *ranges, headers=True, connect=NativeConsumer)

        reading = read()
        batches = [next(reading)]
        assert len(batches[0]) < there.num_rows / 2
        kill_broker(local)
        local.up(die_with_parent=True)
        try:
            batches += reading
        except RetryableError:
            batches = list(read())
        assert in_order(batches).equals(there)
        kill_broker(local)
        with pytest.raises(RetryableError, match="does not respond"):
            list(read())
    finally:
        local.down()
