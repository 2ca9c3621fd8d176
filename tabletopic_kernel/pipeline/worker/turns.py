"""Which topic's query may start next: those of one host take turns, in the order in which they came."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Hashable, Iterator


class Turns:
    """The queue of one host. Thread-safe; ``_lock`` is never held while waiting. ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._at_once = 1
        self._holding: set[Hashable] = set()
        self._waiting: dict[Hashable, tuple[float, threading.Event]] = {}  # since when, the first first

    @contextlib.contextmanager
    def taken(self, who: Hashable, at_once: int, given_up: Callable[[], bool]) -> Iterator[bool]:
        """Wait for a turn and hold it; false if it was given up.

        ``at_once``: how many turns may be held. Call ``give_up`` after ``given_up`` becomes true.
        """
        called = threading.Event()
        with self._lock:
            self._at_once = at_once
            if given_up():  # under the lock: after this, `give_up` finds it
                called.set()
            else:
                self._waiting[who] = self.clock(), called
            self._call()
        try:
            called.wait()
            yield who in self._holding
        finally:
            with self._lock:
                self._holding.discard(who)
                self._call()

    def give_up(self, who: Hashable) -> None:
        """Stop waiting for a turn; a turn already held is not affected."""
        with self._lock:
            if who in self._waiting:
                self._waiting.pop(who)[1].set()

    def waits_since(self, who: Hashable) -> float | None:
        """When the current wait began, by ``clock``; None: not waiting."""
        with self._lock:
            return self._waiting[who][0] if who in self._waiting else None

    def _call(self) -> None:
        """Call the longest waiting while there are turns; under the lock."""
        while self._waiting and len(self._holding) < self._at_once:
            who = next(iter(self._waiting))
            self._holding.add(who)
            self._waiting.pop(who)[1].set()
