"""Avro schemas with values, their bytes, and the expected table contents: written from the specification.

Nothing here uses the package, so a mistake would have to be made twice to go unnoticed. A ``Case`` is a
schema (as JSON) with a strategy of pairs (bytes, expected). ``plain`` converts an Arrow array to the form of
``expected``: numbers of days and microseconds, bytes of UUIDs, text of floats (NaN equals NaN, -0.0 does not
equal 0.0).
"""

from __future__ import annotations

import base64
import datetime
import decimal
import itertools
import json
import struct
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.formats.text_cases import TEXT

I32, I64 = 2**31, 2**63
EPOCH = datetime.date(1970, 1, 1)
DAY_ONE, LAST_DAY = (datetime.date.min - EPOCH).days, (datetime.date.max - EPOCH).days
MS = 24 * 60 * 60 * 1000  # of a day
PREFIX = b"\x00\x00\x00\x00\x07"
SCHEMA_ID = 7


@dataclass(frozen=True)
class Case:
    """A type; ``pairs`` draws (bytes, expected); ``nullable`` as the table's column should be."""

    schema: Any
    pairs: st.SearchStrategy[tuple[bytes, Any]]
    nullable: bool = False


def zigzag(number: int) -> bytes:
    """An Avro int or long."""
    value = (number << 1) ^ (number >> 63)
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def framed(*bodies: bytes) -> pa.Array:
    """The bodies as Kafka values."""
    return pa.array([PREFIX + body for body in bodies], pa.binary())


def row_schema(*types: Any) -> str:
    """A record with the types as fields f0, f1, …"""
    fields = [{"name": f"f{i}", "type": kind} for i, kind in enumerate(types)]
    return json.dumps({"type": "record", "name": "Row", "namespace": "test", "fields": fields})


def _longs(low: int, high: int) -> st.SearchStrategy[int]:
    return st.one_of(st.integers(low, high), st.sampled_from([low, high, max(low, min(0, high))]))


def _sized(raw: bytes) -> bytes:
    return zigzag(len(raw)) + raw


def _numbers(schema: Any, low: int, high: int, factor: int = 1) -> Case:
    return Case(schema, _longs(low, high).map(lambda n: (zigzag(n), n * factor)))


def _floats(kind: str, code: str, width: int) -> Case:
    def pair(value: float) -> tuple[bytes, str]:
        return struct.pack(code, value), repr(struct.unpack(code, struct.pack(code, value))[0])

    return Case(kind, st.floats(width=width).map(pair))  # type: ignore[arg-type]


def _logical(base: str, logical: str, **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": logical, **more}


SCALARS: list[Case] = [
    Case("null", st.just((b"", None)), nullable=True),
    Case("boolean", st.booleans().map(lambda b: (bytes([b]), b))),
    _numbers("int", -I32, I32 - 1),
    _numbers("long", -I64, I64 - 1),
    _floats("float", "<f", 32),
    _floats("double", "<d", 64),
    Case("bytes", st.binary(max_size=6).map(lambda b: (_sized(b), b))),
    Case("string", TEXT.map(lambda s: (_sized(s.encode()), s))),
    _numbers(_logical("int", "date"), DAY_ONE, LAST_DAY),
    _numbers(_logical("int", "time-millis"), 0, 86_399_999, 1000),
    _numbers(_logical("long", "time-micros"), 0, 86_399_999_999),
    _numbers(_logical("long", "timestamp-millis"), DAY_ONE * MS, (LAST_DAY + 1) * MS - 1, 1000),
    _numbers(_logical("long", "timestamp-micros"), DAY_ONE * MS * 1000, (LAST_DAY + 1) * MS * 1000 - 1),
    _numbers(_logical("long", "local-timestamp-millis"), DAY_ONE * MS, (LAST_DAY + 1) * MS - 1, 1000),
    _numbers(_logical("long", "local-timestamp-micros"), DAY_ONE * MS * 1000, (LAST_DAY + 1) * MS * 1000 - 1),
    _numbers(_logical("long", "timestamp-nanos"), -I64, I64 - 1),
    _numbers(_logical("int", "timestamp-millis"), -I32, I32 - 1),  # invalid there, so ignored
    Case(_logical("string", "uuid"), st.uuids().map(lambda u: (_sized(str(u).encode()), u.bytes))),
    Case(_logical("string", "uuid"), st.uuids().map(lambda u: (_sized(str(u).upper().encode()), u.bytes))),
    Case(_logical("bytes", "decimal", precision=0), st.binary(max_size=3).map(lambda b: (_sized(b), b))),
]


def _decimal_value(unscaled: int, precision: int, scale: int) -> Any:
    value = decimal.Decimal(unscaled).scaleb(-scale, decimal.Context(prec=200))
    return value if precision <= 38 else f"{value:f}"


@st.composite
def _decimals(draw: st.DrawFn, names: Any) -> Case:
    precision = draw(st.sampled_from([1, 5, 9, 18, 19, 38, 39, 60, 80]))
    scale = draw(st.sampled_from([0, 1, precision // 2, precision]))
    limit = 10**precision - 1
    kind = _logical("bytes", "decimal", precision=precision, scale=scale)
    width = None
    if draw(st.booleans()):
        width = len(f"{limit:x}") // 2 + 1 + draw(st.integers(0, 20))
        kind |= {"type": "fixed", "name": next(names), "size": width}

    def pair(args: tuple[int, int]) -> tuple[bytes, Any]:
        unscaled, padding = args
        shortest = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
        raw = unscaled.to_bytes(width or shortest + padding, "big", signed=True)
        return (raw if width else _sized(raw)), _decimal_value(unscaled, precision, scale)

    return Case(kind, st.tuples(_longs(-limit, limit), st.sampled_from([0, 0, 1, 20])).map(pair))


@st.composite
def _named_scalars(draw: st.DrawFn, names: Any) -> Case:
    name = next(names)
    which = draw(st.sampled_from(["enum", "fixed", "uuid", "duration", "empty fixed", "empty record"]))
    if which == "enum":
        symbols = draw(
            st.lists(st.from_regex(r"[A-Z]{1,3}", fullmatch=True), min_size=1, max_size=5, unique=True)
        )
        pairs = st.sampled_from(list(enumerate(symbols))).map(lambda p: (zigzag(p[0]), p[1]))
        return Case({"type": "enum", "name": name, "symbols": symbols}, pairs)
    if which == "empty record":
        return Case({"type": "record", "name": name, "fields": []}, st.just((b"", "{}")))
    size = {"fixed": 5, "uuid": 16, "duration": 12, "empty fixed": 0}[which]
    kind = {"type": "fixed", "name": name, "size": size}
    raw = st.binary(min_size=size, max_size=size)
    if which in ("uuid", "duration"):
        kind["logicalType"] = which
    if which == "duration":
        units = ("months", "days", "millis")
        return Case(kind, raw.map(lambda b: (b, dict(zip(units, struct.unpack("<III", b), strict=True)))))
    return Case(kind, raw.map(lambda b: (b, b)))


def _blocks(items: list[bytes], cut: int, sized: bool) -> bytes:
    """Items in up to two blocks, the second with or without its size in bytes."""
    out = b""
    for block in (items[:cut], items[cut:]):
        raw = b"".join(block)
        if block and sized:
            out += zigzag(-len(block)) + zigzag(len(raw)) + raw
        elif block:
            out += zigzag(len(block)) + raw
    return out + b"\0"


_SPLITS = st.tuples(st.integers(0, 3), st.booleans())


def array_of(items: Case) -> Case:
    """Array."""

    def pair(args: Any) -> tuple[bytes, Any]:
        drawn, split = args
        return _blocks([raw for raw, _ in drawn], *split), [value for _, value in drawn]

    return Case(
        {"type": "array", "items": items.schema},
        st.tuples(st.lists(items.pairs, max_size=4), _SPLITS).map(pair),
    )


def map_of(values: Case) -> Case:
    """Map; keys are unique."""

    def pair(args: Any) -> tuple[bytes, Any]:
        drawn, split = args
        items = [_sized(key.encode()) + raw for key, (raw, _) in drawn.items()]
        return _blocks(items, *split), [(key, value) for key, (_, value) in drawn.items()]

    drawn = st.dictionaries(TEXT, values.pairs, max_size=4)
    return Case({"type": "map", "values": values.schema}, st.tuples(drawn, _SPLITS).map(pair))


def record_of(name: str, fields: list[Case]) -> Case:
    """Record with fields f0, f1, …"""
    names = [f"f{i}" for i in range(len(fields))]
    schema = {
        "type": "record",
        "name": name,
        "fields": [{"name": n, "type": f.schema} for n, f in zip(names, fields, strict=True)],
    }

    def pair(drawn: Any) -> tuple[bytes, Any]:
        raw = b"".join(raw for raw, _ in drawn)
        return raw, {n: value for n, (_, value) in zip(names, drawn, strict=True)}

    return Case(schema, st.tuples(*(f.pairs for f in fields)).map(pair))


def _kind_of(schema: Any) -> str:
    kind = schema["type"] if isinstance(schema, dict) else schema
    return schema["name"] if kind in ("record", "enum", "fixed") else kind


def union_of(branches: list[Case]) -> Case:
    """Union of branches of different kinds, in this order."""
    kinds = [_kind_of(branch.schema) for branch in branches]
    present = [kind for kind in kinds if kind != "null"]

    def expected(kind: str, value: Any) -> Any:
        if kind == "null" or len(present) == 1:
            return value
        return {other: value if other == kind else None for other in present}

    pairs = [
        branch.pairs.map(lambda p, i=i, kind=kind: (zigzag(i) + p[0], expected(kind, p[1])))
        for i, (kind, branch) in enumerate(zip(kinds, branches, strict=True))
    ]
    nullable = any(branch.nullable for branch in branches)
    return Case([branch.schema for branch in branches], st.one_of(pairs), nullable)


@st.composite
def _unions(draw: st.DrawFn, names: Any, depth: int) -> Case:
    count = draw(st.integers(1, 4))
    branches = [draw(types(names, depth - 1, unions=False)) for _ in range(count)]
    if draw(st.booleans()):
        branches.insert(draw(st.integers(0, len(branches))), SCALARS[0])
    unique = {_kind_of(branch.schema): branch for branch in branches}
    return union_of(list(unique.values()))


@st.composite
def _optionals(draw: st.DrawFn, names: Any, depth: int) -> Case:
    inner = draw(types(names, depth - 1, unions=False).filter(lambda c: c.schema != "null"))
    return union_of([SCALARS[0], inner] if draw(st.booleans()) else [inner, SCALARS[0]])


@st.composite
def types(  # noqa: PLR0911 - a return per kind
    draw: st.DrawFn, names: Any, depth: int, unions: bool = True
) -> Case:
    """Any type except the recursive ones."""
    kinds = ["scalar", "scalar", "named", "decimal"]
    if depth > 0:
        kinds += ["array", "map", "record"] + ["optional", "optional", "union"] * unions
    match draw(st.sampled_from(kinds)):
        case "scalar":
            return draw(st.sampled_from(SCALARS))
        case "named":
            return draw(_named_scalars(names))
        case "decimal":
            return draw(_decimals(names))
        case "array":
            return array_of(draw(types(names, depth - 1)))
        case "map":
            return map_of(draw(types(names, depth - 1)))
        case "optional":
            return draw(_optionals(names, depth))
        case "union":
            return draw(_unions(names, depth))
    name = next(names)
    return record_of(name, draw(st.lists(types(names, depth - 1), min_size=1, max_size=3)))


@st.composite
def rows(draw: st.DrawFn, max_records: int = 20) -> tuple[Case, list[tuple[bytes, Any]]]:
    """A record type and records of it."""
    names = (f"N{i}" for i in itertools.count())
    fields = draw(st.lists(types(names, 3), min_size=1, max_size=4))
    if draw(st.integers(0, 7)) == 0:  # now and then: the fast engine takes no schema that has one
        fields.append(chain_of(next(names)))
    case = record_of("Row", fields)
    return case, draw(st.lists(case.pairs, min_size=1, max_size=max_records))


def chain_of(name: str) -> Case:
    """A record within itself, below the top: JSON as a whole."""
    fields = [{"name": "a", "type": "int"}, {"name": "b", "type": ["null", name]}]

    def pair(numbers: list[int]) -> tuple[bytes, str]:
        raw, value = b"", None
        for number in numbers:
            raw = zigzag(number) + (b"\x00" if value is None else b"\x02" + raw)
            value = {"a": number, "b": value}
        return raw, json.dumps(value, separators=(",", ":"))

    numbers = st.lists(_longs(-I32, I32 - 1), min_size=1, max_size=4)
    return Case({"type": "record", "name": name, "fields": fields}, numbers.map(pair))


def tree_case() -> Case:
    """A record that contains itself in an array: JSON from the first step on."""
    schema = {
        "type": "record",
        "name": "Tree",
        "fields": [
            {"name": "label", "type": "string"},
            {"name": "weight", "type": ["null", "double", "bytes"]},
            {"name": "children", "type": {"type": "array", "items": "Tree"}},
        ],
    }
    weights = st.one_of(
        st.just((b"\x00", None)),
        st.floats(allow_nan=False, allow_infinity=False).map(lambda f: (b"\x02" + struct.pack("<d", f), f)),
        st.just((b"\x02" + struct.pack("<d", float("-inf")), "-Infinity")),
        st.binary(max_size=4).map(lambda b: (b"\x04" + _sized(b), base64.b64encode(b).decode())),
    )

    def pair(args: Any) -> tuple[bytes, Any]:
        label, (raw, weight), children = args
        body = _sized(label.encode()) + raw + _blocks([c for c, _ in children], 1, False)
        return body, {"label": label, "weight": weight, "children": [value for _, value in children]}

    node = st.recursive(
        st.tuples(TEXT, weights, st.just([])).map(pair),
        lambda children: st.tuples(TEXT, weights, st.lists(children, max_size=3)).map(pair),
        max_leaves=8,
    )

    def expected(drawn: tuple[bytes, Any]) -> tuple[bytes, Any]:
        raw, value = drawn
        weight = value["weight"]
        branch = {"double": None, "bytes": None} if weight is not None else None
        if branch is not None:
            is_bytes = isinstance(weight, str) and weight != "-Infinity"
            branch["bytes" if is_bytes else "double"] = (
                base64.b64decode(weight) if is_bytes else repr(float(weight))
            )
        children = [json.dumps(c, ensure_ascii=False, separators=(",", ":")) for c in value["children"]]
        return raw, {"label": value["label"], "weight": branch, "children": children}

    return Case(schema, node.map(expected))


def plain(array: pa.Array) -> list[Any]:  # noqa: PLR0911 - a return per kind
    """An Arrow array as plain Python, in the form of ``expected``."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain(array.storage)
    if pa.types.is_struct(kind):
        columns = [plain(array.field(i)) for i in range(kind.num_fields)]
        names = [kind.field(i).name for i in range(kind.num_fields)]
        valid = array.is_valid().to_pylist()
        return [
            dict(zip(names, (c[i] for c in columns), strict=True)) if ok else None
            for i, ok in enumerate(valid)
        ]
    if pa.types.is_map(kind):
        items = list(zip(plain(array.keys), plain(array.items), strict=True))
        return _sliced(array, items)
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return _sliced(array, plain(array.values))
    if pa.types.is_floating(kind):
        return [None if value is None else repr(value) for value in array.to_pylist()]
    if pa.types.is_date32(kind):
        return array.cast(pa.int32()).to_pylist()
    if pa.types.is_time64(kind) or pa.types.is_timestamp(kind):
        return array.cast(pa.int64()).to_pylist()
    return array.to_pylist()


def _sliced(array: pa.Array, items: list[Any]) -> list[Any]:
    offsets, valid = array.offsets.to_pylist(), array.is_valid().to_pylist()
    return [items[offsets[i] : offsets[i + 1]] if ok else None for i, ok in enumerate(valid)]


def plain_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """A batch's rows as plain Python."""
    columns = {field.name: plain(batch.column(i)) for i, field in enumerate(batch.schema)}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
