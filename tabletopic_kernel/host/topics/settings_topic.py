"""The settings topic: the desired state, one message per topic, compacted.

Why this is safe: a message is the whole desired state of its topic, so only the newest counts, and reading
one twice changes nothing. A topic's messages are in one partition, so all hosts see them in the same order,
and the host that is assigned the partition runs the topic. Messages are hints, the table decides: two hosts
that both believe they hold a partition cannot both commit (I5).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from confluent_kafka import Message
from pydantic import ValidationError

from tabletopic_kernel.clients.kafka.broker import Broker, make_producer
from tabletopic_kernel.clients.kafka.reader import Reader
from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.model.settings.sections import DesiredTopic

SETTINGS_TOPIC = "__tabletopic.settings"
# A host is assigned whole partitions, so this is the largest number of hosts.
_PARTITIONS = 16
_CONFIG = {"cleanup.policy": "compact"}


@dataclass(frozen=True)
class SettingsMessage:
    """A message of the settings topic; ``desired`` None disables the topic."""

    topic: str
    desired: DesiredTopic | None


def ensure_settings_topic(broker: Broker) -> None:
    """Create the settings topic if it does not exist."""
    broker.ensure_topic(SETTINGS_TOPIC, _PARTITIONS, _CONFIG)


def partition_of(topic: str, partitions: int) -> int:
    """The settings partition of a topic: the same in every process."""
    return zlib.crc32(topic.encode()) % partitions


def write_desired(broker: Broker, topic: str, desired: DesiredTopic | None) -> None:
    """Send one message and wait until the broker has it; None disables the topic.

    Raises:
        RetryableError: the broker did not accept it.
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
        value=desired.to_json() if desired else None,
        partition=partition_of(topic, partitions),
        on_delivery=delivered,
    )
    if producer.flush(15) or failures:
        raise RetryableError(
            f"the broker did not take the settings of {topic}: {failures or 'no response'}; try again"
        )


def read_desired(broker: Broker) -> dict[str, DesiredTopic]:
    """The desired state by topic; empty if no topic was ever enabled."""
    ends = broker.end_offsets([SETTINGS_TOPIC]).get(SETTINGS_TOPIC, {})
    desired: dict[str, DesiredTopic] = {}
    with Reader(broker.properties, "tabletopic-readers") as reader:
        for messages in reader.read_range(SETTINGS_TOPIC, dict.fromkeys(ends, 0), ends):
            for message in messages:
                _apply(message, desired)
    return desired


def parse_desired(message: Message) -> SettingsMessage | None:
    """A message of the settings topic; None for foreign messages."""
    key = message.key()
    if message.error() is not None or key is None:
        return None
    value = message.value()
    try:
        topic = bytes(key).decode()
        return SettingsMessage(topic, None if value is None else DesiredTopic.from_json(bytes(value)))
    except (UnicodeDecodeError, ValidationError):
        return None


def _apply(message: Message, desired: dict[str, DesiredTopic]) -> None:
    change = parse_desired(message)
    if change is None:
        return
    if change.desired is None:
        desired.pop(change.topic, None)
    else:
        desired[change.topic] = change.desired
