"""What is known of broker, tables and control topic: written by a few threads, read by every page."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaException

from tabletopic_kernel.faces.live_dashboard.record.view import Retention, TableFacts
from tabletopic_kernel.model.progress.events import ControlEvent
from tabletopic_kernel.model.progress.progress_view import Record
from tabletopic_kernel.model.redact import redact
from tabletopic_kernel.model.settings.sections import DesiredTopic


@dataclass
class Known:
    """What the threads put together; ``lock`` guards all of it."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    record: Record = field(default_factory=Record)
    desired_topics: Mapping[str, DesiredTopic] | None = None
    hosts: tuple[str, ...] = ()
    tables: dict[str, TableFacts] = field(default_factory=dict)
    retention: dict[str, Retention] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)
    history_read: float = 0.0
    watched: Counter[str] = field(default_factory=Counter)  # sessions by topic; "" is the overview

    def trouble(self, what: str, error: Exception | None) -> None:
        """Something does not answer, or (None) answers again."""
        with self.lock:
            if error is None:
                self.troubles.pop(what, None)
            else:
                self.troubles[what] = words(error)

    def begin_again(self) -> None:
        """Other servers, or the same with other data: nothing that is known is true any more."""
        with self.lock:
            self.record, self.desired_topics, self.hosts = Record(), None, ()
            self.tables, self.retention, self.troubles = {}, {}, {}
            self.history_read = 0.0

    def take(self, events: list[ControlEvent]) -> None:
        """Fold events into the record."""
        with self.lock:
            self.record.fold(events)

    def read(self, share: float) -> None:
        """So much of the control topic's past is read."""
        with self.lock:
            self.history_read = share

    def watched_topics(self) -> list[str]:
        """Topics whose pages are open."""
        with self.lock:
            return sorted(topic for topic, sessions in self.watched.items() if topic and sessions > 0)

    def is_watched(self) -> bool:
        """Whether any page is open."""
        with self.lock:
            return self.watched.total() > 0


def words(error: Exception) -> str:
    """What an error of ours, or of the broker's client, says."""
    return redact(error.args[0].str() if isinstance(error, KafkaException) else str(error))
