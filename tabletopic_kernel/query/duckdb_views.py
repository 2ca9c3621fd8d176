"""The views of a query: each table's snapshot under its name, and for live reads the records behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import duckdb
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.query.answer import TableRead, Tail
from tabletopic_kernel.query.as_of import AsOf, snapshot_at
from tabletopic_kernel.query.catalogs import Catalogs
from tabletopic_kernel.query.statements.sql import Name, literal, quote

LIVE: Final = "$live"  # the end of a live view's name
# What is behind some tables, read at once; None for a table that no topic fills.
Tails = Callable[[Sequence[Table]], list[Tail | None]]


@dataclass(frozen=True)
class View:
    """A table of the catalog under its name in the query."""

    database: str
    schema: str
    name: str
    spelled: str  # with namespace, and with its catalog unless that is the default one
    table: Table
    snapshot: Snapshot | None
    fixed: bool  # at that snapshot, with its schema; else with the newest of both
    is_live: bool = False
    tail: Tail | None = None

    @property
    def place(self) -> str:
        return dotted_place(self.database, self.schema, self.name)

    @property
    def read(self) -> TableRead:
        """What the query says that it has read."""
        snapshot = self.snapshot
        return TableRead(
            self.spelled,
            None if snapshot is None else snapshot.snapshot_id,
            None if snapshot is None else snapshot.timestamp_ms,
            self.tail.read if self.tail else None,
        )

    def make(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the view; DuckDB prunes files and columns of the table as without the tail."""
        location = literal(self.table.metadata_location)
        chosen = f", snapshot_from_id = {self.snapshot.snapshot_id}" if self.fixed and self.snapshot else ""
        rows = f"SELECT * FROM iceberg_scan({location}{chosen})"
        if self.tail is not None and self.tail.replaced is not None and len(self.tail.replaced):
            connection.register(self._replaced, self.tail.replaced)
            rows = self._without_replaced(location)
        if self.tail is not None and len(self.tail.rows):
            connection.register(self.place, self.tail.rows)
            rows += f" UNION ALL BY NAME SELECT * FROM temp.main.{quote(self.place)}"
        connection.execute(f"CREATE OR REPLACE VIEW {self.place} AS {rows}")

    @property
    def _replaced(self) -> str:
        return f"{self.place} replaced"

    def _without_replaced(self, location: str) -> str:
        """The table's rows, but for those that the tail replaces. With other names for the columns, as those
        of a table may hide DuckDB's own: a row's file and its position there.
        """
        names = [column.name for column in self.table.schema().fields]
        columns = ", ".join(f"c{at} AS {quote(name)}" for at, name in enumerate(names))
        aliases = ", ".join(f"c{at}" for at in range(len(names)))
        return (
            f"SELECT {columns} FROM iceberg_scan({location}) t({aliases}) ANTI JOIN temp.main."
            f"{quote(self._replaced)} r ON r.file = parse_filename(t.filename) "
            "AND r.position = t.file_row_number"
        )

    def forget(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Release what the tail has."""
        if self.tail is not None:
            with suppress(duckdb.Error):  # it ended with a fatal error
                connection.unregister(self.place)
                connection.unregister(self._replaced)


def views_of(
    catalogs: Catalogs, names: Sequence[Name], at: AsOf | None, *, live: bool = False
) -> tuple[list[View], list[Name]]:
    """The views to create, and the names that are not tables of the catalog; a table has one snapshot."""
    views: dict[str, View] = {}
    unknown: list[Name] = []
    tables: dict[str, Table] = {}
    for name in names:
        base = (*name[:-1], name[-1][: -len(LIVE)]) if name[-1].lower().endswith(LIVE) else name
        table, is_live = catalogs.load(base), live or base != name
        if table is None and base != name:  # somebody's table with such a name
            base, table, is_live = name, catalogs.load(name), live
        if table is None:
            unknown.append(name)
            continue
        if is_live and at is not None:
            raise UsageError("a live read begins at the newest snapshot: leave out the snapshot or time")
        spelled = catalogs.spelled(base, table)
        table = tables.setdefault(spelled, table)
        view = View(*catalogs.place(name), spelled, table, snapshot_at(table, at), at is not None, is_live)
        other = views.setdefault(view.place.lower(), view)
        if other.spelled != spelled:
            raise UsageError(
                f"{spelled} and {other.spelled} differ only in case, which SQL ignores: query one at a time"
            )
    return list(views.values()), unknown


def with_tails(views: Sequence[View], tails: Tails | None) -> list[View]:
    """The views, with what is behind their tables; all that a statement reads is read at once.

    Raises UsageError if a table that is named as live is not filled by a topic; others as ``tails``.
    """
    tables = {id(view.table): view.table for view in views if view.is_live}
    if not tables:
        return [*views]
    if tails is None:
        raise UsageError("live reads need the topics' broker: use a workbench's query")
    by_table = dict(zip(tables, tails([*tables.values()]), strict=True))
    for view in views:
        if view.is_live and by_table[id(view.table)] is None and view.name.lower().endswith(LIVE):
            raise UsageError(f"{view.spelled} is not filled by a topic, so nothing is behind it: omit {LIVE}")
    return [replace(view, tail=by_table.get(id(view.table)) if view.is_live else None) for view in views]


def dotted_place(*parts: str) -> str:
    """Catalog, namespace and name as SQL."""
    return ".".join(map(quote, parts))
