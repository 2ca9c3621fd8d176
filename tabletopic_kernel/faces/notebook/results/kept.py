"""The last results of a kernel, as Arrow, within a bound in bytes.

The shell's thread adds results, and the thread of comm messages reads them.
"""

from __future__ import annotations

import secrets
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pyarrow as pa

from tabletopic_kernel.model.errors import ActionNeededError

_MOST_RESULTS = 20
_MOST_ORDERS = 2  # of 10 million rows each takes 40 MB


@dataclass(frozen=True)
class Query:
    """The query in a cell that a result is of: what ``workbench.query`` gets."""

    sql: str
    engine: str
    at: Any = None
    names: tuple[str, ...] = ()  # of the variables in it
    live: bool = False
    frames: tuple[str, ...] = ()  # variables that it reads as tables


class Kept:
    """A result's rows; its lock guards the orders, lists of row numbers by what they are sorted by."""

    def __init__(self, key: str, rows: pa.Table, query: Query | None) -> None:
        self.key = key
        self.rows = rows
        self.query = query
        self.lock = threading.Lock()
        self._orders: OrderedDict[Any, Sequence[int]] = OrderedDict()
        # A row of a table is looked for in each column's chunks: too slow for a page of 100 single rows.
        self._batches = [batch for batch in rows.to_batches() if batch.num_rows]
        self._starts = list(accumulate((batch.num_rows for batch in self._batches), initial=0))

    def order(self, by: Any, make: Callable[[], Sequence[int]]) -> Sequence[int]:
        """The row numbers for this order, made once while it is among the last ones."""
        with self.lock:
            if by not in self._orders:
                self._orders[by] = make()
            self._orders.move_to_end(by)
            while len(self._orders) > _MOST_ORDERS:
                self._orders.popitem(last=False)
            return self._orders[by]

    def at(self, numbers: Sequence[int]) -> pa.Table:
        """The rows with these numbers, in this order."""
        rows = []
        for number in map(int, numbers):
            index = bisect_right(self._starts, number) - 1
            rows.append(self._batches[index].slice(number - self._starts[index], 1))
        return pa.Table.from_batches(rows, self.rows.schema).combine_chunks()


class Results:
    """Keeps results until ``most_bytes()`` are exceeded; the newest one always stays."""

    def __init__(self, most_bytes: Callable[[], int]) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Kept] = OrderedDict()

    def keep(self, rows: pa.Table, query: Query | None = None) -> Kept:
        """Keep these rows, and let go of the results that were not used for longest."""
        kept = Kept(secrets.token_hex(8), rows, query)
        with self._lock:
            self._kept[kept.key] = kept
            while len(self._kept) > 1 and (
                len(self._kept) > _MOST_RESULTS or self._bytes() > self._most_bytes()
            ):
                self._kept.popitem(last=False)
        return kept

    def get(self, key: str) -> Kept:
        """A result; ActionNeededError if the kernel does not have it (any more)."""
        with self._lock:
            if key not in self._kept:
                raise ActionNeededError(
                    "the kernel does not have these rows: it keeps the last results, and none of an earlier "
                    "kernel. Run the cell again"
                )
            self._kept.move_to_end(key)
            return self._kept[key]

    def _bytes(self) -> int:
        return sum(kept.rows.nbytes for kept in self._kept.values())
