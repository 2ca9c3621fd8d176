"""The protocol of a table topic: what each event means in each state.

``PROTOCOL`` is complete: a missing pair is a bug of ours. Time arrives as an event, and there is no I/O here:
``host/coordinator.py`` runs the actions and returns their outcomes as events. The diagram in
docs/explanation/protocol.md is generated from it.

Why this is safe:

- An event has the same meaning in every state; only the consequences differ.
- A commit with an unknown outcome has its own states, settling and closing_settling. They end when the
  table's history has the answer (I4), or with the next owner; files of such a commit are not discarded there.
- TAKE_OWNERSHIP occurs only in states without a worker, and STOP_WORKER leads to one that waits for
  WORKER_STOPPED: no batch of an old worker meets a new owner (I1, I5).
- DISCARD occurs only where this ownership will commit nothing more; the records are read again (I6).
- START to STOP, COMMIT_DUE and STAGE come from other threads at any time, so each resting state has them.
  Starting, committing, closing and closed reach their outcome within one step and do not need them.
"""

from __future__ import annotations

from enum import StrEnum

from tabletopic_kernel.model import errors


class State(StrEnum):
    """The state of a table topic."""

    STOPPED = "stopped"  # nothing runs here
    STARTING = "starting"  # opening or creating the table, raising the epoch (I5)
    RUNNING = "running"  # the worker is streaming, nothing is staged
    STAGED = "staged"  # files are waiting for the next commit
    COMMITTING = "committing"  # an Iceberg transaction is in progress
    SETTLING = "settling"  # its outcome is unknown: looking for the commit id (I4)
    DRAINING = "draining"  # the worker is stopping; its staged files are committed next
    DROPPING = "dropping"  # like DRAINING, but staged files can no longer be committed
    CLOSING = "closing"  # the worker has stopped, the rest is being committed
    CLOSING_SETTLING = "closing_settling"  # looking for the commit id, without the worker
    CLOSED = "closed"  # nothing staged, nothing running; the goal decides what is next
    PAUSED = "paused"  # paused by a user
    WAITING = "waiting"  # a dependency is down: retry after the backoff (I9)
    FAILED = "failed"  # the user must act


class Event(StrEnum):
    """What happens to a table topic."""

    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    OWNED = "owned"  # the table carries our epoch now
    STAGE = "stage"  # the worker staged a batch
    COMMIT_DUE = "commit_due"  # interval over, enough bytes, or requested
    COMMITTED = "committed"  # all that was staged is in the table
    HEAD_MOVED = "head_moved"  # another writer was first; the ledger is still ours (I3)
    ANSWER_LOST = "answer_lost"  # the commit may or may not have gone through
    SETTLED = "settled"  # the commit in doubt is in the table (I4)
    ABSENT = "absent"  # the commit in doubt is not in the table (I4)
    GAVE_UP = "gave_up"  # the commit in doubt was tried often enough; the next owner settles it
    START_OVER = "start_over"  # this ownership commits no more: a higher epoch (I5), unreadable files
    DEPENDENCY_DOWN = "dependency_down"  # a server does not respond; nothing was sent (I9)
    RETRY_DUE = "retry_due"  # the backoff is over
    REFUSED = "refused"  # only the user can decide: bad record, gap, foreign table…
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
Transition = tuple[State, tuple[Action, ...]]


def _to(after: State, *actions: Action) -> Transition:
    return after, actions


def _stay(state: State, *events: Event) -> dict[Event, Transition]:
    return dict.fromkeys(events, (state, ()))


PROTOCOL: dict[State, dict[Event, Transition]] = {
    S.STOPPED: {
        E.START: _to(S.STARTING, A.TAKE_OWNERSHIP),
        E.RESUME: _to(S.STARTING, A.TAKE_OWNERSHIP),
        E.PAUSE: _to(S.PAUSED),
        **_stay(S.STOPPED, E.STOP, E.COMMIT_DUE),
    },
    S.STARTING: {
        E.OWNED: _to(S.RUNNING, A.START_WORKER),
        E.HEAD_MOVED: _to(S.WAITING, A.ARM_RETRY),
        # The next attempt, with a higher epoch, finds a claim that may have arrived.
        E.ANSWER_LOST: _to(S.WAITING, A.ARM_RETRY),
        E.START_OVER: _to(S.WAITING, A.ARM_RETRY),
        E.DEPENDENCY_DOWN: _to(S.WAITING, A.ARM_RETRY),
        E.REFUSED: _to(S.FAILED),
    },
    S.RUNNING: {
        E.STAGE: _to(S.STAGED),
        E.PAUSE: _to(S.DRAINING, A.STOP_WORKER),
        E.STOP: _to(S.DRAINING, A.STOP_WORKER),
        E.REFUSED: _to(S.DRAINING, A.STOP_WORKER),
        E.WORKER_DIED: _to(S.DRAINING, A.STOP_WORKER),
        **_stay(S.RUNNING, E.START, E.RESUME, E.COMMIT_DUE),
    },
    S.STAGED: {
        E.COMMIT_DUE: _to(S.COMMITTING, A.COMMIT),
        E.PAUSE: _to(S.DRAINING, A.STOP_WORKER),
        E.STOP: _to(S.DRAINING, A.STOP_WORKER),
        # Files staged before the error are still valid: they are committed while closing.
        E.REFUSED: _to(S.DRAINING, A.STOP_WORKER),
        E.WORKER_DIED: _to(S.DRAINING, A.STOP_WORKER),
        **_stay(S.STAGED, E.STAGE, E.START, E.RESUME),
    },
    S.COMMITTING: {  # a batch staged in the meantime waits in the inbox
        E.COMMITTED: _to(S.RUNNING),
        E.HEAD_MOVED: _to(S.COMMITTING, A.COMMIT),
        E.ANSWER_LOST: _to(S.SETTLING, A.SETTLE),
        E.DEPENDENCY_DOWN: _to(S.STAGED, A.ARM_RETRY),
        E.START_OVER: _to(S.DROPPING, A.DISCARD, A.STOP_WORKER),
        E.REFUSED: _to(S.DROPPING, A.DISCARD, A.STOP_WORKER),
    },
    S.SETTLING: {
        E.SETTLED: _to(S.COMMITTING, A.COMMIT),  # batches staged in the meantime
        # Created again after a while: a catalog that accepts no commits may stay like that.
        E.ABSENT: _to(S.STAGED, A.ARM_RETRY),
        E.DEPENDENCY_DOWN: _to(S.SETTLING, A.ARM_RETRY),
        E.RETRY_DUE: _to(S.SETTLING, A.SETTLE),
        E.PAUSE: _to(S.CLOSING_SETTLING, A.STOP_WORKER),
        E.STOP: _to(S.CLOSING_SETTLING, A.STOP_WORKER),
        E.REFUSED: _to(S.CLOSING_SETTLING, A.STOP_WORKER),
        E.WORKER_DIED: _to(S.CLOSING_SETTLING, A.STOP_WORKER),
        **_stay(S.SETTLING, E.STAGE, E.COMMIT_DUE, E.START, E.RESUME),
    },
    # While closing, orders and errors change the goal, not the path.
    S.DRAINING: {
        E.WORKER_STOPPED: _to(S.CLOSING, A.COMMIT),
        **_stay(S.DRAINING, E.STAGE, E.COMMIT_DUE),
        **_stay(S.DRAINING, E.START, E.RESUME, E.PAUSE, E.STOP, E.REFUSED, E.WORKER_DIED),
    },
    S.DROPPING: {
        E.WORKER_STOPPED: _to(S.CLOSED, A.FINISH),
        # The next owner, perhaps this very coordinator, must not meet a batch of this worker (I1).
        E.STAGE: _to(S.DROPPING, A.DISCARD),
        **_stay(S.DROPPING, E.COMMIT_DUE),
        **_stay(S.DROPPING, E.START, E.RESUME, E.PAUSE, E.STOP, E.REFUSED, E.WORKER_DIED),
    },
    S.CLOSING: {
        E.COMMITTED: _to(S.CLOSED, A.FINISH),
        E.HEAD_MOVED: _to(S.CLOSING, A.COMMIT),
        E.ANSWER_LOST: _to(S.CLOSING_SETTLING, A.SETTLE),
        # Staged files may be lost: their records will be read again from the topic (I6).
        E.DEPENDENCY_DOWN: _to(S.CLOSED, A.DISCARD, A.FINISH),
        E.START_OVER: _to(S.CLOSED, A.DISCARD, A.FINISH),
        E.REFUSED: _to(S.CLOSED, A.DISCARD, A.FINISH),
    },
    S.CLOSING_SETTLING: {
        E.WORKER_STOPPED: _to(S.CLOSING_SETTLING, A.SETTLE),
        E.SETTLED: _to(S.CLOSING, A.COMMIT),
        E.ABSENT: _to(S.CLOSING, A.COMMIT),
        # The files may be in the table, so here they are neither kept nor deleted: the next owner settles the
        # commit from the table and sweeps unreferenced files (I10).
        E.GAVE_UP: _to(S.CLOSED, A.FINISH),
        E.DEPENDENCY_DOWN: _to(S.CLOSED, A.FINISH),
        E.REFUSED: _to(S.CLOSED, A.FINISH),
        E.START_OVER: _to(S.CLOSED, A.DISCARD, A.FINISH),
        **_stay(S.CLOSING_SETTLING, E.STAGE, E.COMMIT_DUE),
        **_stay(S.CLOSING_SETTLING, E.START, E.RESUME, E.PAUSE, E.STOP, E.WORKER_DIED),
    },
    S.CLOSED: {
        E.CLOSED_TO_STOP: _to(S.STOPPED),
        E.CLOSED_TO_PAUSE: _to(S.PAUSED),
        E.CLOSED_TO_RETRY: _to(S.WAITING, A.ARM_RETRY),
        E.CLOSED_TO_FAIL: _to(S.FAILED),
    },
    # A worker that stops after the commit was given up reports to one of the next three.
    S.PAUSED: {
        E.START: _to(S.STARTING, A.TAKE_OWNERSHIP),
        E.RESUME: _to(S.STARTING, A.TAKE_OWNERSHIP),
        E.STOP: _to(S.STOPPED),
        E.STAGE: _to(S.PAUSED, A.DISCARD),
        **_stay(S.PAUSED, E.PAUSE, E.COMMIT_DUE, E.WORKER_STOPPED),
    },
    S.WAITING: {
        E.RETRY_DUE: _to(S.STARTING, A.TAKE_OWNERSHIP),
        E.RESUME: _to(S.STARTING, A.TAKE_OWNERSHIP),
        E.PAUSE: _to(S.PAUSED),
        E.STOP: _to(S.STOPPED),
        E.STAGE: _to(S.WAITING, A.DISCARD),
        **_stay(S.WAITING, E.START, E.COMMIT_DUE, E.WORKER_STOPPED),
    },
    S.FAILED: {
        E.RESUME: _to(S.STARTING, A.TAKE_OWNERSHIP),  # the user has acted and wants it to continue
        E.PAUSE: _to(S.PAUSED),
        E.STOP: _to(S.STOPPED),
        E.STAGE: _to(S.FAILED, A.DISCARD),
        **_stay(S.FAILED, E.START, E.COMMIT_DUE, E.WORKER_STOPPED),
    },
}


class Goal(StrEnum):
    """What follows once a topic is closed; later ones in this list take precedence."""

    RETRY = "retry"
    PAUSE = "pause"
    FAIL = "fail"
    STOP = "stop"


_GOAL_OF = {
    E.WORKER_DIED: Goal.RETRY,
    E.START_OVER: Goal.RETRY,
    E.PAUSE: Goal.PAUSE,
    E.REFUSED: Goal.FAIL,
    E.STOP: Goal.STOP,
}
_WEIGHT = list(Goal)
_EVENT_OF_ERROR: tuple[tuple[tuple[type[Exception], ...], Event], ...] = (
    ((errors.HeadMovedError,), E.HEAD_MOVED),
    ((errors.OutcomeUnknownError,), E.ANSWER_LOST),
    ((errors.StartOverError,), E.START_OVER),
    ((errors.ActionNeededError, errors.UsageError), E.REFUSED),
    ((errors.RetryableError,), E.DEPENDENCY_DOWN),
)
CLOSED_EVENT = {
    Goal.RETRY: E.CLOSED_TO_RETRY,
    Goal.PAUSE: E.CLOSED_TO_PAUSE,
    Goal.FAIL: E.CLOSED_TO_FAIL,
    Goal.STOP: E.CLOSED_TO_STOP,
}


def next_goal(goal: Goal, event: Event) -> Goal:
    """The goal after ``event``: a user's resume cancels everything, otherwise the later in ``Goal`` wins."""
    if event in (E.RESUME, E.START):
        return Goal.RETRY
    new = _GOAL_OF.get(event)
    return goal if new is None else max(goal, new, key=_WEIGHT.index)


def event_of(error: Exception) -> Event:
    """The event for an error of an action; an error without an event is raised again."""
    for kinds, event in _EVENT_OF_ERROR:
        if isinstance(error, kinds):
            return event
    raise error


def transition(state: State, event: Event) -> Transition:
    """The next state, and the actions; raises InternalError for a pair that is not in the protocol."""
    try:
        return PROTOCOL[state][event]
    except KeyError:
        raise errors.InternalError(f"event {event!r} has no meaning in state {state!r}") from None


def backoff_ms(attempt: int) -> int:
    """Wait before attempt 0, 1, …: 0.5 s doubling to 12 s, so commits resume within 20 s of an outage."""
    return min(12_000, 500 << min(attempt, 5))
