"""Fit decoded columns to the table's schema, by name, without losing anything.

Missing columns become nulls, narrower types are widened by safe casts. ``core/evolution.py`` has
made sure beforehand that nothing else is needed.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
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
        _fit(columns[field.name], field.type) if field.name in columns else pa.nulls(rows, field.type)
        for field in target
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _fit(array: pa.Array, target: pa.DataType) -> pa.Array:
    if array.type.equals(target):
        return array
    if pa.types.is_struct(target) and pa.types.is_struct(array.type):
        return _fit_struct(array, target)
    if pa.types.is_map(target) and pa.types.is_map(array.type):
        return _fit_map(array, target)
    if pa.types.is_large_list(target) and pa.types.is_large_list(array.type):
        values = _fit(array.values, target.value_type)
        return pa.Array.from_buffers(
            target, len(array), array.buffers()[:2], offset=array.offset, children=[values]
        )
    return array.cast(target, safe=True)


def _fit_struct(array: pa.StructArray, target: pa.StructType) -> pa.StructArray:
    children = []
    for field in target:
        index = array.type.get_field_index(field.name)
        child = pa.nulls(len(array), field.type) if index < 0 else _fit(array.field(index), field.type)
        children.append(child)
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _fit_map(array: pa.MapArray, target: pa.MapType) -> pa.MapArray:
    entries = pa.StructArray.from_arrays(
        [_fit(array.keys, target.key_type), _fit(array.items, target.item_type)],
        fields=[target.key_field, target.item_field],
    )
    return pa.Array.from_buffers(
        target, len(array), array.buffers()[:2], offset=array.offset, children=[entries]
    )
