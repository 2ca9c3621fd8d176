"""The control topic: writing events, and reading back what happened lately."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping

from confluent_kafka import Consumer, Message, TopicPartition
from pydantic import ValidationError

from tabletopic_kernel.clients.kafka.broker import TIMEOUT_S, Broker, make_consumer, make_producer
from tabletopic_kernel.model.progress.events import ControlEvent, event_json, event_of_json, is_heartbeat

CONTROL_TOPIC = "__tabletopic.control"
# One partition: events of all topics in one order, and one seek finds the last minute of all of them.
_CONFIG = {"cleanup.policy": "delete", "retention.ms": str(7 * 24 * 3600 * 1000)}

_FIRST_STEP = 2_000  # messages looked at first when the newest events are wanted


class ControlLog:
    """Writes events without ever holding up a commit: what cannot be sent is dropped, and counted."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._producer = make_producer(properties, linger_ms=5, queue_buffering_max_messages=100_000)
        self._lock = threading.Lock()
        self.dropped = 0

    def write(self, event: ControlEvent) -> None:
        """Send an event; returns at once."""
        try:
            self._producer.produce(
                CONTROL_TOPIC, key=event.topic, value=event_json(event).encode(), timestamp=event.at_ms
            )
            self._producer.poll(0)
        except BufferError:
            with self._lock:
                self.dropped += 1

    def close(self) -> None:
        """Wait a moment for what is on its way."""
        self._producer.flush(5)


def ensure_control_topic(broker: Broker) -> None:
    """Create the control topic unless it is there."""
    broker.ensure_topic(CONTROL_TOPIC, 1, _CONFIG)


def read_events(
    properties: Mapping[str, str], since_ms: int | None, *, follow: Callable[[], bool] | None = None
) -> Iterator[ControlEvent]:
    """Events from ``since_ms`` on (None: all that are kept), in order; ``follow`` keeps going while true.

    Messages that are no events of this version are passed over.
    """
    consumer = make_consumer(properties, group_id="tabletopic-events", enable_auto_commit="false")
    try:
        place = TopicPartition(CONTROL_TOPIC, 0)
        low, high = consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)
        start = low
        if since_ms is not None:
            at = TopicPartition(CONTROL_TOPIC, 0, since_ms)
            found = consumer.offsets_for_times([at], timeout=TIMEOUT_S)[0].offset
            start = high if found < 0 else found
        consumer.assign([TopicPartition(CONTROL_TOPIC, 0, start)])
        position = start
        deadline = time.monotonic() + TIMEOUT_S
        while position < high or (follow is not None and follow()):
            messages = consumer.consume(500, timeout=0.2)
            for message in messages:
                position = (message.offset() or 0) + 1
                if message.error() is None and (event := _parse(message.value())) is not None:
                    yield event
            if follow is None and not messages and time.monotonic() > deadline:
                return
    finally:
        consumer.close()


def newest_events(properties: Mapping[str, str], topic: str | None, limit: int) -> list[ControlEvent]:
    """The last ``limit`` events of a topic (None: of all), newest first, heartbeats left out.

    Reads backwards in growing steps, so that few and recent events cost little however long the log is.
    """
    consumer = make_consumer(properties, group_id="tabletopic-events", enable_auto_commit="false")
    found: list[ControlEvent] = []
    try:
        low, end = consumer.get_watermark_offsets(TopicPartition(CONTROL_TOPIC, 0), timeout=TIMEOUT_S)
        step = _FIRST_STEP
        while end > low and len(found) < limit:
            start = max(low, end - step)
            events = [event for raw in _between(consumer, start, end) if (event := _news(raw, topic))]
            found += reversed(events)
            end, step = start, step * 4
    finally:
        consumer.close()
    return found[:limit]


def _between(consumer: Consumer, start: int, end: int) -> Iterator[Message]:
    """The messages from ``start`` to before ``end``; those that the broker does not give in time are left."""
    consumer.assign([TopicPartition(CONTROL_TOPIC, 0, start)])
    deadline = time.monotonic() + TIMEOUT_S
    position = start
    while position < end and time.monotonic() < deadline:
        for message in consumer.consume(1000, timeout=0.2):
            position = (message.offset() or 0) + 1
            if message.error() is None and position <= end:
                yield message


def _news(message: Message, topic: str | None) -> ControlEvent | None:
    key, value = message.key(), message.value()
    if topic is not None and (key is None or bytes(key) != topic.encode()):
        return None
    if value is None or is_heartbeat(bytes(value)):
        return None
    return _parse(bytes(value))


def _parse(value: bytes | None) -> ControlEvent | None:
    try:
        return event_of_json((value or b"").decode(errors="replace"))
    except ValidationError:
        return None
