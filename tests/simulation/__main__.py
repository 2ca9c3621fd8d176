"""``make simulate``: histories until the time is over, or one of them again.

make simulate                                    # five minutes from a seed of today's
make simulate ARGS="--minutes 60 --from 100000"  # an hour from that seed on, in two processes
make simulate ARGS="--seed 4711"                 # one history, move by move; a failing one is made short
make simulate ARGS="--schedule failing.json"     # a schedule that was kept
make simulate ARGS="--minutes 60 --keep docs/evidence/simulation.md"
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import threading
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from multiprocessing import parent_process
from multiprocessing.connection import wait
from pathlib import Path

from tests.simulation.coverage import Coverage
from tests.simulation.report import page, summary
from tests.simulation.run import run_history, run_seed
from tests.simulation.schedule import Move, Setting, moves_of, setting_of
from tests.simulation.shrink import shrunk

_CHUNK = 5  # seeds that a process takes at a time


@dataclass
class Total:
    """What many histories amount to."""

    first: int
    histories: int = 0
    commits: int = 0
    foreign: int = 0
    faults: int = 0
    sweeps: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    broken: dict[int, str] = field(default_factory=dict)
    coverage: Coverage = field(default_factory=Coverage)


def _say(text: object) -> None:
    sys.stdout.write(f"{text}\n")


def main(arguments: list[str] | None = None) -> int:
    """Run what is asked for; 1 where a promise was broken."""
    parser = argparse.ArgumentParser(prog="make simulate")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--from", dest="first", type=int, default=int(time.time()) // 86_400 * 100_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--schedule", type=Path)
    parser.add_argument("--keep", type=Path, help="write the summary to this page")
    asked = parser.parse_args(arguments)
    if asked.schedule is not None:
        plain = json.loads(asked.schedule.read_text())
        return _again(Setting(**plain["setting"]), [Move(**one) for one in plain["moves"]])
    if asked.seed is not None:
        return _one(asked.seed)
    total = many(asked.first, asked.minutes * 60, asked.processes)
    _say(summary(total))
    if asked.keep is not None:
        asked.keep.write_text(page(total))
    for seed, told in total.broken.items():
        _say(f'seed {seed}: {told}\n    make simulate ARGS="--seed {seed}"')
    return 1 if total.broken else 0


def many(first: int, seconds: float, processes: int) -> Total:
    """Histories from seed ``first`` on until the time is over."""
    total, began = Total(first), time.monotonic()
    if processes == 1:
        while time.monotonic() - began < seconds:
            _take(total, chunk(first + total.histories, first + total.histories + _CHUNK), began)
        return total
    with ProcessPoolExecutor(processes, initializer=_end_with_parent) as pool:
        at, waiting = first, []
        while waiting or time.monotonic() - began < seconds:
            while len(waiting) < processes and time.monotonic() - began < seconds:
                waiting.append(pool.submit(chunk, at, at + _CHUNK))
                at += _CHUNK
            if waiting:
                _take(total, waiting.pop(0).result(), began)
    return total


def _take(total: Total, one: Total, began: float) -> None:
    for name in ("histories", "commits", "foreign", "faults", "sweeps", "cpu_s"):
        setattr(total, name, getattr(total, name) + getattr(one, name))
    total.broken |= one.broken
    total.coverage.add(one.coverage)
    total.seconds = time.monotonic() - began
    sys.stderr.write(f"\r{total.histories} histories, {total.commits} commits")


def _end_with_parent() -> None:
    """In a process of the pool: a killed parent tells nobody, and its children would wait forever."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()


def chunk(first: int, end: int) -> Total:
    """The histories of some seeds, in this process."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    total, began = Total(first), time.process_time()
    for seed in range(first, end):
        history = run_seed(seed, total.coverage)
        total.histories += 1
        total.commits += history.counts.commits
        total.foreign += history.counts.foreign
        total.faults += history.counts.faults
        total.sweeps += history.counts.sweeps
        if history.broken is not None:
            total.broken[seed] = str(history.broken)
    total.cpu_s = time.process_time() - began
    return total


def _one(seed: int) -> int:
    setting, moves = setting_of(seed), moves_of(seed)
    broken = run_history(setting, moves, told=_say).broken
    if broken is None:
        _say(f"seed {seed}: every promise was kept")
        return 0
    _say(f"\nseed {seed}: {broken}\nmaking it short …")
    short = shrunk(setting, moves, broken.rule)
    kept = Path(f"simulation-{seed}.json")
    kept.write_text(
        json.dumps({"setting": asdict(setting), "moves": [asdict(one) for one in short]}, indent=1)
    )
    _again(setting, short)
    _say(f'{len(short)} of {len(moves)} moves do it. Again:\n    make simulate ARGS="--schedule {kept}"')
    return 1


def _again(setting: Setting, moves: list[Move]) -> int:
    _say(setting)
    broken = run_history(setting, moves, told=_say).broken
    if broken is not None:
        traceback.print_exception(broken)
    return 1 if broken is not None else 0


if __name__ == "__main__":
    sys.exit(main())
