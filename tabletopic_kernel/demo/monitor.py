"""What the host does, while it does it: the status every second, and every event as it comes."""

from __future__ import annotations

import contextlib
import queue
import threading

from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.progress.events import ControlEvent
from tabletopic_kernel.workbench.status import TopicStatus
from tabletopic_kernel.workbench.workbench import Workbench

_STATUS_EVERY_S = 1.0
_REOPEN_S = 0.2


class Monitor:
    """Asks from threads of its own, with a workbench of its own, for as long as it is open."""

    def __init__(self, workbench: Workbench, topic: str, since_ms: int) -> None:
        self._workbench = workbench
        self._topic = topic
        self._since_ms = since_ms
        self._events: queue.SimpleQueue[ControlEvent] = queue.SimpleQueue()
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=work, name=name, daemon=True)
            for name, work in (("status", self._ask), ("events", self._listen))
        ]
        # Replaced as a whole, by one thread.
        self.status: TopicStatus | None = None

    def __enter__(self) -> Monitor:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def news(self) -> list[ControlEvent]:
        """Events that nobody has fetched yet, oldest first."""
        found = []
        while not self._events.empty():
            found.append(self._events.get())
        return found

    def _ask(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(TableTopicError):  # not on yet, or busy: the next answer will do
                self._note(self._workbench.status(self._topic)[0])
            self._over.wait(_STATUS_EVERY_S)

    def _note(self, status: TopicStatus) -> None:
        # A host that does not own the table yet (epoch 0) knows nothing of its rows.
        if self.status is None or status.epoch >= self.status.epoch:
            self.status = status

    def _listen(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(TableTopicError):
                # Ends at once as long as no host has made the control topic.
                for event in self._workbench.events(self._topic, self._since_ms, self._going):
                    self._since_ms = event.at_ms + 1
                    self._events.put(event)
            self._over.wait(_REOPEN_S)

    def _going(self) -> bool:
        return not self._over.is_set()
