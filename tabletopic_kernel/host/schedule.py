"""When a coordinator acts on its own: commits and retries."""

from __future__ import annotations

from collections.abc import Callable

from tabletopic_kernel.clients.login_gate import REFUSED_S
from tabletopic_kernel.model.commit_cycle import Event, State, backoff_ms, commit_is_due
from tabletopic_kernel.model.ledger import Offsets
from tabletopic_kernel.model.settings.sections import TopicSettings

# After losing the table to another host: longer than a consumer group takes to notice a dead member,
# so that two hosts do not take it from each other in turns.
_LOST_WAIT_MS = 10_000
_REFUSED_WAIT_MS = round(REFUSED_S * 1000)
_IDLE_WAIT_S = 1.0
# A worker that has run so long without a new trouble is well, also if it had nothing to commit.
_CALM_MS = 30_000
# A commit that nobody confirms is tried so often on the way out: a stop must come to an end.
_LAST_TRIES = 3
# A new owner that has nothing to commit sweeps after so long.
_SWEEP_AFTER_MS = 4_000


class Schedule:
    """Used only by the coordinator's thread. Times are ms of ``clock``.

    ``asked`` is the offsets below which everything is to be committed as soon as it is staged; None: nobody
    asked.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._attempt = 0
        self._absent = 0  # commits in a row that the catalog did not confirm, and that are not in the table
        self._retry_at_ms = 0
        self._last_commit_ms = clock()
        self._sweep_at_ms: int | None = None
        self.asked: Offsets | None = None

    def due(self, state: State, staged_bytes: int, settings: TopicSettings) -> Event | None:
        """The event that is due by time in this state, with so much staged."""
        now = self._clock()
        if now < self._retry_at_ms:
            return None
        if state in (State.WAITING, State.SETTLING):
            return Event.RETRY_DUE
        if state is not State.STAGED:
            return None
        due = self.asked is not None or commit_is_due(
            now_ms=now,
            last_commit_ms=self._last_commit_ms,
            interval_ms=settings.commit_interval_ms,
            staged_bytes=staged_bytes,
            commit_bytes=settings.commit_bytes,
        )
        return Event.COMMIT_DUE if due else None

    def wait_s(self, state: State, settings: TopicSettings) -> float:
        """How long to wait for an event: until one is due by time, or a second."""
        if state in (State.WAITING, State.SETTLING):
            at_ms = self._retry_at_ms
        elif state is State.STAGED:
            at_ms = max(self._retry_at_ms, self._last_commit_ms + settings.commit_interval_ms)
        else:
            return _IDLE_WAIT_S
        return min(_IDLE_WAIT_S, max(0.0, (at_ms - self._clock()) / 1000))

    def ask_commit(self, ends: Offsets | None = None) -> None:
        """A commit is due whenever something is staged, until the table has everything below ``ends``."""
        self.asked = {**(self.asked or {}), **(ends or {})}

    def owned(self, *, sweeps: bool) -> None:
        """An ownership begins; whether former ones may have left files."""
        self._sweep_at_ms = self._clock() + _SWEEP_AFTER_MS if sweeps else None

    def is_time_to_sweep(self, state: State) -> bool:
        """Whether to remove former owners' leftovers now."""
        at_work = state in (State.RUNNING, State.STAGED)
        return at_work and self._sweep_at_ms is not None and self._clock() >= self._sweep_at_ms

    def swept(self) -> None:
        """The sweep is under way."""
        self._sweep_at_ms = None

    def started(self) -> None:
        """A worker begins now, and with it the first interval."""
        self._last_commit_ms = self._clock()

    def committed(self, began_ms: int, next_offsets: Offsets) -> None:
        """A commit that began then succeeded, with this ledger."""
        self._last_commit_ms, self._attempt, self._absent = began_ms, 0, 0
        if self._sweep_at_ms is not None:
            self._sweep_at_ms = self._clock()
        if self.asked is not None and all(next_offsets.get(p, 0) >= end for p, end in self.asked.items()):
            self.asked = None

    def back_off(self) -> None:
        """Try again later, and later each time (I9)."""
        self._retry_at_ms = max(self._retry_at_ms, self._clock() + backoff_ms(self._attempt))
        self._attempt += 1

    def absent(self) -> None:
        """The catalog responds again: a commit is not in the table.

        What counts from here is how often that happened, and no longer for how long the catalog was away.
        """
        self._attempt = self._absent
        self._absent += 1

    @property
    def is_in_doubt(self) -> bool:
        """Whether something failed, and neither a commit nor a quiet period has shown recovery."""
        return self._attempt > 0 and self._clock() - self._last_commit_ms < _CALM_MS

    @property
    def has_given_up(self) -> bool:
        """When closing: whether commits have failed so often that the next owner may settle them."""
        return self._attempt >= _LAST_TRIES

    def lost(self) -> None:
        """Another host owns the table."""
        self._retry_at_ms = self._clock() + _LOST_WAIT_MS

    def refused(self) -> None:
        """A login was refused: retrying often locks the account."""
        self._retry_at_ms = self._clock() + _REFUSED_WAIT_MS

    def resume(self) -> None:
        """The user says that the cause is fixed: retry at once."""
        self._attempt = self._retry_at_ms = 0
