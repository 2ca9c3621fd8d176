"""The progress record: a fold of control-topic events, broker offsets and table metadata.

Everything here is a pure fold: readings in, a bounded record out. Events may come in any order, each once
(the newest are read first, so that a page shows something at once).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeVar

from tabletopic_kernel.model.commit_cycle import State
from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.progress.delay import Delay, delay_of
from tabletopic_kernel.model.progress.events import ControlEvent, Progress
from tabletopic_kernel.model.progress.open_transaction import OpenTransaction, waits_behind
from tabletopic_kernel.model.progress.time_buckets import UNKNOWN, History, pack
from tabletopic_kernel.model.settings.desired import DesiredTopic

# A host without a heartbeat for this long is gone: three heartbeats.
FRESH_MS = 7_000
# A state in addition to the coordinator's: the topic is enabled and nobody runs it.
NO_HOST = "no_host"
NO_HOST_HINT = "no host runs this topic; start one with `tabletopic serve`"
_KEPT = 100  # of each kind of note: the newest


T = TypeVar("T", bound=ControlEvent)


@dataclass(frozen=True)
class HostReport:
    """A progress record as reported by a host, with its time."""

    progress: Progress
    host: str
    at_ms: int

    def is_newer_than(self, other: HostReport | None) -> bool:
        """Of two reports at the same time, the one further ahead is newer: order does not matter."""
        return other is None or self._key > other._key

    @property
    def _key(self) -> tuple[int, int, int]:
        return self.at_ms, self.progress.epoch, self.progress.commits


@dataclass
class TopicRecord:
    """Everything known about one topic. Times in ms since 1970."""

    topic: str
    reported: HostReport | None = None  # the newest report of a host
    owned: HostReport | None = None  # the newest report of a host that owned the table
    stopped_ms: int = UNKNOWN
    last_commit_ms: int = UNKNOWN
    end_offsets: dict[int, int] | None = None
    oldest_ms: int | None = None  # timestamp of the oldest record that is not in the table
    opened: Sequence[OpenTransaction] = ()  # for longer than a moment
    history: History = field(default_factory=History)
    changes: list[events.SchemaEvolved | events.SchemaRefused] = field(default_factory=list)
    notes: list[ControlEvent] = field(default_factory=list)
    dead_letters: list[events.DeadLettered] = field(default_factory=list)  # those with samples

    @property
    def progress(self) -> Progress | None:
        """The topic's progress. A host that is still taking over does not hide the table's figures."""
        if self.reported is None or self.owned is None or self.reported.progress.epoch > 0:
            report = self.reported or self.owned
            return report.progress if report else None
        now = self.reported.progress
        update = {"state": now.state, "error": now.error, "error_kind": now.error_kind}
        return self.owned.progress.model_copy(update=update)

    @property
    def lag_by_partition(self) -> dict[int, int]:
        """Records that are not in the table yet; empty while end offsets or ledger are unknown."""
        progress = self.progress
        if progress is None or self.end_offsets is None:
            return {}
        return {
            p: max(0, end - progress.next_offsets.get(p, 0)) for p, end in sorted(self.end_offsets.items())
        }

    @property
    def lag_records(self) -> int | None:
        """Records that are not in the table yet, in total; None while unknown."""
        unknown = self.end_offsets is None or self.progress is None
        return None if unknown else sum(self.lag_by_partition.values())

    def lag_seconds(self, now_ms: int) -> float | None:
        """Age of the oldest record that is not in the table; 0 if there is none, None if unknown."""
        if self.lag_records is None:
            return None
        if self.lag_records == 0:
            return 0.0
        return None if self.oldest_ms is None else max(0.0, (now_ms - self.oldest_ms) / 1000)

    def delay(self, state: str, now_ms: int) -> Delay | None:
        """Why the topic is late although it runs."""
        progress = self.progress
        if progress is None:
            return None
        limits = progress.commit_interval_ms, progress.turn_wait_ms
        return delay_of(state, self.lag_seconds(now_ms), *limits, has_open_transaction=bool(self.opened))

    def reason(self, delay: Delay) -> str:
        """The reason of its delay in a sentence."""
        return waits_behind(self.opened) if self.opened else delay.reason

    def is_reported(self, now_ms: int) -> bool:
        """Whether a live host runs the topic."""
        return (
            self.reported is not None
            and self.reported.host != ""
            and self.reported.at_ms > self.stopped_ms
            and now_ms - self.reported.at_ms <= FRESH_MS
        )

    def state(self, desired: DesiredTopic | None, now_ms: int) -> str:
        """The coordinator's state; without a live host: off, paused or NO_HOST."""
        if self.progress is not None and self.is_reported(now_ms):
            return str(self.progress.state)
        if desired is None:
            return "off"
        return str(State.PAUSED) if desired.run == "paused" else NO_HOST


class Record:
    """The records of all topics. Not thread-safe: hold a lock to share it."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicRecord] = {}
        self.hosts: dict[str, events.HostHeartbeat] = {}  # by name: the newest heartbeat of each live host

    def topic(self, name: str) -> TopicRecord:
        """The record of a topic, created if missing."""
        record = self.topics.get(name)
        if record is None:
            record = self.topics[name] = TopicRecord(name)
        return record

    def fold(self, folded: Iterable[ControlEvent]) -> None:
        for event in folded:
            if isinstance(event, events.HostHeartbeat):
                self._fold_host(event)
                continue
            _fold(self.topic(event.topic), event)

    def _fold_host(self, event: events.HostHeartbeat) -> None:
        last = self.hosts.get(event.host)
        if last is None or last.at_ms < event.at_ms:
            self.hosts[event.host] = event
        newest_ms = max(host.at_ms for host in self.hosts.values())
        self.hosts = {name: host for name, host in self.hosts.items() if newest_ms - host.at_ms <= FRESH_MS}

    def read_from_table(self, progress: Progress) -> None:
        """Apply progress from the table itself, for a topic that no host reports (I6); not a sign of life."""
        topic = self.topic(progress.topic)
        report = HostReport(progress, "", topic.reported.at_ms if topic.reported else 0)
        if topic.reported is None or topic.reported.host == "":
            topic.reported = report
        if topic.owned is None or topic.owned.progress.commits <= progress.commits:
            topic.owned = report

    def observe_ends(self, at_ms: int, ends: Mapping[str, Mapping[int, int]]) -> None:
        """Apply current end offsets by topic and partition, from the broker."""
        for name, offsets in ends.items():
            topic = self.topic(name)
            topic.end_offsets = dict(offsets)
            topic.history.ends(at_ms, pack(offsets))
            if (progress := topic.progress) is not None:
                topic.history.ledger(at_ms, pack(progress.next_offsets))
                topic.history.lag(at_ms, topic.lag_records or 0, None)

    def observe_oldest(self, at_ms: int, oldest: Mapping[str, int | None]) -> None:
        """Apply the timestamp of the oldest uncommitted record, by topic; None if it could not be read."""
        for name, oldest_ms in oldest.items():
            topic = self.topic(name)
            topic.oldest_ms = oldest_ms
            if (lag := topic.lag_records) is not None:
                topic.history.lag(at_ms, lag, topic.lag_seconds(at_ms))

    def observe_open(self, opened: Mapping[str, Sequence[OpenTransaction]]) -> None:
        """Apply the transactions that have been open for long, by topic; other topics have none."""
        for name, topic in self.topics.items():
            topic.opened = opened.get(name, ())

    def recall_ends(self, name: str, samples: Mapping[int, Mapping[int, int]]) -> None:
        """Apply past end offsets, by time, from the topic's timestamps."""
        for at_ms, offsets in samples.items():
            self.topic(name).history.ends(at_ms, pack(offsets))


def _fold(topic: TopicRecord, event: ControlEvent) -> None:
    match event:
        case events.Heartbeat():
            _apply_report(topic, event)
        case events.Committed():
            _apply_report(topic, event)
            topic.last_commit_ms = max(topic.last_commit_ms, event.at_ms)
            topic.history.commit(event.at_ms, event.rows, event.files, event.bytes)
            topic.history.ledger(event.at_ms, pack(event.progress.next_offsets))
        case events.Enabled():
            topic.history.ledger(event.at_ms, pack(event.next_offsets))
            _keep(topic.notes, event)
        case events.SchemaEvolved() | events.SchemaRefused():
            _keep(topic.changes, event)
        case events.DeadLettered():
            if event.samples:
                _keep(topic.dead_letters, event)
        case events.Stopped():
            topic.stopped_ms = max(topic.stopped_ms, event.at_ms)
            _keep(topic.notes, event)
        case events.CommitRequested() | events.FilesStaged():  # the commit that follows says more
            pass
        case _:
            _keep(topic.notes, event)


def _apply_report(topic: TopicRecord, event: events.Heartbeat | events.Committed) -> None:
    topic.last_commit_ms = max(topic.last_commit_ms, event.progress.last_commit_ms or UNKNOWN)
    reported = HostReport(event.progress, event.host, event.at_ms)
    if reported.is_newer_than(topic.reported):
        topic.reported = reported
    if event.progress.epoch > 0 and reported.is_newer_than(topic.owned):
        topic.owned = reported


def _keep(kept: list[T], item: T) -> None:
    """Keep the newest notes, sorted by time."""
    insort(kept, item, key=attrgetter("at_ms"))
    if len(kept) > _KEPT:
        del kept[0]
