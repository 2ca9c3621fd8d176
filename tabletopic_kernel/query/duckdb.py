"""SQL over the catalogs' tables with DuckDB: for each table in a query, a view on its snapshot.

Views are created again for every query, so each sees the newest snapshot. DuckDB's extensions come as wheels;
nothing is downloaded.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa
from pyiceberg.catalog import Catalog

from tabletopic_kernel.model.errors import ActionNeededError, UsageError
from tabletopic_kernel.model.settings.table_properties import names_class
from tabletopic_kernel.query.answer import Answer, TableRead, interruptible
from tabletopic_kernel.query.as_of import AsOf
from tabletopic_kernel.query.catalogs import Catalogs, no_such_table
from tabletopic_kernel.query.duckdb_connection import (
    FATAL,
    S3,
    connect,
    folders_of,
    give_secret,
    position,
    sql_errors,
)
from tabletopic_kernel.query.duckdb_files import TableFiles
from tabletopic_kernel.query.duckdb_frames import given
from tabletopic_kernel.query.duckdb_views import Tails, View, dotted_place, views_of, with_tails
from tabletopic_kernel.query.statements.sealed import check_sealed, seal
from tabletopic_kernel.query.statements.sql import (
    MOST_PARTS,
    Name,
    check_reads,
    names_written,
    quote,
    quote_default,
    tables_in,
    wants_table_list,
)

_BATCH_ROWS = 2_048  # DuckDB's own: a batch of huge values is not larger than it must be
_MISSING_TABLE = ("Catalog Error: Table with name", "Catalog Error: Schema", 'Binder Error: Catalog "')


class DuckLake:
    """Queries over catalogs. Thread-safe: one query runs at a time.

    Tables are called ``table`` (in the default namespace of the default catalog), ``namespace.table`` or
    ``catalog.namespace.table``; ``table$live`` also has the records behind it. ``others``: functions that
    open further catalogs, by name. ``tails``: reads what is behind tables. ``sealed``: only for reading
    tables, see ``check_sealed`` and ``seal``; each query then has a connection of its own.
    """

    def __init__(
        self,
        catalog: Catalog,
        namespace: str = "default",
        others: Mapping[str, Callable[[], Catalog]] | None = None,
        tails: Tails | None = None,
        *,
        sealed: bool = False,
    ) -> None:
        self._sealed = sealed
        self._catalogs = Catalogs(catalog, namespace, others)
        self._namespace = namespace
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._own_views: set[str] = set()  # their places
        self._files = TableFiles()
        self._tails = tails
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
        *,
        live: bool = False,
        frames: Mapping[str, Any] | None = None,
        most_bytes: int | None = None,
    ) -> Answer:
        """Like ``sql``, with the tables that were read; fetches at most ``limit`` rows.

        ``frames``: tables of the program by name, as ``given``; a table of a catalog wins over them.
        ``most_bytes``: stop once the rows take as much. ``live``: also read the records that topics have
        behind their tables, as all of ``table$live`` do. The snapshots are chosen first, then the end
        offsets of all topics: no commit in between changes the rows.
        """
        with self._lock, sql_errors(), self._restarting_after_fatal():
            if wants_table_list(sql):
                return Answer(self._table_list())
            connection = self._open()
            text = quote_default(sql)
            (check_sealed if self._sealed else check_reads)(self._parser, text)
            names = tables_in(self._parser, text)
            views, unknown = views_of(self._catalogs, names, at, live=live)
            if self._sealed and unknown:  # DuckDB would look for files and views of its own
                raise UsageError(no_such_table(".".join(unknown[0]), self._catalogs.known_tables()))
            views = with_tails(views, self._tails)
            self._drop(connection, unknown)
            try:
                with self._files.errors(), given(connection, unknown, frames or {}):
                    for view in views:
                        self._make(connection, view)
                    if self._sealed:
                        seal(connection, [view.table for view in views])
                    with _unknown_tables(unknown, self._catalogs):
                        work = partial(_run, connection, text, params, limit, most_bytes)
                        rows, truncated = interruptible("duckdb", work, connection.interrupt)
            finally:
                for view in views:
                    view.forget(connection)
                if self._sealed:
                    self._close()
            return Answer(rows, tuple(view.read for view in views), truncated)

    def tables(self, sql: str) -> tuple[TableRead, ...]:
        """The tables, with newest snapshots, in another engine's SQL; none if DuckDB cannot parse it."""
        with self._lock:
            try:
                views, _ = views_of(self._catalogs, tables_in(self._parser, quote_default(sql)), None)
            except duckdb.Error:
                return ()
        return tuple(view.read for view in views)

    def check_spark_writes(self, sql: str) -> None:
        """Raise ActionNeededError if a table that Spark may write to names a class: Spark would load it."""
        with self._lock:
            views, _ = views_of(self._catalogs, names_written(sql), None)
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

    def _drop(self, connection: duckdb.DuckDBPyConnection, unknown: Sequence[Name]) -> None:
        """Drop views of tables that are no longer in the catalog; user-created objects stay."""
        for name in unknown:
            place = dotted_place(*self._catalogs.place(name)) if 1 <= len(name) <= MOST_PARTS else ""
            if place in self._own_views:
                connection.execute(f"DROP VIEW IF EXISTS {place}")
                self._own_views.discard(place)

    def _make(self, connection: duckdb.DuckDBPyConnection, view: View) -> None:
        folders = folders_of(view.table.location(), view.table.properties, S3)
        give_secret(connection, folders, view.table.io.properties)
        self._files.give(connection, view.table)
        _make_schema(connection, view.database, view.schema)
        self._own_views.add(view.place)
        view.make(connection)

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


def _run(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    params: Sequence[Any] | Mapping[str, Any] | None,
    limit: int | None,
    most_bytes: int | None,
) -> tuple[pa.Table, bool]:
    """The rows of the last statement within the bounds, and whether there are more."""
    connection.execute(sql, params)
    if connection.description is None:
        raise UsageError("no statement in this SQL: write for example SELECT 1")
    if limit is None and most_bytes is None:
        return connection.to_arrow_table(), False
    most_rows = sys.maxsize if limit is None else limit
    reader = connection.to_arrow_reader(min(_BATCH_ROWS, most_rows + 1))
    batches: list[pa.RecordBatch] = []
    rows, left = 0, sys.maxsize if most_bytes is None else most_bytes
    while rows <= most_rows:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return pa.Table.from_batches(batches, reader.schema), False
        if left <= 0:
            break
        batches.append(batch)
        rows += batch.num_rows
        left -= batch.nbytes
    return pa.Table.from_batches(batches, reader.schema).slice(0, limit), True
