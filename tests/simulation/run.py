"""One history, from a seed or from a schedule that was kept."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.simulation.coverage import Coverage
from tests.simulation.reader import BrokenError
from tests.simulation.schedule import Move, Setting, moves_of, setting_of
from tests.simulation.world import Counts, World


@dataclass
class History:
    """How one went; ``broken`` is None where every promise was kept."""

    counts: Counts
    broken: BrokenError | None


def run_history(
    setting: Setting,
    moves: Sequence[Move],
    coverage: Coverage | None = None,
    told: Callable[[str], None] = lambda _: None,
) -> History:
    """Run one history from its setting and schedule."""
    world = World(setting, coverage or Coverage(), told)
    try:
        with _quiet():
            world.run(moves)
    except BrokenError as broken:
        return History(world.counts, broken)
    return History(world.counts, None)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings of a thousand faults."""
    loggers = [logging.getLogger(name) for name in ("tabletopic_kernel", "pyiceberg")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def run_seed(
    seed: int, coverage: Coverage | None = None, told: Callable[[str], None] = lambda _: None
) -> History:
    """Run the history of a seed."""
    return run_history(setting_of(seed), moves_of(seed), coverage, told)
