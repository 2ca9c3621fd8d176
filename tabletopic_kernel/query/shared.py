"""What the engines share: bind variables, time travel, a wait that Ctrl-C ends, and the answer.

A variable is ``$name`` in SQL, given to each engine in its own way; values never become text of ours. Time
travel leads from a snapshot id or a time to a snapshot. An answer is rows, and how fresh the tables are that
it read.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tabletopic_kernel.model.errors import UsageError

# What may hold a $ that means itself comes first: strings, quoted names, comments, $$…$$ strings.
_TOKEN = re.compile(
    r"""
    '(?:[^']|'')*' | "(?:[^"]|"")*" | `[^`]*` | --[^\n]* | /\*.*?\*/
    | \$(?P<tag>\w*)\$ .*? \$(?P=tag)\$
    | \$(?P<name>[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)


def names_in(sql: str) -> list[str]:
    """The variables that a query names, each once, in order.

    >>> names_in("SELECT '$a', $b, $c FROM t -- $d" + chr(10) + "WHERE x = $b")
    ['b', 'c']
    """
    found = (match["name"] for match in _TOKEN.finditer(sql))
    return list(dict.fromkeys(name for name in found if name))


def respelled(sql: str, spelling: Callable[[str], str]) -> str:
    """The query with each variable as an engine writes it.

    >>> respelled("SELECT '$a', $b", ":{}".format)
    "SELECT '$a', :b"
    """
    return _TOKEN.sub(lambda match: spelling(match["name"]) if match["name"] else match[0], sql)


def bound(sql: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a query's variables, NumPy's and pandas' scalars as Python's.

    Raises:
        UsageError: a variable has no value.
    """
    names = names_in(sql)
    if missing := [name for name in names if name not in values]:
        unknown = ", ".join(f"${name}" for name in missing)
        raise UsageError(f"the query names {unknown}, and there is no such variable; assign it first")
    return {name: _plain(values[name]) for name in names}


def _plain(value: Any) -> Any:
    to_python = getattr(value, "to_pydatetime", None) or getattr(value, "item", None)
    if callable(to_python) and getattr(value, "ndim", 0) == 0:
        return to_python()
    return value.tolist() if hasattr(value, "tolist") else value


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
    """A table that a query read, and the snapshot: None where the table has none yet. Time in ms."""

    table: str
    snapshot_id: int | None
    snapshot_ms: int | None


@dataclass(frozen=True)
class Answer:
    """Rows of a query and the tables it read. ``truncated``: there are more rows than were asked for.

    ``scanned_bytes``: what an engine that is paid by it has read; None where nobody counts.
    """

    rows: pa.Table
    tables: tuple[TableRead, ...] = ()
    truncated: bool = False
    scanned_bytes: int | None = None


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


AsOf = int | str | datetime


def dotted(table: Table) -> str:
    """The table's name with its namespace."""
    return ".".join(table.name())


def snapshot_at(table: Table, at: AsOf | None) -> Snapshot | None:
    """The snapshot to read; None for a table that never had one.

    Raises:
        UsageError: no such snapshot, or none that old.
    """
    if at is None:
        return table.current_snapshot()
    as_of = _parsed(at)
    if isinstance(as_of, int):
        found = table.snapshot_by_id(as_of)
        if found is None:
            known = ", ".join(str(entry.snapshot_id) for entry in table.history()[-3:]) or "none"
            raise UsageError(f"{dotted(table)} has no snapshot {as_of}; its newest: {known}")
        return found
    found = table.snapshot_as_of_timestamp(int(as_of.timestamp() * 1000))
    if found is None:
        first = min((snapshot.timestamp_ms for snapshot in table.snapshots()), default=None)
        oldest = "none at all" if first is None else datetime.fromtimestamp(first / 1000, UTC).isoformat()
        raise UsageError(
            f"{dotted(table)} has no snapshot as old as {as_of.isoformat()}; its first: {oldest}"
        )
    return found


def _parsed(at: AsOf) -> int | datetime:
    if isinstance(at, str):
        if at.strip().isdecimal():
            return int(at)
        try:
            at = datetime.fromisoformat(at.strip())
        except ValueError:
            raise UsageError(
                f"{at!r} is neither a snapshot id nor a time such as 2026-01-31T12:00:00Z"
            ) from None
    if isinstance(at, datetime) and at.tzinfo is None:
        return at.replace(tzinfo=UTC)
    return at
