"""The state machine, pair by pair."""

import itertools

import pytest

from tabletopic_kernel.model.commit_cycle import (
    CLOSED_EVENT,
    PROTOCOL,
    Action,
    Event,
    Goal,
    State,
    backoff_ms,
    next_goal,
    transition,
)
from tabletopic_kernel.model.errors import InternalError

PAIRS = {(state, event): way for state, events in PROTOCOL.items() for event, way in events.items()}
# Events that an action brings back within the same step, by action: they always follow it.
OUTCOMES = {
    Action.TAKE_OWNERSHIP: {
        Event.OWNED, Event.HEAD_MOVED, Event.ANSWER_LOST, Event.START_OVER, Event.DEPENDENCY_DOWN,
        Event.REFUSED,
    },
    Action.START_WORKER: {Event.WORKER_DIED},
    Action.STOP_WORKER: {Event.WORKER_STOPPED},
    Action.COMMIT: {
        Event.COMMITTED, Event.HEAD_MOVED, Event.ANSWER_LOST, Event.START_OVER, Event.DEPENDENCY_DOWN,
        Event.REFUSED,
    },
    Action.SETTLE: {Event.SETTLED, Event.ABSENT, Event.DEPENDENCY_DOWN, Event.REFUSED},
    Action.FINISH: set(CLOSED_EVENT.values()),
}  # fmt: skip
# States that a step can end in: here wishes and the worker's reports arrive.
RESTING = {
    State.STOPPED, State.RUNNING, State.STAGED, State.SETTLING, State.DRAINING, State.DROPPING,
    State.CLOSING_SETTLING, State.PAUSED, State.WAITING, State.FAILED,
}  # fmt: skip
# Of those, the ones without a worker.
ALONE = {State.STOPPED, State.PAUSED, State.WAITING, State.FAILED}
WISHES = {Event.START, Event.PAUSE, Event.RESUME, Event.STOP, Event.COMMIT_DUE}


def test_every_pair_is_in_the_table_or_an_error() -> None:
    """A pair that is not in the table raises and says which."""
    for state, event in itertools.product(State, Event):
        if (state, event) in PAIRS:
            assert transition(state, event) == PAIRS[state, event]
        else:
            with pytest.raises(InternalError, match=f"{event.value}.*{state.value}"):
                transition(state, event)


def test_a_person_may_wish_anything_at_any_time() -> None:
    """No wish of a person ever hits a hole in the table."""
    assert {*itertools.product(RESTING, WISHES)} <= PAIRS.keys()


def test_every_outcome_of_an_action_is_understood() -> None:
    """Whatever an action brings back has a meaning in the state it is taken in."""
    for after, actions in PAIRS.values():
        for action in actions:
            for outcome in OUTCOMES.get(action, ()):
                assert (after, outcome) in PAIRS, f"{action} in {after} may bring {outcome}"


def test_late_reports_of_a_worker_are_understood() -> None:
    """A batch that was on its way when the topic moved on is taken or discarded, never an error."""
    assert {*itertools.product(RESTING - {State.STOPPED}, [Event.STAGE])} <= PAIRS.keys()


def test_states_have_no_hole() -> None:
    """Each is reached and left; unknown files are not discarded, and only a doubt is settled (I4)."""
    reached = {State.STOPPED}
    while more := {after for (state, _), (after, _) in PAIRS.items() if state in reached} - reached:
        reached |= more
    assert reached == set(State)
    for state in State:
        assert any(after is not state for (of, _), (after, _) in PAIRS.items() if of is state)
    answers = {Event.SETTLED, Event.ABSENT, Event.GAVE_UP}
    in_doubt = {state for state, event in PAIRS if event in answers}
    assert in_doubt == {State.SETTLING, State.CLOSING_SETTLING}
    for state in in_doubt:
        assert not {Event.COMMITTED, Event.HEAD_MOVED, Event.ANSWER_LOST} & PROTOCOL[state].keys()
    for (state, event), (_, actions) in PAIRS.items():
        if state is State.SETTLING or (state is State.CLOSING_SETTLING and event is not Event.START_OVER):
            assert Action.DISCARD not in actions
    for (state, event), (after, actions) in PAIRS.items():
        if Action.TAKE_OWNERSHIP in actions:
            assert state in ALONE
        if Action.STOP_WORKER in actions:
            assert after in (State.DRAINING, State.DROPPING, State.CLOSING_SETTLING)
        if state in (State.DRAINING, State.DROPPING) and after is not state:
            assert event is Event.WORKER_STOPPED


@pytest.mark.parametrize(("first", "second"), [*itertools.product(Goal, Goal)])
def test_the_heavier_goal_stays(first: Goal, second: Goal) -> None:
    """Stop outweighs fail outweighs pause outweighs retry, in whichever order they come."""
    by_event = {
        Goal.RETRY: Event.WORKER_DIED,
        Goal.PAUSE: Event.PAUSE,
        Goal.FAIL: Event.REFUSED,
        Goal.STOP: Event.STOP,
    }
    weight = [Goal.RETRY, Goal.PAUSE, Goal.FAIL, Goal.STOP].index
    assert next_goal(first, by_event[second]) is max(first, second, key=weight)


def test_waits_grow_and_a_resume_forgets_them() -> None:
    """Waits double to twelve seconds; a resume takes every goal back."""
    assert {next_goal(goal, Event.RESUME) for goal in Goal} == {Goal.RETRY}
    waits = [backoff_ms(attempt) for attempt in range(100)]
    assert waits[0] == 500
    assert waits == sorted(waits)
    assert waits[-1] == 12_000
