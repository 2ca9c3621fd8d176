"""SQL over the catalogs' tables with DuckDB: for each table in a query, a view on its snapshot.

Views are created again for every query, so each sees the newest snapshot. DuckDB's extensions come as wheels;
nothing is downloaded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tabletopic_kernel.model.errors import ActionNeededError, UsageError
from tabletopic_kernel.model.settings.table_properties import names_class
from tabletopic_kernel.query.answer import Answer, TableRead, interruptible
from tabletopic_kernel.query.as_of import AsOf, snapshot_at
from tabletopic_kernel.query.catalogs import Catalogs, no_such_table
from tabletopic_kernel.query.duckdb_connection import (
    FATAL,
    connect,
    folders_of,
    give_secret,
    position,
    sql_errors,
)
from tabletopic_kernel.query.duckdb_files import TableFiles
from tabletopic_kernel.query.sql import (
    MOST_PARTS,
    Name,
    check_reads,
    names_written,
    quote,
    quote_default,
    tables_in,
    wants_table_list,
)

_BATCH_ROWS = 10_000
_MISSING_TABLE = ("Catalog Error: Table with name", "Catalog Error: Schema", 'Binder Error: Catalog "')


@dataclass(frozen=True)
class _View:
    """A table of the catalog under its name in the query."""

    database: str
    schema: str
    name: str
    spelled: str  # with namespace, and with its catalog unless that is the default one
    table: Table
    snapshot: Snapshot | None
    fixed: bool  # at that snapshot, with its schema; else with the newest of both

    @property
    def place(self) -> str:
        return _dotted_place(self.database, self.schema, self.name)


class DuckLake:
    """Queries over catalogs. Thread-safe: one query runs at a time.

    Tables are called ``table`` (in the default namespace of the default catalog), ``namespace.table`` or
    ``catalog.namespace.table``. ``others``: functions that open further catalogs, by name.
    """

    def __init__(
        self,
        catalog: Catalog,
        namespace: str = "default",
        others: Mapping[str, Callable[[], Catalog]] | None = None,
    ) -> None:
        self._catalogs = Catalogs(catalog, namespace, others)
        self._namespace = namespace
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._own_views: set[str] = set()  # their places
        self._files = TableFiles()
        # A separate one: if a view already exists, DuckDB returns the tables below it instead.
        self._parser = duckdb.connect()

    def sql(
        self, sql: str, at: AsOf | None = None, params: Sequence[Any] | Mapping[str, Any] | None = None
    ) -> pa.Table:
        """The rows of a query; timestamps with zone are UTC.

        ``at``: a snapshot id, or a time in ISO 8601 (UTC without a zone). ``params``: values for ``?`` or
        ``$name``. Raises UsageError: wrong SQL, SQL that writes, several queries, no such table or snapshot.
        """
        return self.query(sql, at, params).rows

    def query(
        self,
        sql: str,
        at: AsOf | None = None,
        params: Sequence[Any] | Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> Answer:
        """Like ``sql``, with the tables that were read; fetches at most ``limit`` rows."""
        with self._lock, sql_errors(), self._restarting_after_fatal():
            if wants_table_list(sql):
                return Answer(self._table_list())
            connection = self._open()
            text = quote_default(sql)
            check_reads(self._parser, text)
            names = tables_in(self._parser, text)
            views, unknown = self._views(names, at)
            self._drop(connection, unknown)
            with self._files.errors():
                for view in views:
                    self._make(connection, view)
                with _unknown_tables(unknown, self._catalogs):
                    work = partial(_run, connection, text, params, limit)
                    rows, truncated = interruptible("duckdb", work, connection.interrupt)
            return Answer(rows, tuple(map(_read, views)), truncated)

    def tables(self, sql: str) -> tuple[TableRead, ...]:
        """The tables, with newest snapshots, in another engine's SQL; none if DuckDB cannot parse it."""
        with self._lock:
            try:
                views, _ = self._views(tables_in(self._parser, quote_default(sql)), None)
            except duckdb.Error:
                return ()
        return tuple(map(_read, views))

    def check_spark_writes(self, sql: str) -> None:
        """Raise ActionNeededError if a table that Spark may write to names a class: Spark would load it."""
        with self._lock:
            views, _ = self._views(names_written(sql), None)
        for view in views:
            for name, value in view.table.properties.items():
                is_java = names_class(name) and not name.startswith(("py-", "write.py-"))
                if is_java and not value.startswith("org.apache.iceberg."):
                    raise ActionNeededError(
                        f"{view.spelled} names the class {value}, which Spark would load: remove {name}"
                    )

    def close(self) -> None:
        """Close DuckDB; the next query starts a new one."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def _restarting_after_fatal(self) -> Iterator[None]:
        try:
            yield
        except FATAL:
            self._close()
            self._parser = duckdb.connect()
            raise

    # -- views

    def _open(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            connection = connect()
            _make_schema(connection, self._catalogs.default, self._namespace)
            self._connection = connection
            self._own_views.clear()
        # Each time: a query may have said USE.
        self._connection.execute(f"USE {quote(self._catalogs.default)}.{quote(self._namespace)}")
        return self._connection

    def _views(self, names: Sequence[Name], at: AsOf | None) -> tuple[list[_View], list[Name]]:
        """The views to create, and the names that are not tables of the catalog."""
        views: dict[str, _View] = {}
        unknown: list[Name] = []
        for name in names:
            table = self._catalogs.load(name)
            if table is None:
                unknown.append(name)
                continue
            spelled = self._catalogs.spelled(name, table)
            view = _View(
                *self._catalogs.place(name), spelled, table, snapshot_at(table, at), fixed=at is not None
            )
            other = views.setdefault(view.place.lower(), view)
            if other.spelled != spelled:
                raise UsageError(
                    f"{spelled} and {other.spelled} differ only in case, which SQL ignores: "
                    "query one at a time"
                )
        return list(views.values()), unknown

    def _drop(self, connection: duckdb.DuckDBPyConnection, unknown: Sequence[Name]) -> None:
        """Drop views of tables that are no longer in the catalog; user-created objects stay."""
        for name in unknown:
            place = _dotted_place(*self._catalogs.place(name)) if 1 <= len(name) <= MOST_PARTS else ""
            if place in self._own_views:
                connection.execute(f"DROP VIEW IF EXISTS {place}")
                self._own_views.discard(place)

    def _make(self, connection: duckdb.DuckDBPyConnection, view: _View) -> None:
        folders = folders_of(view.table.location(), view.table.properties)
        give_secret(connection, folders, view.table.io.properties)
        self._files.give(connection, view.table)
        _make_schema(connection, view.database, view.schema)
        location = view.table.metadata_location.replace("'", "''")
        chosen = f", snapshot_from_id = {view.snapshot.snapshot_id}" if view.fixed and view.snapshot else ""
        self._own_views.add(view.place)
        connection.execute(
            f"CREATE OR REPLACE VIEW {view.place} AS SELECT * FROM iceberg_scan('{location}'{chosen})"
        )

    # -- names

    def _table_list(self) -> pa.Table:
        """Tables of all catalogs, with a column for the catalog if there are several."""
        tables = self._catalogs.tables()
        catalogs = pa.array([catalog for catalog, _ in tables], pa.string())
        return pa.table(
            {
                **({"catalog": catalogs} if self._catalogs.are_several else {}),
                "namespace": pa.array([".".join(name[:-1]) for _, name in tables], pa.string()),
                "name": pa.array([name[-1] for _, name in tables], pa.string()),
            }
        )


@contextmanager
def _unknown_tables(unknown: Sequence[Name], catalogs: Catalogs) -> Iterator[None]:
    """DuckDB's message about a missing table, with the catalog's names instead of its own."""
    try:
        yield
    except (duckdb.CatalogException, duckdb.BinderException) as error:
        first_line = str(error).partition("\n")[0]
        missing = next((name for name in unknown if name[-1] in first_line or name[0] in first_line), None)
        if missing is None or not first_line.startswith(_MISSING_TABLE):
            raise
        message = no_such_table(".".join(missing), catalogs.known_tables())
        raise UsageError(message + position(error)) from None


def _make_schema(connection: duckdb.DuckDBPyConnection, database: str, schema: str) -> None:
    connection.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {quote(database)}")
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(database)}.{quote(schema)}")


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
        raise UsageError("no statement in this SQL: write for example SELECT 1")
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
        view.spelled,
        None if snapshot is None else snapshot.snapshot_id,
        None if snapshot is None else snapshot.timestamp_ms,
    )
