"""Array operations from the native JSON reader's output to a table's columns.

The reader is lax in places, or lacks a type. Rows with values that the exact engine may not accept become
suspects, over the whole array at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tabletopic_kernel.formats.arrays import MAX_DAY, MICROS_PER_DAY, MIN_DAY, valid, without_nulls
from tabletopic_kernel.formats.avro.columns import spread, uuids
from tabletopic_kernel.formats.json.text import EXACT_DOUBLE, MAX_INT, MAX_LONG
from tabletopic_kernel.formats.json.types import Field, JsonType, ListOf, MapOf, Scalar, Struct, Text
from tabletopic_kernel.formats.rejection import NotRows, UnsupportedError

Rows = np.ndarray[Any, np.dtype[np.int64]]

# The types to read. Formats of text are checked and cast here: the reader accepts more spellings.
_NATIVE: Final = {"boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "double": pa.float64()}
_CLOCK: Final = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"
_OFFSET: Final = r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
_DATE: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_SHAPES: Final = {
    "date": f"^{_DATE}$",
    "time": f"^{_CLOCK}$",
    "timestamp": f"^{_DATE}[T ]{_CLOCK}$",
    "timestamptz": f"^{_DATE}[T ]{_CLOCK}{_OFFSET}$",
    "uuid": "^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$",
}
_FINER: Final = r"(\.[0-9]{6})[0-9]+"
_1970: Final = pa.scalar("1970-01-01T", pa.large_string())
_NO_TEXT: Final = pa.scalar("", pa.large_string())


def readable(node: JsonType) -> JsonType:
    """The part of a type that the native reader can read; raises UnsupportedError if that is not enough.

    Optional fields that it cannot read are left out: rows where they are not null are suspects.
    """
    match node:
        case Text() | MapOf():
            raise UnsupportedError("the native reader has no maps, and no JSON as text")
        case Scalar("float"):
            raise UnsupportedError("32-bit floats are not read with all their digits")
        case ListOf(items, optional):
            return ListOf(readable(items), optional)
        case Struct(fields, is_open):
            return Struct(tuple(_readable_fields(fields)), is_open)
    return node


def _readable_fields(fields: tuple[Field, ...]) -> Iterator[Field]:
    for field in fields:
        try:
            yield replace(field, type=readable(field.type))
        except UnsupportedError:
            if not field.optional:
                raise


def native_type(node: JsonType, *, loose: bool) -> pa.DataType:
    """The type to read for a ``readable`` type, with integers as doubles if ``loose``."""
    match node:
        case Scalar("decimal", precision, scale):
            return pa.decimal128(precision, scale)
        case Scalar(kind):
            if loose and kind in ("int", "long"):
                return pa.float64()
            return _NATIVE.get(kind, pa.large_string())
        case ListOf(items, _):
            return pa.list_(native_type(items, loose=loose))
        case Struct(fields):
            return pa.struct([pa.field(field.key, native_type(field.type, loose=loose)) for field in fields])
    raise UnsupportedError("not a readable type")


def with_integers(node: JsonType) -> JsonType | None:
    """The part of a ``readable`` type that has integers; None if it has none."""
    match node:
        case Scalar("int" | "long"):
            return node
        case ListOf(items, optional):
            inner = with_integers(items)
            return inner and ListOf(inner, optional)
        case Struct(fields):
            kept = [replace(field, type=inner) for field in fields if (inner := with_integers(field.type))]
            return Struct(tuple(kept), open=True) if kept else None
    return None


class Columns:
    """Converts one batch, marks ``suspects``; ``floor``: truncates times finer than a microsecond."""

    def __init__(self, count: int, *, floor: bool = False) -> None:
        self.suspects = np.zeros(count, np.bool_)
        self._floor = floor

    def convert(self, node: JsonType, array: pa.Array, target: pa.DataType, rows: Rows | None) -> pa.Array:
        """``array`` as the Arrow type ``target``; ``rows``: each value's row; None: its own."""
        match node:
            case Struct():
                return self._struct(node, array, target, rows)
            case ListOf():
                return self._list(node, array, target, rows)
            case Scalar("double"):
                self._mark(~(np.abs(_floats(array)) < EXACT_DOUBLE), rows)  # also NaN and infinity
            case Scalar(kind) if kind in _SHAPES:
                return self._formatted(kind, array, target, rows)
        return array

    def fields(
        self, node: Struct, array: pa.StructArray, targets: list[pa.Field], rows: Rows | None
    ) -> list[pa.Array]:
        """The columns of an object; marks rows with properties that the schema does not have."""
        known = {field.key: field for field in node.fields}
        names = [field.name for field in array.type]
        for index, name in enumerate(names):
            if name not in known and not pa.types.is_null(array.type.field(index).type):
                self._mark(valid(array.field(index)), rows)
        columns = {known[name].name: array.field(index) for index, name in enumerate(names) if name in known}
        present = valid(array) if array.null_count else None
        converted = []
        by_name = {field.name: field for field in known.values()}
        for target in targets:
            field = by_name.get(target.name)
            if field is None:  # JSON text, a map, or the rest: null in every row that is not suspect
                converted.append(pa.nulls(len(array), target.type))
                continue
            column = columns[target.name]
            if not field.optional and column.null_count:
                absent = ~valid(column)
                self._mark(absent if present is None else absent & present, rows)
            column = self.convert(field.type, column, target.type, rows)
            converted.append(column if target.nullable else without_nulls(column))
        return converted

    def _struct(
        self, node: Struct, array: pa.StructArray, target: pa.DataType, rows: Rows | None
    ) -> pa.Array:
        children = self.fields(node, array, list(target), rows)
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)

    def _list(self, node: ListOf, array: pa.ListArray, target: pa.DataType, rows: Rows | None) -> pa.Array:
        offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1).astype(np.int64)
        items, item_rows = _items(array, rows)
        if not node.optional and items.null_count:
            self._mark(~valid(items), item_rows)
        items = self.convert(node.items, items, target.value_type, item_rows)
        if not node.optional:
            items = without_nulls(items)
        buffers = [array.buffers()[0], pa.py_buffer(offsets - offsets[0])]
        return pa.Array.from_buffers(target, len(array), buffers, array.null_count, children=[items])

    def odd_integers(self, node: JsonType, array: pa.Array, rows: Rows | None) -> None:
        """Marks doubles that are no integers of their type; ``node``: of ``with_integers``."""
        match node:
            case Struct(fields):
                for index, field in enumerate(fields):
                    self.odd_integers(field.type, array.field(index), rows)
            case ListOf(items, _):
                self.odd_integers(items, *_items(array, rows))
            case Scalar(kind):
                floats = _floats(array)
                limit = float((MAX_LONG if kind == "long" else MAX_INT) + 1)
                self._mark(~((np.abs(floats) < limit) & (np.trunc(floats) == floats)), rows)

    def _formatted(self, kind: str, array: pa.Array, target: pa.DataType, rows: Rows | None) -> pa.Array:
        """Dates, times and UUIDs from their text; text in another form becomes null."""
        if self._floor and kind.startswith("time"):
            array = pc.replace_substring_regex(array, _FINER, r"\1")
        fits = pc.match_substring_regex(array, _SHAPES[kind])
        if pc.any(pc.invert(fits)).as_py():
            self._mark(pc.fill_null(pc.invert(fits), False).to_numpy(zero_copy_only=False), rows)
            array = pc.if_else(fits, array, pa.scalar(None, array.type))
        if kind == "uuid":
            values = uuids(array.drop_null())
            storage = spread(values.storage, valid(array))
            return pa.ExtensionArray.from_storage(values.type, storage)
        try:
            if kind == "time":  # Arrow casts large texts to timestamps, but not to times
                moments = pc.binary_join_element_wise(_1970, array, _NO_TEXT).cast(pa.timestamp("us"))
                return moments.view(pa.int64()).view(target)
            cast = array.cast(target)
        except pa.ArrowInvalid as error:  # the 30th of February, a 24th hour
            raise NotRows(str(error)) from None
        if kind.startswith(("date", "timestamp")):
            ticks = cast.view(pa.int32() if kind == "date" else pa.int64())
            per_day = 1 if kind == "date" else MICROS_PER_DAY
            low, high = MIN_DAY * per_day, (MAX_DAY + 1) * per_day
            ends = pc.min_max(ticks)
            if ends["min"].is_valid and not (low <= ends["min"].as_py() and ends["max"].as_py() < high):
                raise NotRows("a day that is not in the years 0001 to 9999")
        return cast

    def _mark(self, bad: np.ndarray[Any, np.dtype[np.bool_]], rows: Rows | None) -> None:
        if rows is None:
            self.suspects |= bad
        else:
            self.suspects[rows[bad]] = True


def _items(array: pa.ListArray, rows: Rows | None) -> tuple[pa.Array, Rows]:
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1).astype(np.int64)
    parents = np.repeat(np.arange(len(array)), np.diff(offsets))
    items = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    return items, parents if rows is None else rows[parents]


def _floats(array: pa.Array) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The values, with 0 for nulls."""
    filled = array.fill_null(0.0) if array.null_count else array
    return filled.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
