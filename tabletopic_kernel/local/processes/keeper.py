"""Stops the local stack and the hosts in the background when a Jupyter server is gone, however it ended.

A process of its own, for nothing runs in a process that was killed. Other than the watcher it belongs to no
start: whoever started the stack meanwhile, a button, a notebook or a terminal, it is stopped.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import psutil

from tabletopic_kernel.local.processes import process
from tabletopic_kernel.local.processes.process import ProcessId
from tabletopic_kernel.local.processes.watcher import wait_for_end

NAME = "keeper"


def start(state_dir: Path) -> ProcessId:
    """Stop the stack of ``state_dir`` when this process has ended. Raises OSError."""
    folder = state_dir.resolve()
    us = ProcessId.of(psutil.Process())
    arguments = [process.mark(NAME, folder), str(folder), str(us.pid), repr(us.start_time_s)]
    # It prints nothing, and the state folder need not be there yet.
    return process.spawn([sys.executable, "-m", __name__, *arguments], Path("/"), Path(os.devnull))


def main(arguments: list[str]) -> None:
    """Wait for the server's end; then let the hosts commit and stop the servers."""
    its_mark, state_dir, pid, start_time_s = arguments
    wait_for_end(ProcessId(int(pid), float(start_time_s)))
    if _others_live(its_mark):
        return
    # Late: the broker's client library would take memory all the while.
    from tabletopic_kernel.local.processes.detached_hosts import stop_detached  # noqa: PLC0415
    from tabletopic_kernel.local.stack import LocalStack  # noqa: PLC0415

    stop_detached(Path(state_dir))
    LocalStack(Path(state_dir)).down()


def _others_live(its_mark: str) -> bool:
    """Whether another Jupyter server, perhaps this one started anew, works on the same state folder."""
    for _, found in process.find({its_mark}):
        with contextlib.suppress(psutil.Error):
            *_, pid, start_time_s = psutil.Process(found.pid).cmdline()
            if process.is_alive(ProcessId(int(pid), float(start_time_s)), its_mark):
                return True
    return False


if __name__ == "__main__":
    main(sys.argv[1:])
