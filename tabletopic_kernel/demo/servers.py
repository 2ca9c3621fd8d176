"""The demo's servers: a folder, its servers and hosts, all stopped together, and reports of the host."""

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

from tabletopic_kernel.local.hosts import HostProcess
from tabletopic_kernel.local.processes import ProcessTree
from tabletopic_kernel.local.progress import Report
from tabletopic_kernel.local.stack import LocalStack, StackInfo
from tabletopic_kernel.local.watchers import Watchdog
from tabletopic_kernel.model.errors import TableTopicError, UsageError
from tabletopic_kernel.model.progress.events import ControlEvent
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.config import wants_login
from tabletopic_kernel.workbench.topics.topic_status import TopicStatus
from tabletopic_kernel.workbench.workbench import Workbench

# A JVM whose Python process has ended exits within a second or two.
_LEFT_LIMIT_S = 15.0


class Interrupted(BaseException):
    """A signal asked the demo to end. Not an ``Exception``: no caller should mistake it for an error."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into ``Interrupted``, so that cleanup is the same as after Ctrl-C."""

    def interrupt(number: int, _: types.FrameType | None) -> None:
        raise Interrupted(number)

    before: dict[int, object] = {}
    with contextlib.suppress(ValueError):  # not the main thread: signals are handled elsewhere
        before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]


class DemoServers:
    """A state folder with everything that runs in it, from ``with`` to ``close`` or the end of the block.

    Raises UsageError for a folder whose servers already run: the demo must not stop them.
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
                    f"the servers of {self.folder} are running; the demo needs its own folder: "
                    "choose another --state-dir, or none"
                )
        self.tree = ProcessTree()
        self.hosts: list[HostProcess] = []
        self.killed: list[str] = []  # what did not end by itself
        self._watchdog = Watchdog(self.folder, temporary=self.temporary and not keep)
        self._started: tuple[str, ...] = ()
        self._closed = False

    def __enter__(self) -> DemoServers:
        self.tree.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for host in self.hosts if kind is not None else ():
            host.kill()  # the user is waiting: no time for a last commit
        self.close()
        failed = kind is not None and issubclass(kind, Exception)  # then the logs are needed
        if self.temporary and not self.keep and not failed:
            shutil.rmtree(self.folder, ignore_errors=True)

    def up(self, report: Report) -> StackInfo:
        """Start the servers; they end with this process, however it ends."""
        stack = LocalStack(self.folder, report, wants_login=wants_login(Settings()))
        info = stack.up(die_with_parent=True)
        self._started = info.started
        return info

    def start_host(self) -> HostProcess:
        """Start another host."""
        host = HostProcess(self.folder, len(self.hosts) + 1, self._watchdog)
        self.hosts.append(host)
        return host

    def close(self) -> None:
        """Stop everything; the folder stays. Idempotent."""
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


_STATUS_EVERY_S = 1.0
_REOPEN_S = 0.2


class Monitor:
    """Polls in its own threads, with its own workbench, while it is open."""

    def __init__(self, workbench: Workbench, topic: str, since_ms: int) -> None:
        self._workbench = workbench
        self._topic = topic
        self._since_ms = since_ms
        self._events: queue.SimpleQueue[ControlEvent] = queue.SimpleQueue()
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=work, name=name, daemon=True)
            for name, work in (("status", self._ask), ("events", self._listen))
        ]
        # Replaced as a whole, by one thread.
        self.status: TopicStatus | None = None

    def __enter__(self) -> Monitor:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def news(self) -> list[ControlEvent]:
        """Events that nobody has fetched yet, oldest first."""
        found = []
        while not self._events.empty():
            found.append(self._events.get())
        return found

    def _ask(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(TableTopicError):  # not enabled yet, or busy: the next response will do
                self._note(self._workbench.status(self._topic)[0])
            self._over.wait(_STATUS_EVERY_S)

    def _note(self, status: TopicStatus) -> None:
        # A host that does not own the table yet (epoch 0) does not know its rows.
        if self.status is None or status.epoch >= self.status.epoch:
            self.status = status

    def _listen(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(TableTopicError):
                # Ends at once as long as no host has created the control topic.
                for event in self._workbench.events(self._topic, self._since_ms, self._going):
                    self._since_ms = event.at_ms + 1
                    self._events.put(event)
            self._over.wait(_REOPEN_S)

    def _going(self) -> bool:
        return not self._over.is_set()
