"""Reports of a topic's replays and maintenance: each request of a user gets one outcome."""

from __future__ import annotations

import threading
from typing import Any, Final

from tabletopic_kernel.host.ownership.ownership import INTERRUPTED
from tabletopic_kernel.host.report import Reporter
from tabletopic_kernel.model.errors import StartOverError, TableTopicError
from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.settings.desired import ReplayRequest, Request

_Kind = type[
    events.Replayed
    | events.LettersDropped
    | events.Compacted
    | events.Expired
    | events.OrphansRemoved
    | events.RowsDeleted
    | events.Erased
]
# The event of a request's outcome by its work, and what it repeats of the request.
_OF_WORK: Final[dict[str, tuple[_Kind, set[str]]]] = {
    "compact": (events.Compacted, set()),
    "expire": (events.Expired, set()),
    "drop_letters": (events.LettersDropped, {"where", "note", "by"}),
    "erase": (events.Erased, {"by"}),
}


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
            self.ended(request, StartOverError(INTERRUPTED), **figures)

    def ended(self, request: Request, error: TableTopicError | None, **figures: Any) -> None:
        """Report the outcome of a request; figures as in its event."""
        if isinstance(request, ReplayRequest):
            self.report(events.Replayed, error, replay_id=request.id, **{"rows": 0, **figures})
            return
        kind, repeated = _OF_WORK[request.work]
        if request.work == "expire" and request.orphans:
            kind = events.OrphansRemoved
        about = request.model_dump(include=repeated)
        self.report(kind, error, request_id=request.id, **about, **figures)

    def report(self, kind: _Kind, error: TableTopicError | None, **fields: Any) -> None:
        """Send the event of a work that ended, unless its request has an outcome already."""
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
