"""Queries start in turns: who came first is next, nobody waits for ever, and no turn is lost."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from tabletopic_kernel.pipeline.worker.turns import Turns

WAIT_S = 240


class Query(threading.Thread):
    """One that waits for its turn, and holds it until ``over``."""

    def __init__(self, turns: Turns, who: int, at_once: int) -> None:
        super().__init__(daemon=True)
        self._turns, self.who, self._at_once = turns, who, at_once
        self.stopping, self.over, self.told = threading.Event(), threading.Event(), threading.Event()
        self.has_turn = False

    def run(self) -> None:
        """As a worker's thread."""
        with self._turns.taken(self.who, self._at_once, self.stopping.is_set) as self.has_turn:
            self.told.set()
            assert not self.has_turn or self.over.wait(WAIT_S)

    def line_up(self) -> None:
        """Begin to wait."""
        self.start()
        while not self.told.is_set() and self._turns.waits_since(self.who) is None:
            self.told.wait(0.001)


@given(st.integers(1, 3), st.lists(st.tuples(st.booleans(), st.integers(0, 2)), min_size=1, max_size=8))
def test_who_came_first_is_next(at_once: int, doings: list[tuple[bool, int]]) -> None:
    """Whoever gives up or ends, in whatever order: turns are full, in order and given back."""
    turns = Turns()
    queries = [Query(turns, who, at_once) for who in range(len(doings))]
    for query in queries:
        query.line_up()
    waiting = queries[at_once:]
    holding = queries[:at_once]
    for query in (query for query in list(waiting) if doings[query.who][0]):
        query.stopping.set()
        turns.give_up(query.who)
        query.join(WAIT_S)
        assert query.told.is_set()
        assert not query.has_turn
        waiting.remove(query)
    while holding:
        assert all(query.told.wait(WAIT_S) and query.has_turn for query in holding)
        assert not any(query.told.is_set() for query in waiting)
        ended = holding.pop(doings[len(waiting)][1] % len(holding))
        ended.over.set()
        ended.join(WAIT_S)
        holding += waiting[:1]
        waiting = waiting[1:]
    assert not waiting


def test_who_stops_before_it_waits_goes_on_without_a_turn() -> None:
    """A worker that is told to stop waits for nobody, and takes nobody's turn."""
    turns = Turns()
    with turns.taken("busy", 1, lambda: False), turns.taken("stopped", 1, lambda: True) as its_turn:
        assert not its_turn
    with turns.taken("next", 1, lambda: False) as its_turn:
        assert its_turn


def test_who_waits_is_known() -> None:
    """Since when, as long as it waits; more turns let it in."""
    turns = Turns(clock=lambda: 5.0)
    with turns.taken("a", 1, lambda: False):
        query = Query(turns, 1, 1)
        query.line_up()
        assert (turns.waits_since("a"), turns.waits_since(1)) == (None, 5)
        with turns.taken("b", 3, lambda: False):
            assert query.told.wait(WAIT_S)
            assert turns.waits_since(1) is None
            query.over.set()
            query.join(WAIT_S)
