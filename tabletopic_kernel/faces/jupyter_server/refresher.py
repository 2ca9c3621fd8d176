"""Refreshes a value in a thread while clients poll it, so that polling is cheap."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
_LOG = logging.getLogger(__name__)
# Pause as a multiple of a poll's duration: with 100 topics and no host, a poll reads 100 tables.
_REST_FACTOR = 3.0
_LONGEST_REST_S = 5.0


class Refresher(Generic[T]):
    """Caches the result of ``look``, which gets the last one; a thread refreshes it while clients poll.

    If ``look`` raises, the last value stays. Refreshing stops when no client has polled for ``idle_s``.
    """

    def __init__(self, look: Callable[[T | None], T], every_s: float, idle_s: float = 10.0) -> None:
        self._look = look
        self._every_s = every_s
        self._idle_s = idle_s
        self._changed = threading.Condition()  # guards the following fields
        self._value: T | None = None
        # Start and end of the last refresh; times are monotonic, in seconds.
        self._began = self._ended = float("-inf")
        self._polled_at = float("-inf")
        self._wanted_since = float("-inf")
        self._waiting = 0
        self._closed = False
        self._thread: threading.Thread | None = None

    def kept(self) -> T | None:
        """The cached result, if it is fresh enough; never blocks. Counts as a poll."""
        with self._changed:
            now = time.monotonic()
            # While clients poll, a value that slow servers delay is still the newest available.
            fresh = now - max(self._polled_at, self._ended) < self._idle_s
            self._note_poll()
            return self._value if fresh else None

    def wait(self, limit_s: float) -> T | None:
        """The result of a refresh that starts after this call; None if that takes longer."""
        called_at = time.monotonic()
        with self._changed:
            self._wanted_since = max(self._wanted_since, called_at)
            self._waiting += 1  # a refresh may take longer than idle_s
            self._note_poll()
            self._changed.wait_for(lambda: self._began >= called_at or self._closed, limit_s)
            self._waiting -= 1
            return self._value if self._began >= called_at else None

    def hurry(self) -> None:
        """Refresh as soon as possible after a change, if it is polled at all."""
        with self._changed:
            self._wanted_since = time.monotonic()
            self._changed.notify_all()

    def close(self) -> None:
        """End the thread, after the refresh in progress."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _note_poll(self) -> None:
        self._polled_at = time.monotonic()
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._run, name="overview", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _run(self) -> None:
        while self._rest():
            began, value = time.monotonic(), self._value
            try:
                value = self._look(value)
            except Exception:  # without this thread the value would never change again
                _LOG.exception("overview")
            with self._changed:
                self._value, self._began, self._ended = value, began, time.monotonic()
                self._changed.notify_all()

    def _rest(self) -> bool:
        """Sleep until a refresh is due; False when closed."""

        def due_in() -> float | None:
            now = time.monotonic()
            if now - self._polled_at > self._idle_s and not self._waiting:
                return None
            if self._wanted_since > self._began:
                return 0.0
            rest = min(_REST_FACTOR * (self._ended - self._began), _LONGEST_REST_S)
            return max(0.0, self._ended + max(self._every_s, rest) - now)

        with self._changed:
            while not self._closed and (wait := due_in()) != 0:
                self._changed.wait(wait)
            return not self._closed
