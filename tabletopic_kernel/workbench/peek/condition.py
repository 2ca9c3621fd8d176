"""A condition in SQL on records: their decoded columns, key, headers and place.

It runs as a projection's WHERE does, in a DuckDB that can access only the batch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.formats.arrays import Positions, arrow_schema_of
from tabletopic_kernel.model.columns.evolution import HEADER, KEY, METADATA
from tabletopic_kernel.model.errors import ProjectionError, UsageError
from tabletopic_kernel.model.moved_rows import Mask
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.conform import as_batch, kafka_columns, with_dated_records
from tabletopic_kernel.pipeline.sinks import Memory
from tabletopic_kernel.pipeline.transform.projection.statement import ONLY, ROW, TABLE, connect, statement
from tabletopic_kernel.query.answer import interruptible
from tabletopic_kernel.table.draft import ValuesDraft, newest_columns, try_records
from tabletopic_kernel.workbench.peek import keys_as_values

ERROR: Final = "_kafka_error"  # why a value cannot be decoded
_OWN: Final = (KEY, HEADER, METADATA, ERROR)
_MOST_S: Final = 10.0  # for the condition on a batch; a search looks for as long
_BY_RECORD: Final = (
    duckdb.ConversionException,
    duckdb.InvalidInputException,
    duckdb.OutOfRangeException,
)


class Condition:
    """``where``, an expression that is true for the records looked for, and ``key``, the text of their key.

    Raises UsageError if the SQL is no such expression.
    """

    def __init__(
        self, where: str | None, key: str | None, topic: str, settings: TopicSettings, registry: Registry
    ) -> None:
        self._where, self._key, self._settings = where, key, settings
        text = f"SELECT true AS hit_{ROW} FROM {TABLE} WHERE ({where}\n)"
        try:
            self._query = statement(text).query if where is not None else ""
        except ProjectionError as error:
            why = error.why.partition(": each record")[0].partition(", but each record")[0]
            raise _wrong(where, why.replace(ONLY, "it must be one condition")) from None
        self._named = _names_in(text) if where is not None else frozenset()
        self._topic, self._registry = topic, registry
        self._values = ValuesDraft(topic, settings, registry)
        self._keys = ValuesDraft(topic, settings, registry, of_keys=True)
        self._types: dict[str, pa.DataType] | None = None  # of the columns of values known so far

    def __bool__(self) -> bool:
        return self._where is not None or self._key is not None

    def matches(self, records: pa.RecordBatch) -> Mask:
        """Which of the records, of ``SOURCE_SCHEMA``, match."""
        records = with_dated_records(records)
        mask = np.ones(len(records), np.bool_)
        keys = self._decoded_keys(records) if self._reads_keys else records.column("key")
        if self._key is not None:
            mask = _has_key(records, keys, self._key)
        if self._where is None or not mask.any():
            return mask
        columns = kafka_columns(records, ("header", "metadata"), "raw") | {KEY: self._in_table(keys)}
        matching = np.zeros(len(records), np.bool_)
        for positions, values in self._groups(records):
            chosen = pa.array(positions)
            kafka = {name: column.take(chosen) for name, column in columns.items()}
            matching[positions[self._true({**values, **kafka}, len(positions))]] = True
        return mask & matching

    @property
    def _reads_keys(self) -> bool:
        return self._settings.has_typed_keys and (self._key is not None or KEY in self._named)

    def _decoded_keys(self, records: pa.RecordBatch) -> pa.Array:
        decoded: list[Any] = [None] * len(records)
        for positions, rows, _ in _decoded(keys_as_values(records), self._keys):
            if rows is not None:
                values = rows.column(0) if rows.num_columns == 1 else rows.to_struct_array()
                for position, value in zip(positions.tolist(), values.to_pylist(), strict=True):
                    decoded[position] = value
        try:
            return pa.array(decoded)
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # keys of several schemas
            return pa.array([None if key is None else str(key) for key in decoded])

    def _in_table(self, keys: pa.Array) -> pa.Array:
        if self._settings.key_format != "string":
            return keys
        return pa.array([None if key is None else key.decode(errors="replace") for key in keys.to_pylist()])

    def _groups(self, records: pa.RecordBatch) -> Iterator[tuple[Positions, Mapping[str, pa.Array]]]:
        """Positions of records with the same columns, and these."""
        if self._named <= {*_OWN} - {ERROR}:
            yield np.arange(len(records)), {}
            return
        rest = np.ones(len(records), np.bool_)
        for positions, rows, errors in [*_decoded(records, self._values)]:
            rest[positions] = False
            columns = {} if rows is None else dict(zip(rows.schema.names, rows.columns, strict=True))
            self._note({name: column.type for name, column in columns.items()})
            if errors is not None:
                columns[ERROR] = pa.array(errors, pa.string())
            yield positions, columns
        yield np.flatnonzero(rest), {}

    def _note(self, types: Mapping[str, pa.DataType]) -> None:
        if self._types is None:
            newest, _ = newest_columns(self._topic, self._settings, self._registry)
            schema = arrow_schema_of(newest.schema) if newest else pa.schema([])
            self._types = {ERROR: pa.string(), **{field.name: field.type for field in schema}}
        self._types |= types

    def _true(self, columns: Mapping[str, pa.Array], count: int) -> list[int]:
        """The rows for which the condition is true; a column that others have is null."""
        self._note({})
        lacking = {name: kind for name, kind in (self._types or {}).items() if name not in columns}
        columns = {**columns, **{name: pa.nulls(count, kind) for name, kind in lacking.items()}}
        used = {name: column for name, column in columns.items() if name.lower() in self._named}
        table = pa.Table.from_batches([as_batch({**used, ROW: pa.array(np.arange(count))}, count)])
        connection = connect()
        try:
            connection.register(TABLE, table)
            work = partial(_rows, connection, self._query)
            return interruptible("peek", work, connection.interrupt, _MOST_S)
        except TimeoutError:
            raise _wrong(self._where, f"it takes more than {_MOST_S:g} s for {count:,} records") from None
        except _BY_RECORD as error:
            advice = "TRY_CAST and TRY(…) are null instead of failing"
            raise _wrong(self._where, f"it fails on a record: {_line(error)}; {advice}") from None
        except duckdb.BinderException as error:
            known = ", ".join(sorted(columns, key=lambda name: (name in _OWN, name)))
            raise _wrong(self._where, f"{_line(error)}; columns: {known}") from None
        except duckdb.Error as error:
            raise _wrong(self._where, _line(error)) from None
        finally:
            connection.close()


def _decoded(
    records: pa.RecordBatch, draft: ValuesDraft
) -> Iterator[tuple[Positions, pa.RecordBatch | None, list[str] | None]]:
    """Records with a value: positions, and their columns or errors."""
    present = records.column("value").is_valid()
    positions = np.flatnonzero(present.to_numpy(zero_copy_only=False))
    memory, _ = try_records(draft, [records.filter(present)], Memory)
    for staged in memory.staged:
        yield positions[staged.positions], staged.rows, None
    for refused in memory.refused:
        errors = [f"{refused.reason(n)}: {refused.message(n)}" for n in range(len(refused))]
        yield positions[refused.positions], None, errors


def _rows(connection: duckdb.DuckDBPyConnection, query: str) -> list[int]:
    rows: list[int] = connection.execute(query).to_arrow_table()[ROW].to_pylist()
    return rows


def _has_key(records: pa.RecordBatch, keys: pa.Array, key: str) -> Mask:
    same = pc.equal(records.column("key"), pa.scalar(os.fsencode(key), records.schema.field("key").type))
    mask: Mask = pc.fill_null(same, False).to_numpy(zero_copy_only=False).copy()
    if keys is not records.column("key") and keys.type != records.schema.field("key").type:
        mask |= np.array([value is not None and _as_text(value) == key for value in keys.to_pylist()], bool)
    return mask


def _as_text(value: Any) -> str:
    """A decoded key as people type it: the only field of a record alone."""
    if isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
    return str(value)


def _names_in(text: str) -> frozenset[str]:
    """The parts of all names of columns in a statement, in lowercase."""
    row = connect().execute("SELECT json_serialize_sql(?)", [text]).fetchone()
    names: set[str] = set()

    def collect(node: Any) -> None:
        if isinstance(node, dict):
            names.update(name.lower() for name in node.get("column_names", ()))
            node = list(node.values())
        for inner in node if isinstance(node, list) else ():
            collect(inner)

    collect(json.loads(row[0]) if row else {})
    return frozenset(names)


def _line(error: Exception) -> str:
    """DuckDB's message in a line, without its pointer into the statement and names that nobody wrote."""
    message = str(error).partition("\n\nLINE ")[0].partition("Candidate bindings")[0]
    return " ".join(message.split())


def _wrong(where: str | None, why: str) -> UsageError:
    return UsageError(
        f"cannot read the condition {where!r}: {why}. Write a condition in SQL, for example "
        f"\"{METADATA}.offset > 100 AND {KEY} = 'a'\""
    )
