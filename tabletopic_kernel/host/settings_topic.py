"""The settings topic: what should run, one message by topic, compacted."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from time import monotonic

from confluent_kafka import KafkaException, Message, TopicPartition
from pydantic import ValidationError

from tabletopic_kernel.clients.kafka.broker import TIMEOUT_S, Broker, make_consumer, make_producer
from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.model.settings.sections import TopicWish

SETTINGS_TOPIC = "__tabletopic.settings"
# A host owns whole partitions, so there can be as many hosts as partitions.
_PARTITIONS = 16
_CONFIG = {"cleanup.policy": "compact"}


@dataclass(frozen=True)
class Wished:
    """A message of the settings topic; ``wish`` None switches the topic off."""

    topic: str
    wish: TopicWish | None


def ensure_settings_topic(broker: Broker) -> None:
    """Create the settings topic unless it is there."""
    broker.ensure_topic(SETTINGS_TOPIC, _PARTITIONS, _CONFIG)


def partition_of(topic: str, partitions: int) -> int:
    """The settings partition of a topic: every process must find the same one."""
    return zlib.crc32(topic.encode()) % partitions


def write_wish(broker: Broker, topic: str, wish: TopicWish | None) -> None:
    """Send one message and wait until the broker has it; None switches the topic off.

    Raises:
        RetryableError: the broker did not take it.
    """
    ensure_settings_topic(broker)
    partitions = len(broker.end_offsets([SETTINGS_TOPIC])[SETTINGS_TOPIC])
    producer = make_producer(broker.properties, acks="all", message_timeout_ms=10_000)
    failures: list[str] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(str(error))

    producer.produce(
        SETTINGS_TOPIC,
        key=topic,
        value=wish.to_json() if wish else None,
        partition=partition_of(topic, partitions),
        on_delivery=delivered,
    )
    if producer.flush(15) or failures:
        raise RetryableError(
            f"the broker did not take the settings of {topic}: {failures or 'no answer'}; try again"
        )


def read_wishes(broker: Broker) -> dict[str, TopicWish]:
    """What should run now, by topic; empty where nothing was ever switched on."""
    ends = broker.end_offsets([SETTINGS_TOPIC]).get(SETTINGS_TOPIC, {})
    open_ends = {partition: end for partition, end in ends.items() if end > 0}
    wishes: dict[str, TopicWish] = {}
    if not open_ends:
        return wishes
    consumer = make_consumer(
        broker.properties,
        group_id="tabletopic-readers",
        enable_auto_commit="false",
        auto_offset_reset="earliest",
    )
    try:
        consumer.assign([TopicPartition(SETTINGS_TOPIC, partition, 0) for partition in open_ends])
        deadline = monotonic() + TIMEOUT_S
        while open_ends and monotonic() < deadline:
            for message in consumer.consume(500, timeout=0.1):
                _apply(message, wishes)
            for place in consumer.position(list(map(_place, open_ends))):
                if place.offset >= open_ends[place.partition]:
                    del open_ends[place.partition]
    except KafkaException as error:
        raise RetryableError(f"could not read {SETTINGS_TOPIC}: {error.args[0].str()}") from error
    finally:
        consumer.close()
    if open_ends:
        raise RetryableError(f"the broker did not give {SETTINGS_TOPIC} within {TIMEOUT_S:.0f} s; try again")
    return wishes


def parse_wish(message: Message) -> Wished | None:
    """What a message of the settings topic says; None for what is no message of ours, whoever wrote it."""
    key = message.key()
    if message.error() is not None or key is None:
        return None
    value = message.value()
    try:
        topic = bytes(key).decode()
        return Wished(topic, None if value is None else TopicWish.from_json(bytes(value)))
    except (UnicodeDecodeError, ValidationError):
        return None


def _apply(message: Message, wishes: dict[str, TopicWish]) -> None:
    wished = parse_wish(message)
    if wished is None:
        return
    if wished.wish is None:
        wishes.pop(wished.topic, None)
    else:
        wishes[wished.topic] = wished.wish


def _place(partition: int) -> TopicPartition:
    return TopicPartition(SETTINGS_TOPIC, partition)
