"""Stops servers when the process that wanted them is gone, however it ended.

A process of its own, for nothing runs in a process that was killed. Started before the servers, so that
there is no moment in which they could be left behind.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import psutil

from tabletopic_kernel.local.process import ProcessId, is_alive

NAME = "watcher"


def command(its_mark: str, state_dir: Path, parent: ProcessId, servers: list[str]) -> list[str]:
    """The command line that ``main`` reads."""
    arguments = [str(state_dir), str(parent.pid), repr(parent.start_time_s), *servers]
    return [sys.executable, "-m", __name__, its_mark, *arguments]


def main(arguments: list[str]) -> None:
    """Wait for the parent's end, then stop the servers of its stack that it started."""
    its_mark, state_dir, pid, start_time_s, *servers = arguments
    parent = ProcessId(int(pid), float(start_time_s))
    while is_alive(parent, its_mark):
        with contextlib.suppress(psutil.Error):
            psutil.Process(parent.pid).wait(timeout=1)
    # Late: the broker's client library would take memory all the while.
    from tabletopic_kernel.local.stack import LocalStack  # noqa: PLC0415

    LocalStack(Path(state_dir)).down(servers)


if __name__ == "__main__":
    main(sys.argv[1:])
