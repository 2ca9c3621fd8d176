"""Stops servers when the process that wanted them is gone, however it ended.

A process of its own, for nothing runs in a process that was killed. Started before the servers, so that
there is no moment in which they could be left behind.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import psutil

from tabletopic_kernel.local.processes.process import ProcessId

NAME = "watcher"


def command(its_mark: str, state_dir: Path, parent: ProcessId, servers: list[str]) -> list[str]:
    """The command line that ``main`` reads."""
    arguments = [str(state_dir), str(parent.pid), repr(parent.start_time_s), *servers]
    return [sys.executable, "-m", __name__, its_mark, *arguments]


def main(arguments: list[str]) -> None:
    """Wait for the parent's end, then stop the servers of its stack that it started."""
    _, state_dir, pid, start_time_s, *servers = arguments
    wait_for_end(ProcessId(int(pid), float(start_time_s)))
    # Late: the broker's client library would take memory all the while.
    from tabletopic_kernel.local.stack import LocalStack  # noqa: PLC0415

    LocalStack(Path(state_dir)).down(servers)


def wait_for_end(parent: ProcessId) -> None:
    """Return when ``parent`` is gone, however it ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        # Looked up once: from here on psutil knows it from another with its pid, whatever the clock does.
        process = psutil.Process(parent.pid)
        if not parent.names(process):
            return
        # A zombie is waited for by its own parent, perhaps never.
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            with contextlib.suppress(psutil.TimeoutExpired):
                process.wait(timeout=1)


if __name__ == "__main__":
    main(sys.argv[1:])
