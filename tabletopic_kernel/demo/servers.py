"""The demo's servers and hosts in a folder, all stopped together, and the events of its topic."""

from __future__ import annotations

import contextlib
import queue
import shutil
import signal
import tempfile
import threading
import types
from collections.abc import Iterator
from pathlib import Path

from tabletopic_kernel.local import processes, watcher
from tabletopic_kernel.local.hosts import HostProcess
from tabletopic_kernel.local.processes import ProcessTree
from tabletopic_kernel.local.progress import Report
from tabletopic_kernel.local.stack import LocalStack
from tabletopic_kernel.model.errors import TableTopicError, UsageError
from tabletopic_kernel.model.progress.events import ControlEvent
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.config import wants_login
from tabletopic_kernel.workbench.workbench import Workbench

# A JVM whose Python process has ended exits within a second or two.
_LEFT_LIMIT_S = 15.0


class Interrupted(KeyboardInterrupt):
    """A signal asked the demo to end."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Raise ``Interrupted`` on signals, so that cleanup is the same as after Ctrl-C."""

    def interrupt(number: int, _: types.FrameType | None) -> None:
        raise Interrupted(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class DemoServers:
    """All that runs in a state folder, until ``close``; UsageError for one whose servers run already."""

    def __init__(self, state_dir: Path | None, *, keep: bool) -> None:
        self.is_kept = keep or state_dir is not None
        self.folder = (state_dir or Path(tempfile.mkdtemp(prefix="tabletopic-demo-"))).expanduser().resolve()
        if LocalStack(self.folder).info() is not None:
            raise UsageError(
                f"the servers of {self.folder} are running; the demo needs its own folder: "
                "choose another --state-dir, or none"
            )
        self.tree = ProcessTree()
        self.hosts: list[HostProcess] = []
        self.killed: list[str] = []  # processes that did not end by themselves
        self._keeper = watcher.start_keeper(self.folder, remove=not self.is_kept)
        self._is_closed = False

    def __enter__(self) -> DemoServers:
        self.tree.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for host in self.hosts if kind is not None else ():
            host.kill()  # the user is waiting: no time for a last commit
        self.close()
        has_failed = kind is not None and issubclass(kind, Exception)  # then the logs are needed
        if not self.is_kept and not has_failed:
            shutil.rmtree(self.folder, ignore_errors=True)

    def up(self, report: Report) -> None:
        """Start the servers."""
        LocalStack(self.folder, report, wants_login=wants_login(Settings())).up()

    def start_host(self) -> HostProcess:
        """Start another host."""
        host = HostProcess(self.folder, len(self.hosts) + 1)
        self.hosts.append(host)
        return host

    def close(self) -> None:
        """Stop everything; the folder stays. Idempotent."""
        if self._is_closed:
            return
        for host in self.hosts:
            host.ask_to_stop()
        for host in self.hosts:
            host.wait()
        LocalStack(self.folder).down()
        processes.stop([self._keeper], _LEFT_LIMIT_S)
        self.killed = self.tree.end_what_is_left(_LEFT_LIMIT_S)
        self.tree.stop()
        self._is_closed = True


_REOPEN_S = 0.2


class Monitor:
    """Reads the topic's events in a thread of its own, with its own workbench, while it is open."""

    def __init__(self, workbench: Workbench, topic: str, since_ms: int) -> None:
        self._workbench, self._topic, self._since_ms = workbench, topic, since_ms
        self._events: queue.SimpleQueue[ControlEvent] = queue.SimpleQueue()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, name="events", daemon=True)

    def __enter__(self) -> Monitor:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def news(self) -> list[ControlEvent]:
        """New events since the last call, oldest first."""
        events = []
        while not self._events.empty():
            events.append(self._events.get())
        return events

    def _read(self) -> None:
        def is_open() -> bool:
            return not self._over.is_set()

        while is_open():
            with contextlib.suppress(TableTopicError):
                for event in self._workbench.events(self._topic, self._since_ms, is_open):
                    self._since_ms = event.at_ms + 1
                    self._events.put(event)
            self._over.wait(_REOPEN_S)
