"""Whether a running topic is late, and why: one answer for all faces."""

from __future__ import annotations

from enum import StrEnum

from tabletopic_kernel.model.commit_cycle import State

# The states that alternate with every commit.
AT_WORK = frozenset({State.RUNNING, State.STAGED, State.COMMITTING})
# A table is one interval behind by design, plus a little while a batch is staged and committed.
_INTERVALS = 3
# Hosts report progress every two seconds; shorter intervals cannot be judged.
_LEAST_MS = 3_000


class Delay(StrEnum):
    """Why a working topic is late."""

    WAITING_FOR_TURN = "waiting_for_turn"  # its batch waits for those of other topics
    BEHIND = "behind"  # it has more records than were read so far
    OPEN_TRANSACTION = "open_transaction"  # nobody ends a transaction: no reader gets the records behind it

    @property
    def reason(self) -> str:
        """The meaning and the remedy, in a sentence that is the same for all topics."""
        return _REASONS[self]


_REASONS = {
    Delay.WAITING_FOR_TURN: "waits for its turn: the host is busy with batches of other topics; another "
    "host, more cores or longer commit intervals help",
    Delay.BEHIND: f"more than {_INTERVALS} commit intervals behind: still catching up",
    Delay.OPEN_TRANSACTION: "has records behind a transaction that nobody ends: no reader gets them",
}


def delay_of(
    state: str,
    lag_seconds: float | None,
    commit_interval_ms: int,
    turn_wait_ms: int | None,
    *,
    has_open_transaction: bool = False,
) -> Delay | None:
    """Why a topic is late; None if it is not, or if its ``state`` says more.

    ``turn_wait_ms``: how long its batch has waited for a turn; None if it does not wait.

    >>> delay_of("running", 29.0, 10_000, None), delay_of("running", 31.0, 10_000, None).value
    (None, 'behind')
    >>> delay_of("running", 31.0, 10_000, 200).value, delay_of("waiting", 31.0, 10_000, None)
    ('waiting_for_turn', None)
    """
    if state not in AT_WORK:
        return None
    if has_open_transaction:
        return Delay.OPEN_TRANSACTION
    limit_ms = max(_LEAST_MS, _INTERVALS * commit_interval_ms)
    waits = turn_wait_ms is not None
    if turn_wait_ms is not None and turn_wait_ms > limit_ms:
        return Delay.WAITING_FOR_TURN
    if lag_seconds is None or lag_seconds * 1000 <= limit_ms:
        return None
    return Delay.WAITING_FOR_TURN if waits else Delay.BEHIND
