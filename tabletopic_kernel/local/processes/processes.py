"""Every process below the demo: how much memory they take together, and whether one is left."""

from __future__ import annotations

import contextlib
import threading

import psutil

_EVERY_S = 1.0


class ProcessTree:
    """Watches this process and what it starts from now on, with all below that, from ``start`` to ``stop``.

    What was below us before is none of the demo's: in a notebook it is the kernel's own Spark. Processes once
    seen are remembered: a child of a killed process is no longer below us, and still ours.
    """

    def __init__(self) -> None:
        self.peak_rss_bytes = 0
        # Pages that processes share count once; 0 where the system does not tell (only Linux does).
        self.peak_pss_bytes = 0
        self._own = psutil.Process()
        self._before = frozenset(self._own.children())
        self._seen: set[psutil.Process] = set()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching. Idempotent."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self) -> None:
        """Take in the processes there are now, and measure them."""
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
        """The best figure there is for the memory that all of them took at the same time."""
        return self.peak_pss_bytes or self.peak_rss_bytes

    def left(self, besides: frozenset[int] = frozenset()) -> list[psutil.Process]:
        """Processes that are ours, or once were, and still run."""
        self.look()
        with self._lock:
            seen = [process for process in self._seen if process.pid not in besides]
        return [process for process in seen if _runs(process)]

    def end_what_is_left(self, timeout_s: float, besides: frozenset[int] = frozenset()) -> list[str]:
        """Give what is left ``timeout_s`` to end by itself, then kill it; the names of those killed."""
        _, late = psutil.wait_procs(self.left(besides), timeout=timeout_s)
        names = []
        for process in late:
            with contextlib.suppress(psutil.Error):
                names.append(f"{process.name()} ({process.pid})")
                process.kill()
        psutil.wait_procs(late, timeout=5)
        return names

    def _run(self) -> None:
        while not self._over.wait(_EVERY_S):
            with contextlib.suppress(psutil.Error):
                self.look()


def _runs(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
