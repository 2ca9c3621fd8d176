"""Fit decoded columns to the table's schema, by name, without losing anything.

Missing columns become nulls, narrower types are widened by safe casts. ``model/columns/evolution.py`` has
made sure beforehand that nothing else is needed.

*Why this is safe.* Columns go by name, never by place, and each cast is Arrow's checked one: a value that the
target cannot hold raises ArrowInvalid instead of being cut, and the caller halves the rows until it is alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema


def file_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a table's data files, with field ids (Iceberg spec, "Column Projection")."""
    return schema_to_pyarrow(schema, include_field_ids=True)


def conform(columns: Mapping[str, pa.Array], rows: int, target: pa.Schema) -> pa.RecordBatch:
    """A batch of exactly ``target``.

    Args:
        columns: arrays of length ``rows`` by column name; those the table has not are an error of ours.
        target: see ``file_schema``.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit; nothing is ever cut off.
    """
    if unknown := columns.keys() - set(target.names):
        raise ValueError(f"the table has no columns {sorted(unknown)}")
    arrays = [
        fit(columns[field.name] if field.name in columns else pa.nulls(rows, field.type), field.type)
        for field in target
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def part(columns: Mapping[str, pa.Array], start: int, stop: int) -> dict[str, pa.Array]:
    """Some rows of columns that did not fit as a whole; a slice would keep the items of the others' lists."""
    chosen = pa.array(range(start, stop))
    return {name: array.take(chosen) for name, array in columns.items()}


def fit(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The values as another type: by name inside structs, widened, never cut off.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit.
    """
    if pa.types.is_struct(target) and pa.types.is_struct(array.type):
        return _fit_struct(array, target)
    if pa.types.is_map(target) and pa.types.is_map(array.type):
        return _fit_map(array, target)
    if pa.types.is_large_list(target) and pa.types.is_large_list(array.type):
        return rebuilt(array, target, fit(array.values, target.value_type))
    return array if array.type.equals(target) else array.cast(target, safe=True)


def _fit_struct(array: pa.StructArray, target: pa.StructType) -> pa.StructArray:
    children = []
    for field in target:
        index = array.type.get_field_index(field.name)
        found = array.field(index) if index >= 0 else pa.nulls(len(array), field.type)
        child = fit(found, field.type)
        children.append(child if field.nullable or not child.null_count else _required(child, array))
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _fit_map(array: pa.MapArray, target: pa.MapType) -> pa.MapArray:
    entries = pa.StructArray.from_arrays(
        [fit(array.keys, target.key_type), fit(array.items, target.item_type)],
        fields=[target.key_field, target.item_field],
    )
    return rebuilt(array, target, entries)


def _required(child: pa.Array, parent: pa.StructArray) -> pa.Array:
    """A required field below a struct that is null here and there: the nulls are the struct's, not its own.

    Parquet's writer counts the field's own nulls, so they are taken away where the parent hides them.
    """
    if pc.any(pc.and_(child.is_null(), parent.is_valid())).as_py():
        raise pa.ArrowInvalid("a required field is null")
    return _without_validity(child)


def _without_validity(array: pa.Array) -> pa.Array:
    """The same values, all counted as present."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _without_validity(array.storage))
    if pa.types.is_struct(kind):
        children = [array.field(index) for index in range(kind.num_fields)]
        present = [
            child if field.nullable else _without_validity(child)
            for field, child in zip(kind, children, strict=True)
        ]
        return pa.StructArray.from_arrays(present, fields=list(kind))
    if pa.types.is_large_list(kind) or pa.types.is_map(kind):
        values = array.values if pa.types.is_large_list(kind) else map_entries(array)
        return rebuilt(array, kind, values, validity=False)
    return pa.Array.from_buffers(kind, len(array), [None, *array.buffers()[1:]], offset=array.offset)


def map_entries(array: pa.MapArray) -> pa.StructArray:
    """Keys and values of a map as one struct array."""
    return pa.StructArray.from_arrays(
        [array.keys, array.items], fields=[array.type.key_field, array.type.item_field]
    )


def rebuilt(array: pa.Array, target: pa.DataType, values: pa.Array, *, validity: bool = True) -> pa.Array:
    """A list or map with the same offsets over other values; nothing is copied."""
    present, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(
        target, len(array), [present if validity else None, offsets], offset=array.offset, children=[values]
    )
