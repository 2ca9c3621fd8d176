"""From the native reader's simple arrays (``fast_schema``) to a table's columns, with their wire sizes.

Each type has a class with two methods. ``sizes`` returns how many bytes each element takes on the wire, as
writers encode it, without tag and length prefix. ``convert`` returns the column's values, and marks the rows
that only the exact engine can judge.
"""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from tabletopic_kernel.formats.arrays import Mask
from tabletopic_kernel.formats.protobuf.fast_schema import name_of
from tabletopic_kernel.formats.protobuf.json import Text
from tabletopic_kernel.formats.protobuf.values import (
    Scope,
    Sizes,
    SubMicros,
    decimals,
    enum_texts,
    many_durations,
    many_timestamps,
    narrow,
    numbers,
    offsets_of,
    varint_bytes,
)
from tabletopic_kernel.formats.protobuf.wire import FIXED, TEXTS
from tabletopic_kernel.formats.rejection import Refusal

_WIDTH: Final = {"bool": 1, **FIXED}
_NARROW: Final = frozenset({"int32", "uint32", "sint32"})


class Column(Protocol):
    """A type of a single value. ``has_prefix``: it has a length prefix."""

    has_prefix: bool

    def sizes(self, raw: pa.Array) -> Sizes:
        """The bytes of each element on the wire."""

    def convert(self, raw: pa.Array, scope: Scope, target: pa.DataType) -> pa.Array:
        """The values as ``target``; null where ``raw`` is."""


class ScalarColumn:
    """Numbers, booleans, text and bytes."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.has_prefix = kind in TEXTS

    def sizes(self, raw: pa.Array) -> Sizes:
        if self._kind in _WIDTH:
            return _WIDTH[self._kind]
        if self.has_prefix:
            return np.diff(offsets_of(raw))
        values = numbers(raw)
        if self._kind.startswith("sint"):
            values = (values << 1) ^ (values >> 63)
        return varint_bytes(values.view(np.uint64))

    def convert(self, raw: pa.Array, scope: Scope, target: pa.DataType) -> pa.Array:
        if self._kind in _NARROW:
            return narrow(raw, self._kind != "uint32", scope)
        if pa.types.is_decimal(target):
            return decimals(raw, target)
        return raw if raw.type == target else raw.cast(target)


class EnumColumn:
    """Enums: names for numbers."""

    has_prefix = False

    def __init__(self, names: tuple[tuple[int, str], ...]) -> None:
        self._numbers = pa.array([number for number, _ in names], pa.int32())
        self._names = pa.array([name for _, name in names], pa.large_string())

    def sizes(self, raw: pa.Array) -> Sizes:
        return varint_bytes(numbers(raw).view(np.uint64))

    def convert(self, raw: pa.Array, scope: Scope, _: pa.DataType) -> pa.Array:
        return enum_texts(narrow(raw, True, scope), self._numbers, self._names)


class JsonColumn:
    """Messages that become JSON text, as bytes."""

    has_prefix = True

    def __init__(self, text: Text) -> None:
        self._text = text

    def sizes(self, raw: pa.Array) -> Sizes:
        return np.diff(offsets_of(raw))

    def convert(self, raw: pa.Array, scope: Scope, target: pa.DataType) -> pa.Array:
        return self.texts(raw.to_pylist(), scope, target)

    def texts(self, messages: list[bytes | None], scope: Scope, target: pa.DataType) -> pa.Array:
        """The texts of messages; null for None."""
        bad = np.zeros(len(messages), bool)
        texts: list[str | None] = []
        for i, message in enumerate(messages):
            try:
                texts.append(None if message is None else self._text(message))
            except Refusal:
                texts.append("")
                bad[i] = True
        scope.mark(bad)  # the sizes say nothing about the content
        return pa.array(texts, target)


class MessageColumn:
    """Structs."""

    has_prefix = True

    def __init__(self, fields: list[FieldColumn], oneofs: tuple[tuple[int, ...], ...] = ()) -> None:
        self.fields = fields
        self._oneofs = oneofs

    def sizes(self, raw: pa.Array) -> Sizes:
        return self.sizes_of(self._children(raw))

    def _children(self, raw: pa.Array) -> list[pa.Array]:
        return [raw.field(name_of(field.number)) for field in self.fields]  # the reader's order differs

    def sizes_of(self, raw: list[pa.Array]) -> Sizes:
        """Like ``sizes``, from a message's fields."""
        total: Sizes = 0
        for field, array in zip(self.fields, raw, strict=True):
            total = total + field.sizes(array)
        return total

    def convert(self, raw: pa.Array, scope: Scope, target: pa.DataType) -> pa.Array:
        arrays = self.convert_all(self._children(raw), scope.within(raw), target)
        mask = raw.is_null() if raw.null_count else None
        return pa.StructArray.from_arrays(arrays, fields=list(target), mask=mask)

    def convert_all(
        self, raw: list[pa.Array], scope: Scope, target: pa.StructType | pa.Schema
    ) -> list[pa.Array]:
        """The columns of a message's fields."""
        for oneof in self._oneofs:
            # The last member on the wire counts, and the arrays do not show their order.
            members = [self.fields[i].is_set(raw[i]) for i in oneof]
            scope.mark(np.add.reduce(members, dtype=np.int64) > 1)
        return [
            field.convert(array, scope, target.field(i).type)
            for i, (field, array) in enumerate(zip(self.fields, raw, strict=True))
        ]


class MomentColumn(MessageColumn):
    """Timestamps and durations."""

    def __init__(self, fields: list[FieldColumn], duration: bool, sub_micros: SubMicros) -> None:
        super().__init__(fields)
        self._many = many_durations if duration else many_timestamps
        self._sub_micros = sub_micros

    def convert(self, raw: pa.Array, scope: Scope, target: pa.DataType) -> pa.Array:
        seconds, nanos = numbers(raw.field(0)), numbers(raw.field(1))
        narrow(raw.field(1), True, scope)  # marks values that are not int32
        micros, bad = self._many(seconds, nanos, self._sub_micros)
        scope.mark(bad)
        return pa.Array.from_buffers(target, len(raw), [raw.buffers()[0], pa.py_buffer(micros)])


class WrapperColumn(MessageColumn):
    """Scalars that may be absent."""

    def convert(self, raw: pa.Array, scope: Scope, target: pa.DataType) -> pa.Array:
        values = self.fields[0].convert(raw.field(0), scope, target)
        return pa.Array.from_buffers(target, len(raw), [raw.buffers()[0], *values.buffers()[1:]])


class FieldColumn(Protocol):
    """A field of a message."""

    number: int

    def sizes(self, raw: pa.Array) -> Sizes:
        """The bytes in each message on the wire, including tags."""

    def is_set(self, raw: pa.Array) -> Mask:
        """Whether each message has it."""

    def convert(self, raw: pa.Array, scope: Scope, target: pa.DataType) -> pa.Array:
        """The values as ``target``; null only where an optional field is not set."""
