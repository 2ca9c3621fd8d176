"""Runs a projection's statement within hard limits of memory and time.

DuckDB's own ``memory_limit`` excludes the memory of list and text vectors (``range(250000000)``), so the
process's address space is limited while the statement runs. DuckDB heeds an interrupt only between vectors,
and one function call may take hours on a single value, so the statement has its own thread, which can be
abandoned. Time is CPU time of that thread: a busy machine ends no statement.
"""

from __future__ import annotations

import queue
import resource
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import duckdb
import pyarrow as pa

from tabletopic_kernel.model.errors import ProjectionError
from tabletopic_kernel.pipeline.transform.projection.child import note_stuck

T = TypeVar("T")
# In addition to the process's own: twice DuckDB's memory_limit, as a result briefly exists twice.
MEMORY_BYTES: Final = 1024**3
GROUP_S: Final = 30.0  # for the largest group of records
RECORD_S: Final = 2.0  # for a few
_GROUP_RECORDS: Final = 65_536
# An interrupt takes effect when a function has finished a vector of values.
_GRACE_S: Final = 15.0
_LOOK_S: Final = 0.5
_PAGE_BYTES: Final = resource.getpagesize()


class LimitError(Exception):
    """A statement exceeded its memory or time; the message says which."""


class StuckError(ProjectionError):
    """A statement cannot be stopped; its thread keeps running, and the process has to exit."""

    def __init__(self) -> None:
        super().__init__(
            f"it takes more than {GROUP_S:.0f} s for {_GROUP_RECORDS:,} records, in one step that cannot be "
            "interrupted; is there a function whose work grows with a value, such as levenshtein or rpad?"
        )


def run(connection: duckdb.DuckDBPyConnection, ask: Callable[[], T], records: int) -> T:
    """The outcome of ``ask``, which uses the connection for ``records`` records.

    Raises:
        LimitError: it took too much.
        StuckError: it took too much, and could not be stopped.
        duckdb.Error: whatever DuckDB raises.
    """
    limit = max(RECORD_S, GROUP_S * records / _GROUP_RECORDS)
    try:
        with _MEMORY:
            return _runner().run(ask, connection, limit)
    except duckdb.InterruptException as error:
        raise LimitError(f"it takes more than {limit:.0f} s of processor time") from error
    except (MemoryError, duckdb.OutOfMemoryException, pa.ArrowMemoryError) as error:
        raise LimitError(_OF_MEMORY) from error
    except duckdb.Error as error:
        if "bad_alloc" in str(error) or "bad allocation" in str(error):
            raise LimitError(_OF_MEMORY) from error
        raise


_OF_MEMORY: Final = "it takes more than 512 MB of memory"


class _Memory:
    """The limit of the address space: set when the first statement begins, lifted after the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._before = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)

    def __enter__(self) -> None:
        with self._lock:
            if not self._running:
                self._before = soft, hard = resource.getrlimit(resource.RLIMIT_AS)
                most = _address_space() + MEMORY_BYTES
                if soft == resource.RLIM_INFINITY or most < soft:
                    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
            self._running += 1  # last: an error above must not leave all later statements without a limit

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._lock:
            if kind is not None and issubclass(kind, StuckError):
                return  # other running statements stay within it
            self._running -= 1
            if not self._running:
                resource.setrlimit(resource.RLIMIT_AS, self._before)


_MEMORY: Final = _Memory()


def _address_space() -> int:
    """Bytes of this process's address space (proc(5): the first number of ``statm``, in pages)."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * _PAGE_BYTES


_Asked = queue.SimpleQueue[Callable[[], Any] | None]
_Done = queue.SimpleQueue[tuple[Any, BaseException | None]]


def _work(asked: _Asked, done: _Done) -> None:
    """Run statements, one after another, until there is no caller left."""
    while (ask := asked.get()) is not None:
        try:
            outcome: tuple[Any, BaseException | None] = (ask(), None)
        except BaseException as error:
            outcome = (None, error)
        del ask
        done.put(outcome)
        del outcome  # do not keep a table until the next statement


class _Runner:
    """A thread that runs one statement after another: it stays alive, so its CPU clock can always be read.

    It ends with the calling thread, which owns the runner: so it must not hold the runner itself.
    """

    def __init__(self) -> None:
        self._asked: _Asked = queue.SimpleQueue()
        self._done: _Done = queue.SimpleQueue()
        thread = threading.Thread(
            target=_work, args=(self._asked, self._done), name="projection", daemon=True
        )
        thread.start()
        weakref.finalize(self, self._asked.put, None)
        assert thread.ident is not None
        self._clock = time.pthread_getcpuclockid(thread.ident)

    def run(self, ask: Callable[[], T], connection: duckdb.DuckDBPyConnection, limit_s: float) -> T:
        """The outcome of ``ask``, which uses the connection; raises what it raises, and StuckError."""
        began, interrupted = time.clock_gettime(self._clock), False
        self._asked.put(ask)
        while True:
            try:
                found, error = self._done.get(timeout=_LOOK_S)
                break
            except queue.Empty:
                spent = time.clock_gettime(self._clock) - began
            if spent > limit_s and not interrupted:
                interrupted = True
                connection.interrupt()
            if spent > limit_s + _GRACE_S:
                note_stuck()
                raise StuckError
        if error is not None:
            raise error
        return found  # type: ignore[no-any-return]


_LOCAL = threading.local()


def _runner() -> _Runner:
    """The runner of this thread, whose statements come one after another."""
    found: _Runner | None = getattr(_LOCAL, "runner", None)
    if found is None:
        found = _LOCAL.runner = _Runner()
    return found
