"""The result of a query: its rows and the snapshots it read; and a query that Ctrl-C interrupts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa

T = TypeVar("T")
_LOOK_EVERY_S = 0.1


def interruptible(
    name: str, work: Callable[[], T], cancel: Callable[[], object], limit_s: float = float("inf")
) -> T:
    """Do the work in another thread, as DuckDB and Spark ignore signals; Ctrl-C cancels it.

    TimeoutError: it has taken longer than ``limit_s``, and was cancelled.

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

    deadline = time.monotonic() + limit_s
    try:
        threading.Thread(target=run, name=name, daemon=True).start()
        while not wait([outcome], timeout=_LOOK_EVERY_S).done:
            if time.monotonic() > deadline:
                raise TimeoutError
    except BaseException:  # of Ctrl-C or another signal, or of the limit
        if not outcome.cancel():  # it has begun
            # Repeatedly: it may still be planning, or between two statements, which forget it.
            while not outcome.done():
                cancel()
                wait([outcome], timeout=_LOOK_EVERY_S / 2)
        raise
    return outcome.result()


@dataclass(frozen=True)
class LiveRead:
    """The records behind a table's ledger that a query read as well; offsets are next ones, by partition.

    Attributes:
        table_to: the ledger of the snapshot.
        live_to: how far the records were read.
        records: read ones, of which some are no rows:
        refused: by reason, ``waiting`` if the registry does not say how to decode them,
        passed_over: by reason, as they describe no row.
        newest_ms: the newest timestamp of a record in the table or behind it; None without records.
        unread: offsets that a limit has left out: that of ``cut_by``.
        missing: why there is nothing to read, if the topic does not exist.
    """

    table_to: Mapping[int, int]
    live_to: Mapping[int, int]
    records: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    passed_over: Mapping[str, int] = field(default_factory=dict)
    newest_ms: int | None = None
    unread: int = 0
    cut_by: str = ""
    missing: str = ""


@dataclass(frozen=True)
class Tail:
    """The rows behind a table's snapshot, with the table's columns.

    ``replaced``: rows whose place they take, by ``file``, a name, and ``position``.
    """

    rows: pa.Table
    read: LiveRead
    replaced: pa.Table | None = None


@dataclass(frozen=True)
class TableRead:
    """A table that a query read, and its snapshot, None if it has none yet. Time in ms.

    ``live``: what was read behind it, if that was wanted.
    """

    table: str
    snapshot_id: int | None
    snapshot_ms: int | None
    live: LiveRead | None = None


@dataclass(frozen=True)
class Answer:
    """Rows of a query and the tables it read. ``truncated``: there are more rows than requested.

    ``scanned_bytes``: bytes read, if the engine charges by them; else None.
    """

    rows: pa.Table
    tables: tuple[TableRead, ...] = ()
    truncated: bool = False
    scanned_bytes: int | None = None
