"""Values as what Connect's names mean (``model/columns/connect_types.py``): dates, times, decimals, UUIDs.

It runs on the rows of a transform, so the image of a change that becomes no row cannot refuse its record.
A value that its column cannot hold, such as a date before the year 1, refuses the record; in the row of a
delete it becomes null, as the key alone says which row is gone.
"""

from __future__ import annotations

import binascii
import decimal
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimeType,
)

from tabletopic_kernel.formats.arrays import MAX_DAY, MICROS_PER_DAY, MIN_DAY, Mask, arrow_schema_of, valid
from tabletopic_kernel.formats.decoder import Decoder
from tabletopic_kernel.formats.driver import Decoded
from tabletopic_kernel.formats.json.columns import Columns
from tabletopic_kernel.formats.json.types import Scalar
from tabletopic_kernel.formats.json.values import scalar_reader
from tabletopic_kernel.formats.rejection import NotRows, Refusal, Refused
from tabletopic_kernel.model.columns.connect_types import Native, native_columns, native_field, native_of
from tabletopic_kernel.model.columns.types import meaning_in
from tabletopic_kernel.model.dead_letter import DOES_NOT_FIT
from tabletopic_kernel.pipeline.conform import map_entries, rebuilt
from tabletopic_kernel.pipeline.transform.columns import CDC, Rows
from tabletopic_kernel.pipeline.transform.deletes import DELETED, say_deleted

_NANOS_PER_MICRO: Final = 1_000
_MOST_SCALE: Final = 20_000  # of PostgreSQL's numeric: 16,383
_EXACT: Final = decimal.Context(prec=200_000, Emax=999_999, Emin=-999_999)
_WHY: Final = "has a value that its type cannot hold, such as a year that is not 1 to 9999, or 24:00"
_WAYS: Final = (
    "; a time finer than a microsecond is rounded down with value_nanos = floor, and another table with "
    "debezium_types = as_sent takes all values as they are"
)


class NativeTypes:
    """Converts the rows of a transform; ``columns``: their types as sent."""

    def __init__(self, columns: Schema, *, floor: bool) -> None:
        self._floor = floor
        self._fields = [
            (field, arrow_schema_of(Schema(native_field(field))).field(0).type)
            for field in columns.fields
            if native_field(field) != field
        ]

    def rows(self, rows: Rows) -> Rows:
        """The rows with native values; those with one that does not fit are refused."""
        columns, bad = dict(rows.columns), dict[str, Mask]()
        for field, target in self._fields:
            if (array := columns.get(field.name)) is not None:
                columns[field.name], wrong = self._field(array, field, target)
                if wrong is not None and wrong.any():
                    bad[field.name] = wrong
        rows = replace(rows, columns=columns)
        return _without(rows, bad) if bad else rows

    def _field(
        self, array: pa.Array, field: NestedField, target: pa.DataType
    ) -> tuple[pa.Array, Mask | None]:
        return self._convert(array, field.field_type, meaning_in(field.doc), target)

    def _convert(
        self, array: pa.Array, kind: IcebergType, meaning: str | None, target: pa.DataType
    ) -> tuple[pa.Array, Mask | None]:
        """The array as ``target``, null where the mask says that a value does not fit."""
        if (native := native_of(kind, meaning)) is not None:
            return self._values(array, native, target)
        if isinstance(kind, StructType):
            parts = [  # flatten: what a null struct hides is null too, not a value to judge
                self._field(child, part, target.field(at).type)
                for at, (child, part) in enumerate(zip(array.flatten(), kind.fields, strict=True))
            ]
            mask = array.is_null() if array.null_count else None
            struct = pa.StructArray.from_arrays([part for part, _ in parts], fields=list(target), mask=mask)
            return struct, _any(bad for _, bad in parts)
        if isinstance(kind, ListType):
            values, bad = self._convert(array.values, kind.element_type, meaning, target.value_type)
            return rebuilt(array, target, values), _of_parents(array, bad)
        if isinstance(kind, MapType):
            keys, items = map_entries(array).flatten()
            values, bad = self._convert(items, kind.value_type, meaning, target.item_type)
            entries = pa.StructArray.from_arrays([keys, values], fields=[target.key_field, target.item_field])
            return rebuilt(array, target, entries), _of_parents(array, bad)
        return array, None

    def _values(self, array: pa.Array, native: Native, target: pa.DataType) -> tuple[pa.Array, Mask | None]:
        if native.nanos is not None:
            return self._number(array, native, native.nanos, target)
        if isinstance(native.kind, DecimalType | BinaryType | StringType):
            return _one_by_one(array, target, _reader(native, array.type))
        return self._text(array, str(native.kind), target)

    def _number(
        self, array: pa.Array, native: Native, nanos: int, target: pa.DataType
    ) -> tuple[pa.Array, Mask | None]:
        is_date = isinstance(native.kind, DateType)
        wrong = np.zeros(len(array), np.bool_)
        if nanos < _NANOS_PER_MICRO:
            numbers = _filled(array)
            wrong |= not self._floor and numbers % _NANOS_PER_MICRO != 0
            array = pa.array(numbers // _NANOS_PER_MICRO, mask=~valid(array))
        per_tick = 1 if is_date else max(nanos // _NANOS_PER_MICRO, 1)
        per_day = 1 if is_date else MICROS_PER_DAY // per_tick
        days = (0, 1) if isinstance(native.kind, TimeType) else (MIN_DAY, MAX_DAY + 1)
        low, high = (per_day * day for day in days)
        ends = pc.min_max(array).as_py()
        if ends["min"] is not None and not low <= ends["min"] <= ends["max"] < high:
            numbers = _filled(array)
            wrong |= (numbers < low) | (numbers >= high)
        if wrong.any():
            array = pc.if_else(pa.array(wrong), pa.scalar(None, array.type), array)
        array = array.cast(pa.int32() if is_date else pa.int64())
        return (pc.multiply(array, per_tick) if per_tick > 1 else array).view(target), wrong

    def _text(self, array: pa.Array, kind: str, target: pa.DataType) -> tuple[pa.Array, Mask | None]:
        """Times and UUIDs from text, as JSON's fast engine reads them, else as its exact one does."""
        fast, scalar = Columns(len(array), floor=self._floor), Scalar(kind)
        read = scalar_reader(scalar, floor=self._floor)
        try:
            values = fast.convert(scalar, array, target, None)
        except NotRows:
            return _one_by_one(array, target, read)
        suspects = np.flatnonzero(fast.suspects)
        if not len(suspects):
            return values, None
        again, wrong = _one_by_one(array.take(pa.array(suspects)), target, read)
        order, bad = np.arange(len(array)), np.zeros(len(array), np.bool_)
        order[suspects] = len(array) + np.arange(len(suspects))
        bad[suspects] = wrong
        return pa.concat_arrays([values, again]).take(pa.array(order)), bad


class NativeDecoder:
    """A decoder (see ``formats/decoder.py``) whose rows have native values."""

    def __init__(self, sent: Decoder, *, floor: bool) -> None:
        self._sent = sent
        self._types = NativeTypes(sent.iceberg_schema, floor=floor)
        self.iceberg_schema = native_columns(sent.iceberg_schema)
        self.arrow_schema = arrow_schema_of(self.iceberg_schema)

    def decode(self, values: pa.Array) -> Decoded:
        sent, refused = self._sent.decode(values)
        kept = np.delete(np.arange(len(values)), [bad.index for bad in refused])
        rows = self._types.rows(Rows(dict(zip(sent.schema.names, sent.columns, strict=True)), kept, refused))
        arrays = [rows.columns[name] for name in self.arrow_schema.names]
        return Decoded(pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema), rows.refused)


def has_names(columns: Schema) -> bool:
    """Whether some column, or a part of one, has a name that means another type."""
    return any(native_field(field) != field for field in columns.fields)


def _without(rows: Rows, bad: dict[str, Mask]) -> Rows:
    """The rows without those with ``bad`` values; of deletes, these are null."""
    wrong = np.logical_or.reduce(list(bad.values()))
    if CDC in rows.columns:
        wrong &= ~pc.equal(rows.columns[CDC].field("op"), "D").to_numpy(zero_copy_only=False)
    elif DELETED in rows.columns:
        wrong &= ~say_deleted(rows.columns[DELETED])
    chosen = np.flatnonzero(~wrong)
    columns = {
        name: array.take(pa.array(chosen, mask=bad[name][chosen] if name in bad else None))
        for name, array in rows.columns.items()
    }
    refused = [
        Refused(int(rows.kept[at]), DOES_NOT_FIT, _explain([name for name in bad if bad[name][at]]))
        for at in np.flatnonzero(wrong).tolist()
    ]
    every = sorted([*rows.refused, *refused], key=lambda bad: bad.index)
    return Rows(columns, rows.kept[chosen], every, rows.passed_over)


def _explain(names: list[str]) -> str:
    return f"{', '.join(names)} {_WHY}{_WAYS}"


def _any(masks: Iterable[Mask | None]) -> Mask | None:
    present = [mask for mask in masks if mask is not None]
    return np.logical_or.reduce(present) if present else None


def _of_parents(array: pa.Array, bad: Mask | None) -> Mask | None:
    if bad is None or not bad.any():
        return None
    offsets = np.asarray(array.offsets)
    sums = np.concatenate(([0], np.cumsum(bad)))
    parents: Mask = (sums[offsets[1:]] > sums[offsets[:-1]]) & valid(array)
    return parents


def _one_by_one(array: pa.Array, target: pa.DataType, read: Callable[[Any], Any]) -> tuple[pa.Array, Mask]:
    bad = np.zeros(len(array), np.bool_)
    values: list[Any] = []
    for at, value in enumerate(array.to_pylist()):
        try:
            values.append(None if value is None else read(value))
        except (Refusal, ValueError, ArithmeticError):
            values.append(None)
            bad[at] = True
    storage = target.storage_type if isinstance(target, pa.BaseExtensionType) else target
    made = pa.array(values, storage)
    return made if storage == target else made.cast(target), bad


def _filled(array: pa.Array) -> np.ndarray[Any, np.dtype[Any]]:
    filled = array.fill_null(0) if array.null_count else array
    return filled.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _reader(native: Native, sent: pa.DataType) -> Callable[[Any], Any]:
    kind = native.kind
    if isinstance(kind, BinaryType):
        return _bytes
    if isinstance(kind, DecimalType):
        return lambda text: _decimal(_bytes(text), native.scale, 10**kind.precision)
    if pa.types.is_struct(sent):
        return lambda value: f"{_decimal(_bytes(value['value']), value['scale']):f}"
    return lambda text: f"{_decimal(_bytes(text), native.scale):f}"


def _bytes(value: bytes | str) -> bytes:
    return value if isinstance(value, bytes) else binascii.a2b_base64(value, strict_mode=True)


def _decimal(unscaled: bytes, scale: int, limit: int | None = None) -> decimal.Decimal:
    number = int.from_bytes(unscaled, "big", signed=True)
    if (limit is not None and abs(number) >= limit) or abs(scale) > _MOST_SCALE:
        raise ValueError("beyond the column's digits")
    return decimal.Decimal(number).scaleb(-scale, _EXACT)
