"""The result of a query: its rows and the snapshots it read; and a wait for it that Ctrl-C interrupts."""

from __future__ import annotations

from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

T = TypeVar("T")
_LOOK_EVERY_S = 0.1


def result_of(outcome: Future[T]) -> T:
    """The outcome's result, or its error.

    Once ``polars`` is imported, ``Future.result`` alone ignores Ctrl-C: polars makes system calls resume
    after a signal (``SA_RESTART``), so Python never reaches its handler.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    while not wait([outcome], timeout=_LOOK_EVERY_S).done:
        pass
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
