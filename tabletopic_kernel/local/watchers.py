"""Small processes that stop what others started, however those ended.

They are separate processes, as a killed process runs no cleanup. Each is this module, run with its name:

- The *watcher* stops servers when the process that wanted them has ended. It is started before the servers,
  so they can never be left behind.
- The *keeper* stops the local stack and the background hosts when a Jupyter server has ended. Unlike the
  watcher it belongs to no particular start: it stops the stack whether a button, a notebook or a terminal
  started it in the meantime.
- The *watchdog* reads lines from a pipe whose other end the demo holds: pids of hosts, then ``done``. If the
  pipe closes without ``done``, it kills the hosts and their descendants, stops the servers and deletes a
  temporary folder.
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

from tabletopic_kernel.local import processes
from tabletopic_kernel.local.processes import ProcessId

# How each is run; the marks of watcher and keeper contain it, too.
WATCHER, KEEPER, WATCHDOG = "watcher", "keeper", "watchdog"
_DONE = "done"


def watcher_command(its_mark: str, state_dir: Path, parent: ProcessId, servers: list[str]) -> list[str]:
    """The command line for ``watch_servers``."""
    arguments = [str(state_dir), str(parent.pid), repr(parent.start_time_s), *servers]
    return [sys.executable, "-P", "-m", __name__, WATCHER, its_mark, *arguments]


def watch_servers(arguments: list[str]) -> None:
    """Wait for the parent to end, then stop the servers of its stack that it started."""
    _, state_dir, pid, start_time_s, *servers = arguments
    wait_for_end(ProcessId(int(pid), float(start_time_s)))
    # Imported late: the broker's client library would occupy memory all the while.
    from tabletopic_kernel.local.stack import LocalStack  # noqa: PLC0415

    LocalStack(Path(state_dir)).down(servers)


def wait_for_end(parent: ProcessId) -> None:
    """Return when ``parent`` has ended, however that happened."""
    with contextlib.suppress(psutil.NoSuchProcess):
        # Looked up once: from now on psutil tells it from another with its pid, whatever the clock does.
        process = psutil.Process(parent.pid)
        if not parent.names(process):
            return
        # Its own parent waits for a zombie, perhaps never.
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            with contextlib.suppress(psutil.TimeoutExpired):
                process.wait(timeout=1)


def start_keeper(state_dir: Path) -> ProcessId:
    """Stop the stack of ``state_dir`` when this process has ended. Raises OSError."""
    folder = state_dir.resolve()
    us = ProcessId.of(psutil.Process())
    arguments = [processes.mark(KEEPER, folder), str(folder), str(us.pid), repr(us.start_time_s)]
    # It prints nothing, and the state folder need not exist yet.
    return processes.spawn(
        [sys.executable, "-P", "-m", __name__, KEEPER, *arguments], Path("/"), Path(os.devnull)
    )


def keep_stack(arguments: list[str]) -> None:
    """Wait for the Jupyter server to end; then let the hosts commit, and stop the servers."""
    its_mark, state_dir, pid, start_time_s = arguments
    wait_for_end(ProcessId(int(pid), float(start_time_s)))
    if _others_live(its_mark):
        return
    # Imported late: the broker's client library would occupy memory all the while.
    from tabletopic_kernel.local.hosts import stop_detached  # noqa: PLC0415
    from tabletopic_kernel.local.stack import LocalStack  # noqa: PLC0415

    stop_detached(Path(state_dir))
    LocalStack(Path(state_dir)).down()


def _others_live(its_mark: str) -> bool:
    """Whether another Jupyter server, perhaps this one restarted, uses the same state folder."""
    for _, found in processes.find({its_mark}):
        with contextlib.suppress(psutil.Error, ValueError):  # the second: it ends, and has no words any more
            *_, pid, start_time_s = psutil.Process(found.pid).cmdline()
            if processes.is_alive(ProcessId(int(pid), float(start_time_s)), its_mark):
                return True
    return False


class Watchdog:
    """The demo's end of the pipe. ``folder`` is the state folder, deleted if ``temporary``."""

    def __init__(self, folder: Path, *, temporary: bool) -> None:
        # A session of its own: Ctrl-C in the terminal must not reach it.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, WATCHDOG, str(folder), str(int(temporary))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def hold(self, pid: int) -> None:
        """On the demo's end, kill this process too, with its descendants."""
        self._tell(json.dumps([pid, psutil.Process(pid).create_time()]))

    def release(self) -> None:
        """Tell the watchdog that everything has ended. Idempotent."""
        self._tell(_DONE)
        with contextlib.suppress(OSError):
            self._process.communicate()

    def _tell(self, line: str) -> None:
        pipe = self._process.stdin
        if pipe is not None and not pipe.closed:
            with contextlib.suppress(OSError):  # it was killed: nobody to notify
                pipe.write(f"{line}\n")
                pipe.flush()


def watch_demo(arguments: list[str]) -> None:
    """Wait for the demo to end; clean up unless it already has."""
    folder, temporary = Path(arguments[0]), arguments[1] == "1"
    os.chdir("/")  # do not keep any folder busy
    held: list[ProcessId] = []
    for line in sys.stdin:
        if line.strip() == _DONE:
            return
        held.append(ProcessId(*json.loads(line)))
    processes.stop(_with_all_below(held), timeout_s=0)
    # Imported late: the broker's client library would occupy memory all the while.
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
    _, _program, *_arguments = sys.argv
    {WATCHER: watch_servers, KEEPER: keep_stack, WATCHDOG: watch_demo}[_program](_arguments)
