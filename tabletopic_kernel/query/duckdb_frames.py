"""Tables of the program for one query: those that it names, registered one by one, never searched for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import duckdb
import pyarrow as pa

from tabletopic_kernel.query.statements.sql import Name


@contextmanager
def given(
    connection: duckdb.DuckDBPyConnection, names: Sequence[Name], frames: Mapping[str, Any]
) -> Iterator[None]:
    """Let DuckDB read the frames (of pandas, Polars, Arrow) that ``names`` has, exactly so spelled."""
    named = [name[0] for name in names if len(name) == 1 and name[0] in frames]
    try:
        for name in named:
            connection.register(name, _readable(frames[name]))
        yield
    finally:
        for name in named:
            with suppress(duckdb.Error):  # it ended with a fatal error
                connection.unregister(name)


def _readable(frame: Any) -> Any:
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    return frame.to_arrow() if hasattr(frame, "to_arrow") else frame  # Polars' own way
