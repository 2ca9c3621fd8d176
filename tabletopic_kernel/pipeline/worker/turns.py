"""Which topic's query may start next: those of one host take turns, by waiting time."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field


@dataclass(eq=False)
class Place:
    """A place in the queue; ``called`` is set when its turn comes, or it is given up."""

    who: Hashable
    since_s: float
    called: threading.Event = field(default_factory=threading.Event)
    has_turn: bool = False


class Turns:
    """The queue of one host. Thread-safe; ``_lock`` is never held while waiting. ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._at_once = 1
        self._taken = 0
        self._waiting: list[Place] = []

    @contextlib.contextmanager
    def taken(
        self, who: Hashable, since_s: float, at_once: int, given_up: Callable[[], bool]
    ) -> Iterator[bool]:
        """Wait for a turn and hold it; false if it was given up. Arguments as in ``line_up``."""
        place = self.line_up(who, since_s, at_once, given_up)
        try:
            place.called.wait()
            yield place.has_turn
        finally:
            self.leave(place)

    def line_up(
        self, who: Hashable, since_s: float, at_once: int, given_up: Callable[[], bool] = lambda: False
    ) -> Place:
        """A place in the queue, possibly with a turn already; its holder must ``leave``.

        ``since_s``: when it began to wait, by ``clock``. ``at_once``: how many turns may be held, at least
        one. Call ``give_up`` after ``given_up`` becomes true.
        """
        place = Place(who, since_s)
        with self._lock:
            self._at_once = max(1, at_once)
            if given_up():  # under the lock: after this, `give_up` finds the place
                place.called.set()
            else:
                self._waiting.append(place)
                self._call()
        return place

    def leave(self, place: Place) -> None:
        """Give a turn back, or stop waiting for one; once for each place."""
        with self._lock:
            if place.has_turn:
                self._taken -= 1
            elif place in self._waiting:
                self._waiting.remove(place)
            self._call()

    def give_up(self, who: Hashable) -> None:
        """Stop waiting for a turn; a turn already held is not affected."""
        with self._lock:
            gone = [place for place in self._waiting if place.who == who]
            for place in gone:
                self._waiting.remove(place)
                place.called.set()

    def waits_since(self, who: Hashable) -> float | None:
        """When the current wait began, by ``clock``; None: not waiting."""
        with self._lock:
            return min((place.since_s for place in self._waiting if place.who == who), default=None)

    def _call(self) -> None:
        """Call the longest waiting while there are turns; under the lock."""
        while self._waiting and self._taken < self._at_once:
            first = min(self._waiting, key=lambda place: place.since_s)
            self._waiting.remove(first)
            first.has_turn = True
            self._taken += 1
            first.called.set()
