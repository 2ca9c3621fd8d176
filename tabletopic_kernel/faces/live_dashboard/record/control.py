"""Reads the control topic: what happens now, and the past from the newest to the oldest."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Message, TopicPartition

from tabletopic_kernel.clients.kafka.reader import Reader
from tabletopic_kernel.host.control_topic import CONTROL_TOPIC, parse_event
from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.model.progress.events import ControlEvent, is_heartbeat

Take = Callable[[list[ControlEvent]], None]
# Of the last minutes heartbeats count too: they tell who is alive and what is staged.
_RECENT_MS = 120_000
_CHUNK = 20_000
_AGAIN_S = 1.0
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Log:
    """Offsets of the control topic: its first one, and where the part begins that is read at once."""

    first: int
    recent: int


def find_log(properties: Mapping[str, str]) -> Log:
    """Where the control topic begins; raises RetryableError where it cannot be had."""
    with _reader(properties) as reader:
        first, end = reader.bounds(CONTROL_TOPIC, 0)
        recent = reader.offset_at(CONTROL_TOPIC, 0, now_ms() - _RECENT_MS)
        return Log(first, end if recent is None else max(first, recent))


def follow(properties: Mapping[str, str], log: Log, take: Take, over: threading.Event) -> None:
    """Read what is recent and go on until ``over``, also over outages; ``take`` gets events in batches."""
    with _reader(properties) as reader:
        place = TopicPartition(CONTROL_TOPIC, 0, log.recent)
        for messages in reader.follow([place], lambda: not over.is_set()):
            take(_events(messages))


def recall(
    properties: Mapping[str, str],
    log: Log,
    take: Take,
    over: threading.Event,
    report: Callable[[float], None],
) -> None:
    """Read what ``follow`` does not, chunk by chunk from the newest to the oldest, without heartbeats.

    ``report`` hears which share is read, 0 to 1.
    """
    with _reader(properties) as reader:
        upper = log.recent
        while upper > log.first and not over.is_set():
            lower = max(log.first, upper - _CHUNK)
            try:
                take(_chunk(reader, lower, upper, over))
            except RetryableError as error:
                _LOG.info("the past: %s", error)
                over.wait(_AGAIN_S)
                continue
            upper = lower
            report((log.recent - upper) / (log.recent - log.first))
        report(1.0)


def _chunk(reader: Reader, lower: int, upper: int, over: threading.Event) -> list[ControlEvent]:
    """Events of the offsets from ``lower`` to before ``upper``, without heartbeats: commits say as much."""
    batches = reader.read_range(CONTROL_TOPIC, {0: lower}, {0: upper}, lambda: not over.is_set())
    return _events([one for batch in batches for one in batch if not is_heartbeat(one.value() or b"")])


def _reader(properties: Mapping[str, str]) -> Reader:
    # Small queues: the past is read once, and memory stays bounded while it is.
    small = {"queued_max_messages_kbytes": 8192, "fetch_error_backoff_ms": 200}
    return Reader(properties, "tabletopic-dashboard", **small)


def _events(messages: Sequence[Message]) -> list[ControlEvent]:
    return list(filter(None, map(parse_event, messages)))
