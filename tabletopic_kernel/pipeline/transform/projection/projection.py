"""A SQL projection over decoded rows: one SELECT, run by DuckDB on each Arrow batch.

``statement.py`` checks it. A hidden column numbers the rows and ties each output row to its record, whatever
DuckDB does in between.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from tabletopic_kernel.formats.arrays import arrow_schema_of
from tabletopic_kernel.formats.rejection import Refused, halves, narrowed
from tabletopic_kernel.model.dead_letter import DOES_NOT_FIT, PROJECTION_FAILED
from tabletopic_kernel.model.errors import InternalError, ProjectionError
from tabletopic_kernel.pipeline.conform import conform, fitted
from tabletopic_kernel.pipeline.transform.columns import FILTERED, Rows
from tabletopic_kernel.pipeline.transform.projection import guard
from tabletopic_kernel.pipeline.transform.projection.guard import LimitError
from tabletopic_kernel.pipeline.transform.projection.statement import ROW, TABLE, connect, statement
from tabletopic_kernel.pipeline.transform.projection.types import beyond_calendar, columns_of

# Errors that a record's values can cause. Any other DuckDB error is retried, and makes no letter (I9).
_OF_VALUES: Final = (
    duckdb.ConversionException,
    duckdb.InvalidInputException,
    duckdb.OutOfRangeException,
    duckdb.TypeMismatchException,
    duckdb.ConstraintException,
    duckdb.NotImplementedException,
    duckdb.SyntaxException,  # of a pattern or a format, say
)
_NO_TIME: Final = "a date or time that is not in the years 0001 to 9999, or the time 24:00"
# Records per batch that are run alone to get their own messages.
_MESSAGES: Final = 10
# Seconds that a batch may spend on attempts that exceed memory or time: enough to find some records that are
# to blame; if all are, it is the statement.
_WASTED_S: Final = 90.0


class SqlProjection:
    """A projection of rows with the columns ``batch``; raises ProjectionError. For one thread at a time."""

    def __init__(self, text: str, batch: Schema) -> None:
        self._statement = statement(text)
        fields = [field.with_nullable(True) for field in arrow_schema_of(batch)]
        self._input = pa.schema(fields)
        numbered = self._input.append(pa.field(ROW, pa.int64()))
        connection = connect()
        connection.register(TABLE, pa.Table.from_batches([], numbered))
        try:  # this computes whatever does not depend on the records
            planned = guard.run(connection, lambda: connection.sql(self._statement.query), 0)
            names, types = planned.columns, planned.types
        except LimitError as error:
            raise _too_much(error) from error
        except duckdb.Error as error:
            together = "an expression combines rows, but each record is a row of its own"
            is_together = ROW in str(error) and "GROUP BY" in str(error)
            raise ProjectionError(together if is_together else _message(error)) from error
        # A * includes the hidden column, too; the last one counts.
        self._outputs = [index for index, name in enumerate(names[:-1]) if name != ROW]
        chosen = [names[index] for index in self._outputs], [types[index] for index in self._outputs]
        self.iceberg_schema = columns_of(*chosen)
        self._try()

    def _try(self) -> None:
        """Run it once: planning defers expensive expressions that no record depends on."""
        try:
            self.select(self._numbered(conform({}, 1, self._input), range(1)))
        except LimitError as error:
            raise _too_much(error) from error
        except _OF_VALUES:
            pass  # nulls are not a record's values

    def rows(self, columns: Mapping[str, pa.Array], count: int) -> Rows:
        """Project ``count`` rows with these columns; missing columns are null."""
        run = _Run(self, count)
        parts, refused = fitted(columns, count, self._input)
        run.refuse(refused)
        for part, batch in parts:
            run.take(self._numbered(batch, part))
        return run.rows()

    def _numbered(self, batch: pa.RecordBatch, rows: range) -> pa.Table:
        return pa.Table.from_batches([batch]).append_column(ROW, pa.array(np.arange(rows.start, rows.stop)))

    def select(self, table: pa.Table) -> pa.Table:
        """The projection of a numbered batch, with the same numbers; raises duckdb.Error."""
        result = _run(self._statement.query, table)
        return result.select([*self._outputs, result.num_columns - 1])

    def failing(self, table: pa.Table) -> dict[int, str]:
        """Failing rows, with the failing output; empty if it is unknown."""
        try:
            rows = _run(self._statement.probe, table)
        except (*_OF_VALUES, LimitError, duckdb.BinderException):  # the last: an output uses another one
            return {}
        rows = rows.filter(pc.is_valid(rows["failed"]))
        return dict(zip(rows[ROW].to_pylist(), rows["failed"].to_pylist(), strict=True))


class _Run:
    def __init__(self, projection: SqlProjection, count: int) -> None:
        self._projection = projection
        self._count = count
        self._results: list[pa.Table] = []
        self._refused: dict[int, Refused] = {}
        self._began = self._wasted = 0.0  # seconds

    def take(self, table: pa.Table) -> None:
        self._results += narrowed(self._select, table, self._without_failing)

    def _select(self, table: pa.Table) -> pa.Table:
        self._began = time.monotonic()
        return self._within_calendar(self._projection.select(table))

    def _without_failing(self, table: pa.Table, error: BaseException) -> Sequence[pa.Table]:
        """The rows that may not fail, or both halves; the others are refused, each with its reason."""
        if isinstance(error, LimitError):
            self._wasted += time.monotonic() - self._began
            if self._wasted > _WASTED_S:
                raise ProjectionError(f"{error}, with many of the newest records")
        elif not isinstance(error, _OF_VALUES):
            raise error
        if len(table) == 1:
            self._refuse(table[ROW][0].as_py(), PROJECTION_FAILED, _first_line(error))
            return ()
        failing = {} if isinstance(error, LimitError) else self._projection.failing(table)
        if not failing:  # an error that TRY does not see
            return [table.slice(half.start, len(half)) for half in halves(range(len(table)))]
        fails = pc.is_in(table[ROW], pa.array(list(failing), pa.int64()))
        bad = table.filter(fails)
        for index, row in enumerate(bad[ROW].to_pylist()):
            message = "fails on this record"
            if index < _MESSAGES:
                message = self._message(bad.slice(index, 1)) or message
            self._refuse(row, PROJECTION_FAILED, f"{failing[row]}: {message}")
        rest = table.filter(pc.invert(fails))
        return [rest] if len(rest) else ()

    def _message(self, row: pa.Table) -> str | None:
        try:
            self._projection.select(row)
        except (LimitError, *_OF_VALUES) as error:
            return _first_line(error)
        return None

    def _within_calendar(self, result: pa.Table) -> pa.Table:
        far = np.zeros(len(result), np.bool_)
        for column in result.columns:
            far |= beyond_calendar(column)
        if not far.any():
            return result
        for row in result[ROW].filter(pa.array(far)).to_pylist():
            self._refuse(row, DOES_NOT_FIT, _NO_TIME)
        return result.filter(pa.array(~far))

    def refuse(self, refused: Iterable[Refused]) -> None:
        self._refused |= {row.index: row for row in refused}

    def _refuse(self, row: int, reason: str, message: str) -> None:
        self._refused[row] = Refused(row, reason, message)

    def rows(self) -> Rows:
        refused = [self._refused[row] for row in sorted(self._refused)]
        if not self._results:
            filtered = self._count - len(refused)
            return Rows({}, np.empty(0, np.int64), refused, {FILTERED: filtered} if filtered else {})
        table = self._results[0] if len(self._results) == 1 else pa.concat_tables(self._results)
        kept = table[ROW].to_numpy()
        if (np.diff(kept) <= 0).any():
            order = np.argsort(kept, kind="stable")
            table, kept = table.take(pa.array(order)), kept[order]
        if (np.diff(kept) <= 0).any() or (len(kept) and not 0 <= kept[0] <= kept[-1] < self._count):
            raise InternalError("a projection gave a row twice; rows would be tied to the wrong records (I1)")
        table = table.combine_chunks()
        columns = {name: _whole(table[name]) for name in table.column_names if name != ROW}
        filtered = self._count - len(kept) - len(refused)
        return Rows(columns, kept, refused, {FILTERED: filtered} if filtered else {})


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.array([], column.type)


def _too_much(error: LimitError) -> ProjectionError:
    return ProjectionError(f"{error}, whatever the records are")


def _run(query: str, table: pa.Table) -> pa.Table:
    connection = connect()
    try:
        connection.register(TABLE, table)
        return guard.run(connection, lambda: connection.execute(query).to_arrow_table(), len(table))
    finally:
        connection.close()


def _message(error: duckdb.Error) -> str:
    """DuckDB's error message, without its pointer into the statement."""
    lines = str(error).split("\n\nLINE ")[0].splitlines()
    return " ".join(line.strip() for line in lines if line.strip() and ROW not in line)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
