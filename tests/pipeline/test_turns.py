"""Queries start in turns: who has waited longest is next, nobody waits for ever, and no turn is lost."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabletopic_kernel.pipeline.worker.turns import Place, Turns

WAIT_S = 240


class Crowd:
    """Queries in and before a queue, and what must hold after whatever they do."""

    def __init__(self, at_once: int) -> None:
        self.turns, self.at_once = Turns(), at_once
        self.inside: list[Place] = []
        self.waiting: list[Place] = []

    def line_up(self, who: int, since: float) -> None:
        """One more."""
        self.waiting.append(self.turns.line_up(who, since, self.at_once))
        self.check()

    def leave(self, which: int) -> None:
        """One ends, or does not wait any longer."""
        everyone = [*self.inside, *self.waiting]
        if everyone:
            gone = everyone[which % len(everyone)]
            (self.inside if gone in self.inside else self.waiting).remove(gone)
            self.turns.leave(gone)
            self.check()

    def give_up(self, who: int) -> None:
        """All that wait under this name go without a turn."""
        gone = [place for place in self.waiting if place.who == who]
        self.turns.give_up(who)
        for place in gone:
            assert place.called.is_set()
            assert not place.has_turn
            self.waiting.remove(place)
            self.turns.leave(place)
        self.check()

    def check(self) -> None:
        """Who was let in had waited longest, no more are inside than may be, and no turn lies idle."""
        called = [place for place in self.waiting if place.has_turn]
        left = [place for place in self.waiting if not place.has_turn]
        for place in called:
            assert place.called.is_set()
            assert all(place.since_s <= other.since_s for other in left)
        self.inside += called
        self.waiting = left
        assert len(self.inside) <= self.at_once
        assert not left or len(self.inside) == self.at_once
        assert not any(place.called.is_set() for place in left)


DOINGS = st.lists(
    st.one_of(
        st.tuples(st.just("line_up"), st.integers(0, 5), st.floats(0, 100)),
        st.tuples(st.just("leave"), st.integers(0, 20)),
        st.tuples(st.just("give_up"), st.integers(0, 5)),
    ),
    max_size=60,
)


@given(st.integers(1, 4), DOINGS)
def test_who_has_waited_longest_is_next(at_once: int, doings: list[tuple[Any, ...]]) -> None:
    """Whoever comes, ends, fails or gives up, in whatever order: turns are full, in order and given back."""
    crowd = Crowd(at_once)
    for what, *arguments in doings:
        getattr(crowd, what)(*arguments)
    while crowd.inside or crowd.waiting:
        crowd.leave(0)
    last = crowd.turns.line_up("last", 0, at_once)
    assert last.has_turn


@given(st.integers(2, 40), st.integers(1, 3), st.data())
def test_nobody_waits_for_ever(topics: int, at_once: int, data: st.DataObject) -> None:
    """Of topics that always have more to do, each is let in before any of the others is twice."""
    crowd, now = Crowd(at_once), itertools.count()
    for who in range(topics):
        crowd.line_up(who, next(now))
    for _ in range(3 * topics):
        which = data.draw(st.integers(0, len(crowd.inside) - 1))
        done = crowd.inside[which]
        crowd.leave(which)
        crowd.line_up(int(str(done.who)), next(now))
        newest = next(now) - 1
        assert all(newest - place.since_s <= 2 * topics for place in crowd.waiting)


def test_a_turn_is_given_back_by_a_batch_that_fails() -> None:
    """The next one is let in."""
    turns = Turns()

    def fail() -> None:
        with turns.taken("a", 0, 1, lambda: False) as its_turn:
            assert its_turn
            raise ValueError("bad batch")

    with pytest.raises(ValueError, match="bad batch"):
        fail()
    assert turns.line_up("b", 1, 1).has_turn


def test_who_stops_while_it_waits_goes_on_without_a_turn() -> None:
    """A worker that is told to stop waits for nobody, and takes nobody's turn."""
    turns = Turns()
    holding = turns.line_up("busy", 0, 1)
    told: list[bool] = []
    stopping = threading.Event()

    def wait() -> None:
        with turns.taken("stopped", 1, 1, stopping.is_set) as its_turn:
            told.append(its_turn)

    thread = threading.Thread(target=wait)
    thread.start()
    stopping.set()  # before or after the thread lines up: it goes on either way
    turns.give_up("stopped")
    thread.join(WAIT_S)
    assert told == [False]
    turns.leave(holding)
    assert turns.line_up("next", 2, 1).has_turn


def test_who_waits_is_known() -> None:
    """Since when, as long as it waits; more turns let it in."""
    turns = Turns()
    turns.line_up("a", 3, 1)
    turns.line_up("b", 5, 1)
    assert (turns.waits_since("a"), turns.waits_since("b")) == (None, 5)
    turns.line_up("c", 7, 3)
    assert turns.waits_since("b") is None
