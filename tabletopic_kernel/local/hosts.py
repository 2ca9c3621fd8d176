"""Hosts in processes of their own: background hosts, and a demo's or drill's, which are killed and restarted.

Ctrl-C does not reach them; like the servers, they are found by the mark on their command line.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from tabletopic_kernel.local import processes
from tabletopic_kernel.local.folder import places
from tabletopic_kernel.local.machine import tail
from tabletopic_kernel.model.errors import StackError

_SERVE = (sys.executable, "-P", "-m", "tabletopic_kernel.faces.cli", "serve", "--quiet")
_COMMIT_LIMIT_S = 100  # for the last commits


def host_mark(state_dir: Path) -> str:
    """The argument that each host of a state folder has."""
    return processes.mark("host", state_dir.resolve())


def stop_detached(state_dir: Path, show: Callable[[str], None] | None = None) -> list[int]:
    """Stop all background hosts, with time for each to commit; returns their pids.

    ``show`` gets a line for people before the wait, if there are any. Raises StackError if one belongs to
    another user.
    """
    marks = {host_mark(place) for place in places(state_dir.resolve())}
    hosts = sorted({host for _, host in processes.find(marks)}, key=lambda host: host.pid)
    if hosts and show is not None:
        name = "the host" if len(hosts) == 1 else f"{len(hosts)} hosts"
        show(f"stopping {name} in the background; staged files are committed first …")
    processes.stop(hosts, _COMMIT_LIMIT_S)
    return [host.pid for host in hosts]


_STOP_LIMIT_S = 30.0
_SETTINGS = "demo.toml"
# Settings for the user's own cluster must not reach the demo; these only locate programs.
_KEPT = frozenset({"TABLETOPIC_CACHE", "TABLETOPIC_JAVA_HOME"})


def environment(folder: Path) -> dict[str, str]:
    """The environment in which every ``tabletopic`` uses the demo's servers and nothing else."""
    settings = folder / _SETTINGS
    settings.write_text("# Empty: nothing of a tabletopic.toml further up counts here.\n", "utf-8")
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    ours = {k: v for k, v in os.environ.items() if not k.startswith("TABLETOPIC_") or k in _KEPT}
    return {
        **ours,
        "TABLETOPIC_CONFIG": str(settings),
        "TABLETOPIC_STATE_DIR": str(folder),
        "TMPDIR": str(temporary),  # what a killed process leaves there is deleted with the folder
    }


class HostProcess:
    """Host ``number``, with more ``variables``; its output is in ``logs/host-<number>.log`` of the folder."""

    def __init__(
        self, folder: Path, number: int, variables: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.number = number
        self.ending = False
        self._log = folder / "logs" / f"host-{number}.log"
        with self._log.open("wb") as output:
            # A session of its own: Ctrl-C is for the demo, which stops its host itself.
            self._process = subprocess.Popen(
                [*_SERVE, "--mark", host_mark(folder)],
                cwd=folder,
                env={**environment(folder), **variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __str__(self) -> str:
        return f"host {self.number} (pid {self.pid})"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it runs, even if frozen."""
        return self._process.poll() is None

    def check(self) -> None:
        """Raise StackError if it has exited unexpectedly."""
        if not self.ending and self._process.poll() is not None:
            lines = tail(self._log, 15) or "(none)"
            raise StackError(
                f"{self} exited unexpectedly with code {self._process.returncode}. Its last lines, "
                f"all of them in {self._log}:\n{lines}"
            )

    def kill(self) -> None:
        """``kill -9``: no handler runs, nothing is flushed, the host does not leave its group. Idempotent."""
        self.ending = True
        self._process.kill()
        self._process.wait()

    def ask_to_stop(self) -> None:
        """Send SIGTERM: the host commits staged files and leaves."""
        self.ending = True
        self._process.terminate()

    def wait(self) -> None:
        """Wait for its end; kill it if that takes too long."""
        try:
            self._process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
