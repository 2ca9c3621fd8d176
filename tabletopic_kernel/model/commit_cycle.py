"""The life of a table topic as a table: (state, event) → (state, actions).

A pair that is not in the table is an error of ours. Time arrives inside events and nothing here does
I/O: ``host/coordinator.py`` runs the actions and feeds their outcomes back as events.
The diagram of docs/reference/protocol.md is drawn from ``TRANSITIONS``.
"""

from __future__ import annotations

from enum import StrEnum

from tabletopic_kernel.model.errors import (
    ActionNeededError,
    HeadMovedError,
    InternalError,
    OutcomeUnknownError,
    RetryableError,
    StartOverError,
    UsageError,
)


class State(StrEnum):
    """Where a table topic stands."""

    STOPPED = "stopped"  # nothing runs here
    STARTING = "starting"  # finding or making the table, raising the epoch (I5)
    RUNNING = "running"  # the worker streams, nothing is staged
    STAGED = "staged"  # files wait for the next commit
    COMMITTING = "committing"  # one Iceberg transaction is under way
    SETTLING = "settling"  # its outcome is unknown: look for the commit id (I4)
    DRAINING = "draining"  # the worker was told to stop
    DROPPING = "dropping"  # as DRAINING, but nothing that is staged can be committed any more
    CLOSING = "closing"  # the worker is gone, the rest is being committed
    CLOSING_SETTLING = "closing_settling"  # as SETTLING, with the worker gone
    CLOSED = "closed"  # nothing staged, nothing running; the goal says what is next
    PAUSED = "paused"  # as a person wished
    WAITING = "waiting"  # a dependency is down: try again after the backoff (I9)
    FAILED = "failed"  # a person must act


class Event(StrEnum):
    """What happens to a table topic."""

    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    OWNED = "owned"  # the table carries our epoch now
    STAGE = "stage"  # the worker staged a batch
    COMMIT_DUE = "commit_due"  # interval over, enough bytes, or asked for
    COMMITTED = "committed"  # the snapshot is there, or there was nothing to commit
    HEAD_MOVED = "head_moved"  # another writer was first; the ledger is still ours (I3)
    ANSWER_LOST = "answer_lost"  # the commit may or may not have gone through
    OWNERSHIP_LOST = "ownership_lost"  # the table carries a higher epoch (I5)
    DEPENDENCY_DOWN = "dependency_down"
    RETRY_DUE = "retry_due"  # the backoff is over
    REFUSED = "refused"  # only a person can decide: bad record, gap, foreign table…
    WORKER_DIED = "worker_died"
    WORKER_STOPPED = "worker_stopped"
    CLOSED_TO_STOP = "closed_to_stop"
    CLOSED_TO_PAUSE = "closed_to_pause"
    CLOSED_TO_RETRY = "closed_to_retry"
    CLOSED_TO_FAIL = "closed_to_fail"


class Action(StrEnum):
    """What the coordinator does next."""

    TAKE_OWNERSHIP = "take_ownership"
    START_WORKER = "start_worker"
    STOP_WORKER = "stop_worker"
    COMMIT = "commit"
    SETTLE = "settle"
    DISCARD = "discard"  # delete staged files that can never be committed (I10)
    ARM_RETRY = "arm_retry"
    FINISH = "finish"  # turn the goal into one of the CLOSED_TO_… events


S, E, A = State, Event, Action

TRANSITIONS: dict[tuple[State, Event], tuple[State, tuple[Action, ...]]] = {
    (S.STOPPED, E.START): (S.STARTING, (A.TAKE_OWNERSHIP,)),
    (S.STOPPED, E.STOP): (S.STOPPED, ()),
    (S.STOPPED, E.PAUSE): (S.PAUSED, ()),
    (S.STOPPED, E.RESUME): (S.STARTING, (A.TAKE_OWNERSHIP,)),
    # Starting runs to its outcome within one step, so wishes cannot arrive in between.
    (S.STARTING, E.OWNED): (S.RUNNING, (A.START_WORKER,)),
    (S.STARTING, E.DEPENDENCY_DOWN): (S.WAITING, (A.ARM_RETRY,)),
    (S.STARTING, E.REFUSED): (S.FAILED, ()),
    (S.STARTING, E.OWNERSHIP_LOST): (S.WAITING, (A.ARM_RETRY,)),
    (S.RUNNING, E.STAGE): (S.STAGED, ()),
    (S.RUNNING, E.COMMIT_DUE): (S.RUNNING, ()),
    (S.RUNNING, E.START): (S.RUNNING, ()),
    (S.RUNNING, E.RESUME): (S.RUNNING, ()),
    (S.RUNNING, E.PAUSE): (S.DRAINING, (A.STOP_WORKER,)),
    (S.RUNNING, E.STOP): (S.DRAINING, (A.STOP_WORKER,)),
    (S.RUNNING, E.REFUSED): (S.DRAINING, (A.STOP_WORKER,)),
    (S.RUNNING, E.WORKER_DIED): (S.DRAINING, (A.STOP_WORKER,)),
    (S.STAGED, E.STAGE): (S.STAGED, ()),
    (S.STAGED, E.COMMIT_DUE): (S.COMMITTING, (A.COMMIT,)),
    (S.STAGED, E.START): (S.STAGED, ()),
    (S.STAGED, E.RESUME): (S.STAGED, ()),
    (S.STAGED, E.PAUSE): (S.DRAINING, (A.STOP_WORKER,)),
    (S.STAGED, E.STOP): (S.DRAINING, (A.STOP_WORKER,)),
    # What was staged before the trouble is still good: it is committed on the way out.
    (S.STAGED, E.REFUSED): (S.DRAINING, (A.STOP_WORKER,)),
    (S.STAGED, E.WORKER_DIED): (S.DRAINING, (A.STOP_WORKER,)),
    # A commit runs to its outcome within one step; what the worker stages meanwhile waits in the queue.
    (S.COMMITTING, E.COMMITTED): (S.RUNNING, ()),
    (S.COMMITTING, E.HEAD_MOVED): (S.COMMITTING, (A.COMMIT,)),
    (S.COMMITTING, E.ANSWER_LOST): (S.SETTLING, (A.SETTLE,)),
    (S.COMMITTING, E.DEPENDENCY_DOWN): (S.STAGED, (A.ARM_RETRY,)),
    (S.COMMITTING, E.OWNERSHIP_LOST): (S.DROPPING, (A.DISCARD, A.STOP_WORKER)),
    (S.COMMITTING, E.REFUSED): (S.DROPPING, (A.DISCARD, A.STOP_WORKER)),
    (S.SETTLING, E.COMMITTED): (S.COMMITTING, (A.COMMIT,)),  # what was staged meanwhile
    # It is not there: made again after a while, for what takes no commits may go on taking none.
    (S.SETTLING, E.HEAD_MOVED): (S.STAGED, (A.ARM_RETRY,)),
    (S.SETTLING, E.DEPENDENCY_DOWN): (S.SETTLING, (A.ARM_RETRY,)),
    (S.SETTLING, E.RETRY_DUE): (S.SETTLING, (A.SETTLE,)),
    # Files of an unknown commit may be in the table: they are not discarded while that is open.
    (S.SETTLING, E.REFUSED): (S.CLOSING_SETTLING, (A.STOP_WORKER,)),
    (S.SETTLING, E.STAGE): (S.SETTLING, ()),
    (S.SETTLING, E.COMMIT_DUE): (S.SETTLING, ()),
    (S.SETTLING, E.START): (S.SETTLING, ()),
    (S.SETTLING, E.RESUME): (S.SETTLING, ()),
    (S.SETTLING, E.PAUSE): (S.CLOSING_SETTLING, (A.STOP_WORKER,)),
    (S.SETTLING, E.STOP): (S.CLOSING_SETTLING, (A.STOP_WORKER,)),
    (S.SETTLING, E.WORKER_DIED): (S.CLOSING_SETTLING, (A.STOP_WORKER,)),
    (S.DRAINING, E.STAGE): (S.DRAINING, ()),
    (S.DRAINING, E.COMMIT_DUE): (S.DRAINING, ()),
    (S.DRAINING, E.WORKER_STOPPED): (S.CLOSING, (A.COMMIT,)),
    # The next owner, be it this very coordinator, must not meet a batch of this worker (I1).
    (S.DROPPING, E.STAGE): (S.DROPPING, (A.DISCARD,)),
    (S.DROPPING, E.WORKER_STOPPED): (S.CLOSED, (A.FINISH,)),
    (S.CLOSING, E.COMMITTED): (S.CLOSED, (A.FINISH,)),
    (S.CLOSING, E.HEAD_MOVED): (S.CLOSING, (A.COMMIT,)),
    (S.CLOSING, E.ANSWER_LOST): (S.CLOSING_SETTLING, (A.SETTLE,)),
    # The catalog is down: what is staged will be read again from the topic (I6), so it may go.
    (S.CLOSING, E.DEPENDENCY_DOWN): (S.CLOSED, (A.DISCARD, A.FINISH)),
    (S.CLOSING, E.OWNERSHIP_LOST): (S.CLOSED, (A.DISCARD, A.FINISH)),
    (S.CLOSING, E.REFUSED): (S.CLOSED, (A.DISCARD, A.FINISH)),
    (S.CLOSING_SETTLING, E.COMMITTED): (S.CLOSING, (A.COMMIT,)),
    (S.CLOSING_SETTLING, E.HEAD_MOVED): (S.CLOSING, (A.COMMIT,)),
    # Unknown and unreachable: the files may be in the table, so they are neither kept nor deleted here;
    # the next start settles it from the table and sweeps what no snapshot refers to.
    (S.CLOSING_SETTLING, E.DEPENDENCY_DOWN): (S.CLOSED, (A.FINISH,)),
    (S.CLOSING_SETTLING, E.OWNERSHIP_LOST): (S.CLOSED, (A.DISCARD, A.FINISH)),
    (S.CLOSING_SETTLING, E.REFUSED): (S.CLOSED, (A.FINISH,)),
    (S.CLOSING_SETTLING, E.STAGE): (S.CLOSING_SETTLING, ()),
    (S.CLOSING_SETTLING, E.WORKER_STOPPED): (S.CLOSING_SETTLING, (A.SETTLE,)),
    (S.CLOSED, E.CLOSED_TO_STOP): (S.STOPPED, ()),
    (S.CLOSED, E.CLOSED_TO_PAUSE): (S.PAUSED, ()),
    (S.CLOSED, E.CLOSED_TO_RETRY): (S.WAITING, (A.ARM_RETRY,)),
    (S.CLOSED, E.CLOSED_TO_FAIL): (S.FAILED, ()),
    (S.PAUSED, E.START): (S.STARTING, (A.TAKE_OWNERSHIP,)),
    (S.PAUSED, E.RESUME): (S.STARTING, (A.TAKE_OWNERSHIP,)),
    (S.PAUSED, E.PAUSE): (S.PAUSED, ()),
    (S.PAUSED, E.STOP): (S.STOPPED, ()),
    (S.WAITING, E.RETRY_DUE): (S.STARTING, (A.TAKE_OWNERSHIP,)),
    (S.WAITING, E.START): (S.WAITING, ()),
    (S.WAITING, E.RESUME): (S.STARTING, (A.TAKE_OWNERSHIP,)),
    (S.WAITING, E.PAUSE): (S.PAUSED, ()),
    (S.WAITING, E.STOP): (S.STOPPED, ()),
    # A person looked and says: go on.
    (S.FAILED, E.RESUME): (S.STARTING, (A.TAKE_OWNERSHIP,)),
    (S.FAILED, E.START): (S.FAILED, ()),
    (S.FAILED, E.PAUSE): (S.PAUSED, ()),
    (S.FAILED, E.STOP): (S.STOPPED, ()),
}

# Wishes and troubles that come while the topic is on its way out change the goal, not the way.
for _state in (S.DRAINING, S.DROPPING, S.CLOSING_SETTLING):
    for _event in (E.START, E.RESUME, E.PAUSE, E.STOP, E.REFUSED, E.WORKER_DIED):
        TRANSITIONS.setdefault((_state, _event), (_state, ()))

# Somebody may ask for a commit where there is nothing to commit.
for _state in (S.STOPPED, S.DROPPING, S.CLOSING_SETTLING, S.PAUSED, S.WAITING, S.FAILED):
    TRANSITIONS[_state, E.COMMIT_DUE] = (_state, ())

# What a worker says before it is stopped can close a topic whose commit is being settled before it is gone.
for _state in (S.PAUSED, S.WAITING, S.FAILED):
    TRANSITIONS[_state, E.WORKER_STOPPED] = (_state, ())
    TRANSITIONS[_state, E.STAGE] = (_state, (A.DISCARD,))


class Goal(StrEnum):
    """What follows once a topic is closed; a later one outweighs an earlier one as listed."""

    RETRY = "retry"
    PAUSE = "pause"
    FAIL = "fail"
    STOP = "stop"


_GOAL_OF = {
    E.WORKER_DIED: Goal.RETRY,
    E.OWNERSHIP_LOST: Goal.RETRY,
    E.PAUSE: Goal.PAUSE,
    E.REFUSED: Goal.FAIL,
    E.STOP: Goal.STOP,
}
_WEIGHT = list(Goal)
_EVENT_OF_ERROR: tuple[tuple[tuple[type[Exception], ...], Event], ...] = (
    ((HeadMovedError,), E.HEAD_MOVED),
    ((OutcomeUnknownError,), E.ANSWER_LOST),
    ((StartOverError,), E.OWNERSHIP_LOST),
    ((ActionNeededError, UsageError), E.REFUSED),
    ((RetryableError,), E.DEPENDENCY_DOWN),
)
CLOSED_EVENT = {
    Goal.RETRY: E.CLOSED_TO_RETRY,
    Goal.PAUSE: E.CLOSED_TO_PAUSE,
    Goal.FAIL: E.CLOSED_TO_FAIL,
    Goal.STOP: E.CLOSED_TO_STOP,
}


def next_goal(goal: Goal, event: Event) -> Goal:
    """The goal after ``event``: a person's resume takes everything back, else the heavier one stays."""
    if event in (E.RESUME, E.START):
        return Goal.RETRY
    new = _GOAL_OF.get(event)
    return goal if new is None else max(goal, new, key=_WEIGHT.index)


def event_of(error: Exception) -> Event:
    """The event that an error of an action stands for; others than those of ``errors`` are raised again."""
    for kinds, event in _EVENT_OF_ERROR:
        if isinstance(error, kinds):
            return event
    raise error


def transition(state: State, event: Event) -> tuple[State, tuple[Action, ...]]:
    """The next state and what to do.

    Raises:
        InternalError: the pair is not in the table.
    """
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise InternalError(f"event {event!r} has no meaning in state {state!r}") from None


def commit_is_due(
    *, now_ms: int, last_commit_ms: int, interval_ms: int, staged_bytes: int, commit_bytes: int
) -> bool:
    """Whether staged files should be committed now: interval over, or enough bytes."""
    return now_ms - last_commit_ms >= interval_ms or staged_bytes >= commit_bytes


def backoff_ms(attempt: int) -> int:
    """Wait before try ``attempt`` (0, 1, …): 0.5 s doubling to 30 s, so an outage costs little."""
    return min(30_000, 500 << min(attempt, 6))
