"""SQL over the catalog's tables by DuckDB: for each table a query names, a view on its snapshot.

Views are made anew for every query, so each sees the newest snapshot. DuckDB's extensions come as wheels;
nothing is downloaded.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tabletopic_kernel.clients.catalog.catalog import reachable
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.query.duckdb_connection import (
    connect,
    give_secret,
    interruptible,
    position,
    sql_errors,
)
from tabletopic_kernel.query.shared import Answer, AsOf, TableRead, dotted, no_such_table, snapshot_at
from tabletopic_kernel.query.sql import Name, check_reads, quote, quote_default, tables_in, wants_table_list

_BATCH_ROWS = 10_000
_MOST_PARTS = 3  # catalog, namespace, table
_MISSING_TABLE = ("Catalog Error: Table with name", "Catalog Error: Schema", 'Binder Error: Catalog "')


@dataclass(frozen=True)
class _View:
    """A table of the catalog under the name by which the query calls it."""

    database: str
    schema: str
    name: str
    table: Table
    snapshot: Snapshot | None
    fixed: bool  # at that snapshot, with its schema; else the table's newest of both

    @property
    def place(self) -> str:
        return _dotted_place(self.database, self.schema, self.name)


class DuckLake:
    """Queries over one catalog. May be used by several threads: one query runs at a time.

    Tables are called ``table`` (in the default namespace), ``namespace.table`` or
    ``catalog.namespace.table``.
    """

    def __init__(self, catalog: Catalog, namespace: str = "default") -> None:
        self._catalog = catalog
        self._namespace = namespace
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._made: set[str] = set()  # places of our views
        # Of its own: where a view is already there, DuckDB names the tables below it instead.
        self._parser = duckdb.connect()

    def sql(
        self, sql: str, at: AsOf | None = None, params: Sequence[Any] | Mapping[str, Any] | None = None
    ) -> pa.Table:
        """The rows of a query; timestamps with zone are UTC.

        Args:
            sql: one query, which only reads; SET and USE may stand before it.
            at: read the tables as they were: a snapshot id, a time in ISO 8601 (UTC where it has no zone).
            params: values for ``?`` or ``$name``.

        Raises:
            UsageError: wrong SQL (with the position), SQL that writes, several queries, no such table or
                snapshot.
            RetryableError: catalog or storage do not answer.
        """
        return self.query(sql, at, params).rows

    def query(
        self,
        sql: str,
        at: AsOf | None = None,
        params: Sequence[Any] | Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> Answer:
        """As ``sql``, with the tables that were read; at most ``limit`` rows are fetched."""
        with self._lock, sql_errors():
            if wants_table_list(sql):
                return Answer(self._table_list())
            connection = self._open()
            text = quote_default(sql)
            check_reads(self._parser, text)
            names = tables_in(self._parser, text)
            views, unknown = self._views(names, at)
            self._drop(connection, unknown)
            for view in views:
                self._make(connection, view)
            with self._unknown_tables(unknown):
                rows, truncated = interruptible(connection, lambda: _run(connection, text, params, limit))
            return Answer(rows, tuple(map(_read, views)), truncated)

    def tables(self, sql: str) -> tuple[TableRead, ...]:
        """The catalog's tables that a query names, with their newest snapshots; none where it cannot be read.

        For SQL of another engine: DuckDB's parser knows most of it.
        """
        with self._lock:
            try:
                views, _ = self._views(tables_in(self._parser, quote_default(sql)), None)
            except duckdb.Error:
                return ()
        return tuple(map(_read, views))

    def close(self) -> None:
        """Let go of DuckDB; the next query begins anew."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    # -- views

    def _open(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            connection = connect()
            self._make_schema(connection, self._catalog.name, self._namespace)
            self._connection = connection
            self._made.clear()
        # Each time: a query may have said USE.
        self._connection.execute(f"USE {quote(self._catalog.name)}.{quote(self._namespace)}")
        return self._connection

    def _make_schema(self, connection: duckdb.DuckDBPyConnection, database: str, schema: str) -> None:
        connection.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {quote(database)}")
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(database)}.{quote(schema)}")

    def _views(self, names: Sequence[Name], at: AsOf | None) -> tuple[list[_View], list[Name]]:
        """The views to make, and the names that are no tables of the catalog."""
        views: dict[str, _View] = {}
        unknown: list[Name] = []
        for name in names:
            table = self._load(name)
            if table is None:
                unknown.append(name)
                continue
            view = _View(*self._place(name), table, snapshot_at(table, at), fixed=at is not None)
            other = views.setdefault(view.place.lower(), view)
            if other.table.name() != table.name():
                raise UsageError(
                    f"{dotted(table)} and {dotted(other.table)} differ only in case, which SQL does not "
                    "see: query one at a time"
                )
        return list(views.values()), unknown

    def _place(self, name: Name) -> tuple[str, str, str]:
        """Database, schema and name by which DuckDB finds what the query calls ``name``."""
        if len(name) == 1:
            return self._catalog.name, self._namespace, name[0]
        if len(name) == 2:
            return self._catalog.name, name[0], name[1]
        return name[0], name[1], name[2]

    def _load(self, name: Name) -> Table | None:
        """The table that a name means; nested namespaces may be written a.b.table or "a.b".table."""
        if not 1 <= len(name) <= _MOST_PARTS:
            return None
        below = name[1:] if len(name) == _MOST_PARTS and self._is_catalog(name[0]) else name
        *namespace, table = below if len(below) > 1 else (self._namespace, *below)
        identifier = (*".".join(namespace).split("."), table)
        with reachable("the catalog"):
            try:
                return self._catalog.load_table(identifier)
            except (NoSuchTableError, NoSuchNamespaceError):
                same = self._same_but_for_case(identifier)
                return self._catalog.load_table(same) if same else None

    def _is_catalog(self, name: str) -> bool:
        return name.lower() == self._catalog.name.lower()

    def _same_but_for_case(self, identifier: Name) -> Name | None:
        """The one table that SQL, which does not see case, may mean."""
        *namespace, _ = identifier
        try:
            beside = self._catalog.list_namespaces(tuple(namespace[:-1]))
        except NoSuchNamespaceError:
            return None
        same = [
            table
            for found in beside
            if _lower(found) == _lower(namespace)
            for table in self._catalog.list_tables(found)
            if _lower(table) == _lower(identifier)
        ]
        return same[0] if len(same) == 1 else None

    def _drop(self, connection: duckdb.DuckDBPyConnection, unknown: Sequence[Name]) -> None:
        """Views of tables that are no longer in the catalog; what the person made stays."""
        for name in unknown:
            place = _dotted_place(*self._place(name)) if 1 <= len(name) <= _MOST_PARTS else ""
            if place in self._made:
                connection.execute(f"DROP VIEW IF EXISTS {place}")
                self._made.discard(place)

    def _make(self, connection: duckdb.DuckDBPyConnection, view: _View) -> None:
        give_secret(connection, view.table.location(), view.table.io.properties)
        self._make_schema(connection, view.database, view.schema)
        location = view.table.metadata_location.replace("'", "''")
        chosen = f", snapshot_from_id = {view.snapshot.snapshot_id}" if view.fixed and view.snapshot else ""
        self._made.add(view.place)
        connection.execute(
            f"CREATE OR REPLACE VIEW {view.place} AS SELECT * FROM iceberg_scan('{location}'{chosen})"
        )

    # -- names

    def _all_tables(self) -> list[Name]:
        with reachable("the catalog"):
            tables: list[Name] = []
            waiting = list(self._catalog.list_namespaces())
            while waiting:
                namespace = waiting.pop()
                tables += self._catalog.list_tables(namespace)
                waiting += [one for one in self._catalog.list_namespaces(namespace) if one not in waiting]
            return sorted(set(tables))

    def _table_list(self) -> pa.Table:
        names = self._all_tables()
        return pa.table(
            {
                "namespace": pa.array([".".join(name[:-1]) for name in names], pa.string()),
                "name": pa.array([name[-1] for name in names], pa.string()),
            }
        )

    @contextmanager
    def _unknown_tables(self, unknown: Sequence[Name]) -> Iterator[None]:
        """DuckDB's message about a missing table with the catalog's names in place of its own."""
        try:
            yield
        except (duckdb.CatalogException, duckdb.BinderException) as error:
            first_line = str(error).partition("\n")[0]
            missing = next(
                (name for name in unknown if name[-1] in first_line or name[0] in first_line), None
            )
            if missing is None or not first_line.startswith(_MISSING_TABLE):
                raise
            message = no_such_table(".".join(missing), map(".".join, self._all_tables()))
            raise UsageError(message + position(error)) from None


def _lower(name: Sequence[str]) -> Name:
    return tuple(part.lower() for part in name)


def _dotted_place(*parts: str) -> str:
    return ".".join(map(quote, parts))


def _run(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    params: Sequence[Any] | Mapping[str, Any] | None,
    limit: int | None,
) -> tuple[pa.Table, bool]:
    """The rows of the last statement, at most ``limit``, and whether there are more."""
    connection.execute(sql, params)
    if connection.description is None:
        raise UsageError("there is no statement in this SQL: write for example SELECT 1")
    if limit is None:
        return connection.to_arrow_table(), False
    reader = connection.to_arrow_reader(min(_BATCH_ROWS, limit + 1))
    batches, rows = [], 0
    while rows <= limit:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            break
        batches.append(batch)
        rows += batch.num_rows
    return pa.Table.from_batches(batches, reader.schema).slice(0, limit), rows > limit


def _read(view: _View) -> TableRead:
    snapshot = view.snapshot
    return TableRead(
        dotted(view.table),
        None if snapshot is None else snapshot.snapshot_id,
        None if snapshot is None else snapshot.timestamp_ms,
    )
