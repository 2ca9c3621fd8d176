"""Hosts in the background, where no Ctrl-C reaches them.

They are found by the mark on their command line, as the servers are; a host that a program started for its
own time (``--with-parent``) by the state folder there.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil

from tabletopic_kernel.local.processes import process
from tabletopic_kernel.local.processes.process import ProcessId

_STOP_LIMIT_S = 100  # for the last commits


def mark(state_dir: Path) -> str:
    """The argument that each host of a state folder carries."""
    return process.mark("host", state_dir.resolve())


def stop_detached(state_dir: Path) -> list[int]:
    """Stop them all, giving each time to commit; returns their pids."""
    marked = {one for _, one in process.find({mark(state_dir)})}
    found = sorted(marked | _with_parent(state_dir.resolve()), key=lambda one: one.pid)
    process.stop(found, _STOP_LIMIT_S)
    return [one.pid for one in found]


def _with_parent(state_dir: Path) -> set[ProcessId]:
    found = set()
    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = one.cmdline()
            if {"serve", "--with-parent", "--state-dir"} <= set(words):
                named = words[words.index("--state-dir") + 1 :][:1]
                if [str(Path(name).resolve()) for name in named] == [str(state_dir)]:
                    found.add(ProcessId.of(one))
    return found
