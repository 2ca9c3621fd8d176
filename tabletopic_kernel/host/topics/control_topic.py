"""The control topic: writing events, and reading recent ones."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

from confluent_kafka import KafkaException, Message, Producer, TopicPartition
from pydantic import ValidationError

from tabletopic_kernel.clients.kafka.broker import Broker, make_producer
from tabletopic_kernel.clients.kafka.connection_errors import ConnectionErrors, explain_silence
from tabletopic_kernel.clients.kafka.reader import Reader
from tabletopic_kernel.clients.login_gate import LoginGate
from tabletopic_kernel.model.progress.event_json import event_json, event_of_json, is_heartbeat
from tabletopic_kernel.model.progress.events import ControlEvent, is_outcome
from tabletopic_kernel.model.settings.desired import Request
from tabletopic_kernel.model.topic_names import CONTROL_TOPIC

_LOG = logging.getLogger(__name__)
# One partition: events of all topics in one order, and one seek finds the last minute of all of them.
_CONFIG = {"cleanup.policy": "delete", "retention.ms": str(7 * 24 * 3600 * 1000)}

_FIRST_STEP = 2_000  # messages of the first step backwards to the newest events


class ControlLog:
    """Writes events without ever delaying a commit: events that cannot be sent are dropped and counted.

    The same holds for a minute after a refused login: a producer would log in again every second.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)
        self._connection_errors = ConnectionErrors()
        self._gate = LoginGate()
        self._lock = threading.Lock()
        # Created for the first event: while a host waits for its broker, nobody would learn of a refusal.
        self._producer: Producer | None = None
        self._listeners: list[Callable[[ControlEvent], None]] = []
        self.dropped = 0

    def listen(self, on_event: Callable[[ControlEvent], None]) -> None:
        """Call ``on_event`` with every event written from now on, even if it cannot be sent."""
        self._listeners.append(on_event)

    def write(self, event: ControlEvent) -> None:
        """Send an event; returns at once."""
        for on_event in self._listeners:
            try:
                on_event(event)
            except Exception:  # a bug in a listener must not end the topic
                _LOG.exception("event %s", event.type)
        with self._lock:
            if not self._gate.is_open:
                self.dropped += 1
                return
            self._producer = self._producer or self._new_producer()
            try:
                self._producer.produce(
                    CONTROL_TOPIC,
                    key=event.topic,
                    value=event_json(event).encode(),
                    timestamp=event.at_ms,
                    on_delivery=self._delivered,
                )
                self._producer.poll(0)
            except (BufferError, KafkaException):  # the second: the user is known to lack WRITE on the topic
                self.dropped += 1
            if self._connection_errors.is_hopeless():
                self._drop_producer(explain_silence(self._properties, self._connection_errors, "no response"))

    def rest(self, error: Exception) -> None:
        """Do not log in for a minute: another client of this host was refused with ``error``."""
        with self._lock:
            self._drop_producer(error)

    def close(self) -> None:
        """Wait briefly for events in flight."""
        with self._lock:
            if self._producer is not None:
                self._producer.flush(5)

    def _drop_producer(self, error: Exception) -> None:
        self.dropped += len(self._producer or ())
        self._producer = None
        self._gate.note(error)

    def _new_producer(self) -> Producer:
        self._connection_errors.forget()
        errors = self._connection_errors
        return make_producer(
            self._properties, linger_ms=5, queue_buffering_max_messages=100_000, error_cb=errors
        )

    def _delivered(self, error: object, _: object) -> None:
        if error is None:
            self._connection_errors.forget()


def ensure_control_topic(broker: Broker) -> None:
    broker.ensure_topic(CONTROL_TOPIC, 1, _CONFIG)


def read_events(
    properties: Mapping[str, str],
    since_ms: int | None,
    *,
    since: int | None = None,
    follow: Callable[[], bool] | None = None,
) -> Iterator[ControlEvent]:
    """Events from ``since_ms`` or offset ``since`` on, or all retained; ``follow`` continues while true.

    They are in order. Messages that are not events of this version are skipped.
    """
    with Reader(properties, "tabletopic-events") as reader:
        start, end = reader.bounds(CONTROL_TOPIC, 0)
        if since_ms is not None:
            since = reader.offset_at(CONTROL_TOPIC, 0, since_ms)
            since = end if since is None else since
        start = start if since is None else since
        if follow is not None:
            batches = reader.follow([TopicPartition(CONTROL_TOPIC, 0, start)], follow)
        else:
            batches = reader.read_range(CONTROL_TOPIC, {0: start}, {0: end})
        for messages in batches:
            yield from filter(None, (parse_event(message) for message in messages))


def unreported(properties: Mapping[str, str], requests: Sequence[Request]) -> list[Request]:
    """The requests without an outcome; those from before the first event count as done."""
    with Reader(properties, "tabletopic-events") as reader:
        first, end = reader.bounds(CONTROL_TOPIC, 0)
        return [
            request
            for request in requests
            if request.events_from is not None
            and first <= request.events_from <= end
            and not _is_reported(reader, request, request.events_from, end)
        ]


def _is_reported(reader: Reader, request: Request, start: int, end: int) -> bool:
    request_id = request.id.encode()
    answers = (
        parse_event(message)
        for messages in reader.read_range(CONTROL_TOPIC, {0: start}, {0: end})
        for message in messages
        if request_id in (message.value() or b"")
    )
    return any(event is not None and is_outcome(event, request) for event in answers)


def newest_events(properties: Mapping[str, str], topic: str | None, limit: int) -> list[ControlEvent]:
    """The last ``limit`` events of a topic (None: of all), newest first, without heartbeats.

    Reads backwards in growing steps, so that few and recent events cost little however long the log is.
    """
    events: list[ControlEvent] = []
    with Reader(properties, "tabletopic-events") as reader:
        first, end = reader.bounds(CONTROL_TOPIC, 0)
        step = _FIRST_STEP
        while end > first and len(events) < limit:
            start = max(first, end - step)
            batches = reader.read_range(CONTROL_TOPIC, {0: start}, {0: end})
            events += reversed([event for batch in batches for raw in batch if (event := _news(raw, topic))])
            end, step = start, step * 4
    return events[:limit]


def parse_event(message: Message) -> ControlEvent | None:
    """The event in a message; None if this version does not know it."""
    try:
        return event_of_json((message.value() or b"").decode(errors="replace"))
    except ValidationError:
        return None


def _news(message: Message, topic: str | None) -> ControlEvent | None:
    if topic is not None and message.key() != topic.encode():
        return None
    return None if message.value() is None or is_heartbeat(message.value() or b"") else parse_event(message)
