"""What the demo runs on: a folder, servers, hosts; all of it ended when the stage is closed."""

from __future__ import annotations

import contextlib
import shutil
import signal
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path

from tabletopic_kernel.local.hosts import HostProcess
from tabletopic_kernel.local.processes import ProcessTree
from tabletopic_kernel.local.progress import Report
from tabletopic_kernel.local.stack import LocalStack, StackInfo
from tabletopic_kernel.local.watchers import Watchdog
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.workbench.config import behind_hub

# A JVM whose Python is gone ends within a second or two.
_LEFT_LIMIT_S = 15.0


class Interrupted(BaseException):
    """A signal asked the demo to end. No ``Exception``: nobody on the way up should take it for an error."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into ``Interrupted``, so that the way out is the same as after Ctrl-C."""

    def interrupt(number: int, _: types.FrameType | None) -> None:
        raise Interrupted(number)

    before: dict[int, object] = {}
    with contextlib.suppress(ValueError):  # not the main thread: signals are somebody else's business
        before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]


class Stage:
    """A state folder with everything that runs in it, from ``with`` to ``close`` or the end of the block.

    Raises UsageError for a folder whose servers run already: they are not the demo's to stop.
    """

    def __init__(self, state_dir: Path | None, *, keep: bool) -> None:
        self.temporary = state_dir is None
        self.keep = keep
        if state_dir is None:
            self.folder = Path(tempfile.mkdtemp(prefix="tabletopic-demo-")).resolve()
        else:
            self.folder = state_dir.expanduser().resolve()
            if LocalStack(self.folder).info() is not None:
                raise UsageError(
                    f"the servers of {self.folder} are running; the demo wants a folder of its own: "
                    "choose another --state-dir, or give none"
                )
        self.tree = ProcessTree()
        self.hosts: list[HostProcess] = []
        self.killed: list[str] = []  # what did not end by itself
        self._watchdog = Watchdog(self.folder, temporary=self.temporary and not keep)
        self._started: tuple[str, ...] = ()
        self._closed = False

    def __enter__(self) -> Stage:
        self.tree.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for host in self.hosts if kind is not None else ():
            host.kill()  # somebody waits: no time for a last commit
        self.close()
        failed = kind is not None and issubclass(kind, Exception)  # then people want the logs
        if self.temporary and not self.keep and not failed:
            shutil.rmtree(self.folder, ignore_errors=True)

    def up(self, report: Report) -> StackInfo:
        """Start the servers; they end with this process, however it ends."""
        stack = LocalStack(self.folder, report, wants_login=behind_hub())
        info = stack.up(die_with_parent=True)
        self._started = info.started
        return info

    def start_host(self) -> HostProcess:
        """One more host."""
        host = HostProcess(self.folder, len(self.hosts) + 1, self._watchdog)
        self.hosts.append(host)
        return host

    def close(self) -> None:
        """End everything; the folder stays. Idempotent."""
        if self._closed:
            return
        for host in self.hosts:
            host.ask_to_stop()
        for host in self.hosts:
            host.wait()
        LocalStack(self.folder).down(self._started)
        self.killed = self.tree.end_what_is_left(_LEFT_LIMIT_S, frozenset({self._watchdog.pid}))
        self.tree.stop()
        self._watchdog.release()
        self._closed = True
