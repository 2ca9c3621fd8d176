"""What rows say in an upsert table: rows to write, and keys to delete, which never become rows.

A delete is Debezium's ``D``, or a row with ``__deleted`` (Debezium's ExtractNewRecordState), or a record
without a value; a truncate, ``T``, deletes all keys. Deletes are kept as flat columns with the field ids of
the table's, so that they are read like a data file, whatever the table's columns are called by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import BooleanType, NestedField

from tabletopic_kernel.model.columns.evolution import KEY
from tabletopic_kernel.model.columns.upsert_columns import CHANGE, Leaf, UpsertColumns
from tabletopic_kernel.pipeline.transform.columns import BEFORE, OP

DELETED: Final = "__deleted"  # of ExtractNewRecordState: the text "true"
ALL_KEYS: Final = NestedField(2_147_480_001, "all_keys", BooleanType(), required=False)  # set by a truncate
_DELETES = pa.array(["D", "T"], pa.large_string())


@dataclass(frozen=True)
class Changes:
    """Masks of rows: to write, and those without a key; ``deletes`` has the keys to delete, and ``deleted``
    the rows that they come from. ``truncates``: how many of them delete all keys.
    """

    writes: np.ndarray
    keyless: np.ndarray
    deleted: np.ndarray
    deletes: pa.Table
    truncates: int = 0


def deletes_schema(columns: UpsertColumns) -> pa.Schema:
    """The columns of deletes: one for each leaf of the table's, and ``ALL_KEYS``."""
    fields = [NestedField(leaf.field_id, _name(leaf), leaf.kind, required=False) for leaf in columns.leaves]
    return schema_to_pyarrow(Schema(*fields, ALL_KEYS), include_field_ids=True)


def changes_of(rows: pa.RecordBatch, columns: UpsertColumns, *, without_value: bool = False) -> Changes:
    """What rows of the table's columns say; ``without_value``: of records that have none."""
    count = len(rows)
    deleted, truncates = np.full(count, without_value), np.zeros(count, np.bool_)
    if CHANGE in rows.schema.names and not without_value:
        ops = pc.struct_field(rows.column(CHANGE), "op")
        deleted |= _mask(pc.is_in(ops, _DELETES))
        truncates |= _mask(pc.equal(ops, "T"))
    if DELETED in rows.schema.names and not without_value:
        deleted |= say_deleted(rows.column(DELETED))
    keys = [_key_of(rows, leaf, deleted & ~truncates) for leaf in columns.key]
    keyless = np.zeros(count, np.bool_)
    for key in keys:
        keyless |= _mask(key.is_null())
    keyless &= ~truncates
    deleted &= ~keyless
    arrays = dict(zip(map(_name, columns.key), keys, strict=True))
    arrays = {_name(leaf): value_of(rows, leaf.path) for leaf in columns.leaves} | arrays
    target = deletes_schema(columns)
    arrays[ALL_KEYS.name] = pa.array(truncates)
    table = pa.table([_cast(arrays[field.name], field.type) for field in target], schema=target)
    return Changes(
        ~deleted & ~keyless, keyless, deleted, table.filter(pa.array(deleted)), int(truncates.sum())
    )


def say_deleted(flags: pa.Array) -> np.ndarray:
    """Which values of ``DELETED`` say that their row is a delete."""
    return _mask(pc.equal(_cast(flags, pa.large_string()), "true"))


def former_rows(events: pa.RecordBatch) -> tuple[np.ndarray, pa.RecordBatch]:
    """Updates whose change event has the row before: their indexes, and each as a delete of that row."""
    if not {OP, BEFORE} <= set(events.schema.names):
        return np.empty(0, np.int64), events.slice(0, 0)
    is_update = pc.and_(pc.equal(events.column(OP), "u"), events.column(BEFORE).is_valid())
    chosen = np.flatnonzero(_mask(is_update))
    updates, index = events.take(pa.array(chosen)), events.schema.get_field_index(OP)
    field = events.schema.field(index)
    return chosen, updates.set_column(index, field, pa.repeat(pa.scalar("d", field.type), len(chosen)))


def moved_keys(
    before: pa.RecordBatch,
    at: np.ndarray,
    after: Sequence[tuple[np.ndarray, pa.RecordBatch]],
    key: Sequence[Leaf],
) -> pa.RecordBatch:
    """The rows ``before`` whose key is known and another one than in the rows ``after``, by position."""
    moved, known = np.zeros(len(before), np.bool_), np.ones(len(before), np.bool_)
    for leaf in key:
        known &= _mask(value_of(before, leaf.path).is_valid())
    for positions, rows in after:
        mine = np.flatnonzero(np.isin(at, positions))
        order = np.argsort(positions)
        theirs = pa.array(order[np.searchsorted(positions, at[mine], sorter=order)])
        for leaf in key:
            old, new = (
                value_of(before, leaf.path).take(pa.array(mine)),
                value_of(rows, leaf.path).take(theirs),
            )
            moved[mine] |= ~_mask(pc.fill_null(pc.equal(_storage(old), _storage(new)), True))
    return before.filter(pa.array(moved & known))


class Followers:
    """Finds the records without a value that directly follow the delete of their key, in their partition.

    Debezium sends such a one after the event of a delete, and that event says where the delete belongs: if it
    is sent again behind newer changes, it is older than these, and a record without a value would not be.
    One batch begins where the last one ended.
    """

    def __init__(self) -> None:
        self._records, self._deletes = pa.record_batch({"partition": [], "key": []}), np.empty(0, np.bool_)
        self._last: dict[int, bytes | None] = {}  # by partition: the key, if the last record deleted it

    def begin(self, records: pa.RecordBatch) -> None:
        partitions, keys = np.asarray(self._records.column("partition")), self._records.column("key")
        numbers, from_end = np.unique(partitions[::-1], return_index=True)
        for partition, at in zip(numbers.tolist(), (len(partitions) - 1 - from_end).tolist(), strict=True):
            self._last[partition] = keys[at].as_py() if self._deletes[at] else None
        self._records, self._deletes = records, np.zeros(len(records), np.bool_)

    def deleted(self, positions: np.ndarray) -> None:
        """Note records with a value that were taken as deletes of their key."""
        self._deletes[positions] = True

    def among(self, positions: np.ndarray) -> np.ndarray:
        """Which of the records without a value are such ones; all deletes of the batch are noted."""
        before, keys = np.maximum(positions - 1, 0), self._records.column("key")
        partitions = np.asarray(self._records.column("partition"))
        follows = _mask(pc.equal(keys.take(pa.array(positions)), keys.take(pa.array(before))))
        follows &= (partitions[positions] == partitions[before]) & self._deletes[before]
        firsts = np.unique(partitions, return_index=True)[1]
        for at in np.flatnonzero(np.isin(positions, firsts)).tolist():
            key = self._last.get(int(partitions[positions[at]]))
            follows[at] = key is not None and key == keys[int(positions[at])].as_py()
        return follows


def value_of(rows: pa.RecordBatch, path: Sequence[str]) -> pa.Array:
    """The values of a column, or of a field in a struct."""
    column = rows.column(path[0])
    return pc.struct_field(column, list(path[1:])) if len(path) > 1 else column


def _key_of(rows: pa.RecordBatch, leaf: Leaf, deleted: np.ndarray) -> pa.Array:
    """A part of the key; where a delete lacks it, the field of that name in its Kafka key."""
    values = value_of(rows, leaf.path)
    lacking = deleted & _mask(values.is_null())
    key = rows.schema.field(KEY).type if KEY in rows.schema.names else pa.null()
    is_there = pa.types.is_struct(key) and key.get_field_index(leaf.path[-1]) >= 0
    if leaf.path[0] == KEY or not is_there or not lacking.any():
        return values
    both = pa.concat_arrays([values, _cast(value_of(rows, (KEY, leaf.path[-1])), values.type)])
    return both.take(pa.array(np.arange(len(rows)) + np.where(lacking, len(rows), 0)))


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values as another type, null where that has no such value."""
    if isinstance(kind, pa.BaseExtensionType) and values.type != kind:  # Arrow takes 16 letters for a UUID
        return pa.nulls(len(values), kind)
    try:
        return values.cast(kind)
    except pa.ArrowNotImplementedError:
        return pa.nulls(len(values), kind)
    except pa.ArrowInvalid:
        if len(values) == 1:
            return pa.nulls(1, kind)
        middle = len(values) // 2
        return pa.concat_arrays([_cast(values[:middle], kind), _cast(values[middle:], kind)])


def _storage(values: pa.Array) -> pa.Array:
    """What is compared: Arrow has no comparison of UUIDs."""
    return values.storage if isinstance(values, pa.ExtensionArray) else values


def _mask(flags: pa.Array) -> np.ndarray:
    mask: np.ndarray = pc.fill_null(flags, False).to_numpy(zero_copy_only=False)
    return mask


def _name(leaf: Leaf) -> str:
    return f"column_{leaf.field_id}"
