"""OpenLineage events of a host's topics: which offsets became which snapshot of which table.

A topic that a host runs is a run: START when the host takes it, RUNNING for its commits, COMPLETE when the
host releases it, FAIL with the reason, ABORT if the host ends by an error. Events are sent from a thread of
their own: no commit waits for them. https://openlineage.io/spec/2-0-2/OpenLineage.json
"""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tabletopic_kernel.host.metrics.notifier import is_http, post
from tabletopic_kernel.host.metrics.outbox import CLOSING_S, Outbox
from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.errors import SettingsError
from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.redact import learn, redact, without_login
from tabletopic_kernel.model.settings.sections import LineageSettings
from tabletopic_kernel.model.topic_names import kafka_topic

if TYPE_CHECKING:
    from tabletopic_kernel.host.host import Host

_LOG = logging.getLogger(__name__)
_SPEC: Final = "https://openlineage.io/spec"
_ATTEMPTS: Final = 3
_LIMIT_S: Final = 10.0
_FACETS: Final = {  # by name: the published schema's place, or our own name
    "jobType": f"{_SPEC}/facets/2-0-3/JobTypeJobFacet.json",
    "errorMessage": f"{_SPEC}/facets/1-0-1/ErrorMessageRunFacet.json",
    "version": f"{_SPEC}/facets/1-0-1/DatasetVersionDatasetFacet.json",
    "outputStatistics": f"{_SPEC}/facets/1-0-2/OutputStatisticsOutputDatasetFacet.json",
    "tabletopic_offsets": "urn:tabletopic:facets:offsets:1",
}
Event = dict[str, Any]


@dataclass
class _Run:
    """A topic under one host, and what its commits since the last event have done."""

    id: str
    sent_ms: int
    start: dict[int, int]  # next offsets of the last event
    table: str = ""
    offsets: dict[int, int] = field(default_factory=dict)
    snapshot_id: int | None = None
    rows: int = 0
    files: int = 0
    bytes: int = 0

    def add(self, commit: events.Committed) -> None:
        self.table, self.snapshot_id = commit.progress.table, commit.snapshot_id
        self.offsets = dict(commit.progress.next_offsets)
        self.rows += commit.rows
        self.files += commit.files
        self.bytes += commit.bytes

    def sent(self, at_ms: int) -> None:
        """Begin to count anew."""
        self.sent_ms, self.start = at_ms, self.offsets or self.start
        self.offsets, self.rows, self.files, self.bytes = {}, 0, 0, 0


class Runs:
    """Turns a host's events into those of OpenLineage. ``kafka`` and ``catalog``: namespaces of the datasets.

    For one thread at a time.
    """

    def __init__(self, settings: LineageSettings, kafka: str, catalog: str) -> None:
        self._settings, self._kafka, self._catalog = settings, kafka, catalog
        self._producer = f"urn:tabletopic:{version('tabletopic')}"
        self._runs: dict[str, _Run] = {}

    def hear(self, event: events.ControlEvent) -> list[Event]:
        """The events to send now."""
        if isinstance(event, events.Enabled):
            return self._started(event.topic, event.at_ms, event.next_offsets)
        if isinstance(event, events.Committed):
            return self._committed(event)
        if isinstance(event, events.Stopped | events.Paused):
            return self._ended(event.topic, event.at_ms, "COMPLETE")
        if isinstance(event, events.Failed) and not event.waits:
            return self._ended(event.topic, event.at_ms, "FAIL", event.reason)
        return []

    def end(self, at_ms: int, reason: str) -> list[Event]:
        """The events of runs that nobody has ended."""
        return [event for topic in [*self._runs] for event in self._ended(topic, at_ms, "ABORT", reason)]

    def _started(self, topic: str, at_ms: int, offsets: Mapping[int, int]) -> list[Event]:
        if topic in self._runs:  # the same host has taken it again
            return []
        run = self._runs[topic] = _Run(str(uuid.uuid4()), at_ms, dict(offsets))
        return [self._event("START", topic, at_ms, run)]

    def _committed(self, commit: events.Committed) -> list[Event]:
        topic, at_ms = commit.topic, commit.at_ms
        made = self._started(topic, at_ms, {})
        run = self._runs[topic]
        run.add(commit)
        if at_ms - run.sent_ms >= self._settings.every_ms:
            made.append(self._event("RUNNING", topic, at_ms, run))
            run.sent(at_ms)
        return made

    def _ended(self, topic: str, at_ms: int, kind: str, reason: str = "") -> list[Event]:
        run = self._runs.pop(topic, None)
        return [] if run is None else [self._event(kind, topic, at_ms, run, reason)]

    def _event(self, kind: str, topic: str, at_ms: int, run: _Run, reason: str = "") -> Event:
        ranges = [
            {"partition": partition, "from": run.start.get(partition), "next": end}
            for partition, end in sorted(run.offsets.items() or run.start.items())
        ]
        error = {"message": redact(reason), "programmingLanguage": "Python"}
        streams = {"processingType": "STREAMING", "integration": "TABLETOPIC", "jobType": "JOB"}
        source = {"namespace": self._kafka, "name": kafka_topic(topic)}
        event: Event = {
            "eventType": kind,
            "eventTime": datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds"),
            "producer": self._producer,
            "schemaURL": f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
            "run": {"runId": run.id, "facets": self._facet("errorMessage", error) if reason else {}},
            "job": {
                "namespace": self._settings.namespace,
                "name": topic,
                "facets": self._facet("jobType", streams),
            },
            "inputs": [{**source, "facets": self._facet("tabletopic_offsets", {"partitions": ranges})}],
            "outputs": [],
        }
        if run.table:
            counts = {"rowCount": run.rows, "size": run.bytes, "fileCount": run.files}
            snapshot = {"datasetVersion": str(run.snapshot_id)}
            event["outputs"].append(
                {
                    "namespace": self._catalog,
                    "name": run.table,
                    "facets": self._facet("version", snapshot) if run.snapshot_id else {},
                    "outputFacets": self._facet("outputStatistics", counts),
                }
            )
        return event

    def _facet(self, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: {"_producer": self._producer, "_schemaURL": _FACETS[name], **values}}


class Sender:
    """Sends events in their order; ``lost`` counts those that did not arrive, or found the queue full."""

    def __init__(self, send: Callable[[Event], str | None], pause_s: float = 1.0) -> None:
        self._send, self._pause_s = send, pause_s
        self._outbox: Outbox[Event] = Outbox("lineage", self._send_all)
        self._failed = 0

    @property
    def lost(self) -> int:
        return self._failed + self._outbox.left_out

    def take(self, made: list[Event]) -> None:
        """Send them soon; returns at once."""
        for event in made:
            self._outbox.put(event)

    def close(self, limit_s: float = CLOSING_S) -> None:
        self._outbox.close(limit_s)

    def _send_all(self, made: list[Event]) -> None:
        for event in made:
            for attempt in range(_ATTEMPTS):
                if (why := self._send(event)) is None:
                    break
                if attempt == _ATTEMPTS - 1 or self._outbox.pause(self._pause_s * 2**attempt):
                    self._failed += 1
                    _LOG.warning("lineage: %s; %s events lost", why, self.lost)
                    break


def sender_of(settings: LineageSettings) -> Sender:
    """The sender to the URL or file of ``[lineage]``."""
    to, key = settings.to or "", settings.api_key
    if "://" not in to:
        return Sender(lambda event: _added(Path(to), event))
    if not is_http(to):
        raise SettingsError("lineage.to is neither an http or https URL with a host nor the path of a file")
    learn({"lineage_secret": to.partition("?")[2]})
    login = {"Authorization": f"Bearer {key}"} if key else {}
    return Sender(lambda event: post(to, event, _LIMIT_S, login))


def _added(file: Path, event: Event) -> str | None:
    try:
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(event, ensure_ascii=False) + "\n")
    except OSError as error:
        return str(error)
    return None


def trace_to(
    host: Host, settings: LineageSettings, kafka: Mapping[str, str], catalog: Mapping[str, str]
) -> None:
    """Send runs and commits to the URL or file of ``[lineage]``, if there is one."""
    if settings.to is None:
        return
    broker = kafka.get("bootstrap.servers", "").partition(",")[0]
    place = without_login(catalog.get("uri", "")).partition("?")[0] or f"iceberg://{catalog['name']}"
    runs, lock, sender = Runs(settings, f"kafka://{broker}", place), threading.Lock(), sender_of(settings)
    others = host.on_end

    def hear(event: events.ControlEvent) -> None:
        with lock:  # topics have threads of their own; the order of events is that of the runs
            sender.take(runs.hear(event))

    def ended(error: Exception | None) -> None:
        others(error)
        with lock:
            sender.take(runs.end(now_ms(), str(error) if error else "the host ended"))
        sender.close()

    host.listen(hear)
    host.on_end = ended
