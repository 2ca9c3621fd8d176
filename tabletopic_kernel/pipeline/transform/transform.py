"""The step between decode and conform: from decoded rows to the value's columns of the table.

Nothing changes, or the value is one column, or Debezium change events become the rows that they describe,
with ``_cdc`` next to the row's columns, or a projection runs. ``pipeline/transform/columns.py`` is the same
for columns without rows.

Source of Debezium's rules: its documentation, "Data change events". Names in ``_cdc`` are those that AutoMQ's
table topics and Iceberg's Kafka Connect transforms use.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from tabletopic_kernel.formats.arrays import Mask, Positions, arrow_schema_of
from tabletopic_kernel.formats.json.types import REST
from tabletopic_kernel.formats.rejection import Refused
from tabletopic_kernel.model.columns.evolution import VALUE
from tabletopic_kernel.model.dead_letter import NOT_AN_ENVELOPE
from tabletopic_kernel.pipeline.conform import fit
from tabletopic_kernel.pipeline.transform.cdc import bad_times, cdc_column
from tabletopic_kernel.pipeline.transform.columns import (
    AFTER,
    BEFORE,
    CDC,
    OP,
    ROW_OPS,
    ROWLESS_OPS,
    NotAnEnvelopeError,
    Rows,
    Transform,
    every,
    row_columns,
    sent_columns,
)
from tabletopic_kernel.pipeline.transform.native import NativeTypes, has_names

_OPS = list(ROW_OPS | ROWLESS_OPS)
_OPS_ARRAY = pa.array(_OPS, pa.large_string())
_WORDS = pa.array([word for word, _ in ROW_OPS.values()], pa.large_string())
_TRUNCATE = _OPS.index("t")
_IS_BEFORE = np.array([ROW_OPS.get(op, ("", ""))[1] == BEFORE for op in _OPS])
_CODES = {word: _OPS.index(op) for op, word in ROWLESS_OPS.items()}
_WHY_NO_ROW = {AFTER: "a change without a row", BEFORE: "a delete without the row's data"}


class Unwrap:
    """The rows of change events decoded to ``decoded``; ``keeps_truncates``: a row may be all null."""

    def __init__(self, decoded: Schema, *, keeps_truncates: bool = True) -> None:
        self._row: pa.StructType | None = None
        self._why = ""
        self._rowless = [word for op, word in ROWLESS_OPS.items() if op != "t" or not keeps_truncates]
        self._is_rowless = np.array([ROWLESS_OPS.get(op) in self._rowless for op in _OPS])
        try:
            self._row = pa.struct(list(arrow_schema_of(row_columns(decoded))))
        except NotAnEnvelopeError as error:  # of JSON without a schema, until an event arrives
            self._why = str(error)

    def rows(self, batch: pa.RecordBatch, offsets: pa.Array, has_key: Mask | None = None) -> Rows:
        if self._row is None:
            refused = [Refused(index, NOT_AN_ENVELOPE, self._why) for index in range(len(batch))]
            return Rows({}, np.empty(0, np.int64), refused)
        ops = batch.column(OP)
        codes = pc.fill_null(pc.index_in(ops, _OPS_ARRAY), -1).to_numpy(zero_copy_only=False)
        wants_row = (codes >= 0) & ~self._is_rowless[codes]
        wants_before = _IS_BEFORE[codes] & wants_row
        has_row = np.where(wants_before, _is_valid(batch, BEFORE), _is_valid(batch, AFTER))
        is_null = codes == _TRUNCATE
        if has_key is not None:  # the key alone says which row is gone
            is_null |= wants_before & ~has_row & has_key
        has_row |= is_null
        bad = bad_times(batch)
        kept = np.flatnonzero(wants_row & has_row & ~bad)
        refused = [
            Refused(index, NOT_AN_ENVELOPE, _explain(ops[index].as_py(), bool(bad[index])))
            for index in np.flatnonzero((codes < 0) | (wants_row & (~has_row | bad))).tolist()
        ]
        counts = {word: int(np.count_nonzero(codes == _CODES[word])) for word in self._rowless}
        image = self._images(batch, kept, wants_before, is_null)
        columns = {field.name: image.field(index) for index, field in enumerate(image.type)}
        words = _WORDS.take(pa.array(codes[kept]))
        columns[CDC] = cdc_column(_taken(batch, kept), _taken(offsets, kept), words)
        if REST in batch.schema.names:
            columns[REST] = _taken(batch.column(REST), kept)
        return Rows(columns, kept, refused, {word: count for word, count in counts.items() if count})

    def _images(
        self, batch: pa.RecordBatch, kept: Positions, wants_before: np.ndarray, is_null: np.ndarray
    ) -> pa.StructArray:
        """The rows of the events ``kept``: ``before`` if that is wanted, null if they are, else ``after``."""
        befores, nulls = wants_before[kept], is_null[kept]
        # An image that no row comes from is not looked at.
        needed = {AFTER, BEFORE} if befores.any() or AFTER not in batch.schema.names else {AFTER}
        fitted = {name: fit(batch.column(name), self._row) for name in batch.schema.names if name in needed}
        if not befores.any() and not nulls.any():
            return _taken(fitted[AFTER], kept) if AFTER in fitted else pa.array([], self._row)
        if befores.all() and not nulls.any():
            return _taken(fitted[BEFORE], kept)
        sole = next(iter(fitted.values()))
        both = pa.concat_arrays([fitted.get(name, sole) for name in (AFTER, BEFORE)])
        return both.take(pa.array(kept + np.where(befores, len(batch), 0), mask=nulls))


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


def _taken(array: pa.Array | pa.RecordBatch, kept: Positions) -> pa.Array | pa.RecordBatch:
    return array if len(kept) == len(array) else array.take(pa.array(kept))


class Step(Protocol):
    """A transform's work on decoded rows, with the offsets of their records.

    ``has_key``: which records have a key that the table keeps; None: the table keeps none.
    """

    def __call__(self, batch: pa.RecordBatch, offsets: pa.Array, has_key: Mask | None = None) -> Rows:
        """What becomes of the rows."""


def make_step(
    transform: Transform,
    decoded: Schema,
    *,
    keeps_truncates: bool = True,
    native: bool = False,
    floor: bool = False,
) -> Step:
    """The step of a transform, for rows of these columns.

    ``keeps_truncates`` as for ``Unwrap``; ``native`` as for ``value_columns``, and ``floor`` for its times.
    """
    step = _sent_step(transform, decoded, keeps_truncates)
    if not native or not has_names(decoded):
        return step
    try:
        types = NativeTypes(sent_columns(decoded, transform), floor=floor)
    except NotAnEnvelopeError:  # of JSON without a schema, until an event arrives
        return step
    return lambda batch, offsets, has_key=None: types.rows(step(batch, offsets, has_key))


def _sent_step(transform: Transform, decoded: Schema, keeps_truncates: bool) -> Step:
    match transform:
        case "flatten":
            return flatten
        case "none":
            return whole_value
        case "flatten_debezium":
            return Unwrap(decoded, keeps_truncates=keeps_truncates).rows


def flatten(batch: pa.RecordBatch, offsets: pa.Array, has_key: Mask | None = None) -> Rows:
    """Make each field of the value a column."""
    return Rows(dict(zip(batch.schema.names, batch.columns, strict=True)), every(len(batch)))


def whole_value(batch: pa.RecordBatch, offsets: pa.Array, has_key: Mask | None = None) -> Rows:
    """Put all fields into one column."""
    if batch.schema.names == [VALUE]:  # a value that is not a record is already in that column
        return flatten(batch, offsets)
    return Rows({VALUE: batch.to_struct_array()}, every(len(batch)))
