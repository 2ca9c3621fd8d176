"""Hundreds of histories: whatever dies, fails or is done by others, the promises are kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulation import scenes
from tests.simulation.__main__ import chunk
from tests.simulation.mutants import KEYED, LATE, MUTANTS, SCENES, SORTED
from tests.simulation.run import run_history, run_seed
from tests.simulation.schedule import FIRST_KEYED, KEYED_EVERY, PAIRS, Setting, focus_of, moves_of, setting_of
from tests.simulation.shrink import shrunk

_SEEDS = 25  # of a test; xdist deals the tests out
_PARTS = range(24)  # after which each pair has been looked at
_FEW = 8
_MUTANT_SEEDS = 160  # at most, half a minute; most are noticed by the first ten


def test_a_few_histories_keep_every_promise() -> None:
    """No history of the first seeds breaks a promise; the others take longer."""
    _kept(range(_FEW))


@pytest.mark.integration
@pytest.mark.parametrize("part", _PARTS)
def test_every_promise_is_kept(part: int) -> None:
    """No history of these seeds breaks a promise."""
    _kept(range(part * _SEEDS, (part + 1) * _SEEDS))


def _kept(seeds: range) -> None:
    total = chunk(seeds.start, seeds.stop)
    again = "".join(f'\nmake simulate ARGS="--seed {seed}"' for seed in total.broken)
    assert not total.broken, f"{total.broken}{again}"
    assert total.commits > 10 * len(seeds)


@pytest.mark.integration
@pytest.mark.parametrize("name", [name for name in MUTANTS if name not in SCENES])
def test_a_broken_rule_is_noticed(name: str) -> None:
    """Each mutant of the product breaks a promise in some history, in which the product keeps all."""
    with MUTANTS[name]():
        first = FIRST_KEYED + KEYED_EVERY * LATE.get(name, 0)
        of_keys = range(first, first + _MUTANT_SEEDS * KEYED_EVERY, KEYED_EVERY)
        seeds = of_keys if name in KEYED else range(_MUTANT_SEEDS)
        seed = next((seed for seed in seeds if run_seed(seed).broken), None)
    assert seed is not None, f"nobody notices: {name}"
    assert run_seed(seed).broken is None, "the history is broken without the mutant, too"


@pytest.mark.integration
@pytest.mark.parametrize("name", SCENES)
def test_a_scene_shows_a_broken_rule(name: str) -> None:
    """A mutant that chance meets rarely breaks a promise in its scene, and the product keeps all there."""
    setting, moves = Setting(0, on_sqlite=False, lenient=True), SCENES[name]()
    setting = replace(setting, sort_by=("a desc",) if name in SORTED else ())
    assert run_history(setting, moves).broken is None
    with MUTANTS[name]():
        assert run_history(setting, moves).broken is not None


def test_an_owner_with_nothing_to_commit_sweeps() -> None:
    """Its time comes with no event, as a thread of the real host looks each second: no file is left.

    The model took steps for events alone, and ended a history whose records were all gone before the sweep.
    """
    setting = Setting(0, on_sqlite=False, on_gap="go_on")
    history = run_history(setting, scenes.nothing_but_files())
    assert history.broken is None
    assert history.counts.sweeps == 1


def _trace(seed: int) -> list[str]:
    lines: list[str] = []
    run_seed(seed, told=lines.append)
    return lines


@pytest.mark.integration
def test_the_same_seed_is_the_same_history() -> None:
    """Also in another process, where sets and dictionaries of texts have another order."""
    told = "from tests.simulation.test_simulation import _trace; print('\\n'.join(_trace(4)))"
    root = str(Path(__file__).parents[2])
    env = {**os.environ, "PYTHONPATH": root, "PYTHONHASHSEED": "77"}
    other = subprocess.run(
        [sys.executable, "-c", told], env=env, cwd=root, capture_output=True, text=True, check=True
    )
    assert other.stdout.splitlines() == _trace(4)


@pytest.mark.integration
def test_a_history_knows_nothing_of_others() -> None:
    """Another one, of the same seed and half of its moves, leaves nothing behind in this process."""
    alone = _trace(4)
    run_history(setting_of(4), moves_of(4)[::2])
    assert _trace(4) == alone


@pytest.mark.integration
def test_a_failing_history_is_made_short() -> None:
    """Moves that have nothing to do with it are taken away, and it still fails."""
    with MUTANTS["the sweep normalises paths on one side"]():
        seed = next(seed for seed in range(_MUTANT_SEEDS) if run_seed(seed).broken)
        setting, moves = setting_of(seed), moves_of(seed)
        broken = run_history(setting, moves).broken
        assert broken is not None
        short = shrunk(setting, moves, broken.rule)
        again = run_history(setting, short).broken
    assert len(short) < 15
    assert again is not None
    assert again.rule == broken.rule
    assert run_history(setting, short).broken is None  # of the product as it is


@pytest.mark.integration
def test_a_killed_parent_takes_its_children_along() -> None:
    """Whoever kills `make simulate` has ended all of it: nobody holds its output open any more."""
    command = [sys.executable, "-m", "tests.simulation", "--minutes", "60", "--from", "1", "--processes", "2"]
    root = str(Path(__file__).parents[2])
    started = subprocess.Popen(
        command, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        assert started.stderr is not None
        assert started.stderr.read(1)  # the first histories are done, so both children are there
        started.kill()
        started.communicate(timeout=120)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)


def test_every_pair_has_a_history_that_looks_at_it() -> None:
    """The histories of the tests above look at each place and each fault there."""
    assert {focus_of(seed) for seed in range(_SEEDS * len(_PARTS))} >= set(PAIRS)


def test_schedules_follow_from_the_seed() -> None:
    """A seed has one schedule, and others have others."""
    assert moves_of(1) == moves_of(1) != moves_of(2)
