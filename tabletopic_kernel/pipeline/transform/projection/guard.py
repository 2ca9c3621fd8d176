"""Runs a projection's statement within limits of memory and time.

DuckDB's own ``memory_limit`` excludes the memory of list and text vectors: ``range(250000000)`` takes 18 GB
despite it. So the process's address space is limited while a statement runs. And DuckDB heeds an interrupt
only between vectors, so the statement has its own thread, which can be abandoned: one function call may take
hours on a single value. Time is the process's CPU time: a busy machine ends no statement.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

import duckdb
import pyarrow as pa

from tabletopic_kernel.model.errors import ProjectionError

T = TypeVar("T")
# In addition to the process's own: twice DuckDB's memory_limit, because a result briefly exists twice.
_MEMORY_BYTES: Final = 1024**3
_OF_MEMORY: Final = "it takes more than 512 MB of memory"
GROUP_S: Final = 30.0  # for the largest group of records
RECORD_S: Final = 2.0  # for a few
_GROUP_RECORDS: Final = 65_536
# An interrupt takes effect when a function has finished a vector of values.
_GRACE_S: Final = 15.0
_LOOK_S: Final = 0.5
_HANDED_OVER_S: Final = 5.0  # by then, the caller has the error
_THREAD: Final = ThreadPoolExecutor(1, "projection")


class LimitError(Exception):
    """A statement exceeded its memory or time; the message says which."""


def run(connection: duckdb.DuckDBPyConnection, ask: Callable[[], T], records: int) -> T:
    """The outcome of ``ask``, which uses the connection for ``records`` records, or DuckDB's error.

    Raises LimitError if it took too much; ProjectionError if it cannot be stopped, so this process will end.
    """
    limit_s = max(RECORD_S, GROUP_S * records / _GROUP_RECORDS)
    try:
        with _limited_memory():
            return _in_time(connection, ask, limit_s)
    except duckdb.InterruptException as error:
        raise LimitError(f"it takes more than {limit_s:.0f} s of processor time") from error
    except (MemoryError, duckdb.OutOfMemoryException, pa.ArrowMemoryError) as error:
        raise LimitError(_OF_MEMORY) from error
    except duckdb.Error as error:
        if "bad_alloc" in str(error) or "bad allocation" in str(error):
            raise LimitError(_OF_MEMORY) from error
        raise


@contextmanager
def _limited_memory() -> Iterator[None]:
    """Limit the address space: a process runs one statement at a time."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])  # the address space's, see proc(5)
    most = pages * resource.getpagesize() + _MEMORY_BYTES
    resource.setrlimit(
        resource.RLIMIT_AS, (most if soft == resource.RLIM_INFINITY else min(most, soft), hard)
    )
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _in_time(connection: duckdb.DuckDBPyConnection, ask: Callable[[], T], limit_s: float) -> T:
    answer, began = _THREAD.submit(ask), time.process_time()
    while not wait((answer,), _LOOK_S).done:
        spent_s = time.process_time() - began
        if spent_s > limit_s + _GRACE_S:
            # The thread goes on, so Spark has to start another process.
            end = threading.Timer(_HANDED_OVER_S, os._exit, (1,))
            end.daemon = True
            end.start()
            raise ProjectionError(
                f"it takes more than {GROUP_S:.0f} s for {_GROUP_RECORDS:,} records, in one step that cannot "
                "be interrupted. Is there a function whose work grows with a value, such as levenshtein or "
                "rpad?"
            )
        if spent_s > limit_s:
            connection.interrupt()
    return answer.result()
