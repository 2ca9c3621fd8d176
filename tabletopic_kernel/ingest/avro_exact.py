"""The exact Avro engine: one record at a time.

A schema becomes a tree of readers, each ``(buffer, position) -> (value, next position)``. They take what
the Avro specification allows and nothing else; a record that says otherwise raises ``Refusal`` with the
path to the place. Neither time nor memory can outgrow the record's own bytes: counts are held against
the bytes that are left, items that take no bytes are counted, recursion has a limit.

Why not fastavro, which reads good records twice as fast: it takes negative branch and symbol indexes,
integers beyond 32 bits, any byte as a boolean and negative lengths, it has no end to arrays whose items
take no bytes, and deep recursion ends its process. An exact engine has to be the judge.
"""

from __future__ import annotations

import base64
import binascii
import decimal
import json
import math
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from tabletopic_kernel.core.avro_schema import (
    Array,
    AvroSchema,
    AvroType,
    Decimal,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    Recursion,
    Union,
)
from tabletopic_kernel.core.types import (
    DURATION_FIELDS,
    branch_fields,
    columns_of,
    is_json,
    is_null,
    is_text_decimal,
    only_branch,
)

# Levels of a record inside itself. Each costs up to a few Python frames per type on the way round.
MAX_RECURSION: Final = 100
# Array items that take no bytes (nulls), per record: without a limit, 9 bytes could stand for 2^60 items.
MAX_EMPTY_ITEMS: Final = 65_536

MILLIS_PER_DAY: Final = 86_400_000
# RFC 4122 text, as Avro 1.12 "UUID" asks; other spellings (urn:, braces, no hyphens) are refused.
UUID_TEXT: Final = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")

Reader = Callable[[bytes, int], tuple[Any, int]]

_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")
_DURATION = struct.Struct("<III")
_DECIMALS = decimal.Context(prec=100)
_I64 = 2**63


class Refusal(Exception):  # noqa: N818 - a verdict on a record, not an error of ours
    """A record that is not what its schema says; ``reason`` is a short class, ``path`` outermost last."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.path: list[str] = []

    def text(self) -> str:
        """The message with the path to the place."""
        where = ".".join(reversed(self.path))
        return f"{where}: {self.message}" if where else self.message


class ExactEngine:
    """Reads record after record of one schema."""

    def __init__(self, schema: AvroSchema, arrow_schema: pa.Schema) -> None:
        self._columns = columns_of(schema)
        self._arrow_schema = arrow_schema
        self._storage_types = [storage_type(field.type) for field in arrow_schema]
        compiler = _Compiler(schema)
        self._budget = compiler.budget
        self._readers = [(name, compiler.column(node)) for name, node, _ in self._columns]

    def row(self, value: bytes, start: int) -> tuple[Any, ...]:
        """The columns' values of one record whose body begins at ``start``; raises Refusal."""
        self._budget.reset()
        position = start
        row = []
        name = ""
        try:
            for name, read in self._readers:  # noqa: B007 - read by the handlers
                cell, position = read(value, position)
                row.append(cell)
        except Refusal as refusal:
            refusal.path.append(name)
            raise
        except IndexError:
            raise _truncated(name) from None
        except RecursionError:
            raise _too_deep(name) from None
        if position != len(value):
            raise Refusal(
                "avro_trailing_bytes",
                f"{len(value) - position} bytes follow the record's end; "
                "the value was written with another schema than its id says",
            )
        return tuple(row)

    def batch(self, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        """The rows as a batch of the Arrow schema."""
        arrays = []
        for i, (field, storage) in enumerate(zip(self._arrow_schema, self._storage_types, strict=True)):
            array = pa.array([row[i] for row in rows], storage)
            arrays.append(array if storage == field.type else array.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow_schema)


def storage_type(arrow_type: pa.DataType) -> pa.DataType:
    """The type with its extension types (uuid) replaced by what they are stored as, at every depth."""
    if isinstance(arrow_type, pa.BaseExtensionType):
        return arrow_type.storage_type
    if pa.types.is_struct(arrow_type):
        return pa.struct([f.with_type(storage_type(f.type)) for f in arrow_type])
    if pa.types.is_large_list(arrow_type):
        return pa.large_list(arrow_type.value_field.with_type(storage_type(arrow_type.value_type)))
    if pa.types.is_map(arrow_type):
        item = arrow_type.item_field
        return pa.map_(arrow_type.key_field, item.with_type(storage_type(item.type)))
    return arrow_type


def _truncated(name: str) -> Refusal:
    refusal = Refusal("avro_truncated", "the record ends in the middle of this field")
    refusal.path.append(name)
    return refusal


def _too_deep(name: str) -> Refusal:
    refusal = Refusal("avro_too_deep", f"records nest more than {MAX_RECURSION} levels deep")
    refusal.path.append(name)
    return refusal


class _Budget:
    """What one record may still use."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.empty_items = MAX_EMPTY_ITEMS
        self.levels = MAX_RECURSION

    def take_empty_items(self, count: int) -> None:
        self.empty_items -= count
        if self.empty_items < 0:
            raise Refusal("avro_too_many_items", f"more than {MAX_EMPTY_ITEMS} items that take no bytes")


# --- bytes ---------------------------------------------------------------------------------------


def read_varint(buffer: bytes, position: int) -> tuple[int, int]:
    """An unsigned varint of at most 64 bits in at most 10 bytes; raises IndexError at the end."""
    byte = buffer[position]
    position += 1
    if byte < 0x80:
        return byte, position
    value = byte & 0x7F
    for shift in range(7, 63, 7):
        byte = buffer[position]
        position += 1
        if byte < 0x80:
            return value | byte << shift, position
        value |= (byte & 0x7F) << shift
    byte = buffer[position]
    if byte > 1:
        raise Refusal("avro_varint", "a number has more than 64 bits")
    return value | byte << 63, position + 1


def _long(buffer: bytes, position: int) -> tuple[int, int]:
    byte = buffer[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value, position = read_varint(buffer, position)
    return (value >> 1) ^ -(value & 1), position


def _int(buffer: bytes, position: int) -> tuple[int, int]:
    byte = buffer[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value, position = read_varint(buffer, position)
    if value >= 2**32:
        raise Refusal("avro_varint", "a number of type int has more than 32 bits")
    return (value >> 1) ^ -(value & 1), position


def _bytes(buffer: bytes, position: int) -> tuple[bytes, int]:
    length, position = _long(buffer, position)
    end = position + length
    if length < 0:
        raise Refusal("avro_length", f"a negative length, {length}")
    if end > len(buffer):
        raise Refusal("avro_truncated", f"a length of {length} bytes where {len(buffer) - position} are left")
    return buffer[position:end], end


def _string(buffer: bytes, position: int) -> tuple[str, int]:
    raw, position = _bytes(buffer, position)
    try:
        return str(raw, "utf-8"), position
    except UnicodeDecodeError as error:
        raise Refusal("avro_utf8", f"text that is not UTF-8, at its byte {error.start}") from None


def _null(_buffer: bytes, position: int) -> tuple[None, int]:
    return None, position


def _boolean(buffer: bytes, position: int) -> tuple[bool, int]:
    byte = buffer[position]
    if byte > 1:
        raise Refusal("avro_boolean", f"a boolean of byte {byte:#04x}")
    return byte == 1, position + 1


def _float(buffer: bytes, position: int) -> tuple[float, int]:
    if position + 4 > len(buffer):
        raise IndexError
    return _FLOAT.unpack_from(buffer, position)[0], position + 4


def _double(buffer: bytes, position: int) -> tuple[float, int]:
    if position + 8 > len(buffer):
        raise IndexError
    return _DOUBLE.unpack_from(buffer, position)[0], position + 8


def _fixed(size: int) -> Reader:
    def read(buffer: bytes, position: int) -> tuple[bytes, int]:
        end = position + size
        if end > len(buffer):
            raise IndexError
        return buffer[position:end], end

    return read


_PRIMITIVES: Final[dict[str, Reader]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _float,
    "double": _double,
    "bytes": _bytes,
    "string": _string,
}

# --- logical types ---------------------------------------------------------------------------------


def _converted(read: Reader, convert: Callable[[Any], Any]) -> Reader:
    def read_converted(buffer: bytes, position: int) -> tuple[Any, int]:
        value, position = read(buffer, position)
        return convert(value), position

    return read_converted


def _out_of_range(what: str) -> Refusal:
    return Refusal("avro_out_of_range", what)


def _micros_of_millis(value: int) -> int:
    micros = value * 1000
    if not -_I64 <= micros < _I64:
        raise _out_of_range(f"timestamp {value} ms does not fit the table's microseconds")
    return micros


def _time_of_millis(value: int) -> int:
    if not 0 <= value < MILLIS_PER_DAY:
        raise _out_of_range(f"time {value} ms is not within a day")
    return value * 1000


def _time_of_micros(value: int) -> int:
    if not 0 <= value < MILLIS_PER_DAY * 1000:
        raise _out_of_range(f"time {value} µs is not within a day")
    return value


def _uuid_of_text(text: str) -> bytes:
    if UUID_TEXT.fullmatch(text) is None:
        raise Refusal("avro_uuid", f"{text[:40]!r} is no UUID")
    return binascii.unhexlify(text.replace("-", ""))


def _duration(raw: bytes) -> dict[str, int]:
    return dict(zip(DURATION_FIELDS, _DURATION.unpack(raw), strict=True))


def unscaled_of(raw: bytes, logical: Decimal) -> int:
    """The unscaled value of a decimal's bytes (no bytes: 0); raises Refusal beyond the precision."""
    value = int.from_bytes(raw, "big", signed=True)
    if abs(value) >= 10**logical.precision:
        raise _out_of_range(f"a decimal of more than {logical.precision} digits")
    return value


def text_of_decimal(raw: bytes, logical: Decimal) -> str:
    """All digits, with ``scale`` of them after the point."""
    value = unscaled_of(raw, logical)
    digits = f"{abs(value):0{logical.scale + 1}d}"
    whole, fraction = digits[: len(digits) - logical.scale], digits[len(digits) - logical.scale :]
    return f"{'-' if value < 0 else ''}{whole}{'.' if fraction else ''}{fraction}"


def decimal_reader(logical: Decimal) -> Callable[[bytes], object]:
    """From the bytes of a decimal to its column's value; raises Refusal beyond the precision."""
    if is_text_decimal(logical):
        return lambda raw: text_of_decimal(raw, logical)
    return lambda raw: _DECIMALS.scaleb(decimal.Decimal(unscaled_of(raw, logical)), -logical.scale)


_LOGICAL: Final[dict[str, Callable[[Any], Any]]] = {
    "time-millis": _time_of_millis,
    "time-micros": _time_of_micros,
    "timestamp-millis": _micros_of_millis,
    "local-timestamp-millis": _micros_of_millis,
    "uuid": _uuid_of_text,
}

# --- types -----------------------------------------------------------------------------------------


class _Compiler:
    """Readers of one schema. ``column`` gives the values of Arrow columns, ``_json`` those of JSON."""

    def __init__(self, schema: AvroSchema) -> None:
        self.budget = _Budget()
        self._schema = schema
        self._recursive: dict[str, Reader] = {}

    def column(self, node: AvroType) -> Reader:  # noqa: PLR0911 - a return per Avro type
        if is_json(node):
            return _converted(self._json(node), _json_text)
        match node:
            case Primitive(kind, logical):
                return self._logical(_PRIMITIVES[kind], logical)
            case Fixed(_, size, "duration"):
                return _converted(_fixed(size), _duration)
            case Fixed(_, size, logical):
                return self._logical(_fixed(size), None if logical == "uuid" else logical)
            case Enum(_, symbols):
                return _enum(symbols)
            case Array(items):
                return self._blocks(self.column(items), not takes_bytes(items))
            case Map(values):
                return _converted(self._pairs(self.column(values)), _last_of_each_key)
            case Record(_, fields):
                return _record([(field.name, self.column(field.type)) for field in fields])
        assert isinstance(node, Union)
        readers = [self.column(branch) for branch in node.branches]
        if only_branch(node) is not None or is_null(node):
            return _union(readers)
        names = branch_fields(node)
        return _union([_named(names[i], r) if i in names else r for i, r in enumerate(readers)])

    def _logical(self, read: Reader, logical: str | Decimal | None) -> Reader:
        if isinstance(logical, Decimal):
            return _converted(read, decimal_reader(logical))
        convert = _LOGICAL.get(logical or "")
        return read if convert is None else _converted(read, convert)

    def _json(self, node: AvroType) -> Reader:  # noqa: PLR0911 - a return per Avro type
        match node:
            case Primitive("bytes") | Fixed():
                read = _bytes if isinstance(node, Primitive) else _fixed(node.size)
                return _converted(read, _json_bytes(node.logical))
            case Primitive("float" | "double" as kind):
                return _converted(_PRIMITIVES[kind], _json_number)
            case Primitive(kind):
                return _PRIMITIVES[kind]
            case Enum(_, symbols):
                return _enum(symbols)
            case Array(items):
                return self._blocks(self._json(items), not takes_bytes(items))
            case Map(values):
                return _converted(self._pairs(self._json(values)), dict)
            case Record(_, fields):
                return _record([(field.name, self._json(field.type)) for field in fields])
            case Union(branches):
                return _union([self._json(branch) for branch in branches])
            case Recursion(name):
                return self._recursion(name)

    def _recursion(self, name: str) -> Reader:
        budget, readers = self.budget, self._recursive
        if name not in readers:
            readers[name] = _null  # its own body meets it again
            readers[name] = self._json(self._schema.recursive[name])

        def read(buffer: bytes, position: int) -> tuple[Any, int]:
            budget.levels -= 1
            if budget.levels < 0:
                raise Refusal("avro_too_deep", f"records nest more than {MAX_RECURSION} levels deep")
            value, position = readers[name](buffer, position)
            budget.levels += 1
            return value, position

        return read

    def _blocks(self, read_item: Reader, empty: bool) -> Reader:
        budget = self.budget

        def read(buffer: bytes, position: int) -> tuple[list[Any], int]:
            items: list[Any] = []
            while True:
                count, position = _long(buffer, position)
                if count == 0:
                    return items, position
                if count < 0:
                    # The block's size in bytes follows. It lets readers skip; the items say the same.
                    count = -count
                    size, position = _long(buffer, position)
                    if size < 0:
                        raise Refusal("avro_length", f"a block of negative size, {size}")
                if empty:
                    budget.take_empty_items(count)
                elif count > len(buffer) - position:
                    raise Refusal(
                        "avro_truncated", f"{count} items where {len(buffer) - position} bytes are left"
                    )
                for _ in range(count):
                    item, position = read_item(buffer, position)
                    items.append(item)

        return read

    def _pairs(self, read_value: Reader) -> Reader:
        def read_pair(buffer: bytes, position: int) -> tuple[tuple[str, Any], int]:
            key, position = _string(buffer, position)
            value, position = read_value(buffer, position)
            return (key, value), position

        return self._blocks(read_pair, empty=False)


def takes_bytes(node: AvroType) -> bool:
    """Whether a value takes at least one byte; the others take none, ever."""
    match node:
        case Primitive(kind):
            return kind != "null"
        case Fixed(_, size):
            return size > 0
        case Record(_, fields):
            return any(takes_bytes(field.type) for field in fields)
    return True


def _record(fields: list[tuple[str, Reader]]) -> Reader:
    def read(buffer: bytes, position: int) -> tuple[dict[str, Any], int]:
        row = {}
        name = ""
        try:
            for name, read_field in fields:
                row[name], position = read_field(buffer, position)
        except Refusal as refusal:
            refusal.path.append(name)
            raise
        except IndexError:
            raise _truncated(name) from None
        return row, position

    return read


def _enum(symbols: tuple[str, ...]) -> Reader:
    def read(buffer: bytes, position: int) -> tuple[str, int]:
        index, position = _int(buffer, position)
        if not 0 <= index < len(symbols):
            raise Refusal("avro_enum", f"symbol {index} of an enum of {len(symbols)}")
        return symbols[index], position

    return read


def _union(readers: list[Reader]) -> Reader:
    def read(buffer: bytes, position: int) -> tuple[Any, int]:
        branch, position = _long(buffer, position)
        if not 0 <= branch < len(readers):
            raise Refusal("avro_union", f"branch {branch} of a union of {len(readers)}")
        return readers[branch](buffer, position)

    return read


def _named(name: str, read_branch: Reader) -> Reader:
    def read(buffer: bytes, position: int) -> tuple[dict[str, Any], int]:
        value, position = read_branch(buffer, position)
        return {name: value}, position

    return read


def _last_of_each_key(pairs: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    # Avro's maps have unordered, unique keys; its libraries keep the last of two.
    return list(dict(pairs).items())


def _json_bytes(logical: str | Decimal | None) -> Callable[[bytes], str]:
    if isinstance(logical, Decimal):
        return lambda raw: text_of_decimal(raw, logical)
    return lambda raw: base64.b64encode(raw).decode()


def _json_number(value: float) -> float | str:
    # JSON has no such numbers; Avro's own JSON form and protobuf's use these words.
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
