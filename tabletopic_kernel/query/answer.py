"""What a query gives back: rows, and how fresh the tables are that it read."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class TableRead:
    """A table that a query read, and the snapshot: None where the table has none yet. Time in ms."""

    table: str
    snapshot_id: int | None
    snapshot_ms: int | None


@dataclass(frozen=True)
class Answer:
    """Rows of a query and the tables it read. ``truncated``: there are more rows than were asked for."""

    rows: pa.Table
    tables: tuple[TableRead, ...] = ()
    truncated: bool = False


def no_such_table(name: str, known: Iterable[str]) -> str:
    """The message about a table that is not there, with the names that may be meant.

    >>> no_such_table("clikcs", ["default.clicks", "web.orders"])
    'there is no table clikcs; did you mean default.clicks?'
    """
    known = sorted(known)
    by_short: dict[str, list[str]] = {}
    for full in known:
        by_short.setdefault(full.rpartition(".")[2].lower(), []).append(full)
        by_short.setdefault(full.lower(), []).append(full)
    close = difflib.get_close_matches(name.lower(), by_short, n=3) or difflib.get_close_matches(
        name.rpartition(".")[2].lower(), by_short, n=3
    )
    meant = list(dict.fromkeys(full for match in close for full in by_short[match]))[:3]
    if meant:
        return f"there is no table {name}; did you mean {' or '.join(meant)}?"
    if known:
        names = ", ".join(known[:10]) + (", …" if len(known) > 10 else "")
        return f"there is no table {name}; there are: {names}"
    return f"there is no table {name}; the catalog has no tables yet"
