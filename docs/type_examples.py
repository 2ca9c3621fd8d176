"""One example for each way of a type into a table, for ``docs/reference/types.md``.

``tests/formats/test_types_page.py`` decodes, conforms and writes them, and reads them back with PyIceberg and
DuckDB. All examples of a format are fields of one schema and one record.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Example:
    """A field ``name`` of a schema.

    Args:
        kind: the type, in the format's terms.
        schema: the field's part of the schema, as the comment above each list says.
        value: what is sent, likewise.
        iceberg: the column's type in Iceberg's notation; with ``required`` if it is.
        read: the value read by DuckDB, as its text; None for null.
    """

    name: str
    kind: str
    schema: Any
    value: Any
    iceberg: str
    read: str | None


_LONG = 2**63 - 1
_UUID = "0f0e0d0c-0b0a-0908-0706-050403020100"
_DIGITS_38 = "9" * 38


def _logical(base: str, logical: str, **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": logical, **more}


def _fixed(name: str, size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def _record(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": k, "type": v} for k, v in fields.items()]}


_NODE = _record("Node", label="string", next=["null", "Node"])

# ``schema``: the field's type. ``value``: as for fastavro's writer, numbers below logical types.
AVRO = [
    Example("flag", "boolean", "boolean", True, "required boolean", "true"),
    Example("small", "int", "int", 2**31 - 1, "required int", "2147483647"),
    Example("big", "long", "long", -_LONG - 1, "required long", str(-_LONG - 1)),
    Example("single", "float", "float", 0.1, "required float", "0.1"),
    Example("double", "double", "double", float("-inf"), "required double", "-inf"),
    Example("raw", "bytes", "bytes", b"\xde\xad", "required binary", r"\xDE\xAD"),
    Example("text", "string", "string", "größe 😀", "required string", "größe 😀"),
    Example("nothing", "null", "null", None, "string", None),
    Example(
        "kind",
        "enum",
        {"type": "enum", "name": "Kind", "symbols": ["VIEW", "BUY"]},
        "BUY",
        "required string",
        "BUY",
    ),
    Example("id", "uuid (string)", _logical("string", "uuid"), _UUID, "required uuid", _UUID),
    Example(
        "id16",
        "uuid (fixed)",
        _fixed("Id", 16, logicalType="uuid"),
        bytes(range(16)),
        "required uuid",
        "00010203-0405-0607-0809-0a0b0c0d0e0f",
    ),
    Example(
        "hash", "fixed", _fixed("Hash", 4), b"\x00\x01\xfe\xff", "required fixed[4]", r"\x00\x01\xFE\xFF"
    ),
    Example(
        "price",
        "decimal (bytes)",
        _logical("bytes", "decimal", precision=9, scale=2),
        b"\xff\x85",
        "required decimal(9, 2)",
        "-1.23",
    ),
    Example(
        "total",
        "decimal (fixed)",
        _fixed("Total", 16, logicalType="decimal", precision=38, scale=10),
        (10**38 - 1).to_bytes(16, "big"),
        "required decimal(38, 10)",
        f"{'9' * 28}.{'9' * 10}",
    ),
    Example(
        "huge",
        "decimal of more than 38 digits",
        _logical("bytes", "decimal", precision=40, scale=1),
        (10**40 - 1).to_bytes(17, "big"),
        "required string",
        f"{'9' * 39}.9",
    ),
    Example("day", "date", _logical("int", "date"), -719_162, "required date", "0001-01-01"),
    Example(
        "clock_ms", "time-millis", _logical("int", "time-millis"), 45_296_789, "required time", "12:34:56.789"
    ),
    Example(
        "clock_us",
        "time-micros",
        _logical("long", "time-micros"),
        86_399_999_999,
        "required time",
        "23:59:59.999999",
    ),
    Example(
        "at_ms",
        "timestamp-millis",
        _logical("long", "timestamp-millis"),
        1_769_862_600_789,
        "required timestamptz",
        "2026-01-31 12:30:00.789+00",
    ),
    Example(
        "at_us",
        "timestamp-micros",
        _logical("long", "timestamp-micros"),
        253_402_300_799_999_999,
        "required timestamptz",
        "9999-12-31 23:59:59.999999+00",
    ),
    Example(
        "local_ms",
        "local-timestamp-millis",
        _logical("long", "local-timestamp-millis"),
        1_769_862_600_789,
        "required timestamp",
        "2026-01-31 12:30:00.789",
    ),
    Example(
        "local_us",
        "local-timestamp-micros",
        _logical("long", "local-timestamp-micros"),
        -1,
        "required timestamp",
        "1969-12-31 23:59:59.999999",
    ),
    Example(
        "nanos",
        "timestamp-nanos, local-timestamp-nanos",
        _logical("long", "timestamp-nanos"),
        1_769_862_600_123_456_789,
        "required long",
        "1769862600123456789",
    ),
    Example(
        "pause",
        "duration",
        _fixed("Pause", 12, logicalType="duration"),
        b"\x01\0\0\0\x02\0\0\0\xff\xff\xff\xff",
        "required struct<months: required long, days: required long, millis: required long>",
        "{'months': 1, 'days': 2, 'millis': 4294967295}",
    ),
    Example("maybe", "[null, T]", ["null", "int"], None, "int", None),
    Example("maybe_last", "[T, null]", ["long", "null"], 7, "long", "7"),
    Example(
        "either",
        "other unions",
        ["null", "int", "string"],
        "seven",
        "struct<int: int, string: string>",
        "{'int': NULL, 'string': seven}",
    ),
    Example(
        "places",
        "array",
        {"type": "array", "items": ["null", "int"]},
        [1, None, 3],
        "required list<int>",
        "[1, NULL, 3]",
    ),
    Example(
        "sizes",
        "map",
        {"type": "map", "values": "long"},
        {"a": 1, "": 2},
        "required map<string, required long>",
        "{a=1, ''=2}",
    ),
    Example(
        "geo",
        "record",
        _record("Geo", city="string", km=["null", "double"]),
        {"city": "Ulm", "km": None},
        "required struct<city: required string, km: double>",
        "{'city': Ulm, 'km': NULL}",
    ),
    Example(
        "chain",
        "a record that contains itself",
        _NODE,
        {"label": "a", "next": {"label": "b", "next": None}},
        "required string",
        '{"label":"a","next":{"label":"b","next":null}}',
    ),
    Example("empty", "a record without fields", _record("Empty"), {}, "required string", "{}"),
]

# ``schema``: the field in .proto text. ``value``: in Protobuf's text format; empty: not set.
PROTOBUF = [
    Example("flag", "bool", "bool flag = 1;", "flag: true", "required boolean", "true"),
    Example(
        "small",
        "int32, sint32, sfixed32",
        "sint32 small = 2;",
        "small: -2147483648",
        "required int",
        "-2147483648",
    ),
    Example("big", "int64, sint64, sfixed64", "int64 big = 3;", f"big: {_LONG}", "required long", str(_LONG)),
    Example(
        "natural",
        "uint32, fixed32",
        "uint32 natural = 4;",
        "natural: 4294967295",
        "required long",
        "4294967295",
    ),
    Example(
        "wide",
        "uint64, fixed64",
        "uint64 wide = 5;",
        f"wide: {2**64 - 1}",
        "required decimal(20, 0)",
        str(2**64 - 1),
    ),
    Example("single", "float", "float single = 6;", "single: 0.1", "required float", "0.1"),
    Example("double", "double", "double double = 7;", "double: nan", "required double", "nan"),
    Example("text", "string", "string text = 8;", 'text: "größe 😀"', "required string", "größe 😀"),
    Example("raw", "bytes", "bytes raw = 9;", r'raw: "\xde\xad"', "required binary", r"\xDE\xAD"),
    Example("plain", "a proto3 scalar that is not set", "int32 plain = 10;", "", "required int", "0"),
    Example("maybe", "optional, set to zero", "optional int32 maybe = 11;", "maybe: 0", "int", "0"),
    Example("unset", "optional, not set", "optional int32 unset = 12;", "", "int", None),
    Example(
        "cents",
        "oneof: the member that is set",
        "oneof price { int64 cents = 13; string words = 14; }",
        "cents: 5",
        "long",
        "5",
    ),
    Example("words", "oneof: another member", "", "", "string", None),
    Example(
        "boxed",
        "wrappers (DoubleValue … BytesValue)",
        "google.protobuf.UInt64Value boxed = 15;",
        f"boxed {{ value: {2**64 - 1} }}",
        "decimal(20, 0)",
        str(2**64 - 1),
    ),
    Example(
        "unboxed",
        "a wrapper that is not set",
        "google.protobuf.StringValue unboxed = 16;",
        "",
        "string",
        None,
    ),
    Example("kind", "enum", "Kind kind = 17;", "kind: BUY", "required string", "BUY"),
    Example(
        "odd_kind",
        "enum, a number without a name",
        "Kind odd_kind = 18;",
        "odd_kind: 7",
        "required string",
        "7",
    ),
    Example(
        "at",
        "Timestamp",
        "google.protobuf.Timestamp at = 19;",
        "at { seconds: 1769862600 nanos: 789000000 }",
        "timestamptz",
        "2026-01-31 12:30:00.789+00",
    ),
    Example(
        "took",
        "Duration",
        "google.protobuf.Duration took = 20;",
        "took { seconds: -1 nanos: -500000000 }",
        "long",
        "-1500000",
    ),
    Example(
        "more",
        "Struct, Value, ListValue",
        "google.protobuf.Struct more = 21;",
        'more { fields { key: "a" value { number_value: 1.5 } } }',
        "string",
        '{"a":1.5}',
    ),
    Example(
        "other",
        "Any",
        "google.protobuf.Any other = 22;",
        'other { type_url: "x/y.Z" value: "\\001" }',
        "string",
        '{"@type":"x/y.Z","value":"AQ=="}',
    ),
    Example(
        "places",
        "repeated",
        "repeated int32 places = 23;",
        "places: [1, 3]",
        "required list<required int>",
        "[1, 3]",
    ),
    Example(
        "sizes",
        "map",
        "map<string, int64> sizes = 24;",
        'sizes { key: "a" value: 1 }',
        "required map<string, required long>",
        "{a=1}",
    ),
    Example(
        "geo",
        "message",
        "Geo geo = 25;",
        'geo { city: "Ulm" }',
        "struct<city: required string, km: double>",
        "{'city': Ulm, 'km': NULL}",
    ),
    Example(
        "chain",
        "a message that contains itself",
        "Node chain = 26;",
        'chain { label: "a" next { label: "b" } }',
        "string",
        '{"label":"a","next":{"label":"b"}}',
    ),
    Example("nothing", "a message without fields", "Nothing nothing = 27;", "nothing { }", "string", "{}"),
]
PROTOBUF_TYPES = """\
  enum Kind { VIEW = 0; BUY = 1; }
  message Geo { string city = 1; optional double km = 2; }
  message Node { string label = 1; Node next = 2; }
  message Nothing {}
"""

_TREE = {"type": "object", "properties": {"label": {"type": "string"}, "next": {"$ref": "#/$defs/tree"}}}
JSON_DEFINITIONS = {"tree": _TREE, "flag": {"type": "boolean"}}

# ``schema``: the property's. ``value``: its JSON text; None: the property is absent.
JSON_SCHEMA = [
    Example("flag", "boolean", {"type": "boolean"}, "true", "boolean", "true"),
    Example("big", "integer", {"type": "integer"}, str(-_LONG - 1), "long", str(-_LONG - 1)),
    Example("whole", "integer, written as a fraction", {"type": "integer"}, "100.0", "long", "100"),
    Example(
        "wide",
        "integer beyond 64 bits, by its minimum or maximum",
        {"type": "integer", "maximum": 10**30},
        _DIGITS_38,
        "decimal(38, 0)",
        _DIGITS_38,
    ),
    Example("double", "number", {"type": "number"}, "1e-3", "double", "0.001"),
    Example("mixed", "[integer, number]", {"type": ["integer", "number"]}, "5", "double", "5.0"),
    Example("text", "string", {"type": "string"}, r'"gr\u00f6\u00dfe 😀"', "string", "größe 😀"),
    Example(
        "day",
        "string, format date",
        {"type": "string", "format": "date"},
        '"9999-12-31"',
        "date",
        "9999-12-31",
    ),
    Example(
        "clock",
        "string, format time",
        {"type": "string", "format": "time"},
        '"12:34:56.5+02:00"',
        "time",
        "10:34:56.5",
    ),
    Example(
        "at",
        "string, format date-time",
        {"type": "string", "format": "date-time"},
        '"2026-01-31T12:30:00.123456Z"',
        "timestamptz",
        "2026-01-31 12:30:00.123456+00",
    ),
    Example("id", "string, format uuid", {"type": "string", "format": "uuid"}, f'"{_UUID}"', "uuid", _UUID),
    Example("kind", "enum, const", {"enum": ["VIEW", "BUY"]}, '"BUY"', "string", "BUY"),
    Example("maybe", "[T, null], nullable", {"type": ["string", "null"]}, "null", "string", None),
    Example("absent", "a property that is absent", {"type": "string"}, None, "string", None),
    Example("needed", "a property that is in required", {"type": "string"}, '"x"', "required string", "x"),
    Example(
        "geo",
        "object",
        {
            "type": "object",
            "properties": {"city": {"type": "string"}, "km": {"type": "number"}},
            "required": ["city"],
        },
        '{"city": "Ulm"}',
        "struct<city: required string, km: double>",
        "{'city': Ulm, 'km': NULL}",
    ),
    Example(
        "sizes",
        "object with additionalProperties of a type",
        {"type": "object", "additionalProperties": {"type": "integer"}},
        '{"a": 1}',
        "map<string, required long>",
        "{a=1}",
    ),
    Example(
        "places",
        "array",
        {"type": "array", "items": {"type": ["integer", "null"]}},
        "[1, null, 3]",
        "list<long>",
        "[1, NULL, 3]",
    ),
    Example(
        "pair",
        "prefixItems of one type, without other items",
        {"type": "array", "prefixItems": [{"type": "number"}, {"type": "number"}], "items": False},
        "[48.4, 10.0]",
        "list<required double>",
        "[48.4, 10.0]",
    ),
    Example("referred", "$ref", {"$ref": "#/$defs/flag"}, "false", "boolean", "false"),
    Example(
        "same",
        "oneOf, anyOf of one type",
        {"anyOf": [{"type": "string", "format": "email"}, {"type": "string"}]},
        '"a@b"',
        "string",
        "a@b",
    ),
    Example(
        "either",
        "oneOf, anyOf of several types",
        {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        "7",
        "string",
        "7",
    ),
    Example(
        "both",
        "allOf",
        {
            "allOf": [
                {"type": "object", "properties": {"a": {"type": "integer"}}},
                {"properties": {"b": {"type": "boolean"}}},
            ]
        },
        '{"a": 1, "b": true}',
        "struct<a: long, b: boolean>",
        "{'a': 1, 'b': true}",
    ),
    Example(
        "chain",
        "a schema that contains itself",
        {"$ref": "#/$defs/tree"},
        '{"label": "a", "next": {"label": "b"}}',
        "string",
        '{"label":"a","next":{"label":"b"}}',
    ),
    Example("anything", "no type, an empty object", {}, '{"a": [1.50, null]}', "string", '{"a":[1.50,null]}'),
    Example(
        "_kafka_value_rest",
        "a property that the schema does not name",
        None,
        '"more": 1.10',
        "string",
        '{"more":1.10}',
    ),
]

# ``schema``: None. ``value``: the property's JSON text.
JSON = [
    Example("flag", "true and false", None, "true", "boolean", "true"),
    Example("big", "integers of 64 bits", None, str(_LONG), "long", str(_LONG)),
    Example("wide", "wider integers, up to 38 digits", None, _DIGITS_38, "decimal(38, 0)", _DIGITS_38),
    Example("double", "numbers with a fraction or exponent", None, "0.1", "double", "0.1"),
    Example(
        "inexact",
        "numbers that no column holds exactly",
        None,
        "0.12345678901234567890",
        "string",
        "0.12345678901234567890",
    ),
    Example("text", "text", None, '"größe 😀"', "string", "größe 😀"),
    Example("at", "dates are text", None, '"2026-01-31T12:30:00Z"', "string", "2026-01-31T12:30:00Z"),
    Example(
        "geo",
        "objects",
        None,
        '{"city": "Ulm", "km": 1.5}',
        "struct<city: string, km: double>",
        "{'city': Ulm, 'km': 1.5}",
    ),
    Example("places", "arrays", None, "[1, null, 3]", "list<long>", "[1, NULL, 3]"),
    Example(
        "mixed", "values of several types", None, '[1, "x", {"a": 1.50}]', "string", '[1,"x",{"a":1.50}]'
    ),
    Example(
        "_kafka_value_rest",
        "values without a type: empty objects and arrays",
        None,
        '"none": {}',
        "string",
        '{"none":{}}',
    ),
]

# ``schema``: None. ``value``: the record.
WHOLE = {
    "string": [Example("_kafka_value", "text in UTF-8", None, "größe 😀".encode(), "string", "größe 😀")],
    "raw": [Example("_kafka_value", "bytes", None, b"\x00\xde\xad", "binary", r"\x00\xDE\xAD")],
}


def shown(example: Example) -> tuple[str, str]:
    """The schema and the value, as on the page; empty if missing."""
    return _shown(example.schema), _shown(example.value)


def _shown(part: Any) -> str:
    if isinstance(part, bytes):
        return part.hex(" ")
    if isinstance(part, str):
        return part
    return "" if part is None else json.dumps(part, ensure_ascii=False)
