"""The host's one thread of maintenance: it runs jobs of all topics, piece by piece.

A job is a generator that yields the future of each answer that it waits for, and goes on with the answer.
While it waits, other jobs use the thread; otherwise it keeps the thread. So one topic at a time reads or
rewrites files, and a topic with slow commits does not delay the jobs of others.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, TypeVar

from tabletopic_kernel.model.errors import OutcomeUnknownError, RetryableError

T = TypeVar("T")
Job = Generator[Future[Any], Any, None]

# A piece that takes longer may hang, such as on a cluster without executors: others stop waiting for it.
_LONGEST_MS: Final = 10 * 60_000


def once_more(do: Callable[[], T]) -> T:
    """``do``, and again if a dependency failed: one answer of a gateway does not end a job that began."""
    try:
        return do()
    except (RetryableError, OutcomeUnknownError):
        return do()


class Jobs:
    """Jobs of one host. Thread-safe; ``_lock`` guards its state. Times are ms of ``elapsed_ms``.

    ``rests_until_ms``: no compaction begins by itself before that.
    """

    def __init__(
        self, spawn: Callable[[str, Callable[[], None]], None], elapsed_ms: Callable[[], int]
    ) -> None:
        self._spawn, self._elapsed_ms = spawn, elapsed_ms
        self._lock = threading.Lock()
        self._ready: deque[tuple[Job, Future[Any] | None]] = deque()
        self._at_work = False
        self._began_ms = 0  # of the piece under way
        self.rests_until_ms = 0

    def begin(self, job: Job) -> None:
        """Run a job, which raises nothing, when the thread has time for it."""
        self._go_on(job, None)

    def attend(self) -> None:
        """Ensure that a thread runs the ready jobs: another thread if the first may hang."""
        with self._lock:
            hangs = self._elapsed_ms() - self._began_ms >= _LONGEST_MS
            if not self._ready or (self._at_work and not hangs):
                return
            self._at_work, self._began_ms = True, self._elapsed_ms()
        self._spawn("maintenance", self._work)

    def rest(self, cpu_s: float) -> None:
        """Rest for four times the CPU time that a compaction took: a fifth of a core on average."""
        with self._lock:
            since_ms = max(self.rests_until_ms, self._elapsed_ms())
            self.rests_until_ms = since_ms + round(4_000 * cpu_s)

    def _go_on(self, job: Job, answer: Future[Any] | None) -> None:
        with self._lock:
            self._ready.append((job, answer))
        self.attend()

    def _work(self) -> None:
        while (ready := self._next()) is not None:
            job, answer = ready
            try:
                if answer is None:
                    question = next(job)
                elif (error := answer.exception()) is not None:
                    question = job.throw(error)
                else:
                    question = job.send(answer.result())
            except StopIteration:
                continue
            question.add_done_callback(partial(self._go_on, job))

    def _next(self) -> tuple[Job, Future[Any] | None] | None:
        with self._lock:
            if not self._ready:
                self._at_work = False
                return None
            self._began_ms = self._elapsed_ms()
            return self._ready.popleft()
