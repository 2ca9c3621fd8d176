"""Reports of a topic's replays and maintenance: each request of a user gets one outcome."""

from __future__ import annotations

import threading
from typing import Any

from tabletopic_kernel.host.ownership.ownership import INTERRUPTED
from tabletopic_kernel.host.report import Reporter
from tabletopic_kernel.model.errors import StartOverError, TableTopicError
from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.settings.desired import MaintenanceRequest, ReplayRequest, Request
from tabletopic_kernel.table.sweep import Removed

_Kind = type[
    events.Replayed
    | events.LettersDropped
    | events.Compacted
    | events.Expired
    | events.OrphansRemoved
    | events.RowsDeleted
    | events.Erased
]


class Outcomes:
    """One topic's outcomes, one per request. Thread-safe; ``_lock`` guards ``_open``, those without one."""

    def __init__(self, report: Reporter) -> None:
        self._report = report
        self._lock = threading.Lock()
        self._open: dict[str, tuple[Request, dict[str, Any]]] = {}

    def add(self, request: Request) -> None:
        """Note a request, so that it gets one outcome."""
        with self._lock:
            self._open[request.id] = request, {}

    def figures(self, request: Request | None) -> dict[str, Any]:
        """What has been done for the request: fields of its event, which the caller updates."""
        with self._lock:
            return self._open[request.id][1] if request is not None and request.id in self._open else {}

    def forget(self) -> None:
        """Leave the requests without an outcome to the topic's next owner."""
        with self._lock:
            self._open.clear()

    def interrupt(self) -> None:
        """Report the requests without an outcome, which this host no longer carries out."""
        with self._lock:
            interrupted = list(self._open.values())
        for request, figures in interrupted:
            self.failed(request, StartOverError(INTERRUPTED), **figures)

    def failed(self, request: Request, error: TableTopicError, **figures: Any) -> None:
        """Report that a request failed, wholly or in part."""
        if isinstance(request, ReplayRequest):
            self.replayed(request, error=error, **figures)
        elif request.work == "drop_letters":
            self.letters_dropped(request, error=error, **figures)
        elif request.work == "erase":
            self.erased(request, error=error, **figures)
        elif request.work == "compact":
            self.compacted(request_id=request.id, error=error, **figures)
        elif request.orphans:
            self.orphans_removed(Removed(), request_id=request.id, error=error)
        else:
            self.expired(Removed(), request_id=request.id, error=error)

    def replayed(self, request: ReplayRequest, *, error: TableTopicError | None, **figures: Any) -> None:
        """Report the end of a replay; figures as in ``Replayed``."""
        self._report_end(events.Replayed, error, replay_id=request.id, **{"rows": 0, **figures})

    def letters_dropped(
        self, request: MaintenanceRequest, *, error: TableTopicError | None, **figures: Any
    ) -> None:
        """Report the end of a drop of dead letters; figures as in ``LettersDropped``."""
        about = request.model_dump(include={"where", "note", "by"})
        self._report_end(events.LettersDropped, error, request_id=request.id, **about, **figures)

    def erased(self, request: MaintenanceRequest, *, error: TableTopicError | None, **figures: Any) -> None:
        """Report the end of an erasure; figures as in ``Erased``."""
        self._report_end(events.Erased, error, request_id=request.id, by=request.by, **figures)

    def compacted(self, *, error: TableTopicError | None, **figures: Any) -> None:
        """Report the end of a compaction; figures as in ``Compacted``."""
        self._report_end(events.Compacted, error, **figures)

    def expired(self, removed: Removed, *, error: TableTopicError | None = None, **figures: Any) -> None:
        """Report expired snapshots, and the removal of files that only they needed; as in ``Expired``."""
        self._report_end(events.Expired, error, **vars(removed), **figures)

    def rows_deleted(self, error: TableTopicError | None, **figures: Any) -> None:
        """Report the deletion of old rows; figures as in ``RowsDeleted``."""
        self._report_end(events.RowsDeleted, error, **figures)

    def orphans_removed(
        self, removed: Removed, *, request_id: str | None, error: TableTopicError | None
    ) -> None:
        """Report the removal of orphan files."""
        self._report_end(events.OrphansRemoved, error, request_id=request_id, **vars(removed))

    def _report_end(self, kind: _Kind, error: TableTopicError | None, **fields: Any) -> None:
        reason = None if error is None else self._report.reason(error)
        event = kind(**self._report.stamp(), error=reason, **fields)
        request_id = events.request_of(event)
        if request_id is not None and not getattr(event, "dead_letters", False):
            with self._lock:
                if (entry := self._open.get(request_id)) is None:
                    return
                if events.is_outcome(event, entry[0]):
                    del self._open[request_id]
        self._report.write(event)
