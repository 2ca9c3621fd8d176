"""A DuckDB of its own for results: a cell's query does not wait for a sort, and it sees no other table."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import numpy as np
import pyarrow as pa

from tabletopic_kernel.faces.notebook.results.kept import Kept
from tabletopic_kernel.query.duckdb_connection import sql_errors

ROW = "row_number"


class Desk:
    """Opened with the first question. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None

    @contextmanager
    def table(self, kept: Kept) -> Iterator[tuple[duckdb.DuckDBPyConnection, list[str]]]:
        """A cursor where the rows are the table ``t`` with their numbers, and its columns' types."""
        numbers = pa.array(np.arange(kept.rows.num_rows, dtype=np.int32))
        rows = pa.table({f"c{index}": column for index, column in enumerate(kept.rows.columns)})
        with sql_errors(), self._cursor() as cursor:
            # A cursor does not see what is registered on its connection.
            cursor.register("t", rows.append_column(ROW, numbers))
            yield cursor, [str(kind) for kind in cursor.table("t").types[:-1]]

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        with self._lock:
            if self._connection is None:
                self._connection = _connect()
            cursor = self._connection.cursor()
        try:
            yield cursor
        finally:
            cursor.close()


def _connect() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "temp_directory": "",  # results are in memory, and no file gets rows of theirs
        }
    )
    connection.execute("SET TimeZone = 'UTC'")  # as an option of connect it needs a network
    # The bar would stay in the notebook. Without ipywidgets there is none, and DuckDB refuses to say so.
    if importlib.util.find_spec("ipywidgets") is not None:
        connection.execute("SET enable_progress_bar = false")
    return connection


def kinds_of(schema: pa.Schema) -> list[str]:
    """DuckDB's names of the columns' types; Arrow's, if DuckDB lacks one of them."""
    empty = pa.table({f"c{index}": pa.array([], field.type) for index, field in enumerate(schema)})
    with _connect() as connection:
        try:
            connection.register("t", empty)
            return [str(kind) for kind in connection.table("t").types]
        except duckdb.Error:
            return [str(field.type) for field in schema]
