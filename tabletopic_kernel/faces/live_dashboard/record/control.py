"""Reads the control topic: what happens now, and the past from the newest to the oldest."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, Message, TopicPartition
from pydantic import ValidationError

from tabletopic_kernel.clients.kafka.broker import TIMEOUT_S, make_consumer
from tabletopic_kernel.host.control_topic import CONTROL_TOPIC
from tabletopic_kernel.local.clock import now_ms
from tabletopic_kernel.model.progress.events import ControlEvent, event_of_json, is_heartbeat

Take = Callable[[list[ControlEvent]], None]
# Of the last minutes heartbeats count too: they tell who is alive and what is staged.
_RECENT_MS = 120_000
_BATCH = 1_000
_CHUNK = 20_000
_POLL_S = 0.2


@dataclass(frozen=True)
class Log:
    """Offsets of the control topic: its first one, and where the part begins that is read at once."""

    first: int
    recent: int


def find_log(properties: Mapping[str, str]) -> Log:
    """Where the control topic begins; raises KafkaException where it cannot be had."""
    consumer = _consumer(properties)
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(CONTROL_TOPIC, 0), timeout=TIMEOUT_S)
        since = TopicPartition(CONTROL_TOPIC, 0, now_ms() - _RECENT_MS)
        recent = consumer.offsets_for_times([since], timeout=TIMEOUT_S)[0].offset
        return Log(low, high if recent < 0 else max(low, recent))
    finally:
        consumer.close()


def follow(properties: Mapping[str, str], log: Log, take: Take, over: threading.Event) -> None:
    """Read what is recent and go on until ``over``, also over outages; ``take`` gets events in batches."""
    consumer = _consumer(properties)
    try:
        consumer.assign([TopicPartition(CONTROL_TOPIC, 0, log.recent)])
        while not over.is_set():
            if events := _events(consumer.consume(_BATCH, timeout=_POLL_S)):
                take(events)
    finally:
        consumer.close()


def recall(
    properties: Mapping[str, str],
    log: Log,
    take: Take,
    over: threading.Event,
    told: Callable[[float], None],
) -> None:
    """Read what ``follow`` does not, chunk by chunk from the newest to the oldest, without heartbeats.

    ``told`` hears which share is read, 0 to 1.
    """
    consumer = _consumer(properties)
    try:
        upper = log.recent
        while upper > log.first and not over.is_set():
            lower = max(log.first, upper - _CHUNK)
            take(_chunk(consumer, lower, upper, over))
            upper = lower
            told((log.recent - upper) / (log.recent - log.first))
        told(1.0)
    finally:
        consumer.close()


def _chunk(consumer: Consumer, lower: int, upper: int, over: threading.Event) -> list[ControlEvent]:
    """Events of the offsets from ``lower`` to before ``upper``, without heartbeats."""
    consumer.assign([TopicPartition(CONTROL_TOPIC, 0, lower)])
    found: list[ControlEvent] = []
    quiet_since = time.monotonic()
    while not over.is_set() and time.monotonic() - quiet_since < TIMEOUT_S:
        messages = consumer.consume(_BATCH, timeout=_POLL_S)
        ours = [message for message in messages if (message.offset() or 0) < upper]
        found += _events([one for one in ours if not is_heartbeat(one.value() or b"")])
        position = consumer.position([TopicPartition(CONTROL_TOPIC, 0)])[0].offset
        if len(ours) < len(messages) or position >= upper:
            break
        if messages:
            quiet_since = time.monotonic()
    return found


def _consumer(properties: Mapping[str, str]) -> Consumer:
    return make_consumer(
        properties,
        group_id="tabletopic-dashboard",
        enable_auto_commit="false",
        auto_offset_reset="earliest",
        # Small queues: the past is read once, and memory stays bounded while it is.
        queued_max_messages_kbytes=8192,
        fetch_error_backoff_ms=200,
    )


def _events(messages: Sequence[Message]) -> list[ControlEvent]:
    """The events in messages; those that are none of this version are passed over."""
    found: list[ControlEvent] = []
    for message in messages:
        if message.error() is not None:
            continue
        try:
            found.append(event_of_json((message.value() or b"").decode(errors="replace")))
        except ValidationError:
            continue
    return found
