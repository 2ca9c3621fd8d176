"""Protobuf schemas with values, their bytes, and the expected rows: written from the specification.

Nothing here uses the package, so a mistake would have to be made twice to go unnoticed. ``records()`` draws a
file (FileDescriptorProto) and records of its first message, as (fields on the wire, expected row). The
expected form is that of ``avro_cases.plain_rows``.
"""

from __future__ import annotations

import base64
import decimal
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.struct_pb2 import Struct
from hypothesis import strategies as st

from tests.formats.text_cases import TEXT

PREFIX = b"\x00\x00\x00\x00\x07\x00"  # with the indexes of the first message
SCHEMA_ID = 7
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
I32, I64 = 2**31, 2**63
MIN_SECOND, MAX_SECOND = -62_135_596_800, 253_402_300_799
MAX_DURATION = 315_576_000_000


def varint(number: int) -> bytes:
    """A 64-bit number; a negative one as its two's complement."""
    number &= 2**64 - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def zigzag(number: int) -> bytes:
    """A sint64."""
    return varint((number << 1) ^ (number >> 63))


def tag(number: int, wire: int) -> bytes:
    """A field's tag."""
    return varint(number << 3 | wire)


def sized(raw: bytes) -> bytes:
    """A length and that many bytes."""
    return varint(len(raw)) + raw


def text(number: int, value: str | bytes) -> bytes:
    """A field of text, bytes or a message."""
    return tag(number, BYTES) + sized(value.encode() if isinstance(value, str) else value)


def framed(*bodies: bytes) -> pa.Array:
    """The bodies as Kafka values."""
    return pa.array([PREFIX + body for body in bodies], pa.binary())


def encoded(file: FileDescriptorProto) -> str:
    """A file as in the registry."""
    return base64.b64encode(file.SerializeToString()).decode()


def _ints(low: int, high: int) -> st.SearchStrategy[int]:
    return st.one_of(st.integers(low, high), st.sampled_from([low, high, 0, max(low, -1)]))


@dataclass(frozen=True)
class Kind:
    """A type of a single value. ``pairs`` draws (bytes without tag, expected); the first one is the default.

    ``encoding``: of a length-delimited type, the length is part of the bytes.
    """

    declare: Callable[[FieldDescriptorProto], None]
    wire: int
    default: Any
    pairs: st.SearchStrategy[tuple[bytes, Any]]
    message: bool = False
    key: bool = False


def _scalar(name: str, wire: int, default: Any, pairs: Any, key: bool = True) -> Kind:
    number = getattr(FieldDescriptorProto, f"TYPE_{name.upper()}")

    def declare(proto: FieldDescriptorProto) -> None:
        proto.type = number

    return Kind(declare, wire, default, pairs, key=key)


def _floats(name: str, code: str, wire: int, width: int) -> Kind:
    def pair(value: float) -> tuple[bytes, str]:
        raw = struct.pack(code, value)
        return raw, repr(struct.unpack(code, raw)[0])

    return _scalar(name, wire, "0.0", st.floats(width=width).map(pair), key=False)  # type: ignore[call-overload]


def _packed(name: str, code: str, wire: int, low: int, high: int, to: Callable[[int], Any] = int) -> Kind:
    return _scalar(name, wire, to(0), _ints(low, high).map(lambda n: (struct.pack(code, n), to(n))))


SCALARS = [
    _scalar("int32", VARINT, 0, _ints(-I32, I32 - 1).map(lambda n: (varint(n), n))),
    _scalar("int64", VARINT, 0, _ints(-I64, I64 - 1).map(lambda n: (varint(n), n))),
    _scalar("uint32", VARINT, 0, _ints(0, 2**32 - 1).map(lambda n: (varint(n), n))),
    _scalar(
        "uint64",
        VARINT,
        decimal.Decimal(0),
        _ints(0, 2**64 - 1).map(lambda n: (varint(n), decimal.Decimal(n))),
    ),
    _scalar("sint32", VARINT, 0, _ints(-I32, I32 - 1).map(lambda n: (zigzag(n), n))),
    _scalar("sint64", VARINT, 0, _ints(-I64, I64 - 1).map(lambda n: (zigzag(n), n))),
    _packed("fixed32", "<I", FIXED32, 0, 2**32 - 1),
    _packed("fixed64", "<Q", FIXED64, 0, 2**64 - 1, decimal.Decimal),
    _packed("sfixed32", "<i", FIXED32, -I32, I32 - 1),
    _packed("sfixed64", "<q", FIXED64, -I64, I64 - 1),
    _floats("float", "<f", FIXED32, 32),
    _floats("double", "<d", FIXED64, 64),
    _scalar("bool", VARINT, False, st.booleans().map(lambda b: (bytes([b]), b))),
    _scalar("string", BYTES, "", TEXT.map(lambda s: (sized(s.encode()), s))),
    _scalar("bytes", BYTES, b"", st.binary(max_size=6).map(lambda b: (sized(b), b)), key=False),
]


def _known(name: str, default: Any, pairs: st.SearchStrategy[tuple[bytes, Any]]) -> Kind:
    def declare(proto: FieldDescriptorProto) -> None:
        proto.type = FieldDescriptorProto.TYPE_MESSAGE
        proto.type_name = f".google.protobuf.{name}"

    return Kind(declare, BYTES, default, pairs.map(lambda one: (sized(one[0]), one[1])), message=True)


def moment(seconds: int, nanos: int) -> bytes:
    """The body of a Timestamp or Duration."""
    parts = [tag(1, VARINT) + varint(seconds)] if seconds else []
    return b"".join([*parts, tag(2, VARINT) + varint(nanos)] if nanos else parts)


def _timestamp(seconds: int, micros: int) -> tuple[bytes, int]:
    return moment(seconds, micros * 1000), seconds * 1_000_000 + micros


def _duration(micros: int) -> tuple[bytes, int]:
    sign = -1 if micros < 0 else 1
    return moment(sign * (abs(micros) // 10**6), sign * (abs(micros) % 10**6) * 1000), micros


def _wrapped(scalar: Kind) -> st.SearchStrategy[tuple[bytes, Any]]:
    def wrap(pair: tuple[bytes, Any]) -> tuple[bytes, Any]:
        return (b"" if pair[1] == scalar.default else tag(1, scalar.wire) + pair[0]), pair[1]

    return scalar.pairs.map(wrap)


JSON_VALUES = st.dictionaries(
    TEXT,
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False), TEXT),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
        max_leaves=5,
    ),
    max_size=3,
)


def _struct(value: dict[str, Any]) -> tuple[bytes, str]:
    message = Struct()
    message.update(value)
    return message.SerializeToString(), json.dumps(
        value, sort_keys=True, ensure_ascii=False, separators=(",", ":")
    )


WELL_KNOWN = [
    _known("Timestamp", 0, st.builds(_timestamp, _ints(MIN_SECOND, MAX_SECOND), _ints(0, 999_999))),
    _known("Duration", 0, _ints(-MAX_DURATION * 10**6, MAX_DURATION * 10**6).map(_duration)),
    *(
        _known(f"{name}Value", SCALARS[i].default, _wrapped(SCALARS[i]))
        for i, name in {
            0: "Int32",
            1: "Int64",
            2: "UInt32",
            3: "UInt64",
            10: "Float",
            11: "Double",
            12: "Bool",
            13: "String",
            14: "Bytes",
        }.items()
    ),
    _known("Struct", "{}", JSON_VALUES.map(_struct)),
]
ENUM = {0: "ZERO", 1: "ONE", -5: "MINUS", I32 - 1: "LAST"}


def _enum() -> Kind:
    def declare(proto: FieldDescriptorProto) -> None:
        proto.type, proto.type_name = FieldDescriptorProto.TYPE_ENUM, ".t.Choice"

    numbers = st.sampled_from([*ENUM, 0, 7, -1, -I32])
    return Kind(declare, VARINT, "ZERO", numbers.map(lambda n: (varint(n), ENUM.get(n, str(n)))))


@dataclass
class Wire:
    """A message as its fields on the wire, in the usual order, and its row."""

    parts: list[bytes] = field(default_factory=list)
    row: dict[str, Any] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        """The bytes."""
        return b"".join(self.parts)


class _Builder:
    """Draws one file. Message types are declared once, and their values drawn again and again."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.file = FileDescriptorProto(name="t.proto", package="t", syntax=draw(SYNTAX))
        for name in ("timestamp", "duration", "wrappers", "struct"):
            self.file.dependency.append(f"google/protobuf/{name}.proto")
        enum = self.file.enum_type.add(name="Choice")
        for number, name in ENUM.items():
            enum.value.add(name=name, number=number)

    def message(self, depth: int) -> tuple[str, Callable[[st.DrawFn], Wire]]:
        """Declare a message; returns its name and a strategy for its values."""
        proto = self.file.message_type.add(name=f"M{len(self.file.message_type)}")
        count = self.draw(st.integers(1, 6 if depth == 0 else 3))
        numbers = self.draw(
            st.lists(st.sampled_from([*range(1, 25), 300, 5000]), min_size=count, max_size=count, unique=True)
        )
        fields = [self._field(proto, number, depth) for number in numbers]

        def value(draw: st.DrawFn) -> Wire:
            wire = Wire()
            taken: set[int] = set()
            for name, draw_field in fields:
                parts, wire.row[name] = draw_field(draw, taken)
                wire.parts += parts
            return wire

        return proto.name, value

    def _kind(self, depth: int) -> Kind:
        choice = self.draw(st.integers(0, 10))
        if choice == 10:
            return self._chain()
        if choice < 5:
            return self.draw(st.sampled_from(SCALARS))
        if choice == 5:
            return _enum()
        if choice < 8 or depth > 1:
            return self.draw(st.sampled_from(WELL_KNOWN))
        name, value = self.message(depth + 1)

        def declare(proto: FieldDescriptorProto) -> None:
            proto.type, proto.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".t.{name}"

        pairs = st.composite(value)().map(lambda wire: (sized(wire.body), wire.row))
        return Kind(declare, BYTES, None, pairs, message=True)

    def _chain(self) -> Kind:
        """A message within itself: JSON as a whole."""
        if all(one.name != "Chain" for one in self.file.message_type):
            chain = self.file.message_type.add(name="Chain")
            a = chain.field.add(name="a", number=1, label=FieldDescriptorProto.LABEL_OPTIONAL)
            a.type = FieldDescriptorProto.TYPE_INT32
            b = chain.field.add(name="b", number=2, label=FieldDescriptorProto.LABEL_OPTIONAL)
            b.type, b.type_name = FieldDescriptorProto.TYPE_MESSAGE, ".t.Chain"

        def declare(proto: FieldDescriptorProto) -> None:
            proto.type, proto.type_name = FieldDescriptorProto.TYPE_MESSAGE, ".t.Chain"

        def pair(numbers: list[int]) -> tuple[bytes, str]:
            raw, told = b"", ""
            for number in numbers:
                raw = tag(1, VARINT) + varint(number) + (text(2, raw) if told else b"")
                told = f'{{"a":{number}' + (f',"b":{told}}}' if told else "}")
            return sized(raw), told

        numbers = st.lists(st.integers(1, I32 - 1), min_size=1, max_size=4)
        return Kind(declare, BYTES, None, numbers.map(pair), message=True)

    def _field(self, message: Any, number: int, depth: int) -> tuple[str, Any]:  # noqa: PLR0911
        name = f"field_{number}"
        kind = self._kind(depth)
        proto = message.field.add(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
        kind.declare(proto)
        how = self.draw(st.sampled_from(["plain", "optional", "repeated", "map", "oneof"]))
        if how == "repeated":
            return name, self._repeated(proto, kind)
        if how == "map":
            return name, self._map(message, proto, kind)
        if how == "oneof":
            return name, _oneof(message, proto, kind)
        if self.file.syntax == "proto2":
            if how == "optional":
                return name, _optional(proto, kind)
            proto.label = FieldDescriptorProto.LABEL_REQUIRED
            return name, lambda draw, _: _present(proto, draw(kind.pairs))
        if kind.message or how == "optional":
            if not kind.message:
                proto.proto3_optional = True
                proto.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{name}")
            return name, _optional(proto, kind)
        return name, _implicit(proto, kind)

    def _repeated(self, proto: FieldDescriptorProto, kind: Kind) -> Any:
        proto.label = FieldDescriptorProto.LABEL_REPEATED
        packed = kind.wire != BYTES and self.file.syntax == "proto3"
        if kind.wire != BYTES and self.draw(st.booleans()):
            packed = proto.options.packed = not packed

        def value(draw: st.DrawFn, _: set[int]) -> tuple[list[bytes], Any]:
            pairs = draw(st.lists(kind.pairs, max_size=3))
            if packed:
                content = b"".join(raw for raw, _ in pairs)
                return [text(proto.number, content)] if pairs else [], [one for _, one in pairs]
            return [tag(proto.number, kind.wire) + raw for raw, _ in pairs], [one for _, one in pairs]

        return value

    def _map(self, message: Any, proto: FieldDescriptorProto, kind: Kind) -> Any:
        key = self.draw(st.sampled_from([scalar for scalar in SCALARS if scalar.key]))
        entry = message.nested_type.add(name=f"Field{proto.number}Entry")
        entry.options.map_entry = True
        for number, (name, part) in enumerate((("key", key), ("value", kind)), 1):
            part.declare(entry.field.add(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL))
        proto.label = FieldDescriptorProto.LABEL_REPEATED
        proto.type, proto.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".t.{message.name}.{entry.name}"

        def value(draw: st.DrawFn, _: set[int]) -> tuple[list[bytes], Any]:
            pairs = st.tuples(key.pairs, kind.pairs)
            found = draw(st.lists(pairs, max_size=3, unique_by=lambda one: one[0][1]))
            parts = [text(proto.number, tag(1, key.wire) + k[0] + tag(2, kind.wire) + v[0]) for k, v in found]
            return parts, [(k[1], v[1]) for k, v in found]

        return value


def _present(proto: FieldDescriptorProto, pair: tuple[bytes, Any]) -> tuple[list[bytes], Any]:
    wire = WIRE_OF_TYPE[proto.type]
    return [tag(proto.number, wire) + pair[0]], pair[1]


def _optional(proto: FieldDescriptorProto, kind: Kind) -> Any:
    return lambda draw, _: _present(proto, draw(kind.pairs)) if draw(st.booleans()) else ([], None)


def _implicit(proto: FieldDescriptorProto, kind: Kind) -> Any:
    def value(draw: st.DrawFn, _: set[int]) -> tuple[list[bytes], Any]:
        pair = draw(kind.pairs)
        return ([], kind.default) if pair[1] == kind.default else _present(proto, pair)

    return value


def _oneof(message: Any, proto: FieldDescriptorProto, kind: Kind) -> Any:
    names = [one.name for one in message.oneof_decl]
    if "choice" not in names:
        if any(one.proto3_optional for one in message.field):  # those come after the real ones
            return _optional_or_implicit(proto, kind, message)
        message.oneof_decl.add(name="choice")
        names.append("choice")
    proto.oneof_index = names.index("choice")

    def value(draw: st.DrawFn, taken: set[int]) -> tuple[list[bytes], Any]:
        if taken or draw(st.booleans()):
            return [], None
        taken.add(proto.number)
        return _present(proto, draw(kind.pairs))

    return value


def _optional_or_implicit(proto: FieldDescriptorProto, kind: Kind, message: Any) -> Any:
    return _optional(proto, kind) if kind.message else _implicit(proto, kind)


WIRE_OF_TYPE = {
    getattr(FieldDescriptorProto, f"TYPE_{name}"): wire
    for wire, names in {
        VARINT: "INT32 INT64 UINT32 UINT64 SINT32 SINT64 BOOL ENUM",
        FIXED64: "FIXED64 SFIXED64 DOUBLE",
        FIXED32: "FIXED32 SFIXED32 FLOAT",
        BYTES: "STRING BYTES MESSAGE",
    }.items()
    for name in names.split()
}
SYNTAX = st.sampled_from(["proto2", "proto3"])


@st.composite
def records(draw: st.DrawFn, max_records: int = 5) -> tuple[FileDescriptorProto, list[Wire]]:
    """A file, and records of its first message."""
    builder = _Builder(draw)
    _, value = builder.message(0)
    return builder.file, [value(draw) for _ in range(draw(st.integers(1, max_records)))]
