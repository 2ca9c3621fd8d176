"""Processes that outlive their parent: how to start, recognise and stop them; memory of a process tree.

A process is known by pid and start time, so a reused pid is never mistaken for it. Every command also carries
a mark that names its state folder, to find a process whose starter died before it could record the pid.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tabletopic_kernel.model.errors import StackError

# The kernel reports the boot time, to which a start time is added, in whole seconds and recomputes it each
# time: it may differ by one or two while the clock is being adjusted. No pid is reused so soon.
_START_TOLERANCE_S = 3.0
_PR_SET_PDEATHSIG = 1  # of Linux's prctl
# Settings of other installations that Kafka, Quarkus or log4j would take from the environment.
_FOREIGN_SETTINGS = ("APICURIO_", "KAFKA_", "LOG4J_", "QUARKUS_", "REGISTRY_", "CLASSPATH")


class _Child(subprocess.Popen[bytes]):
    """A child that may outlive us, so no warning when we release it."""

    def __del__(self) -> None:
        """Nothing to clean up: there are no pipes."""


# Our own children by pid, kept until they are reaped: a zombie keeps its pid and its start time.
_children: dict[int, _Child] = {}


@dataclass(frozen=True)
class ProcessId:
    """A process on this machine, unambiguously. ``start_time_s`` is psutil's, seconds since the epoch."""

    pid: int
    start_time_s: float

    @classmethod
    def of(cls, process: psutil.Process) -> ProcessId:
        """The identity of a process; raises psutil.NoSuchProcess."""
        return cls(process.pid, process.create_time())

    def names(self, process: psutil.Process) -> bool:
        """Whether ``process`` is this one, not another with its pid; raises psutil.NoSuchProcess."""
        return process.pid == self.pid and abs(process.create_time() - self.start_time_s) < _START_TOLERANCE_S


def mark(name: str, state_dir: Path) -> str:
    """The argument that every server of a state folder has; a JVM takes it as a system property."""
    return f"-Dtabletopic.server={name}@{state_dir}"


def environment() -> dict[str, str]:
    """This process's environment, adjusted for our JVMs."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN_SETTINGS)}
    # A JVM in the C locale cannot open files with non-ASCII names.
    return {**ours, "LC_ALL": "C.UTF-8"}


def spawn(command: Sequence[str], folder: Path, output: Path, *, append: bool = False) -> ProcessId:
    """Start ``command`` in ``folder``, in a session of its own, so that Ctrl-C does not reach it.

    Its output replaces the file ``output``, or is appended: then several may share it. Raises OSError.
    """
    with output.open("ab" if append else "wb") as out:
        child = _Child(
            command,
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _children[child.pid] = child
    return ProcessId.of(psutil.Process(child.pid))


def end_with_us(number: int = signal.SIGKILL) -> None:
    """In a new child, before its program begins: it gets the signal when our thread ends, however that ends.

    For ``preexec_fn``, where ``spawn`` is none: it runs after a change of user, which would undo this.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def is_alive(process: ProcessId, its_mark: str) -> bool:
    """Whether ``process`` still runs. If the clock was set, start times have moved: then its mark decides."""
    _reap()
    try:
        candidate = psutil.Process(process.pid)
        if has_ended(candidate):
            return False
        return process.names(candidate) or its_mark in candidate.cmdline()
    except psutil.Error:  # gone, or another user's
        return False


def find(marks: Collection[str]) -> list[tuple[str, ProcessId]]:
    """All processes but this one that carry a mark, with the mark; scans the machine's in about 30 ms."""
    _reap()
    matches = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            carried = set(marks).intersection(process.cmdline())
            if carried and process.pid != os.getpid() and not has_ended(process):
                matches.append((carried.pop(), ProcessId.of(process)))
    return matches


def send(process: psutil.Process, number: int) -> bool:
    """Send a signal to a process that may have ended; returns whether it existed.

    Once psutil has seen that a process is gone, it no longer checks whether another process now has the pid,
    and would signal that one. Raises psutil.AccessDenied.
    """
    with contextlib.suppress(psutil.NoSuchProcess):
        if process.is_running():
            process.send_signal(number)
            return True
    return False


def stop(processes: Iterable[ProcessId], timeout_s: float) -> None:
    """Terminate all, wait for them together, kill the rest after ``timeout_s``.

    Leaves alone a process that has reused a pid. Raises StackError if one belongs to another user.
    """
    handles = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            handle = psutil.Process(process.pid)
            if process.names(handle) and _terminate(handle):
                handles.append(handle)
    running = _wait_for(handles, timeout_s)
    for handle in running:
        send(handle, signal.SIGKILL)
    _wait_for(running, 10)
    _reap()


def _terminate(handle: psutil.Process) -> bool:
    try:
        return send(handle, signal.SIGTERM)
    except psutil.AccessDenied as error:
        raise StackError(f"Process {handle.pid} is another user's: only they can stop it.") from error


def _wait_for(handles: list[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    """Those still running after ``timeout_s``. A zombie has ended: its parent may never reap it."""
    ends_at = time.monotonic() + timeout_s
    while handles and time.monotonic() < ends_at:
        _, handles = psutil.wait_procs(handles, timeout=0.1)
        handles = [handle for handle in handles if not has_ended(handle)]
    return handles


def has_ended(process: psutil.Process) -> bool:
    """Whether it has ended, reaped or not.

    A killed process is a zombie once its first thread has ended, but holds its ports until the last has.
    """
    try:
        if process.status() != psutil.STATUS_ZOMBIE:
            return not process.is_running()
        return process.num_threads() <= 1
    except psutil.NoSuchProcess:
        return True


def _reap() -> None:
    for pid, child in list(_children.items()):
        if child.poll() is not None:
            _children.pop(pid, None)


def tree_memory_bytes(pid: int | None = None) -> int | None:
    """Resident memory of a process (None: this one) and all its descendants; None if unreadable.

    Shared pages count once for each process. Processes that end in the meantime are skipped.
    """
    try:
        root = psutil.Process(pid)
        total = root.memory_info().rss
        for member in root.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                total += member.memory_info().rss
    except (psutil.Error, OSError):  # out of file descriptors, for example
        return None
    return int(total)


_EVERY_S = 1.0


class ProcessTree:
    """Watches this process and its new descendants from ``start`` to ``stop``.

    Existing descendants do not belong to the demo: in a notebook they are the kernel's own Spark. Processes
    once seen are remembered: a child of a killed process is no longer our descendant, but still ours.
    """

    def __init__(self) -> None:
        self.peak_rss_bytes = 0
        # Shared pages count once; 0 where the system does not report them (only Linux does).
        self.peak_pss_bytes = 0
        self._own = psutil.Process()
        self._before = frozenset(self._own.children())
        self._seen: set[psutil.Process] = set()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop watching. Idempotent."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self) -> None:
        """Record the current processes, and measure them."""
        below = set(self._own.children()) - self._before
        for child in list(below):
            with contextlib.suppress(psutil.NoSuchProcess):
                below.update(child.children(recursive=True))
        with self._lock:
            self._seen.update(below)
            watched = [self._own, *self._seen]
        rss = pss = 0
        for process in watched:
            with contextlib.suppress(psutil.Error):
                memory = process.memory_full_info()
                rss += memory.rss
                pss += getattr(memory, "pss", 0)
        self.peak_rss_bytes = max(self.peak_rss_bytes, rss)
        self.peak_pss_bytes = max(self.peak_pss_bytes, pss)

    @property
    def peak_bytes(self) -> int:
        """The best available figure for the peak memory of all of them together."""
        return self.peak_pss_bytes or self.peak_rss_bytes

    def left(self) -> list[psutil.Process]:
        """Processes that are or were ours, and still run."""
        self.look()
        with self._lock:
            return [process for process in self._seen if not has_ended(process)]

    def end_what_is_left(self, timeout_s: float) -> list[str]:
        """Wait ``timeout_s`` for the rest to end, then kill them; returns the names of those killed."""
        _, late = psutil.wait_procs(self.left(), timeout=timeout_s)
        names = []
        for process in late:
            with contextlib.suppress(psutil.Error):
                names.append(f"{process.name()} ({process.pid})")
                send(process, signal.SIGKILL)
        psutil.wait_procs(late, timeout=5)
        return names

    def _run(self) -> None:
        while not self._over.wait(_EVERY_S):
            with contextlib.suppress(psutil.Error):
                self.look()
