"""The settings topic: what should run, one message by topic, compacted."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from confluent_kafka import Message
from pydantic import ValidationError

from tabletopic_kernel.clients.kafka.broker import Broker, make_producer
from tabletopic_kernel.clients.kafka.reader import Reader
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
    wishes: dict[str, TopicWish] = {}
    with Reader(broker.properties, "tabletopic-readers") as reader:
        for messages in reader.read_range(SETTINGS_TOPIC, dict.fromkeys(ends, 0), ends):
            for message in messages:
                _apply(message, wishes)
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
