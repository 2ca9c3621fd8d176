"""Shortens a failing history: moves are removed as long as the same promise stays broken."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.simulation.run import run_history
from tests.simulation.schedule import Move, Setting

_SHORTEST_S = 120.0


def shrunk(setting: Setting, moves: Sequence[Move], rule: str, seconds: float = _SHORTEST_S) -> list[Move]:
    """The shortest schedule found in that time that breaks ``rule``; every move in it is then needed.

    Delta debugging (Zeller and Hildebrandt, 2002): halves first, then smaller parts, then single moves.
    """
    until = time.monotonic() + seconds

    def breaks(chosen: Sequence[Move]) -> bool:
        try:
            broken = run_history(setting, chosen).broken
        except Exception:  # the reader cannot read the table at all: another failure than this one
            return False
        return broken is not None and broken.rule == rule

    left = list(moves)
    size = len(left) // 2
    while size and time.monotonic() < until:
        before = len(left)
        left = _without_parts(left, size, breaks, until)
        size = min(size, len(left)) if len(left) < before and size == 1 else size // 2
    return _simpler(left, breaks, until)


def _without_parts(
    moves: list[Move], size: int, breaks: Callable[[Sequence[Move]], bool], until: float
) -> list[Move]:
    at = 0
    while at < len(moves) and time.monotonic() < until:
        shorter = moves[:at] + moves[at + size :]
        if breaks(shorter):
            moves = shorter
        else:
            at += size
    return moves


def _simpler(moves: list[Move], breaks: Callable[[Sequence[Move]], bool], until: float) -> list[Move]:
    """Faults that strike at once, and during which nobody goes on, where these do as well."""
    for at, move in enumerate(moves):
        for simple in (replace(move, skip=0), replace(move, others=0)):
            if simple != moves[at] and time.monotonic() < until:
                changed = [*moves[:at], simple, *moves[at + 1 :]]
                if breaks(changed):
                    moves = changed
    return moves
