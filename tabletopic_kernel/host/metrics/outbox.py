"""A queue that a thread of its own empties: what puts something into it waits for no receiver."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")
_LOG = logging.getLogger(__name__)
_MOST_WAITING: Final = 1_000  # items; more are counted
CLOSING_S: Final = 5.0


class Outbox(Generic[T]):
    """``send`` gets the items in their order: those that came within ``gather_s`` together. Thread-safe.

    ``left_out`` counts items that a full queue did not take.
    """

    def __init__(self, name: str, send: Callable[[list[T]], None], gather_s: float = 0.0) -> None:
        self._name, self._send, self._gather_s = name, send, gather_s
        self._changed = threading.Condition()  # guards the following fields
        self._waiting: list[T] = []
        self._is_idle, self._is_closing = True, False
        self._thread: threading.Thread | None = None
        self.left_out = 0

    def put(self, item: T) -> None:
        """Send an item soon; returns at once."""
        with self._changed:
            if len(self._waiting) >= _MOST_WAITING:
                self.left_out += 1
                return
            self._waiting.append(item)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def pause(self, seconds: float) -> bool:
        """Wait between two attempts; returns whether it closes, so that there is no other."""
        with self._changed:
            return self._changed.wait_for(lambda: self._is_closing, seconds)

    def close(self, limit_s: float) -> None:
        """Send what waits, for so long at most."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_idle and not self._waiting, limit_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_idle = True
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting or self._is_closing)
                if not self._waiting:
                    return
                self._is_idle = False
                self._changed.wait_for(lambda: self._is_closing, self._gather_s)
                items, self._waiting = self._waiting, []
            try:
                self._send(items)
            except Exception:  # without this thread nothing would be sent again
                _LOG.exception(self._name)
