"""Hosts as separate processes: to be killed, frozen, stopped."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from tabletopic_kernel.host.host import LOST
from tabletopic_kernel.local.hosts import host_mark
from tabletopic_kernel.local.processes import send
from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.workbench.workbench import Workbench
from tests.environment import without_settings
from tests.recovery.waiting import wait_until


class HostProcess:
    """``tabletopic serve`` on the servers of ``folder``; its output is in ``output``."""

    def __init__(
        self,
        folder: Path,
        number: int,
        environment: Mapping[str, str],
        *,
        quiet: bool = True,
        options: Sequence[str] = (),
    ) -> None:
        temporary = folder / "tmp"
        temporary.mkdir(exist_ok=True)
        ours = without_settings()
        # Beside the state folder: no file of the product.
        self._logs = folder / "logs"
        self.output = folder.with_name(f"{folder.name}-host-{number}.log")
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tabletopic_kernel.faces.cli",
                    "serve",
                    *["--quiet"] * quiet,
                    *["--mark", host_mark(folder)],
                    *options,
                ],
                cwd=temporary,  # no tabletopic.toml is near
                env={
                    **ours,
                    "TABLETOPIC_STATE_DIR": str(folder),
                    "TMPDIR": str(temporary),
                    **environment,
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._tree: set[psutil.Process] = set()

    def __repr__(self) -> str:
        return f"<host {self.pid}, ended: {self._process.poll()}>"

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it runs, even if frozen."""
        return self._process.poll() is None

    def is_called(self, host_id: str | None) -> bool:
        """Whether this is the host's id in events, statuses and in its group."""
        return host_id is not None and f"-{self.pid}-" in host_id

    @property
    def lost_its_share(self) -> bool:
        """Whether its group ever took it for dead; a machine that stalls for seconds does that, too."""
        return any(
            self.is_called(line) and LOST in line
            for log in self._logs.glob("serve.log*")
            for line in log.read_text("utf-8", "replace").splitlines()
        )

    def kill(self) -> None:
        """``kill -9`` of the host alone: no handler runs, and its Spark is not notified."""
        self._look()
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(self.pid).send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self, limit_s: float = 90) -> tuple[int, float]:
        """SIGTERM; returns the exit code, and how many seconds it took."""
        self._look()
        began = time.monotonic()
        self._process.terminate()
        code = self._process.wait(limit_s)
        return code, time.monotonic() - began

    def freeze(self) -> None:
        """SIGSTOP to the host and its descendants: others think it is gone, and it does not know."""
        frozen: set[psutil.Process] = set()
        while new := self._look() - frozen:  # a process that was about to start another one
            for process in new:
                send(process, signal.SIGSTOP)
            frozen |= new

    def thaw(self) -> None:
        """SIGCONT: it continues where it was."""
        for process in self._tree:
            send(process, signal.SIGCONT)

    def left(self) -> list[str]:
        """Descendants of this host that outlived it."""
        return [process.name() for process in self._look() if _runs(process)]

    def end(self) -> None:
        """Stop all of it, whatever its state."""
        for process in self._look():
            send(process, signal.SIGKILL)
        self._process.wait()

    def last_words(self) -> str:
        """The end of its output."""
        return self.output.read_text("utf-8", "replace")[-2000:]

    def _look(self) -> set[psutil.Process]:
        """All processes that are or once were below it, including itself."""
        with contextlib.suppress(psutil.NoSuchProcess):
            if self._process.poll() is None:
                own = psutil.Process(self.pid)
                self._tree |= {own, *own.children(recursive=True)}
        return set(self._tree)


class Hosts:
    """All hosts of these tests: one group, on one set of servers. Tests share them, as a start takes 8 s."""

    def __init__(self, folder: Path, bench: Workbench) -> None:
        self._folder = folder
        self._bench = bench
        self.everyone: list[HostProcess] = []

    def start(self, *, quiet: bool = True, options: Sequence[str] = (), **environment: str) -> HostProcess:
        """Start another host."""
        number = len(self.everyone) + 1
        host = HostProcess(self._folder, number, environment, quiet=quiet, options=options)
        self.everyone.append(host)
        return host

    @property
    def alive(self) -> list[HostProcess]:
        """The running ones."""
        return [host for host in self.everyone if host.is_alive]

    def exactly(self, count: int) -> list[HostProcess]:
        """This many hosts, sharing all settings partitions between them."""
        for extra in self.alive[count:]:
            extra.stop()
        while len(self.alive) < count:
            self.start()
        if count:
            wait_until(f"{count} hosts share the partitions", self.share)
        return self.alive

    def share(self) -> dict[int, set[int]] | None:
        """Settings partitions by pid, once only the live hosts hold them and each has some."""
        from tabletopic_kernel.model.topic_names import HOSTS_GROUP, SETTINGS_TOPIC

        try:
            members = self._bench.broker.group_members(HOSTS_GROUP)
        except RetryableError:  # the group's coordinator is only just being made
            return None
        held = {
            host.pid: {p for client, places in members if host.is_called(client) for _, p in places}
            for host in self.alive
        }
        everything = set(self._bench.broker.end_offsets([SETTINGS_TOPIC]).get(SETTINGS_TOPIC, {}))
        complete = everything and set().union(*held.values()) == everything
        return held if complete and len(members) == len(held) and all(held.values()) else None

    def end_all(self) -> None:
        """Stop all."""
        for host in self.everyone:
            host.end()


def _runs(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
