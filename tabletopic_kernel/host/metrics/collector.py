"""The metrics of one host: our own collector, fed by the host's events and progress records.

A topic's state comes from its progress record at the time of the scrape; counters count its events as they
are written. A topic that left the host stays visible long enough for its last commit to be scraped.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from prometheus_client import Histogram, Metric

from tabletopic_kernel.host.metrics.declared import BUCKETS_S, BY_NAME, METRICS, SHOWN_STATES, STATES, Failure
from tabletopic_kernel.host.metrics.lags import Lags, whole
from tabletopic_kernel.host.metrics.questions import Question
from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.progress.events import Progress
from tabletopic_kernel.model.redact import redact

if TYPE_CHECKING:
    from tabletopic_kernel.host.host import Host

# With more, a scrape of a hundred topics would exceed 200 KB.
MOST_PARTITIONS = 300
# Decoders define the reasons; a custom decoder may have any number of them.
_MOST_REASONS = 10
_REASON_LENGTH = 60
_REST = "other"
_FORGET_S = 900.0

_OF_PROGRESS: Mapping[str, Callable[[Progress], float]] = {
    "tabletopic_commit_interval_seconds": lambda record: record.commit_interval_ms / 1000,
    "tabletopic_staged_rows": lambda record: record.staged_rows,
    "tabletopic_dead_letters": lambda record: record.dead_letters,
    "tabletopic_lost_records": lambda record: sum(record.lost.values()),
    "tabletopic_epoch": lambda record: record.epoch,
    "tabletopic_table_rows": lambda record: record.rows,
    "tabletopic_table_files": lambda record: record.files,
    "tabletopic_foreign_changes": lambda record: record.foreign_changes,
}
# Shown as 0 from the start: a rate needs a first value.
_OF_COMMITS = (
    "tabletopic_committed_rows",
    "tabletopic_committed_bytes",
    "tabletopic_committed_files",
    "tabletopic_commits",
)


class _Counts:
    """What happened to a topic or to the host, by metric and its labels other than the topic."""

    def __init__(self) -> None:
        self.values: defaultdict[tuple[str, ...], float] = defaultdict(float)
        self.seen_s = 0.0


class HostMetrics:
    """A collector in the sense of ``prometheus_client``. May be used from any thread."""

    def __init__(
        self,
        host: Host,
        lags: Lags,
        servers: Callable[[], Mapping[tuple[str, str], Question]],
        now_ms: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host, self._lags, self._servers = host, lags, servers
        self._now_ms, self._clock = now_ms, clock
        self._lock = threading.Lock()  # guards the three below
        self._counts: dict[str, _Counts] = {}
        self._of_host = _Counts()
        self._heartbeat: events.HostHeartbeat | None = None
        self._histograms = {
            name: Histogram(name, BY_NAME[name].help, registry=None, buckets=bounds)
            for name, bounds in BUCKETS_S.items()
        }

    # -- what happens

    def hear(self, event: events.ControlEvent) -> None:
        """Count an event that the host writes."""
        if isinstance(event, events.HostHeartbeat):
            with self._lock:
                self._heartbeat = event
            return
        if isinstance(event, events.FilesStaged):
            self._histograms["tabletopic_batch_duration_seconds"].observe(event.seconds)
        elif isinstance(event, events.Committed):
            self._histograms["tabletopic_commit_duration_seconds"].observe(event.seconds)
        elif isinstance(event, events.Compacted) and event.error is None:
            self._histograms["tabletopic_compaction_duration_seconds"].observe(event.seconds)
        with self._lock:
            counts = self._counts.setdefault(event.topic, _Counts())
            counts.seen_s = self._clock()
            for key, amount in _counted(event):
                owner = counts if "topic" in BY_NAME[key[0]].labels else self._of_host
                owner.values[key] += amount

    # -- what is scraped

    def collect(self) -> Iterable[Metric]:
        """Every metric with its samples, in the order of their declaration."""
        now_ms, progress = self._now_ms(), self._host.progress()
        samples = _Samples()
        for record in progress:
            _add_progress(samples, record)
        self._add_lags(samples, progress, now_ms)
        self._add_counts(samples, {record.topic for record in progress})
        self._add_host(samples, len(progress))
        for declared in METRICS:
            if declared.kind == "histogram":
                yield self._histogram(declared.name)
            else:
                yield samples.metrics[declared.name]

    def _histogram(self, name: str) -> Metric:
        (metric,) = self._histograms[name].collect()
        # Without times of creation: `tabletopic_start_timestamp_seconds` has the host's.
        metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
        return metric

    def _add_lags(self, samples: _Samples, progress: Iterable[Progress], now_ms: int) -> None:
        room, hidden = MOST_PARTITIONS, 0
        for record in sorted(progress, key=lambda record: record.topic):
            lags = self._lags.of(record, now_ms)
            if not lags:
                continue
            total = whole(lags.values())
            samples.add("tabletopic_commit_lag_records", total.records, record.topic)
            samples.add("tabletopic_commit_lag_seconds", total.seconds, record.topic)
            if (opened := self._lags.open_transactions(record.topic, now_ms)).records:
                samples.add("tabletopic_open_transaction_records", opened.records, record.topic)
                samples.add("tabletopic_open_transaction_seconds", opened.seconds, record.topic)
            if len(lags) > room:  # all partitions of a topic, or none: a sum over some would mislead
                hidden += len(lags)
                continue
            room -= len(lags)
            for partition, lag in lags.items():
                samples.add("tabletopic_partition_lag_records", lag.records, record.topic, str(partition))
                samples.add("tabletopic_partition_lag_seconds", lag.seconds, record.topic, str(partition))
        samples.add("tabletopic_hidden_partitions", hidden)

    def _add_counts(self, samples: _Samples, here: Collection[str]) -> None:
        now_s = self._clock()
        with self._lock:
            for topic in here:
                self._counts.setdefault(topic, _Counts()).seen_s = now_s
            for topic in [t for t, counts in self._counts.items() if now_s - counts.seen_s > _FORGET_S]:
                del self._counts[topic]
            counted = {topic: dict(counts.values) for topic, counts in self._counts.items()}
            of_host = dict(self._of_host.values)
        for topic, values in counted.items():
            for (name, *labels), value in ({(name,): 0.0 for name in _OF_COMMITS} | values).items():
                samples.add(name, value, topic, *labels)
        for (name, *labels), value in of_host.items():
            samples.add(name, value, *labels)

    def _add_host(self, samples: _Samples, topics: int) -> None:
        host = self._host
        with self._lock:
            heartbeat = self._heartbeat
        if heartbeat is not None:
            samples.add("tabletopic_host_info", 1, host.id, heartbeat.version)
            samples.add("tabletopic_start_timestamp_seconds", heartbeat.started_ms / 1000)
            if heartbeat.memory_bytes is not None:
                samples.add("tabletopic_memory_bytes", heartbeat.memory_bytes)
        samples.add("tabletopic_in_group", host.is_in_group)
        samples.add("tabletopic_poll_age_seconds", host.silence_s)
        samples.add("tabletopic_topics", topics)
        samples.add("tabletopic_dropped_events", host.dropped_events)
        servers = self._servers()
        for labels, question in servers.items():
            samples.add("tabletopic_server_up", question.trouble is None, *labels)
        if (age_s := servers["broker", ""].age_s) is not None:
            samples.add("tabletopic_end_offsets_age_seconds", age_s)


class _Samples:
    """The samples of a scrape, by metric."""

    def __init__(self) -> None:
        self.metrics = {metric.name: Metric(metric.name, metric.help, metric.kind) for metric in METRICS}

    def add(self, name: str, value: float, *values: str) -> None:
        """Add one sample; ``values`` are those of the metric's labels, in their order."""
        declared = BY_NAME[name]
        labels = dict(zip(declared.labels, values, strict=True))
        self.metrics[name].add_sample(declared.sample, labels, float(value))


def _add_progress(samples: _Samples, record: Progress) -> None:
    topic = record.topic
    for name, value in _OF_PROGRESS.items():
        samples.add(name, value(record), topic)
    if record.last_commit_ms is not None:
        samples.add("tabletopic_last_commit_timestamp_seconds", record.last_commit_ms / 1000, topic)
    shown = STATES[record.state]
    for state in SHOWN_STATES:
        samples.add("tabletopic_state", state == shown, topic, state)
    for name, counts in (
        ("tabletopic_refused_records", record.refused),
        ("tabletopic_passed_over_records", record.passed_over),
        ("tabletopic_expectation_failures", record.expectation_failures),
        ("tabletopic_changed_rows", record.changes),
    ):
        for reason, count in _bounded(counts).items():
            samples.add(name, count, topic, reason)


def _bounded(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts by reason: the first reasons by name, the rest together."""
    bounded: dict[str, int] = {}
    for position, reason in enumerate(sorted(counts)):
        label = redact(reason)[:_REASON_LENGTH] if position < _MOST_REASONS else _REST
        bounded[label] = bounded.get(label, 0) + counts[reason]
    return bounded


_Count = tuple[tuple[str, ...], float]


def _counted(event: events.ControlEvent) -> Iterable[_Count]:
    """What an event adds: the metric, the values of its labels other than the topic, and how much."""
    match event:
        case events.Committed():
            yield ("tabletopic_committed_rows",), event.rows
            yield ("tabletopic_committed_bytes",), event.bytes
            yield ("tabletopic_committed_files",), event.files
            yield ("tabletopic_commits",), 1
        case events.CommitFailed():
            yield _failed(Failure.COMMIT)
        case events.Failed():
            yield _failed(Failure.WAITS if event.waits else Failure.STOPS)
        case events.SchemaEvolved():
            yield ("tabletopic_schema_changes",), 1
        case events.SchemaRefused():
            yield _failed(Failure.SCHEMA)
        case events.Replayed() if event.error is not None:
            yield _failed(Failure.REPLAY)
        case events.Compacted() | events.Expired() | events.OrphansRemoved():
            yield from _maintained(event)
        case events.RowsDeleted() | events.Erased() if event.error is not None:
            yield _failed(Failure.MAINTENANCE)


def _failed(kind: Failure) -> _Count:
    return ("tabletopic_failures", kind.value), 1


def _maintained(event: events.Compacted | events.Expired | events.OrphansRemoved) -> Iterable[_Count]:
    work = {"Compacted": "compaction", "Expired": "expiry", "OrphansRemoved": "orphans"}[event.type]
    if event.error is not None:
        yield _failed(Failure.MAINTENANCE)
    else:
        yield ("tabletopic_maintenance", work), 1
    files, size = event.files, event.bytes
    if isinstance(event, events.Compacted):
        files, size = event.files_before, event.bytes_before
    yield ("tabletopic_removed_files", work), files
    yield ("tabletopic_removed_bytes", work), size
    if isinstance(event, events.Expired):
        yield ("tabletopic_expired_snapshots",), event.snapshots
