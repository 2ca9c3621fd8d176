"""The input of a page: the progress record and related state, at one point in time.

A few threads write the state of broker, tables and control topic, and every page reads it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from tabletopic_kernel.model.errors import RetryableError, TableTopicError, error_of
from tabletopic_kernel.model.progress.delay import Delay
from tabletopic_kernel.model.progress.events import ControlEvent
from tabletopic_kernel.model.progress.progress_view import NO_HOST, Record, TopicRecord
from tabletopic_kernel.model.settings.desired import DesiredTopic
from tabletopic_kernel.render.states import UNKNOWN, standing_of
from tabletopic_kernel.render.words import seconds, size

if TYPE_CHECKING:  # PyIceberg takes half a second
    from tabletopic_kernel.table.health import TableHealth
    from tabletopic_kernel.table.history import TableSnapshot


@dataclass(frozen=True)
class TableFacts:
    """Figures from a table's metadata; ``snapshots``: the newest, newest first."""

    table: str
    rows: int
    files: int
    bytes: int
    snapshots_in_all: int
    snapshots: tuple[TableSnapshot, ...] = ()


@dataclass(frozen=True)
class Retention:
    """The topic's retention; milliseconds and bytes, negative is forever."""

    ms: int | None
    bytes: int | None
    cleanup_policy: str

    def __str__(self) -> str:
        if "delete" not in self.cleanup_policy:
            return "the topic is compacted, not deleted"
        duration = "kept forever" if self.ms is None or self.ms < 0 else f"kept for {seconds(self.ms / 1000)}"
        return duration + (f", {size(self.bytes)} per partition" if self.bytes and self.bytes > 0 else "")

    @property
    def is_endless(self) -> bool:
        """Whether no record is deleted for its age."""
        return "delete" not in self.cleanup_policy or (self.ms or 0) < 0

    def left_s(self, oldest_ms: int | None, now_ms: int) -> float | None:
        """Seconds until the oldest record that is not in the table may be deleted; None if there is none.

        The broker deletes whole segments, so it may take longer, never less. 0: it may already be deleted.

        >>> Retention(60_000, None, "delete").left_s(1_000, 31_000)
        30.0
        """
        if oldest_ms is None or self.ms is None or self.is_endless:
            return None
        return max(0.0, (oldest_ms + self.ms - now_ms) / 1000)


@dataclass
class View:
    """Everything that pages show. The record is shared: hold its owner's lock.

    ``desired_topics`` None: not known yet. ``troubles``: what does not respond, by name, with the next step.
    ``history_read``: share of the control topic already read, 0 to 1.
    """

    record: Record = field(default_factory=Record)
    now_ms: int = 0
    desired_topics: Mapping[str, DesiredTopic] | None = None
    hosts: tuple[str, ...] = ()
    tables: dict[str, TableFacts] = field(default_factory=dict)
    health: dict[str, TableHealth] = field(default_factory=dict)
    retention: dict[str, Retention] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)
    history_read: float = 1.0

    def desired_topic(self, topic: str) -> DesiredTopic | None:
        """The desired state of a topic; None if it is disabled."""
        return (self.desired_topics or {}).get(topic)

    def topic(self, name: str) -> TopicRecord:
        """The record of a topic, empty if nothing is known."""
        return self.record.topics.get(name) or TopicRecord(name)

    def state(self, name: str) -> str:
        """The topic's state in a word; unknown if the broker is unavailable."""
        state = self.topic(name).state(self.desired_topic(name), self.now_ms)
        return UNKNOWN if state == NO_HOST and self.troubles.keys() & {"servers", "broker"} else state

    def delay(self, name: str) -> Delay | None:
        """Why the topic is late although it runs."""
        return self.topic(name).delay(self.state(name), self.now_ms)

    def standing(self, name: str) -> str:
        """Why the topic is late, or else its state: the displayed word."""
        progress = self.topic(name).progress
        return standing_of(self.state(name), self.delay(name), progress.error_kind if progress else None)

    def live_host(self, name: str) -> str | None:
        """The host that runs a topic now."""
        topic = self.topic(name)
        return topic.reported.host if topic.reported and topic.is_reported(self.now_ms) else None


@dataclass
class Known(View):
    """The view of all pages, which the threads keep up to date; guarded by ``lock``."""

    history_read: float = 0.0
    lock: threading.RLock = field(default_factory=threading.RLock)
    watched: Counter[str] = field(default_factory=Counter)  # sessions by topic; "" is the overview

    def trouble(self, source: str, error: Exception | None) -> None:
        """Note that something does not respond, or (None) responds again."""
        with self.lock:
            if error is None:
                self.troubles.pop(source, None)
            else:
                self.troubles[source] = words(error)

    def begin_again(self) -> None:
        """Other servers, or other data: discard everything."""
        with self.lock:
            self.record, self.desired_topics, self.hosts = Record(), None, ()
            self.tables, self.health, self.retention, self.troubles = {}, {}, {}, {}
            self.history_read = 0.0

    def take(self, events: list[ControlEvent]) -> None:
        """Fold events into the record."""
        with self.lock:
            self.record.fold(events)

    def know(self, **values: Any) -> None:
        """Set attributes."""
        with self.lock:
            vars(self).update(values)

    def watched_topics(self) -> list[str]:
        """Topics whose pages are open."""
        with self.lock:
            return sorted(topic for topic, sessions in self.watched.items() if topic and sessions > 0)

    def is_watched(self) -> bool:
        """Whether any page is open."""
        with self.lock:
            return self.watched.total() > 0


def words(error: Exception) -> str:
    """The text of an error: of ours, of the broker's client, or an unexpected one."""
    if isinstance(error, KafkaException):
        return RetryableError(error.args[0].str()).advice
    if isinstance(error, TableTopicError):
        return error.advice
    return f"unexpected {error_of(error)}; the dashboard's log has the trace"
