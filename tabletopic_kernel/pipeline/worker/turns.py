"""Which topic's batch may use the cores next: batches of one host take turns, by waiting time.

Spark's FAIR scheduler shares the cores between pools, but breaks ties by pool name; with more batches running
than cores, the topics whose names come last would never be served. So a batch is admitted only when a turn is
free, and each topic waits for at most one turn of every other.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

# While others wait, a turn should take no longer than this; a topic that is far behind then needs more turns.
# Below the minimum, a batch's fixed cost would outweigh its records.
_TURN_S = 5.0
_LEAST_RECORDS = 10_000


def records_for_a_turn(records: int, seconds: float, limit: int, most: int, *, crowded: bool) -> int:
    """The size limit of the next batch, after one of ``records`` took ``seconds`` under ``limit``.

    It stays if a change, which costs another query, would be of little use, and if a small batch took long:
    its records are not the reason.

    >>> records_for_a_turn(1_000_000, 50.0, 1_000_000, 1_000_000, crowded=True)
    100000
    >>> records_for_a_turn(1_000_000, 7.0, 1_000_000, 1_000_000, crowded=True)
    1000000
    >>> records_for_a_turn(400, 9.0, 1_000_000, 1_000_000, crowded=True)
    1000000
    >>> records_for_a_turn(100_000, 5.0, 100_000, 1_000_000, crowded=False)
    1000000
    >>> records_for_a_turn(400, 0.2, 100_000, 1_000_000, crowded=False)
    100000
    """
    if not crowded:
        return most if records >= limit // 2 else limit  # below that, there is nothing to catch up
    in_time = max(_LEAST_RECORDS, int(records * _TURN_S / max(seconds, 0.001)))
    return min(in_time, most) if in_time < min(limit // 2, records) else limit


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

        ``since_s``: when the batch began to wait, by ``clock``: one that comes back is not last. ``at_once``:
        how many turns may be held, at least one. Call ``give_up`` after ``given_up`` becomes true.
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

    @property
    def is_crowded(self) -> bool:
        """Whether anyone waits."""
        with self._lock:
            return bool(self._waiting)

    def _call(self) -> None:
        """Call the longest waiting while there are turns; under the lock."""
        while self._waiting and self._taken < self._at_once:
            first = min(self._waiting, key=lambda place: place.since_s)
            self._waiting.remove(first)
            first.has_turn = True
            self._taken += 1
            first.called.set()
