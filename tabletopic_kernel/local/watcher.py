"""Processes that stop what others started, however those ended: a killed process runs no cleanup.

Each is this module, run with its mark, a state folder, and the process whose end it waits for:

- A *watcher* then stops the servers that one ``up`` started. It is started before them, and ends with the
  last of them.
- A *keeper* then stops all background hosts and servers, also those started in the meantime, unless
  another keeper of the same folder still waits: of two Jupyter servers, the last one takes the stack along.
  A demo's also removes its temporary folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from tabletopic_kernel.local import processes
from tabletopic_kernel.local.processes import ProcessId

WATCHER, KEEPER = "watcher", "keeper"
_REMOVE = "--remove"


def start_watcher(state_dir: Path, servers: Sequence[str]) -> ProcessId:
    """Stop these servers when this process has ended. Raises OSError."""
    return _start(WATCHER, state_dir, servers)


def start_keeper(state_dir: Path, *, remove: bool = False) -> ProcessId:
    """Stop the stack and its hosts when this process has ended, and ``remove`` the folder. Raises OSError."""
    return _start(KEEPER, state_dir, [_REMOVE] if remove else [])


def _start(name: str, state_dir: Path, words: Sequence[str]) -> ProcessId:
    folder, us = state_dir.resolve(), ProcessId.of(psutil.Process())
    arguments = [processes.mark(name, folder), str(folder), str(us.pid), repr(us.start_time_s), *words]
    # It prints nothing, and the state folder need not exist yet.
    return processes.spawn([sys.executable, "-P", "-m", __name__, *arguments], Path("/"), Path(os.devnull))


def wait_for_end(parent: ProcessId) -> None:
    """Return when ``parent`` has ended, however that happened."""
    with contextlib.suppress(psutil.NoSuchProcess):
        # Looked up once: psutil then tells it from another process with its pid, even if the clock is set.
        process = psutil.Process(parent.pid)
        if not parent.names(process):
            return
        # Its own parent waits for a zombie, perhaps never.
        while not processes.has_ended(process):
            with contextlib.suppress(psutil.TimeoutExpired):
                process.wait(timeout=1)


def when_ended(pid: int, act: Callable[[], None]) -> None:
    """Call ``act`` in a thread of its own when a process has ended."""

    def watch() -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            wait_for_end(ProcessId.of(psutil.Process(pid)))
        act()

    threading.Thread(target=watch, name="parent", daemon=True).start()


def _others_wait(its_mark: str) -> bool:
    for _, keeper in processes.find({its_mark}):
        with contextlib.suppress(psutil.Error, ValueError):  # ValueError: it ends, its command line is gone
            words = psutil.Process(keeper.pid).cmdline()
            _, pid, start_time_s = words[words.index(its_mark) + 1 :][:3]
            if processes.is_alive(ProcessId(int(pid), float(start_time_s)), its_mark):
                return True
    return False


def _main(its_mark: str, state_dir: str, pid: str, start_time_s: str, *words: str) -> None:
    folder = Path(state_dir)
    wait_for_end(ProcessId(int(pid), float(start_time_s)))
    # Imported late: the broker's client library would occupy memory all the while.
    from tabletopic_kernel.local.hosts import stop_detached  # noqa: PLC0415
    from tabletopic_kernel.local.stack import LocalStack  # noqa: PLC0415

    if its_mark == processes.mark(WATCHER, folder):
        LocalStack(folder).down(words)
    elif not _others_wait(its_mark):
        stop_detached(folder)
        LocalStack(folder).down()
        if _REMOVE in words:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _main(*sys.argv[1:])
