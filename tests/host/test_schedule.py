"""When a coordinator acts by itself, on a clock that the test sets."""

from __future__ import annotations

import pytest

from tabletopic_kernel.host.schedule import LOST_WAIT_MS, REFUSED_WAIT_MS, Schedule
from tabletopic_kernel.model.commit_cycle import Event, State
from tabletopic_kernel.model.settings.sections import TopicSettings

SETTINGS = TopicSettings(commit_interval_ms="400ms")  # type: ignore[arg-type]


class Clock:
    """Ms; stands still until the test advances it."""

    now = 50_000

    def __call__(self) -> int:
        """Now."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """A clock of the test's own."""
    return Clock()


@pytest.fixture
def schedule(clock: Clock) -> Schedule:
    """Of a worker that has just begun."""
    return Schedule(clock)


def test_a_commit_is_waited_for_exactly(schedule: Schedule, clock: Clock) -> None:
    """While something is staged the wait ends when the commit is due, by time or bytes, not later."""
    clock.now += 100
    assert schedule.wait_s(State.STAGED, SETTINGS) == 0.3
    assert schedule.due(State.STAGED, SETTINGS.commit_bytes - 1, SETTINGS) is None
    assert schedule.due(State.STAGED, SETTINGS.commit_bytes, SETTINGS) is Event.COMMIT_DUE
    clock.now += 300
    assert schedule.wait_s(State.STAGED, SETTINGS) == 0
    assert schedule.due(State.STAGED, 1, SETTINGS) is Event.COMMIT_DUE
    assert schedule.due(State.RUNNING, 0, SETTINGS) is None
    schedule.committed(clock.now, {0: 1}, SETTINGS)
    assert schedule.due(State.STAGED, 1, SETTINGS) is None


def test_commits_come_right_after_batches_that_have_their_interval(schedule: Schedule, clock: Clock) -> None:
    """A batch that waited for its commit waits less the next time, and a busy topic keeps its interval."""
    interval = SETTINGS.commit_interval_ms
    waits = []
    for _ in range(5):
        schedule.staged()
        staged = clock.now
        while schedule.due(State.STAGED, 1, SETTINGS) is None:
            clock.now += 1
        waits.append(clock.now - staged)
        schedule.committed(clock.now, {0: 1}, SETTINGS)
        clock.now = staged + interval
    assert waits[0] == interval
    assert waits == sorted(waits, reverse=True)
    assert waits[-1] <= interval // 10
    schedule.staged()
    schedule.committed(clock.now + interval, {0: 1}, SETTINGS)
    clock.now += interval
    assert schedule.due(State.STAGED, 1, SETTINGS) is None  # early by half at most


def test_a_wish_counts_until_it_is_met(schedule: Schedule, clock: Clock) -> None:
    """What is staged is due at once until the table has what was asked for; then the interval counts."""
    schedule.ask_commit()
    assert schedule.due(State.RUNNING, 0, SETTINGS) is None
    assert schedule.due(State.STAGED, 1, SETTINGS) is Event.COMMIT_DUE
    schedule.committed(clock.now, {0: 1}, SETTINGS)
    assert schedule.due(State.STAGED, 1, SETTINGS) is None
    schedule.ask_commit({0: 7, 1: 3})
    schedule.committed(clock.now, {0: 7, 1: 2}, SETTINGS)
    assert schedule.due(State.STAGED, 1, SETTINGS) is Event.COMMIT_DUE
    schedule.committed(clock.now, {0: 9, 1: 3}, SETTINGS)
    assert schedule.due(State.STAGED, 1, SETTINGS) is None


@pytest.mark.parametrize("state", [State.WAITING, State.SETTLING])
def test_tries_come_more_seldom(schedule: Schedule, clock: Clock, state: State) -> None:
    """Each wait is twice as long, a resume ends it at once, and a commit begins anew (I9)."""
    waits = []
    for _ in range(3):
        schedule.retries.back_off()
        began = clock.now
        while schedule.due(state, 0, SETTINGS) is None:
            clock.now += 100
        assert schedule.wait_s(state, SETTINGS) == 0
        waits.append(clock.now - began)
    assert waits == [500, 1_000, 2_000]
    schedule.retries.back_off()
    schedule.retries.resume()
    assert schedule.due(state, 0, SETTINGS) is Event.RETRY_DUE
    schedule.retries.back_off()
    clock.now += 500
    assert schedule.due(state, 0, SETTINGS) is Event.RETRY_DUE


def test_a_catalog_that_answers_again_is_not_waited_for_any_longer(schedule: Schedule, clock: Clock) -> None:
    """After an outage the commit is made again at once; where commits go on getting lost, more seldom."""
    for _ in range(6):
        schedule.retries.back_off()
        clock.now += 12_000
    waits = []
    for _ in range(3):
        schedule.retries.absent()
        schedule.retries.back_off()
        began = clock.now
        while schedule.due(State.SETTLING, 0, SETTINGS) is None:
            clock.now += 100
        waits.append(clock.now - began)
    assert waits == [500, 1_000, 2_000]
    schedule.committed(clock.now, {}, SETTINGS)
    schedule.retries.absent()
    schedule.retries.back_off()
    clock.now += 500
    assert schedule.due(State.SETTLING, 0, SETTINGS) is Event.RETRY_DUE


def test_a_table_that_was_lost_is_left_alone_for_a_while(schedule: Schedule, clock: Clock) -> None:
    """Longer than a group needs to miss a member, and than the first waits after it."""
    schedule.retries.pause(LOST_WAIT_MS)
    schedule.retries.back_off()
    clock.now += 9_000
    assert schedule.due(State.WAITING, 0, SETTINGS) is None
    assert schedule.wait_s(State.WAITING, SETTINGS) == 1.0
    clock.now += 1_000
    assert schedule.due(State.WAITING, 0, SETTINGS) is Event.RETRY_DUE


def test_a_login_that_was_refused_is_tried_once_a_minute(schedule: Schedule, clock: Clock) -> None:
    """Many servers lock an account after a few; who resumes the topic does not wait."""
    schedule.retries.pause(REFUSED_WAIT_MS)
    schedule.retries.back_off()
    clock.now += 59_000
    assert schedule.due(State.WAITING, 0, SETTINGS) is None
    clock.now += 1_000
    assert schedule.due(State.WAITING, 0, SETTINGS) is Event.RETRY_DUE
    schedule.retries.pause(REFUSED_WAIT_MS)
    schedule.retries.resume()
    assert schedule.due(State.WAITING, 0, SETTINGS) is Event.RETRY_DUE


def test_the_sweep_waits_for_the_first_commit(schedule: Schedule, clock: Clock) -> None:
    """It would take the processors from the first records; where none come, it begins all the same, once."""
    at_work = State.RUNNING
    schedule.owned(sweeps=False)
    clock.now += 60_000
    assert not schedule.is_time_to_sweep(at_work)
    schedule.owned(sweeps=True)
    assert not schedule.is_time_to_sweep(at_work)
    schedule.committed(clock.now, {0: 1}, SETTINGS)
    assert schedule.is_time_to_sweep(at_work)
    schedule.swept()
    schedule.committed(clock.now, {0: 2}, SETTINGS)
    assert not schedule.is_time_to_sweep(at_work)
    schedule.owned(sweeps=True)
    clock.now += 4_000
    assert schedule.is_time_to_sweep(at_work)
    assert not schedule.is_time_to_sweep(State.DRAINING)
