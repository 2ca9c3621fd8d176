"""Ends what the demo started when the demo itself is gone, however it ended.

A small process of its own, for nothing runs in a process that was killed. It reads lines from a pipe
whose other end the demo holds: pids of hosts, then ``done``. When the pipe closes without ``done``, it
kills the hosts with all below them, stops the servers and removes a temporary folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil

from tabletopic_kernel.local.processes.process import ProcessId, stop

_DONE = "done"


class Watchdog:
    """The demo's end of the pipe. ``folder`` is the state folder, removed if it is ``temporary``."""

    def __init__(self, folder: Path, *, temporary: bool) -> None:
        # A session of its own: Ctrl-C in the terminal must not reach it.
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(folder), str(int(temporary))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def hold(self, pid: int) -> None:
        """End this process too, with all below it."""
        self._tell(json.dumps([pid, psutil.Process(pid).create_time()]))

    def release(self) -> None:
        """Everything is ended already: let go. Idempotent."""
        self._tell(_DONE)
        with contextlib.suppress(OSError):
            self._process.communicate()

    def _tell(self, line: str) -> None:
        pipe = self._process.stdin
        if pipe is not None and not pipe.closed:
            with contextlib.suppress(OSError):  # it was killed: then there is nobody to tell
                pipe.write(f"{line}\n")
                pipe.flush()


def main(folder: Path, temporary: bool) -> None:
    """Wait for the demo's end; clean up unless it has done so."""
    held: list[ProcessId] = []
    for line in sys.stdin:
        if line.strip() == _DONE:
            return
        held.append(ProcessId(*json.loads(line)))
    stop(_with_all_below(held), timeout_s=0)
    # Late: the broker's client library would take memory all the while.
    from tabletopic_kernel.local.stack import LocalStack  # noqa: PLC0415

    LocalStack(folder).down()
    if temporary:
        shutil.rmtree(folder, ignore_errors=True)


def _with_all_below(held: list[ProcessId]) -> list[ProcessId]:
    found: list[ProcessId] = []
    for one in held:
        with contextlib.suppress(psutil.NoSuchProcess):
            root = psutil.Process(one.pid)
            if one.names(root):
                tree = [root, *root.children(recursive=True)]
                found += [ProcessId.of(process) for process in tree]
    return found


if __name__ == "__main__":
    os.chdir("/")  # holds no folder
    main(Path(sys.argv[1]), sys.argv[2] == "1")
