"""Array operations from the native Avro reader's output to a table's columns.

Every value that the reader accepts but the specification does not is found here, over the whole array at
once, and raises ``NotRows``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tabletopic_kernel.formats.arrays import (
    MAX_DAY,
    MICROS_PER_DAY,
    MILLIS_PER_DAY,
    MIN_DAY,
    Mask,
    without_nulls,
)
from tabletopic_kernel.formats.avro.logical import Decimal
from tabletopic_kernel.formats.avro.values import decimal_reader
from tabletopic_kernel.formats.rejection import NotRows, Refusal

Convert = Callable[[pa.Array], pa.Array]


def struct_of(arrays: list[pa.Array], target: pa.DataType, absent: pa.Array | None = None) -> pa.Array:
    """A struct of ``target``, null where ``absent``; values under nulls do not count."""
    return pa.StructArray.from_arrays(arrays, fields=list(target), mask=absent)


def _raw(array: pa.Array, dtype: Any, per_value: int = 1) -> np.ndarray[Any, Any]:
    """The values of a fixed-width array without nulls, without a copy."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.empty(0, dtype)
    width = np.dtype(dtype).itemsize * per_value
    return np.frombuffer(buffer, dtype, len(array) * per_value, array.offset * width)


def spread(values: pa.Array, present: Mask) -> pa.Array:
    """``values`` where ``present``, null elsewhere."""
    if len(values) == len(present):
        return values
    indices = np.cumsum(present) - 1
    return _take(values, pa.array(indices, mask=~present))


def _take(values: pa.Array, indices: pa.Array) -> pa.Array:
    """``values.take(indices)``, but with zeros in required fields of structs that become null (Parquet)."""
    if not pa.types.is_struct(values.type):
        return values.take(indices)
    children = [_take(values.field(i), indices) for i in range(values.type.num_fields)]
    filled = [
        child if field.nullable else without_nulls(child)
        for field, child in zip(values.type, children, strict=True)
    ]
    return struct_of(filled, values.type, pc.invert(pc.fill_null(values.is_valid().take(indices), False)))


def booleans(array: pa.Array) -> pa.Array:
    """Booleans from single bytes."""
    raw = _raw(array, np.uint8)
    if (raw > 1).any():
        raise NotRows("a boolean that is neither 0 nor 1")
    return pa.array(raw.view(np.bool_))


def _within(array: pa.Array, low: int, high: int) -> pa.Array:
    raw = _raw(array, np.int32 if array.type == pa.int32() else np.int64)
    if len(raw) and (raw.min() < low or raw.max() > high):
        raise NotRows("a number out of range")
    return array


def _timestamps(unit: str, zone: str | None) -> Convert:
    per_day = MILLIS_PER_DAY * {"ms": 1, "us": 1000}[unit]
    low, high = MIN_DAY * per_day, (MAX_DAY + 1) * per_day - 1

    def convert(array: pa.Array) -> pa.Array:
        return _within(array, low, high).view(pa.timestamp(unit, zone)).cast(pa.timestamp("us", zone))

    return convert


_TIME: Final = pa.time64("us")
TEMPORAL: Final[dict[str, Convert]] = {
    "date": lambda array: _within(array, MIN_DAY, MAX_DAY).view(pa.date32()),
    "time-millis": lambda array: _within(array, 0, MILLIS_PER_DAY - 1).view(pa.time32("ms")).cast(_TIME),
    "time-micros": lambda array: _within(array, 0, MICROS_PER_DAY - 1).view(_TIME),
    "timestamp-millis": _timestamps("ms", "UTC"),
    "timestamp-micros": _timestamps("us", "UTC"),
    "local-timestamp-millis": _timestamps("ms", None),
    "local-timestamp-micros": _timestamps("us", None),
}

_HYPHENS: Final = np.array([8, 13, 18, 23])
_DIGITS: Final = np.setdiff1d(np.arange(36), _HYPHENS)
_HEX: Final = np.full(256, 255, np.uint8)
_HEX[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)
_HEX[np.frombuffer(b"ABCDEF", np.uint8)] = np.arange(10, 16)


def uuids(array: pa.Array) -> pa.Array:
    """UUIDs from their text, 8-4-4-4-12 hexadecimal digits (RFC 4122)."""
    if len(array) and not pc.all(pc.equal(pc.binary_length(array), 36)).as_py():
        raise NotRows("text that is not a UUID")
    start = array.offset * 36
    data = array.buffers()[2]
    text = np.frombuffer(data, np.uint8, len(array) * 36, start) if len(array) else np.empty(0, np.uint8)
    text = text.reshape(-1, 36)
    nibbles = _HEX[text[:, _DIGITS]]
    if (nibbles == 255).any() or (text[:, _HYPHENS] != ord("-")).any():
        raise NotRows("text that is not a UUID")
    raw = nibbles[:, 0::2] << 4 | nibbles[:, 1::2]
    storage = pa.Array.from_buffers(pa.binary(16), len(array), [None, pa.py_buffer(raw.tobytes())])
    return pa.ExtensionArray.from_storage(pa.uuid(), storage)


def durations(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Structs of months, days and milliseconds, from three 32-bit numbers each."""
    numbers = _raw(array, np.dtype("<u4"), 3).reshape(-1, 3).astype(np.int64)
    columns = [pa.array(np.ascontiguousarray(numbers[:, i])) for i in range(3)]
    return pa.StructArray.from_arrays(columns, fields=list(target))


def decimals(logical: Decimal) -> Convert:
    """Decimals unchanged, after a check that none has more digits than ``logical`` allows."""
    limit = 10**logical.precision

    def convert(array: pa.Array) -> pa.Array:
        # 10^precision itself does not fit that precision, so the limits are compared as integers.
        extremes = pc.min_max(array.view(pa.decimal128(38, 0)))
        if any(value.is_valid and abs(int(value.as_py())) >= limit for value in extremes.values()):
            raise NotRows("a decimal of too many digits")
        return array

    return convert


def decimals_one_by_one(array: pa.Array, logical: Decimal, target: pa.DataType) -> pa.Array:
    """Decimals from their bytes, for decimals that Arrow does not have."""
    value_of = decimal_reader(logical)
    try:
        return pa.array([value_of(raw) for raw in array.to_pylist()], target)
    except Refusal as refusal:
        raise NotRows(refusal.message) from refusal
