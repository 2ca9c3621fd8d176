"""The step between decode and conform: from decoded rows to the value's columns of the table.

Nothing changes, or the value is one column, or Debezium change events become the rows that they describe,
with ``_cdc`` next to the row's columns, or a projection runs. ``pipeline/transform/columns.py`` is the same
for columns without rows.

Source of Debezium's rules: its documentation, "Data change events". Names in ``_cdc`` are those that AutoMQ's
table topics and Iceberg's Kafka Connect transforms use.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from tabletopic_kernel.formats.arrays import MAX_DAY, MILLIS_PER_DAY, MIN_DAY, Positions, arrow_schema_of
from tabletopic_kernel.formats.json.types import REST
from tabletopic_kernel.formats.rejection import Refused
from tabletopic_kernel.model.columns.evolution import VALUE
from tabletopic_kernel.model.dead_letter import NOT_AN_ENVELOPE
from tabletopic_kernel.pipeline.conform import fit
from tabletopic_kernel.pipeline.transform.columns import (
    AFTER,
    BEFORE,
    CDC,
    CDC_STRUCT,
    OP,
    ROW_OPS,
    ROWLESS_OPS,
    SOURCE,
    TS,
    NotAnEnvelopeError,
    Rows,
    Transform,
    every,
    row_columns,
)

_OPS = [*ROW_OPS, *ROWLESS_OPS]
_OPS_ARRAY = pa.array(_OPS, pa.large_string())
_WORDS = pa.array([word for word, _ in ROW_OPS.values()], pa.large_string())
_IS_BEFORE = np.array([image == BEFORE for _, image in ROW_OPS.values()] + [False] * len(ROWLESS_OPS))
_CDC_TYPE = arrow_schema_of(Schema(*CDC_STRUCT.fields))
_WHY_NO_ROW = {AFTER: "a change without a row", BEFORE: "a delete without the row's data"}
_MIN_MS, _MAX_MS = MIN_DAY * MILLIS_PER_DAY, (MAX_DAY + 1) * MILLIS_PER_DAY - 1


class Unwrap:
    """The rows of change events decoded to ``decoded``."""

    def __init__(self, decoded: Schema) -> None:
        self._row: pa.StructType | None = None
        self._why = ""
        try:
            self._row = pa.struct(list(arrow_schema_of(row_columns(decoded))))
        except NotAnEnvelopeError as error:  # of JSON without a schema, until an event arrives
            self._why = str(error)

    def rows(self, batch: pa.RecordBatch, offsets: pa.Array) -> Rows:
        """See ``Step``."""
        if self._row is None:
            refused = [Refused(index, NOT_AN_ENVELOPE, self._why) for index in range(len(batch))]
            return Rows({}, np.empty(0, np.int64), refused)
        ops = batch.column(OP)
        codes = pc.fill_null(pc.index_in(ops, _OPS_ARRAY), -1).to_numpy(zero_copy_only=False)
        wants_row = (codes >= 0) & (codes < len(ROW_OPS))
        wants_before = _IS_BEFORE[codes] & wants_row
        has_row = np.where(wants_before, _is_valid(batch, BEFORE), _is_valid(batch, AFTER))
        bad_times = _bad_times(batch)
        kept = np.flatnonzero(wants_row & has_row & ~bad_times)
        refused = [
            Refused(index, NOT_AN_ENVELOPE, _explain(ops[index].as_py(), bool(bad_times[index])))
            for index in np.flatnonzero((codes < 0) | (wants_row & (~has_row | bad_times))).tolist()
        ]
        passed = {
            word: count
            for code, word in enumerate(ROWLESS_OPS.values(), len(ROW_OPS))
            if (count := int(np.count_nonzero(codes == code)))
        }
        image = self._images(batch, kept, wants_before)
        columns = {field.name: image.field(index) for index, field in enumerate(image.type)}
        columns[CDC] = _cdc(_taken(batch, kept), _taken(offsets, kept), codes[kept])
        if REST in batch.schema.names:
            columns[REST] = _taken(batch.column(REST), kept)
        return Rows(columns, kept, refused, passed)

    def _images(self, batch: pa.RecordBatch, kept: Positions, wants_before: np.ndarray) -> pa.StructArray:
        """The rows of the events ``kept``: their ``before`` if that is wanted, else their ``after``."""
        befores = wants_before[kept]
        fitted = {
            name: fit(batch.column(name), self._row) for name in batch.schema.names if name in _WHY_NO_ROW
        }
        if not befores.any():
            return _taken(fitted[AFTER], kept) if AFTER in fitted else pa.array([], self._row)
        if befores.all():
            return _taken(fitted[BEFORE], kept)
        both = pa.concat_arrays([fitted[AFTER], fitted[BEFORE]])
        return both.take(pa.array(kept + np.where(befores, len(batch), 0)))


def _is_valid(batch: pa.RecordBatch, name: str) -> np.ndarray:
    if name not in batch.schema.names or not pa.types.is_struct(batch.schema.field(name).type):
        return np.zeros(len(batch), np.bool_)
    valid: np.ndarray = batch.column(name).is_valid().to_numpy(zero_copy_only=False)
    return valid


def _explain(op: str | None, bad_time: bool) -> str:
    if op is None:
        return "not a change event of Debezium: it has no op"
    if op not in ROW_OPS:
        return f"not a change event of Debezium: its op is {op[:20]!r}"
    if bad_time:
        return "the time of the change is not in the years 0001 to 9999"
    why = _WHY_NO_ROW[ROW_OPS[op][1]]
    hint = "; give the source's table a REPLICA IDENTITY" if ROW_OPS[op][1] == BEFORE else ""
    return f"{why}: op is {op}, and {ROW_OPS[op][1]} is null{hint}"


def _cdc(batch: pa.RecordBatch, offsets: pa.Array, codes: np.ndarray) -> pa.StructArray:
    db, schema, table = (_of_source(batch, name, pa.large_string()) for name in ("db", "schema", "table"))
    dot = pa.scalar(".", pa.large_string())
    columns = {
        "op": _WORDS.take(pa.array(codes)),
        "ts": _time(_millis(batch, TS)),
        "offset": offsets,
        "source": pc.binary_join_element_wise(pc.coalesce(schema, db), table, dot),
        "source_ts": _time(_of_source(batch, TS, pa.int64())),
    }
    arrays = [columns[field.name].cast(field.type) for field in _CDC_TYPE]
    return pa.StructArray.from_arrays(arrays, fields=list(_CDC_TYPE))


def _of_source(batch: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    """A field of ``source``; nulls if there is none of that type."""
    if SOURCE in batch.schema.names:
        source = batch.column(SOURCE)
        if pa.types.is_struct(source.type) and (index := source.type.get_field_index(name)) >= 0:
            array = source.flatten()[index]
            if _is_like(array.type, kind):
                return array.cast(kind)
    return pa.nulls(len(batch), kind)


def _millis(batch: pa.RecordBatch, name: str) -> pa.Array:
    if name in batch.schema.names and _is_like(batch.schema.field(name).type, pa.int64()):
        return batch.column(name).cast(pa.int64())
    return pa.nulls(len(batch), pa.int64())


def _is_like(kind: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(kind == wanted or (pa.types.is_integer(kind) and pa.types.is_integer(wanted)))


def _bad_times(batch: pa.RecordBatch) -> np.ndarray:
    bad = np.zeros(len(batch), np.bool_)
    for millis in (_millis(batch, TS), _of_source(batch, TS, pa.int64())):
        ends = pc.min_max(millis)
        if ends["min"].is_valid and (ends["min"].as_py() < _MIN_MS or ends["max"].as_py() > _MAX_MS):
            numbers = pc.fill_null(millis, 0).to_numpy(zero_copy_only=False)
            bad |= (numbers < _MIN_MS) | (numbers > _MAX_MS)
    return bad


def _time(millis: pa.Array) -> pa.Array:
    return pc.multiply(millis, 1000).cast(pa.timestamp("us", "UTC"))


def _taken(array: pa.Array | pa.RecordBatch, kept: Positions) -> pa.Array | pa.RecordBatch:
    return array if len(kept) == len(array) else array.take(pa.array(kept))


# From decoded rows, and the offsets of their records.
Step = Callable[[pa.RecordBatch, pa.Array], Rows]


def make_step(transform: Transform, decoded: Schema) -> Step:
    """The step of a transform, for rows of these columns."""
    match transform:
        case "flatten":
            return flatten
        case "none":
            return whole_value
        case "flatten_debezium":
            return Unwrap(decoded).rows


def flatten(batch: pa.RecordBatch, offsets: pa.Array) -> Rows:
    """Make each field of the value a column."""
    return Rows(dict(zip(batch.schema.names, batch.columns, strict=True)), every(len(batch)))


def whole_value(batch: pa.RecordBatch, offsets: pa.Array) -> Rows:
    """Put all fields into one column."""
    if batch.schema.names == [VALUE]:  # a value that is not a record is already in that column
        return flatten(batch, offsets)
    return Rows({VALUE: batch.to_struct_array()}, every(len(batch)))
