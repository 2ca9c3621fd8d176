"""Strictly checks the bytes of one Protobuf message, and names the error.

Protobuf's own parsers take a field whose wire type does not match the schema for an unknown one, truncate
numbers to 32 bits, and do not check UTF-8 in proto2. Each of these means that the value was written with a
schema other than its id's, and would silently become a wrong or missing value.

Source: Protobuf documentation, "Encoding".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor  # type: ignore[import-untyped]

from tabletopic_kernel.formats.protobuf.schema.tree import KINDS, fields_of, is_map_entry
from tabletopic_kernel.formats.rejection import Refusal

# Levels of messages and groups; upb, Protobuf's parser in Python, has the same limit.
MAX_LEVELS: Final = 100
_VARINT, _FIXED64, _BYTES, _GROUP, _END_GROUP, _FIXED32 = range(6)
_WIRE_NAMES: Final = ("a varint", "8 bytes", "bytes of a length", "a group", "the end of a group", "4 bytes")
FIXED: Final = {"double": 8, "fixed64": 8, "sfixed64": 8, "float": 4, "fixed32": 4, "sfixed32": 4}
_WIRE_OF_SIZE: Final = {8: _FIXED64, 4: _FIXED32}
_MAX_FIELD: Final = 2**29 - 1
_TAG_BYTES: Final = 5
TEXTS: Final = frozenset({"string", "bytes"})
_PACKABLE: Final = frozenset({*KINDS.values(), "enum"} - TEXTS)


def _fits_signed(value: int) -> bool:
    """Whether a number fits 32 bits, with its sign extended to 64 or not."""
    return value < 2**32 or value >= 2**64 - 2**31


def _fits_unsigned(value: int) -> bool:
    return value < 2**32


_FITS: Final[dict[str, Callable[[int], bool]]] = {
    "int32": _fits_signed,
    "enum": _fits_signed,
    "uint32": _fits_unsigned,
    "sint32": _fits_unsigned,
}


@dataclass(frozen=True)
class _Field:
    name: str
    kind: str  # a scalar's, or "enum", "message" or "map"
    number: int
    wire: int
    repeated: bool
    message: str | None  # the full name of a message's type
    fits: Callable[[int], bool] | None  # which numbers are allowed


def tag_bytes(number: int) -> int:
    """The number of bytes of a field number's tag."""
    return (number.bit_length() + 3 + 6) // 7


class WireChecker:
    """Checks messages of one type."""

    def __init__(self, message: Descriptor) -> None:
        self._root = message.full_name
        self._numbers: dict[str, dict[int, _Field]] = {}
        self._tags: dict[str, dict[int, _Field]] = {}
        todo = [message]
        while todo:
            node = todo.pop()
            if node.full_name in self._tags:
                continue
            fields = [_field(name, field) for name, field in fields_of(node)]
            self._numbers[node.full_name] = {field.number: field for field in fields}
            self._tags[node.full_name] = {field.number << 3 | field.wire: field for field in fields}
            todo += [field.message_type for _, field in fields_of(node) if field.message_type is not None]

    def check(self, buffer: bytes, levels: int = MAX_LEVELS) -> None:
        """Raise Refusal unless the bytes are a message of the type, with at most ``levels`` levels."""
        self._message(self._root, buffer, 0, len(buffer), levels)

    def _message(self, name: str, buffer: bytes, position: int, end: int, levels: int, group: int = 0) -> int:
        """Check a message that ends at ``end``, or at the end of ``group``; returns its end."""
        if levels == 0:
            raise _too_deep()
        tags = self._tags[name]
        while position < end:
            tag = buffer[position]
            if tag < 0x80:
                position += 1
            else:
                tag, position = _long_tag(buffer, position, end)
            field = tags.get(tag)
            if field is None:
                if tag == group << 3 | _END_GROUP:
                    return position
                position = self._other(name, tag, buffer, position, end, levels)
                continue
            try:
                position = self._value(field, buffer, position, end, levels)
            except Refusal as refusal:
                refusal.path.append(field.name)
                raise
        if group:
            raise _truncated()
        return position

    def _value(self, field: _Field, buffer: bytes, position: int, end: int, levels: int) -> int:
        """Check the value of a field whose wire type matches the schema; returns its end."""
        wire = field.wire
        if wire == _BYTES:
            size, position = _varint(buffer, position, end)
            stop = position + size
            if stop > end:
                raise _too_few(size, end - position)
            if field.message is not None:
                self._message(field.message, buffer, position, stop, levels - 1)
            elif field.kind == "string":
                _check_text(buffer[position:stop])
            return stop
        if wire == _VARINT:
            value, position = _varint(buffer, position, end)
            if field.fits is not None and not field.fits(value):
                raise _out_of_range(field)
            return position
        if wire == _GROUP:
            assert field.message is not None
            return self._message(field.message, buffer, position, end, levels - 1, field.number)
        return _advance(position, FIXED[field.kind], end)

    def _other(self, name: str, tag: int, buffer: bytes, position: int, end: int, levels: int) -> int:
        number, wire = tag >> 3, tag & 7
        if not 1 <= number <= _MAX_FIELD:
            raise Refusal("protobuf_tag", f"the tag of a field {number}, which is not a valid number")
        if wire > _FIXED32:
            raise Refusal("protobuf_tag", f"a field of wire type {wire}, which does not exist")
        if wire == _END_GROUP:
            raise Refusal("protobuf_tag", f"the end of group {number}, which was not opened")
        field = self._numbers[name].get(number)
        try:
            if field is None:
                return _skip(number, wire, buffer, position, end, levels)
            if wire == _BYTES and field.repeated and field.kind in _PACKABLE:
                return _packed(field, buffer, position, end)
            raise Refusal(
                "protobuf_wire_type",
                f"a field of type {field.kind} is written as {_WIRE_NAMES[wire]}; "
                "the value was written with a schema other than its id says",
            )
        except Refusal as refusal:
            refusal.path.append(field.name if field else f"(field {number})")
            raise


def _field(name: str, field: FieldDescriptor) -> _Field:
    if field.message_type is not None:
        kind = "map" if is_map_entry(field.message_type) else "message"
        wire = _GROUP if field.type == FieldDescriptor.TYPE_GROUP else _BYTES
        return _Field(name, kind, field.number, wire, field.is_repeated, field.message_type.full_name, None)
    kind = KINDS.get(field.type, "enum")
    wire = _WIRE_OF_SIZE[FIXED[kind]] if kind in FIXED else _BYTES if kind in TEXTS else _VARINT
    return _Field(name, kind, field.number, wire, field.is_repeated, None, _FITS.get(kind))


def _long_tag(buffer: bytes, position: int, end: int) -> tuple[int, int]:
    tag, after = _varint(buffer, position, end)
    if after - position > _TAG_BYTES:
        raise Refusal("protobuf_tag", f"a tag of {after - position} bytes, which is too long")
    return tag, after


def _varint(buffer: bytes, position: int, end: int) -> tuple[int, int]:
    if position >= end:
        raise _truncated()
    value = buffer[position]
    position += 1
    if value < 0x80:
        return value, position
    value &= 0x7F
    for shift in range(7, 70, 7):
        if position >= end:
            raise _truncated()
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), position  # every parser drops bits beyond 64
    raise Refusal("protobuf_varint", "a number of more than 10 bytes")


def _advance(position: int, size: int, end: int) -> int:
    if position + size > end:
        raise _too_few(size, end - position)
    return position + size


def _skip(number: int, wire: int, buffer: bytes, position: int, end: int, levels: int) -> int:
    if wire == _VARINT:
        return _varint(buffer, position, end)[1]
    if wire == _BYTES:
        size, position = _varint(buffer, position, end)
        return _advance(position, size, end)
    if wire != _GROUP:
        return _advance(position, 8 if wire == _FIXED64 else 4, end)
    if levels == 1:
        raise _too_deep()
    while True:
        tag, position = _long_tag(buffer, position, end)
        inner, wire = tag >> 3, tag & 7
        if wire == _END_GROUP and inner == number:
            return position
        if not 1 <= inner <= _MAX_FIELD or wire == _END_GROUP or wire > _FIXED32:
            raise Refusal("protobuf_tag", f"a field {inner} of wire type {wire} within group {number}")
        position = _skip(inner, wire, buffer, position, end, levels - 1)


def _packed(field: _Field, buffer: bytes, position: int, end: int) -> int:
    size, position = _varint(buffer, position, end)
    stop = _advance(position, size, end)
    if field.kind in FIXED:
        if size % FIXED[field.kind]:
            raise Refusal("protobuf_truncated", f"a list of {size} bytes, of {FIXED[field.kind]} bytes each")
        return stop
    while position < stop:
        value, position = _varint(buffer, position, stop)
        if field.fits is not None and not field.fits(value):
            raise _out_of_range(field)
    return stop


def _check_text(raw: bytes) -> None:
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise Refusal("protobuf_utf8", f"text that is not UTF-8 at byte {error.start}") from None


def _out_of_range(field: _Field) -> Refusal:
    return Refusal(
        "protobuf_out_of_range",
        f"a number of more than 32 bits in a field of type {field.kind}; "
        "the value was written with a schema other than its id says",
    )


def _too_few(size: int, remaining: int) -> Refusal:
    return Refusal("protobuf_truncated", f"{size} bytes, but only {remaining} are left")


def _truncated() -> Refusal:
    return Refusal("protobuf_truncated", "the bytes end in the middle of a field")


def _too_deep() -> Refusal:
    return Refusal("protobuf_too_deep", f"messages nest more than {MAX_LEVELS} levels deep")
