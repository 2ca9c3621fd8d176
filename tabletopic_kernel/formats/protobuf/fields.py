"""Fields of messages: from the native reader's simple arrays to columns, see ``columns``."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa

from tabletopic_kernel.formats.arrays import Mask, repeated_keys, valid, without_nulls
from tabletopic_kernel.formats.protobuf.columns import (
    Column,
    EnumColumn,
    FieldColumn,
    JsonColumn,
    MessageColumn,
    MomentColumn,
    ScalarColumn,
    WrapperColumn,
)
from tabletopic_kernel.formats.protobuf.json import JsonTexts
from tabletopic_kernel.formats.protobuf.schema import tree
from tabletopic_kernel.formats.protobuf.values import (
    Scope,
    Sizes,
    SubMicros,
    offsets_of,
    prefixed,
    sums,
)
from tabletopic_kernel.formats.protobuf.wire import MAX_LEVELS, tag_bytes


class SingleField:
    """A field of one value."""

    def __init__(self, number: int, column: Column, presence: tree.Presence) -> None:
        self.number = number
        self._tag = tag_bytes(number)
        self._column = column
        self._presence = presence

    def sizes(self, raw: pa.Array) -> Sizes:
        sizes = self._column.sizes(raw)
        fields = self._tag + (prefixed(sizes) if self._column.has_prefix else sizes)
        return fields * valid(raw) if raw.null_count else fields

    def is_set(self, raw: pa.Array) -> Mask:
        return valid(raw)

    def convert(self, raw: pa.Array, scope: Scope, target: pa.DataType) -> pa.Array:
        if self._presence != "optional" and raw.null_count:
            if self._presence == "required":
                missing = ~valid(raw)
                scope.mark(missing if scope.present is None else missing & scope.present)
            raw = without_nulls(raw)
        return self._column.convert(raw, scope, target)


class ListField:
    """A repeated field."""

    def __init__(self, number: int, column: Column, packed: bool) -> None:
        self.number = number
        self._tag = tag_bytes(number)
        self._column = column
        self._packed = packed

    def sizes(self, raw: pa.Array) -> Sizes:
        offsets, sizes = offsets_of(raw), self._column.sizes(raw.values)
        if self._packed:
            content = sums(sizes, offsets)
            return (self._tag + prefixed(content)) * (content > 0)
        return sums(self._tag + (prefixed(sizes) if self._column.has_prefix else sizes), offsets)

    def is_set(self, raw: pa.Array) -> Mask:
        return np.diff(offsets_of(raw)) > 0

    def convert(self, raw: pa.Array, scope: Scope, target: pa.DataType) -> pa.Array:
        items = self._column.convert(raw.values, scope.items(offsets_of(raw)), target.value_type)
        return pa.Array.from_buffers(target, len(raw), [None, raw.buffers()[1]], children=[items])


class JsonField(ListField):
    """A field of one message that becomes JSON text; the reader returns its pieces on the wire."""

    def __init__(self, number: int, column: JsonColumn, presence: tree.Presence) -> None:
        super().__init__(number, column, packed=False)
        self._texts = column.texts
        self._presence = presence

    def convert(self, raw: pa.Array, scope: Scope, target: pa.DataType) -> pa.Array:
        offsets, pieces = offsets_of(raw).tolist(), raw.values.to_pylist()
        absent = None if self._presence == "optional" else b""
        messages = [
            b"".join(pieces[start:stop]) if stop > start else absent
            for start, stop in itertools.pairwise(offsets)
        ]
        if self._presence == "required":
            missing = ~self.is_set(raw)
            scope.mark(missing if scope.present is None else missing & scope.present)
        return self._texts(messages, scope, target)


class MapField(ListField):
    """A map, as a list of entries. Equal keys go to the exact engine: the last counts."""

    def __init__(self, number: int, entry: MessageColumn) -> None:
        super().__init__(number, entry, packed=False)
        self._fields = entry.fields

    def convert(self, raw: pa.Array, scope: Scope, target: pa.DataType) -> pa.Array:
        offsets, entries = offsets_of(raw), raw.values
        below = scope.items(offsets)
        keys = self._fields[0].convert(entries.field(0), below, target.key_type)
        items = self._fields[1].convert(entries.field(1), below, target.item_type)
        again = repeated_keys(offsets, keys)
        if again is not None:
            below.mark(again)
        pairs = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
        buffers = [None, pa.py_buffer(offsets.astype(np.int32))]
        return pa.Array.from_buffers(target, len(raw), buffers, children=[pairs])


class ColumnPlanner:
    """Columns of the types of one schema. ``levels``: how deep messages may nest from there on."""

    def __init__(self, json: JsonTexts, sub_micros: SubMicros) -> None:
        self._json = json
        self._sub_micros = sub_micros

    def message(self, node: tree.Message, levels: int = MAX_LEVELS) -> MessageColumn:
        """The column of a message type."""
        return MessageColumn([self._field(field, levels - 1) for field in node.fields], node.oneofs)

    def _field(self, field: tree.Field, levels: int) -> FieldColumn:
        match field.type:
            case tree.Repeated(item, packed):
                return ListField(field.number, self._element(item, levels), packed)
            case tree.Map(key, value):
                parts = enumerate((tree.Scalar(key), value), 1)
                entry = [self._single(number, node, "implicit", levels - 1) for number, node in parts]
                return MapField(field.number, MessageColumn(entry))
        return self._single(field.number, field.type, field.presence, levels)

    def _single(self, number: int, node: tree.Element, presence: tree.Presence, levels: int) -> FieldColumn:
        column = self._element(node, levels)
        if isinstance(column, JsonColumn):
            return JsonField(number, column, presence)
        return SingleField(number, column, presence)

    def _element(self, node: tree.Element, levels: int) -> Column:
        match node:
            case tree.Scalar(kind):
                return ScalarColumn(kind)
            case tree.Enum(names):
                return EnumColumn(names)
            case tree.Json(name):
                return JsonColumn(self._json.of(name, levels))
            case tree.Wrapper(kind):
                return WrapperColumn([SingleField(1, ScalarColumn(kind), "implicit")])
            case tree.Message():
                return self.message(node, levels)
        moment: list[FieldColumn] = [
            SingleField(1, ScalarColumn("int64"), "implicit"),
            SingleField(2, ScalarColumn("int32"), "implicit"),
        ]
        return MomentColumn(moment, isinstance(node, tree.Duration), self._sub_micros)
