"""The settings topic: the desired state, one message per topic, compacted.

Why this is safe: a message is the whole desired state of its topic, so only the newest counts, and reading
it twice changes nothing. A topic's messages are in one partition, so all hosts see them in the same order,
and the host that is assigned the partition runs the topic. Messages are hints, the table decides: two hosts
that both believe they hold a partition cannot both commit (I5). Programs that change a topic at the same
time do not undo each other's changes (``change_desired``).
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import Message
from pydantic import ValidationError

from tabletopic_kernel.clients.kafka.broker import Broker, make_producer
from tabletopic_kernel.clients.kafka.reader import Reader
from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.errors import RetryableError, TableTopicError, UsageError
from tabletopic_kernel.model.settings.desired import DesiredTopic
from tabletopic_kernel.model.settings.options import explained
from tabletopic_kernel.model.topic_names import SETTINGS_TOPIC, check_topic_name

# A host is assigned whole partitions, so this is the largest number of hosts.
_PARTITIONS = 16
_BASED_ON = "based-on"  # header: the offset of the message that this message changes, -1 for none
_AT_ONCE_MS = 60_000  # messages further apart are not written at the same time
_CONFIG = {"cleanup.policy": "compact"}
_LONGEST = 300  # of a reason


@dataclass(frozen=True)
class SettingsMessage:
    """A message; ``desired`` None disables the topic; ``refused``: why it counts for nothing."""

    topic: str
    desired: DesiredTopic | None
    refused: str | None = None

    def after(self, before: SettingsMessage | None) -> SettingsMessage:
        """The topic's state after ``before`` and this message; a refused message is only noted."""
        return self if self.refused is None or before is None else replace(before, refused=self.refused)


def ensure_settings_topic(broker: Broker) -> None:
    broker.ensure_topic(SETTINGS_TOPIC, _PARTITIONS, _CONFIG)


def partition_of(topic: str, partitions: int) -> int:
    """The settings partition of a topic: the same in every process."""
    return zlib.crc32(topic.encode()) % partitions


def write_desired(broker: Broker, topic: str, desired: DesiredTopic | None) -> None:
    """Send a message that always counts, and wait until the broker has it; None disables the topic."""
    write_value(broker, topic, desired.to_json() if desired else None)


def write_value(broker: Broker, key: str, value: bytes | None) -> None:
    """Send a message that always counts, and wait until the broker has it."""
    _send(broker, key, value, _ends(broker))


def change_desired(
    broker: Broker, topic: str, change: Callable[[DesiredTopic | None], DesiredTopic]
) -> DesiredTopic:
    """Apply ``change`` to the newest desired state of a topic; returns what it became.

    Kafka has no conditional write. So a message names its base, the message that it changes, and does not
    count if another message that counts came in between; then the change is applied to that message and
    written again. No concurrent change is lost. If the change is not possible there, because somebody
    disabled the topic, their message is written again instead. ``change`` gets None if the topic is disabled,
    and may be called several times; its errors are raised.
    """
    ends = _ends(broker)
    partition = partition_of(topic, len(ends))
    messages: list[_Written] = []
    start, end, ours = 0, ends[partition], -1
    with Reader(broker.properties, "tabletopic-readers") as reader:
        while True:
            messages += _messages(reader, topic, partition, start, end)
            last = _newest_that_counts(messages)
            if last.offset == ours and last.desired is not None:
                return last.desired
            try:
                wanted = change(last.desired)
            except TableTopicError:
                if ours >= 0:
                    _send(broker, topic, last.desired.to_json() if last.desired else None, ends, last.offset)
                raise
            ours = _send(broker, topic, wanted.to_json(), ends, last.offset)
            start, end = end, ours + 1


def _ends(broker: Broker) -> Mapping[int, int]:
    ensure_settings_topic(broker)
    return broker.end_offsets([SETTINGS_TOPIC])[SETTINGS_TOPIC]


@dataclass(frozen=True)
class _Written:
    """A message, its offset, and the offset of its base (None: it always counts)."""

    desired: DesiredTopic | None
    offset: int
    based_on: int | None


def _messages(reader: Reader, topic: str, partition: int, start: int, end: int) -> list[_Written]:
    """The messages about one topic in a range of offsets, oldest first."""
    written: list[_Written] = []
    for messages in reader.read_range(SETTINGS_TOPIC, {partition: start}, {partition: end}):
        for message in messages:
            change = parse_desired(message)
            if change is not None and change.topic == topic and change.refused is None:
                written.append(_Written(change.desired, message.offset() or 0, _based_on(message)))
    return written


def _based_on(message: Message) -> int | None:
    """The base in the header; None for an old message: in a copy of the topic, offsets mean nothing."""
    if now_ms() - message.timestamp()[1] > _AT_ONCE_MS:
        return None
    headers: Any = message.headers() or ()  # the stubs' type cannot be iterated
    for name, value in headers:
        if name == _BASED_ON:
            with contextlib.suppress(TypeError, ValueError):  # somebody else's
                return int(value)
    return None


def _newest_that_counts(messages: Iterable[_Written]) -> _Written:
    """The newest message with no message that counts between it and its base."""
    last = _Written(None, -1, None)
    for message in messages:
        if message.based_on is None or message.based_on >= last.offset:
            last = message
    return last


def _send(
    broker: Broker,
    key: str,
    value: bytes | None,
    partitions: Collection[int],
    based_on: int | None = None,
) -> int:
    """Send one message; returns its offset."""
    producer = make_producer(broker.properties, acks="all", message_timeout_ms=10_000)
    failures: list[str] = []
    offsets: list[int] = []

    def delivered(error: object, message: Message) -> None:
        if error is not None:
            failures.append(str(error))
        else:
            offsets.append(message.offset() or 0)

    producer.produce(
        SETTINGS_TOPIC,
        key=key,
        value=value,
        partition=partition_of(key, len(partitions)),
        headers=[] if based_on is None else [(_BASED_ON, str(based_on))],
        on_delivery=delivered,
    )
    if producer.flush(15) or failures:
        raise RetryableError(
            f"the broker did not take the settings of {key}: {failures or 'no response'}; try again"
        )
    return offsets[0]


def read_desired(broker: Broker) -> dict[str, DesiredTopic]:
    """The desired state by topic; with refused messages alone, it is the defaults, and ``refused``."""
    newest: dict[str, SettingsMessage] = {}
    for change in filter(None, map(parse_desired, read_messages(broker))):
        newest[change.topic] = change.after(newest.get(change.topic))
    return {
        topic: (message.desired or DesiredTopic(topic=topic)).model_copy(update={"refused": message.refused})
        for topic, message in newest.items()
        if message.desired or message.refused
    }


def read_messages(broker: Broker) -> Iterator[Message]:
    """All messages, each key's in order."""
    ends = broker.end_offsets([SETTINGS_TOPIC]).get(SETTINGS_TOPIC, {})
    with Reader(broker.properties, "tabletopic-readers") as reader:
        for messages in reader.read_range(SETTINGS_TOPIC, dict.fromkeys(ends, 0), ends):
            yield from messages


def parse_desired(message: Message) -> SettingsMessage | None:
    """The content of a message of the settings topic; None if it names no topic."""
    key = message.key()
    if message.error() is not None or key is None:
        return None
    value = message.value()
    try:
        topic = bytes(key).decode()
        check_topic_name(topic)  # one invalid name fails the broker client's queries for all topics
    except (UnicodeDecodeError, UsageError):
        return None
    try:
        desired = None if value is None else DesiredTopic.from_json(bytes(value))
    except ValidationError as error:
        return SettingsMessage(topic, None, _refusal(explained(error)))
    if desired is not None and desired.topic != topic:
        return SettingsMessage(topic, None, _refusal(f"it is about the topic {desired.topic!r}"))
    return SettingsMessage(topic, desired)


def _refusal(reason: str) -> str:
    return (
        f"the newest message in {SETTINGS_TOPIC} does not count ({reason[:_LONGEST]}): earlier settings stay "
        "in force. Upgrade this program if a newer one wrote it, else repeat `tabletopic enable`"
    )
