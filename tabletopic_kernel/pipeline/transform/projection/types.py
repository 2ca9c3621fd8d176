"""DuckDB's types as columns of an Iceberg table."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tabletopic_kernel.formats.arrays import MAX_DAY, MICROS_PER_DAY, MIN_DAY
from tabletopic_kernel.model.errors import ProjectionError

_TYPES: Final[dict[str, IcebergType]] = {
    "boolean": BooleanType(),
    **dict.fromkeys(("tinyint", "smallint", "integer", "utinyint", "usmallint"), IntegerType()),
    **dict.fromkeys(("bigint", "uinteger"), LongType()),
    "ubigint": DecimalType(20, 0),
    "float": FloatType(),
    "double": DoubleType(),
    "date": DateType(),
    "time": TimeType(),
    **dict.fromkeys(("timestamp", "timestamp_s", "timestamp_ms"), TimestampType()),
    "timestamp with time zone": TimestamptzType(),
    **dict.fromkeys(("varchar", "enum"), StringType()),
    "blob": BinaryType(),
    "uuid": UUIDType(),
}
_INSTEAD: Final = {
    "hugeint": "BIGINT or DECIMAL(38, 0)",
    "uhugeint": "DECIMAL(38, 0)",
    "bignum": "DECIMAL(38, 0) or VARCHAR",
    "time with time zone": "TIME",
    "time_ns": "TIME",
    "timestamp_ns": "TIMESTAMP",
    "interval": "VARCHAR, or count it in a number",
    "bit": "VARCHAR",
}


def columns_of(names: Sequence[str], types: Sequence[Any]) -> Schema:
    """Optional columns for outputs of DuckDB's types; ProjectionError: a name is twice, or no type fits."""
    folded = [name.lower() for name in names]
    if twice := sorted({name for name in folded if folded.count(name) > 1 or not name.strip()}):
        raise ProjectionError(f"the column {twice[0]!r} occurs twice; give each its own name, with AS")
    if not names:
        raise ProjectionError("it has no columns")
    ids = itertools.count(1)
    fields = [
        NestedField(next(ids), name, _type(kind, name, ids), required=False)
        for name, kind in zip(names, types, strict=True)
    ]
    return Schema(*fields)


def _type(kind: Any, path: str, ids: Iterator[int]) -> IcebergType:
    match kind.id:
        case "decimal":
            parts = dict(kind.children)
            return DecimalType(parts["precision"], parts["scale"])
        case "struct":
            return StructType(
                *(
                    NestedField(next(ids), name, _type(inner, f"{path}.{name}", ids), required=False)
                    for name, inner in kind.children
                )
            )
        case "list" | "array":
            return ListType(next(ids), _type(dict(kind.children)["child"], path, ids), element_required=False)
        case "map":
            parts = dict(kind.children)
            key, value = (_type(parts[part], f"{path}.{part}", ids) for part in ("key", "value"))
            return MapType(next(ids), key, next(ids), value, value_required=False)
    if kind.id in _TYPES:
        return _TYPES[kind.id]
    instead = _INSTEAD.get(kind.id, "another type")
    raise ProjectionError(f"{path} is {kind}, which a table cannot hold; CAST it to {instead}")


def beyond_calendar(column: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """A mask of rows with a date or time that tables cannot hold: DuckDB's range is wider, with 24:00."""
    parts = [_beyond(chunk) for chunk in column.chunks]
    return np.concatenate(parts) if parts else np.zeros(0, np.bool_)


def _beyond(array: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    kind, bad = array.type, np.zeros(len(array), np.bool_)
    if pa.types.is_date32(kind):
        return _outside(array.cast(pa.int32()), MIN_DAY, MAX_DAY)
    if pa.types.is_time64(kind):
        return _outside(array.cast(pa.int64()), 0, MICROS_PER_DAY - 1)
    if pa.types.is_timestamp(kind):
        per_day = MICROS_PER_DAY // {"s": 1_000_000, "ms": 1000, "us": 1}[kind.unit]
        return _outside(array.cast(pa.int64()), MIN_DAY * per_day, (MAX_DAY + 1) * per_day - 1)
    if pa.types.is_struct(kind):
        for child in array.flatten():
            bad |= _beyond(child)
    elif pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        if pa.types.is_map(kind):
            entries = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
            lists = pa.ListArray.from_arrays(array.offsets, entries)
        else:
            lists = array
        inner = _beyond(lists.flatten())
        if inner.any():
            bad[pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)[inner]] = True
    return bad


def _outside(numbers: pa.Array, low: int, high: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    ends = pc.min_max(numbers)
    if not ends["min"].is_valid or (ends["min"].as_py() >= low and ends["max"].as_py() <= high):
        return np.zeros(len(numbers), np.bool_)
    filled = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    outside: np.ndarray[Any, np.dtype[np.bool_]] = (filled < low) | (filled > high)
    return outside
