"""Limits what compactions take from a host: one table at a time, and on average a fifth of a core."""

from __future__ import annotations

import threading


class Allowance:
    """Lets one topic of a host at a time rewrite files, with a rest afterwards. May be used from any thread.

    Times are ms of ``Services.elapsed_ms``.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = False
        self._rests_until_ms = 0
        self._cpu_s = 0.0  # of executors, since it was taken

    def is_free(self, at_ms: int, *, asked: bool) -> bool:
        """Whether a compaction may begin now; ``asked``: a user waits for it, so the rest is skipped."""
        return not self._taken and (asked or at_ms >= self._rests_until_ms)

    def try_take(self, at_ms: int, *, asked: bool) -> bool:
        """Begin a compaction if one may begin now; arguments as for ``is_free``."""
        with self._lock:
            if not self.is_free(at_ms, asked=asked):
                return False
            self._taken, self._cpu_s = True, 0.0
            return True

    def charge(self, cpu_s: float) -> None:
        """Add the CPU time used on executors."""
        with self._lock:
            self._cpu_s += cpu_s

    def give_back(self, at_ms: int, cpu_s: float) -> None:
        """End; ``cpu_s`` was used here. The rest is four times the total, which makes a fifth of a core."""
        with self._lock:
            self._taken = False
            self._rests_until_ms = at_ms + round(4_000 * (cpu_s + self._cpu_s))
