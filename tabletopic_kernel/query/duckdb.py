"""SQL over the catalog's tables by DuckDB: for each table a query names, a view on its snapshot.

Views are made anew for every query, so each sees the newest snapshot. DuckDB's extensions come as wheels;
nothing is downloaded.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tabletopic_kernel.adapters.catalog import reachable
from tabletopic_kernel.core.errors import ActionNeededError, RetryableError, SettingsError, UsageError
from tabletopic_kernel.query.answer import Answer, TableRead, no_such_table
from tabletopic_kernel.query.tables_in_sql import Name, quote, quote_default, tables_in, wants_table_list

Moment = int | str | datetime
_EXTENSIONS = ("avro", "httpfs", "iceberg")  # in this order: the last one needs the others
_BATCH_ROWS = 10_000
_SECRET = "tabletopic_storage"


def connect() -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB with the extensions of the installed wheels.

    Raises:
        SettingsError: a wheel is missing or of another version.
    """
    spill = Path(tempfile.gettempdir()) / f"tabletopic-duckdb-{os.getpid()}"
    connection = duckdb.connect(
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "temp_directory": str(spill),  # DuckDB's own choice is the current folder
        }
    )
    for name in _EXTENSIONS:
        connection.execute(f"LOAD '{_extension(name)}'")
    connection.execute("SET TimeZone = 'UTC'")
    # A table that is not in the catalog is a mistake, not some variable of the caller's.
    connection.execute("SET python_enable_replacements = false")
    return connection


def _extension(name: str) -> str:
    package = importlib.util.find_spec(f"duckdb_extension_{name}")
    wheel = f"duckdb-extension-{name}=={duckdb.__version__}"
    if package is None or package.origin is None:
        raise SettingsError(f"DuckDB's {name} extension is not installed: pip install {wheel}")
    folder = Path(package.origin).parent / "extensions" / f"v{duckdb.__version__}"
    found = sorted(folder.glob("*.duckdb_extension"))
    if not found:
        raise SettingsError(f"DuckDB's {name} extension is of another version: pip install {wheel}")
    return str(found[0]).replace("'", "''")


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
        return ".".join(map(quote, (self.database, self.schema, self.name)))


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

    def sql(
        self, sql: str, at: Moment | None = None, params: Sequence[Any] | Mapping[str, Any] | None = None
    ) -> pa.Table:
        """The rows of a query; timestamps with zone are UTC.

        Args:
            sql: one or more statements; the last one's rows come back.
            at: read the tables as they were: a snapshot id, a time in ISO 8601 (UTC where it has no zone).
            params: values for ``?`` or ``$name``.

        Raises:
            UsageError: wrong SQL (with the position), no such table, no such snapshot.
            RetryableError: catalog or storage do not answer.
        """
        return self.query(sql, at, params).rows

    def query(
        self,
        sql: str,
        at: Moment | None = None,
        params: Sequence[Any] | Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> Answer:
        """As ``sql``, with the tables that were read; at most ``limit`` rows are fetched."""
        with self._lock:
            if wants_table_list(sql):
                return Answer(self._table_list())
            connection = self._open()
            with _sql_errors():
                text = quote_default(sql)
                names = tables_in(connection, text)
            views, unknown = self._views(names, at)
            for view in views:
                self._make(connection, view)
            with _sql_errors(), self._unknown_tables(unknown):
                connection.execute(text, params)
                rows, truncated = _fetch(connection, limit)
            return Answer(rows, tuple(map(_read, views)), truncated)

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
            connection.execute(f"USE {quote(self._catalog.name)}.{quote(self._namespace)}")
            self._connection = connection
        return self._connection

    def _make_schema(self, connection: duckdb.DuckDBPyConnection, database: str, schema: str) -> None:
        connection.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {quote(database)}")
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(database)}.{quote(schema)}")

    def _views(self, names: Sequence[Name], at: Moment | None) -> tuple[list[_View], list[Name]]:
        """The views to make, and the names that are no tables of the catalog."""
        views: dict[str, _View] = {}
        unknown: list[Name] = []
        for name in names:
            table = self._load(name)
            if table is None:
                unknown.append(name)
                continue
            view = _View(*self._place(name), table, _snapshot_at(table, at), fixed=at is not None)
            other = views.setdefault(view.place.lower(), view)
            if other.table.name() != table.name():
                raise UsageError(
                    f"{_dotted(table)} and {_dotted(other.table)} differ only in case, which SQL does not "
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
        if not 1 <= len(name) <= 3:
            return None
        below = name[1:] if len(name) == 3 and name[0] == self._catalog.name else name
        *namespace, table = below if len(below) > 1 else (self._namespace, *below)
        identifier = (*".".join(namespace).split("."), table)
        with reachable("the catalog"):
            try:
                return self._catalog.load_table(identifier)
            except (NoSuchTableError, NoSuchNamespaceError):
                same = self._same_but_for_case(identifier)
                return self._catalog.load_table(same) if same else None

    def _same_but_for_case(self, identifier: Name) -> Name | None:
        try:
            listed = self._catalog.list_tables(identifier[:-1])
        except NoSuchNamespaceError:
            return None
        same = [one for one in listed if one[-1].lower() == identifier[-1].lower()]
        return same[0] if len(same) == 1 else None

    def _make(self, connection: duckdb.DuckDBPyConnection, view: _View) -> None:
        _give_secret(connection, view.table.io.properties)
        self._make_schema(connection, view.database, view.schema)
        location = view.table.metadata_location.replace("'", "''")
        chosen = f", snapshot_from_id = {view.snapshot.snapshot_id}" if view.fixed and view.snapshot else ""
        with _sql_errors():
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
        except duckdb.CatalogException as error:
            if not unknown or "does not exist" not in str(error):
                raise
            told = no_such_table(".".join(unknown[0]), map(".".join, self._all_tables()))
            raise UsageError(told + _position(error)) from None


def _fetch(connection: duckdb.DuckDBPyConnection, limit: int | None) -> tuple[pa.Table, bool]:
    """The rows of the last statement, at most ``limit``, and whether there are more."""
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
        _dotted(view.table),
        None if snapshot is None else snapshot.snapshot_id,
        None if snapshot is None else snapshot.timestamp_ms,
    )


def _dotted(table: Table) -> str:
    return ".".join(table.name())


def _snapshot_at(table: Table, at: Moment | None) -> Snapshot | None:
    """The snapshot to read; None for a table that never had one.

    Raises:
        UsageError: no such snapshot, or none that old.
    """
    if at is None:
        return table.current_snapshot()
    moment = _moment(at)
    if isinstance(moment, int):
        found = table.snapshot_by_id(moment)
        if found is None:
            known = ", ".join(str(entry.snapshot_id) for entry in table.history()[-3:]) or "none"
            raise UsageError(f"{_dotted(table)} has no snapshot {moment}; its newest: {known}")
        return found
    found = table.snapshot_as_of_timestamp(int(moment.timestamp() * 1000))
    if found is None:
        first = min((snapshot.timestamp_ms for snapshot in table.snapshots()), default=None)
        told = "none at all" if first is None else datetime.fromtimestamp(first / 1000, UTC).isoformat()
        raise UsageError(
            f"{_dotted(table)} has no snapshot as old as {moment.isoformat()}; its first: {told}"
        )
    return found


def _moment(at: Moment) -> int | datetime:
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


def _give_secret(connection: duckdb.DuckDBPyConnection, io: Mapping[str, str]) -> None:
    """Let DuckDB read where PyIceberg may: the S3 properties under DuckDB's names."""
    if "s3.access-key-id" not in io:
        return
    endpoint = io.get("s3.endpoint", "")
    options = {
        "KEY_ID": io["s3.access-key-id"],
        "SECRET": io.get("s3.secret-access-key", ""),
        "SESSION_TOKEN": io.get("s3.session-token", ""),
        "REGION": io.get("s3.region") or io.get("client.region", ""),
        "ENDPOINT": endpoint.partition("://")[2] or endpoint,
        "USE_SSL": "false" if endpoint.startswith("http://") else "true",
        "URL_STYLE": "path" if endpoint and io.get("s3.force-virtual-addressing") != "true" else "vhost",
    }
    told = ", ".join(
        f"{key} '{value.replace(chr(39), chr(39) * 2)}'" for key, value in options.items() if value
    )
    connection.execute(f"CREATE OR REPLACE TEMPORARY SECRET {_SECRET} (TYPE s3, {told})")


@contextmanager
def _sql_errors() -> Iterator[None]:
    """DuckDB's errors by remedy.

    Raises:
        UsageError: the SQL is wrong.
        RetryableError: files could not be read.
        ActionNeededError: DuckDB ran out of memory or failed.
    """
    try:
        yield
    except (
        duckdb.ProgrammingError,
        duckdb.DataError,
        duckdb.NotSupportedError,
        duckdb.IntegrityError,
    ) as error:
        raise UsageError(str(error)) from error
    except (duckdb.OutOfMemoryException, duckdb.InternalError) as error:
        raise ActionNeededError(f"DuckDB could not do it: {error}") from error
    except duckdb.OperationalError as error:
        raise RetryableError(f"DuckDB could not read the table: {error}") from error
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except duckdb.Error as error:  # those it gives no class of its own
        raise UsageError(str(error)) from error


def _position(error: duckdb.Error) -> str:
    _, mark, where = str(error).partition("\n\nLINE ")
    return mark + where
