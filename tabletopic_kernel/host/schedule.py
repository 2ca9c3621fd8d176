"""When a coordinator acts on its own: commits and retries."""

from __future__ import annotations

from collections.abc import Callable

from tabletopic_kernel.clients.login_gate import REFUSED_S
from tabletopic_kernel.model.commit_cycle import Event, State, backoff_ms
from tabletopic_kernel.model.ledger import Offsets
from tabletopic_kernel.model.settings.sections import TopicSettings

# A worker runs and no commit is under way: the table may be swept, compacted or replayed into.
BETWEEN_COMMITS = frozenset({State.RUNNING, State.STAGED})
# After losing the table to another host: longer than a consumer group takes to notice a dead member, or two
# hosts would keep taking it from each other.
LOST_WAIT_MS = 10_000
# After a refused login: frequent retries lock the account.
REFUSED_WAIT_MS = round(REFUSED_S * 1000)
_IDLE_WAIT_S = 1.0
# A worker that has run this long without a new error is healthy, even if it had nothing to commit.
_CALM_MS = 30_000
_EARLY_SHARE = 2  # a commit may be early by this part of its interval
# After this many consecutive conflicts, commits back off.
_AT_ONCE = 10
# An upsert commit takes longer the larger the table is. With at most a tenth of a core, other topics go on.
_REST_FACTOR = 10
# While stopping, an unconfirmed commit is tried at most this often: a stop must end.
_LAST_TRIES = 3
# A new owner with nothing to commit sweeps after this time.
_SWEEP_AFTER_MS = 4_000


class Retries:
    """When what failed is tried again: ``at_ms``, after ``attempts`` without a success (I9)."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self.attempts = self.at_ms = 0
        self._absent = 0  # consecutive commits that the catalog did not confirm and the table does not have
        self._overtaken = 0  # consecutive commits that the catalog refused

    def back_off(self) -> None:
        """Retry later, with a longer wait each time."""
        self.at_ms = max(self.at_ms, self._clock() + backoff_ms(self.attempts))
        self.attempts += 1

    def pause(self, wait_ms: int) -> None:
        """Retry after this time, whatever was planned."""
        self.at_ms = self._clock() + wait_ms

    def resume(self) -> None:
        """Retry at once: the user says that the cause is fixed."""
        self.attempts = self.at_ms = 0

    def succeeded(self) -> None:
        self.attempts = self._absent = self._overtaken = 0

    def overtaken(self) -> bool:
        """Count a conflict; True for every tenth in a row."""
        self._overtaken += 1
        return self._overtaken % _AT_ONCE == 0

    def absent(self) -> None:
        """Note that the catalog responds again, and a commit is not in the table.

        From here on the wait grows with the number of such commits, not with the length of the outage.
        """
        self.attempts = self._absent
        self._absent += 1

    @property
    def has_given_up(self) -> bool:
        """When closing: whether commits have failed so often that the next owner may settle them."""
        return self.attempts >= _LAST_TRIES


class Schedule:
    """A coordinator's timers. Used only by its thread. Times are ms of ``clock``.

    ``asked``: commit everything below these offsets as soon as it is staged; None: no request.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self.retries = Retries(clock)
        self._last_commit_ms = self._staged_ms = clock()
        self._sweep_at_ms: int | None = None
        self.rest_ms = 0  # the least time between two commits of a table that is kept by key
        self.asked: Offsets | None = None

    def due(self, state: State, staged_bytes: int, settings: TopicSettings) -> Event | None:
        """The event that is due by time in this state, with ``staged_bytes`` staged."""
        now = self._clock()
        if now < self.retries.at_ms:
            return None
        if state in (State.WAITING, State.SETTLING):
            return Event.RETRY_DUE
        if state is not State.STAGED:
            return None
        since_ms = now - self._last_commit_ms
        enough = since_ms >= settings.commit_interval_ms or staged_bytes >= settings.commit_bytes
        due = self.asked is not None or (since_ms >= self.rest_ms and enough)
        return Event.COMMIT_DUE if due else None

    def wait_s(self, state: State, settings: TopicSettings) -> float:
        """How long to wait for an event: until the next is due by time, at most a second."""
        if state in (State.WAITING, State.SETTLING):
            at_ms = self.retries.at_ms
        elif state is State.STAGED:
            at_ms = max(
                self.retries.at_ms, self._last_commit_ms + max(settings.commit_interval_ms, self.rest_ms)
            )
        else:
            return _IDLE_WAIT_S
        return min(_IDLE_WAIT_S, max(0.0, (at_ms - self._clock()) / 1000))

    def ask_commit(self, ends: Offsets | None = None) -> None:
        """Make a commit due whenever something is staged, until the table has everything below ``ends``."""
        self.asked = {**(self.asked or {}), **(ends or {})}

    def owned(self, *, sweeps: bool) -> None:
        """Note that an ownership begins; ``sweeps``: earlier ones may have left files."""
        self._sweep_at_ms = self._clock() + _SWEEP_AFTER_MS if sweeps else None

    def is_time_to_sweep(self, state: State) -> bool:
        if self._sweep_at_ms is None or state not in BETWEEN_COMMITS:
            return False
        return self._clock() >= self._sweep_at_ms

    def swept(self) -> None:
        """Note that the sweep is under way."""
        self._sweep_at_ms = None

    def started(self) -> None:
        """Note that a worker begins now, and with it the first interval."""
        self._last_commit_ms = self._clock()

    def staged(self) -> None:
        self._staged_ms = self._clock()

    def committed(
        self, began_ms: int, next_offsets: Offsets, settings: TopicSettings, cpu_ms: int = 0
    ) -> None:
        """Note that the commit begun at ``began_ms`` succeeded, with this ledger, after so much CPU time.

        The next one may be early, by half the interval: batches have the same interval, and after a few
        commits each comes right after its batch, which no longer waits for it.
        """
        early_ms = settings.commit_interval_ms // _EARLY_SHARE
        self._last_commit_ms = min(began_ms, max(self._staged_ms, began_ms - early_ms))
        self.rest_ms = _REST_FACTOR * cpu_ms if settings.mode == "upsert" else 0
        self.retries.succeeded()
        if self._sweep_at_ms is not None:
            self._sweep_at_ms = self._clock()
        if self.asked is not None and all(next_offsets.get(p, 0) >= end for p, end in self.asked.items()):
            self.asked = None

    def stretched(self, settings: TopicSettings) -> str | None:
        """Why commits come later than the interval says; None if they do not."""
        if self.rest_ms <= settings.commit_interval_ms:
            return None
        rest_s, cpu_s = self.rest_ms / 1000, self.rest_ms / 1000 / _REST_FACTOR
        return (
            f"commits every {rest_s:.1f} s instead of {settings.commit_interval_ms / 1000:.1f} s: finding "
            f"the rows that the last one replaced took {cpu_s:.1f} s of CPU, which may be a tenth of a core"
        )

    @property
    def is_in_doubt(self) -> bool:
        """Whether something failed, and neither a commit nor a quiet period has shown recovery."""
        return self.retries.attempts > 0 and self._clock() - self._last_commit_ms < _CALM_MS
