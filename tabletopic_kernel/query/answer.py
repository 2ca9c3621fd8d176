"""The result of a query: its rows and the snapshots it read; and a query that Ctrl-C interrupts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

T = TypeVar("T")
_LOOK_EVERY_S = 0.1


def interruptible(name: str, work: Callable[[], T], cancel: Callable[[], object]) -> T:
    """Do the work in another thread, as DuckDB and Spark ignore signals; Ctrl-C cancels it.

    Once ``polars`` is imported, ``Future.result`` alone ignores Ctrl-C: polars makes system calls resume
    after a signal (``SA_RESTART``), so Python never reaches its handler.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        if outcome.set_running_or_notify_cancel():
            try:
                outcome.set_result(work())
            except BaseException as error:  # raised in the thread that waits for the result
                outcome.set_exception(error)

    try:
        threading.Thread(target=run, name=name, daemon=True).start()
        while not wait([outcome], timeout=_LOOK_EVERY_S).done:
            pass
    except BaseException:  # of Ctrl-C or another signal
        if not outcome.cancel():  # it has begun
            # Repeatedly: it may still be planning, or between two statements, which forget it.
            while not outcome.done():
                cancel()
                wait([outcome], timeout=_LOOK_EVERY_S / 2)
        raise
    return outcome.result()


@dataclass(frozen=True)
class TableRead:
    """A table that a query read, and its snapshot, None if it has none yet. Time in ms."""

    table: str
    snapshot_id: int | None
    snapshot_ms: int | None


@dataclass(frozen=True)
class Answer:
    """Rows of a query and the tables it read. ``truncated``: there are more rows than requested.

    ``scanned_bytes``: bytes read, if the engine charges by them; else None.
    """

    rows: pa.Table
    tables: tuple[TableRead, ...] = ()
    truncated: bool = False
    scanned_bytes: int | None = None
