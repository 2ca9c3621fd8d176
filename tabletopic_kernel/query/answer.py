"""The result of a query: its rows, and the snapshots it read; and waiting for it, which Ctrl-C interrupts."""

from __future__ import annotations

from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

T = TypeVar("T")
_LOOK_EVERY_S = 0.1


def result_of(outcome: Future[T]) -> T:
    """The outcome's result, or its error.

    ``Future.result`` alone is deaf to Ctrl-C once ``polars`` is imported: it lets system calls go on after a
    signal (``SA_RESTART``), and so Python never gets to its handler.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    while not wait([outcome], timeout=_LOOK_EVERY_S).done:
        pass
    return outcome.result()


@dataclass(frozen=True)
class TableRead:
    """A table that a query read, and its snapshot: None if it has none yet. Time in ms."""

    table: str
    snapshot_id: int | None
    snapshot_ms: int | None


@dataclass(frozen=True)
class Answer:
    """Rows of a query and the tables it read. ``truncated``: there are more rows than requested.

    ``scanned_bytes``: what an engine that is paid by it has read; None where nobody counts.
    """

    rows: pa.Table
    tables: tuple[TableRead, ...] = ()
    truncated: bool = False
    scanned_bytes: int | None = None
