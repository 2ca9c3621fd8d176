"""Topics with all that a broker may hold, and what ``confluent_kafka`` reads of them."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, ResourceType

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.clients.kafka.ranges.batches import SOURCE_SCHEMA, batch_of
from tabletopic_kernel.clients.kafka.reader import Reader
from tests.integration.rows import ANY_TIME
from tests.recovery.waiting import wait_until

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LARGEST = 9 * 1024**2
HEADERS: tuple[Any, ...] = (
    None,
    [],
    [("a", b"1")],
    [("a", b"1"), ("a", None), ("a", b""), ("é", b"\0")],
    [("", b"x" * 500)] * 40,
)
_OPEN_FOR = {"transaction.timeout.ms": 900_000}  # longer than all tests of a topic
_ROOM = {"message.max.bytes": 10 * 1024**2, "linger.ms": 5}


def new_topic(broker: Broker, partitions: int, **config: str) -> str:
    """A topic of its own; ``config`` has underscores for dots."""
    name = f"ranges-{uuid.uuid4().hex[:8]}"
    broker.ensure_topic(name, partitions, {key.replace("_", "."): value for key, value in config.items()})
    return name


class Filler:
    """Sends records from a seed."""

    def __init__(self, broker: Broker, topic: str, seed: int) -> None:
        self.broker, self.topic, self._random = broker, topic, random.Random(seed)
        self._times = (0, 1, 1_750_000_000_123, -1)

    def send(self, producer: Producer, count: int, partition: int, largest: int = 300) -> None:
        """Records with null, empty and long values and keys, and all kinds of headers."""
        rnd = self._random
        for _ in range(count):
            value = rnd.choice((None, b"", b"v", rnd.randbytes(rnd.randrange(largest + 1))))
            key = rnd.choice((None, b"", b"k", rnd.randbytes(20)))
            producer.produce(
                self.topic,
                value,
                key,
                partition,
                headers=rnd.choice(HEADERS),
                timestamp=rnd.choice(self._times),
            )
            producer.poll(0)

    def codecs(self, partitions: int, count: int, longest: int = 10**6) -> None:
        """So many records by each codec, in each partition, and long ones; the longest in partition 0."""
        for codec in CODECS:
            producer = Producer({**self.broker.properties, **_ROOM, "compression.type": codec})
            for partition in range(partitions):
                self.send(producer, count, partition)
                long = self._random.choice((0, 10**6)) if partition else longest
                producer.produce(self.topic, bytes(long), b"", partition)
            producer.flush()

    def transaction(self, partitions: int, count: int, end: Callable[[Producer], None] | None) -> Producer:
        """Records of a transaction that ends so, or stays open."""
        producer = Producer({**self.broker.properties, "transactional.id": uuid.uuid4().hex, **_OPEN_FOR})
        producer.init_transactions()
        producer.begin_transaction()
        for partition in range(partitions):
            self.send(producer, count, partition)
        producer.flush()
        if end:
            end(producer)
        return producer

    def configure(self, **config: str) -> None:
        """Change the topic's settings."""
        entries = [
            ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for key, value in config.items()
        ]
        what = ConfigResource(ResourceType.TOPIC, self.topic, incremental_configs=entries)
        self.broker.admin.incremental_alter_configs([what])[what].result(30)

    def widen(self, partitions: int) -> None:
        """Add partitions, up to so many."""
        self.broker.admin.create_partitions([NewPartitions(self.topic, partitions)])[self.topic].result(30)

        def has_leaders() -> bool:
            try:
                return len(self.broker.facts(self.topic).end) == partitions
            except KafkaException:
                return False

        wait_until("the partitions have leaders", has_leaders)


def full_topic(broker: Broker, seed: int) -> tuple[str, Producer]:
    """A topic with everything but compaction's holes, and the producer of its open transaction."""
    any_time = {key.replace(".", "_"): value for key, value in ANY_TIME.items()}
    filler = Filler(
        broker, new_topic(broker, 2, max_message_bytes=str(_ROOM["message.max.bytes"]), **any_time), seed
    )
    filler.codecs(2, 200, LARGEST)
    filler.configure(message_timestamp_type="LogAppendTime")
    filler.codecs(1, 50)
    filler.widen(4)
    for _ in range(3):
        filler.transaction(4, 30, Producer.commit_transaction)
        filler.transaction(4, 20, Producer.abort_transaction)
    filler.codecs(3, 20)
    filler.transaction(2, 20, Producer.abort_transaction)
    opened = filler.transaction(3, 10, None)
    filler.codecs(2, 5)
    return filler.topic, opened


def holed_topic(broker: Broker, seed: int) -> str:
    """A compacted topic: most offsets have no record any more."""
    config = {"cleanup_policy": "compact", "segment_ms": "50", "max_compaction_lag_ms": "50"}
    filler = Filler(broker, new_topic(broker, 2, min_cleanable_dirty_ratio="0.001", **config), seed)
    producer = Producer(broker.properties)

    def has_holes() -> bool:
        for number in range(60):
            producer.produce(filler.topic, b"v%d" % number, b"k%d" % (number % 7), number % 2)
        producer.flush()
        facts = broker.facts(filler.topic)
        there = expected(broker, filler.topic, facts.first, facts.end).num_rows
        return there < sum(facts.end.values()) - sum(facts.first.values()) - 60

    def is_at_rest() -> bool:
        before, after = (expected(broker, filler.topic, facts.first, facts.end) for _ in range(2))
        return before.equals(after)

    wait_until("compaction", has_holes)
    filler.configure(cleanup_policy="delete", retention_ms="-1")  # the holes stay as they are
    facts = broker.facts(filler.topic)
    wait_until("no more compaction", is_at_rest)
    return filler.topic


def expected(broker: Broker, topic: str, starts: Mapping[int, int], ends: Mapping[int, int]) -> pa.Table:
    """What ``Consumer`` delivers, read_committed, by partition and offset."""
    with Reader(broker.properties, "compares", 1, fetch_message_max_bytes=LARGEST) as reader:
        read = [batch_of(messages, headers=True) for messages in reader.read_range(topic, starts, ends)]
    return in_order(read)


def in_order(batches: list[pa.RecordBatch]) -> pa.Table:
    """All records, by partition and offset."""
    whole = pa.Table.from_batches(batches, SOURCE_SCHEMA)
    return whole.sort_by([("partition", "ascending"), ("offset", "ascending")]).combine_chunks()


def slices(seed: int, starts: Mapping[int, int], ends: Mapping[int, int], most: int) -> list[tuple[Any, Any]]:
    """Ranges that together are the whole: of some of the partitions each, of any length."""
    rnd, at, cut = random.Random(seed), dict(starts), []
    while open_ones := [p for p in at if at[p] < ends[p]]:
        chosen = rnd.sample(open_ones, rnd.randint(1, len(open_ones)))
        stop = {p: min(ends[p], at[p] + rnd.choice((1, 2, 10, rnd.randint(1, most)))) for p in chosen}
        cut.append(({p: at[p] for p in chosen}, stop))
        at |= stop
    return cut
