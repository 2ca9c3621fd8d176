"""Reports to users: a coordinator's about its topic, a host's about itself."""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tabletopic_kernel.host.owner import Owner
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.local.processes import tree_memory_bytes
from tabletopic_kernel.model.commit_cycle import Event, State
from tabletopic_kernel.model.errors import ActionNeededError, TableTopicError
from tabletopic_kernel.model.ledger import added
from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.progress.delay import AT_WORK
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_names import in_sql, table_name
from tabletopic_kernel.pipeline.plan import StagedBatch
from tabletopic_kernel.table.topic_table import TopicTable

_RATE_WINDOW_S = 10.0
_SAMPLES = 5  # refused records that an event shows
_MEASURE_EVERY_S = 10.0


class TopicProgress:
    """One topic's progress record: what is true now. Thread-safe; ``_lock`` guards its state."""

    def __init__(self, topic: str, settings: TopicSettings) -> None:
        self._lock = threading.Lock()
        self.notice: str | None = None  # an error that does not stop the topic
        self.stretched: str | None = None  # why commits come later than the settings say
        self._catalog = settings.catalog
        self._record = events.Progress(
            topic=topic,
            table=table_name(topic, settings),
            commit_interval_ms=settings.commit_interval_ms,
        )
        self._rates: deque[tuple[float, int]] = deque()  # (time, rows) of the last commits
        self._foreign = _ForeignChanges()

    def now(
        self,
        state: State,
        staged: Sequence[StagedBatch],
        waits_s: float | None = None,
        cluster_waits: str | None = None,
        staging_records: int = 0,
    ) -> events.Progress:
        """The record; ``waits_s``: the worker's for a turn; ``cluster_waits``: why it waits for executors."""
        now = time.monotonic()
        with self._lock:
            while self._rates and now - self._rates[0][0] > _RATE_WINDOW_S:
                self._rates.popleft()
            error = cluster_waits or self._record.error
            return self._record.model_copy(
                update={
                    # After an error, a retry counts as waiting until it has succeeded.
                    "state": State.WAITING if state in AT_WORK and error else state,
                    "error": error or self.notice or self.stretched,
                    "error_kind": None if cluster_waits else self._record.error_kind,
                    "turn_wait_ms": None if waits_s is None else round(1000 * waits_s),
                    "staging_records": staging_records,
                    "staged_rows": sum(batch.rows for batch in staged),
                    "rows_per_second": sum(rows for _, rows in self._rates) / _RATE_WINDOW_S,
                }
            )

    def sync(self, owner: Owner, **fields: object) -> None:
        """Update the record from the owner's state, and with ``fields``."""
        ledger, dead_letters = owner.ledger, owner.dead_letters
        update: dict[str, object] = {
            **fields,
            **events.ledger_figures(ledger),
            "dead_letters": dead_letters.count,
            "dead_letter_table": in_sql(dead_letters.identifier, self._catalog)
            if dead_letters.table
            else None,
        }
        if owner.table is not None:
            update |= owner.table.figures() | {"foreign_changes": self._foreign.of(owner.table)}
        self.update(update)

    def committed(self, owner: Owner, rows: int, now_ms: int) -> None:
        with self._lock:
            self._rates.append((time.monotonic(), rows))
        self.sync(owner, last_commit_ms=now_ms)

    def update(self, update: dict[str, object]) -> None:
        with self._lock:
            self._record = self._record.model_copy(update=update)


class Reporter:
    """One topic's events: what happened. Thread-safe."""

    def __init__(self, topic: str, settings: TopicSettings, services: Services) -> None:
        self._topic = topic
        self._services = services
        self._catalog = settings.catalog
        self.progress = TopicProgress(topic, settings)

    def staged(self, batch: StagedBatch) -> None:
        self.write(
            events.FilesStaged(
                **self.stamp(),
                rows=batch.rows,
                files=len(batch.files),
                bytes=batch.bytes,
                seconds=round(batch.seconds, 3),
            )
        )

    def committed(self, batches: Sequence[StagedBatch], owner: Owner, began_ms: int) -> None:
        now, rows = self._services.now_ms(), sum(batch.rows for batch in batches)
        seconds = (self._services.elapsed_ms() - began_ms) / 1000
        self.progress.committed(owner, rows, now)
        progress = self.progress.now(State.RUNNING, ())
        self.write(
            events.Committed(
                **self.stamp(),
                snapshot_id=progress.snapshot_id,
                rows=rows,
                files=sum(len(batch.files) for batch in batches),
                bytes=sum(batch.bytes for batch in batches),
                seconds=seconds,
                progress=progress,
            )
        )
        self._refused(batches, owner)

    def _refused(self, batches: Sequence[StagedBatch], owner: Owner) -> None:
        counts: dict[str, int] = {}
        for batch in batches:
            counts = added(counts, batch.refused)
        if not counts:
            return
        samples = [sample for batch in batches for sample in batch.samples][:_SAMPLES]
        dead_letters = any(batch.dead_letters for batch in batches)
        self.write(
            events.DeadLettered(
                **self.stamp(),
                counts=counts,
                table=in_sql(owner.dead_letters.identifier, self._catalog) if dead_letters else None,
                samples=[events.RefusedSample(**asdict(sample)) for sample in samples],
            )
        )

    def commit_failed(self, error: TableTopicError) -> None:
        self.write(events.CommitFailed(**self.stamp(), reason=self.reason(error)))

    def gap(self, missing: Mapping[int, tuple[int, int]], **more: Any) -> None:
        """Report records that were deleted before they were read, or lost after (I8); as ``GapDetected``."""
        self.write(events.GapDetected(**self.stamp(), missing=dict(missing), **more))

    def error(self, error: TableTopicError, *, waits: bool) -> None:
        """Report that the topic stopped, or waits for a dependency; the reason stays until it resumes."""
        reason = self.reason(error)
        if type(error) is ActionNeededError and not waits:
            reason += "; then resume the topic"
        self.progress.update({"error": reason, "error_kind": events.ErrorKind.of(error)})
        self.write(events.Failed(**self.stamp(), reason=reason, waits=waits))

    def clear_error(self) -> None:
        self.progress.update({"error": None, "error_kind": None})

    def moved(self, event: Event, before: State, after: State) -> None:
        """Report a change of the topic's state."""
        if event is Event.RESUME and before in (State.PAUSED, State.FAILED, State.WAITING):
            self.write(events.Resumed(**self.stamp()))
        if after is not before and after is State.PAUSED:
            self.write(events.Paused(**self.stamp()))
        if after is not before and after is State.STOPPED:
            self.write(events.Stopped(**self.stamp()))

    def write(self, event: events.ControlEvent) -> None:
        """Send an event; never waits."""
        self._services.control.write(event)

    def reason(self, error: TableTopicError) -> str:
        """The error's text, with the settings section of the topic's catalog."""
        error.of_catalog(self._catalog)
        return str(error)

    def stamp(self) -> dict[str, Any]:
        """The fields that each of the topic's events has."""
        return {"topic": self._topic, "at_ms": self._services.now_ms(), "host": self._services.host}


def new_host_id() -> str:
    """A recognisable name for this process: machine, pid, and a unique suffix."""
    return f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:4]}"


class _ForeignChanges:
    """Counts foreign changes to a topic's tables across the topic's successive owners on this host."""

    def __init__(self) -> None:
        self._total = 0
        self._table: TopicTable | None = None
        self._seen = 0

    def of(self, table: TopicTable) -> int:
        """The count with the current owner's table; the last owner may have counted more before its end."""
        if self._table is not None:
            self._total += self._table.foreign_changes - self._seen
        if table is not self._table:
            self._table, self._total = table, self._total + table.foreign_changes
        self._seen = table.foreign_changes
        return self._total


class HostReporter:
    """A host's reports about itself: topics, start time, version and memory. For one thread.

    Memory is measured only every ten seconds, because that reads the whole process list.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._started_ms = services.now_ms()
        self._version = _version()
        self._memory_bytes: int | None = None
        self._measured_s = float("-inf")

    def beat(self, topics: list[str]) -> None:
        if time.monotonic() - self._measured_s >= _MEASURE_EVERY_S:
            self._memory_bytes = tree_memory_bytes()
            self._measured_s = time.monotonic()
        self._services.control.write(
            events.HostHeartbeat(
                at_ms=self._services.now_ms(),
                host=self._services.host,
                topics=topics,
                started_ms=self._started_ms,
                version=self._version,
                memory_bytes=self._memory_bytes,
            )
        )


def _version() -> str:
    try:
        return version("tabletopic")
    except PackageNotFoundError:  # run from a checkout
        return "not installed"
