"""Hosts in the background, which outlive whoever started them.

They are found by the mark on their command line, as the servers are.
"""

from __future__ import annotations

from pathlib import Path

from tabletopic_kernel.local import process

_STOP_LIMIT_S = 100  # for the last commits


def mark(state_dir: Path) -> str:
    """The argument that each host of a state folder carries."""
    return process.mark("host", state_dir.resolve())


def stop_detached(state_dir: Path) -> list[int]:
    """Stop them all, giving each time to commit; returns their pids."""
    found = [one for _, one in process.find({mark(state_dir)})]
    process.stop(found, _STOP_LIMIT_S)
    return [one.pid for one in found]
