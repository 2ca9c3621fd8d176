"""Protobuf values to Arrow rows: both engines on good records, and the choice between them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from tabletopic_kernel.formats.arrays import Bodies
from tabletopic_kernel.formats.decoder import BareDecoder
from tabletopic_kernel.formats.protobuf.decoder import ProtobufDecoder
from tabletopic_kernel.formats.wire import PREFIX_BYTES
from tests.formats.avro_cases import plain_rows
from tests.formats.damage import SCALE
from tests.formats.protobuf_cases import VARINT, encoded, framed, moment, records, tag, text, varint

CALM = settings(max_examples=50 * SCALE)


def fast_batch(decoder: ProtobufDecoder, values: pa.Array) -> pa.RecordBatch:
    """The fast engine's rows of all values, all of them proved; raises NotRows."""
    assert decoder.fast is not None
    batch, suspects = decoder.fast.rows(Bodies(values, PREFIX_BYTES + 1))
    assert suspects is not None
    assert not suspects.any()
    return batch


def exact_batch(decoder: ProtobufDecoder, values: pa.Array) -> pa.RecordBatch:
    """The exact engine's rows of all values; raises Refusal."""
    return decoder.exact.batch([decoder.exact.row(value[6:]) for value in values.to_pylist()])


@CALM
@given(records(), st.randoms(use_true_random=False))
def test_other_ways_to_write_a_record_give_the_same_row(drawn: Any, rng: Any) -> None:
    """Fields in another order, unknown ones between them, long varints: the exact engine sees to them."""
    file, wires = drawn
    decoder = ProtobufDecoder(encoded(file))
    bodies, rows = [], []
    for wire in wires * (40 // len(wires) + 1):
        parts = _by_field(wire.parts)
        rng.shuffle(parts)
        extra = [b"", text(29_999, b"?"), tag(29_998, VARINT) + b"\x80\x00", b"\xbb\xd6\x0e\xbc\xd6\x0e"]
        bodies.append(b"".join(part + rng.choice(extra) for part in parts))
        rows.append(wire.row)
    batch, refused = decoder.decode(framed(*bodies))
    assert refused == []
    batch.validate(full=True)
    assert plain_rows(batch) == rows


def _by_field(parts: list[bytes]) -> list[bytes]:
    """The parts of each field joined: the order within a list counts."""
    joined: dict[int, bytes] = {}
    for part in parts:
        number = (part[0] & 0x7F | (part[1] & 0x7F) << 7 if part[0] > 127 else part[0]) >> 3
        joined[number] = joined.get(number, b"") + part
    return list(joined.values())


CLICK = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/struct.proto";
message Click { string id = 1; int32 n = 2; optional string user = 3; google.protobuf.Timestamp at = 4; }
message Refund { map<string, int32> m = 1; message Line { int32 q = 1; } Line line = 2; }
"""


def good(count: int) -> list[bytes]:
    """Bodies of ``Click``."""
    return [text(1, f"row {i}") + (tag(2, VARINT) + varint(i) if i else b"") for i in range(count)]


def expected(count: int) -> list[dict[str, Any]]:
    """The rows of ``good``."""
    return [{"id": f"row {i}", "n": i, "user": None, "at": None} for i in range(count)]


@pytest.fixture(scope="module")
def click() -> ProtobufDecoder:
    """The decoder of ``Click``."""
    return ProtobufDecoder(CLICK)


def test_records_of_other_messages_are_refused(click: ProtobufDecoder) -> None:
    """One schema id may carry several messages; the decoder takes its own."""
    ours = [b"\0\0\0\0\7\0", b"\0\0\0\0\7\x02\0"]
    values = [ours[i % 2] + body for i, body in enumerate(good(200))]
    # Beyond the last, too few, cut, negative, huge, in more bytes than needed, more of them than the limit.
    odd = ["020a", "01", "", "ff", "040206", "0201", "0263", "04020103", "02ffffffff1f", "028000"]
    odd += ["8002", "8080808000", "ffffffffff"]
    for at, head in ((5, "0202"), *enumerate(odd, 50)):
        values[at] = b"\0\0\0\0\7" + bytes.fromhex(head)
    batch, refused = click.decode(pa.array(values, pa.binary()))
    bad = [5, *range(50, 50 + len(odd))]
    assert plain_rows(batch) == [r for i, r in enumerate(expected(200)) if i not in bad]
    assert [r.index for r in refused] == bad
    assert refused[0].reason == "protobuf_other_message"
    assert {r.reason for r in refused[1:]} == {"protobuf_frame"}
    assert refused[0].message == (
        "the record is a shop.Refund, and the table has the columns of shop.Click; "
        "the setting value_message names another"
    )


@pytest.mark.parametrize("name", ["Refund.Line", "shop.Refund.Line"])
@pytest.mark.parametrize("indexes", ["040202", "040200"])
def test_a_nested_message_by_name(name: str, indexes: str) -> None:
    """Its indexes count the map's own type (Python, Go, .NET) or do not (Java)."""
    decoder = ProtobufDecoder(CLICK, message=name)
    values = [b"\0\0\0\0\7" + bytes.fromhex(indexes) + tag(1, VARINT) + varint(i + 1) for i in range(100)]
    batch, refused = decoder.decode(pa.array(values, pa.binary()))
    assert refused == []
    assert plain_rows(batch) == [{"q": i + 1} for i in range(100)]


def test_values_without_a_frame(click: ProtobufDecoder) -> None:
    """Bare messages, whose schema is known otherwise."""
    batch, refused = BareDecoder(7, click).decode(pa.array([*good(99), b"\xff"], pa.large_binary()))
    assert plain_rows(batch) == expected(99)
    assert [r.index for r in refused] == [99]


def test_a_required_field_that_is_missing_is_refused() -> None:
    """At every depth, by both engines; below a message that is absent there is nothing to miss."""
    schema = """
      syntax = "proto2"; package t;
      message Row { optional Part part = 1; repeated Part parts = 2; }
      message Part { required int32 a = 1; required Deep deep = 2; }
      message Deep { required string b = 1; optional int32 c = 2 [default = 5]; }
    """
    deep = text(2, text(1, "x"))
    whole = tag(1, VARINT) + b"\x01" + deep
    bodies = [
        text(1, whole),
        b"",
        text(2, whole) * 2,
        text(1, deep),
        text(2, b"\x08\x01"),
        text(2, b"\x08\x01\x12\0"),
    ]
    part = {"a": 1, "deep": {"b": "x", "c": None}}
    decoder = ProtobufDecoder(schema)
    for many in (1, 10):
        batch, refused = decoder.decode(framed(*bodies * many))
        batch.validate(full=True)
        good_rows = [
            {"part": part, "parts": []},
            {"part": None, "parts": []},
            {"part": None, "parts": [part] * 2},
        ]
        assert plain_rows(batch) == good_rows * many
        assert [(r.index, r.reason) for r in refused[:3]] == [(i, "protobuf_required") for i in (3, 4, 5)]
        assert refused[0].message == "part.a: a required field is missing"
        structs = batch.column(0)
        assert [structs.field(i).null_count for i in range(2)] == [0, 0]  # Parquet's writer insists


def test_what_is_on_the_wire_twice() -> None:
    """The last scalar, member of a oneof, value of a key counts; messages are merged."""
    schema = """
      syntax = "proto3"; import "google/protobuf/struct.proto";
      message Row {
        message Part { int32 a = 1; int32 b = 2; }
        int32 n = 1; Part part = 2; map<string, int32> m = 3;
        oneof one { int32 x = 4; Part y = 5; google.protobuf.Value z = 6; }
        google.protobuf.ListValue list = 7;
      }
    """
    a, b = tag(1, VARINT) + b"\x05", tag(2, VARINT) + b"\x06"
    entries = [text(1, "k") + tag(2, VARINT) + bytes([i]) for i in (1, 2)]
    item = text(1, tag(4, VARINT) + b"\x01")
    base = {"n": 0, "part": None, "m": [], "x": None, "y": None, "z": None, "list": None}
    cases = [
        (a + tag(1, VARINT) + b"\x00", {}),
        (text(2, a) + text(2, b), {"part": {"a": 5, "b": 6}}),
        (text(3, entries[0]) + text(3, entries[1]), {"m": [("k", 2)]}),
        (tag(4, VARINT) + b"\x01" + text(5, b""), {"y": {"a": 0, "b": 0}}),
        (text(5, b"") + tag(4, VARINT) + b"\x01", {"x": 1}),
        (text(6, tag(4, VARINT) + b"\x01") + tag(4, VARINT) + b"\x01", {"x": 1}),
        (tag(4, VARINT) + b"\x01" + text(6, tag(4, VARINT) + b"\x01"), {"z": "true"}),
        (text(7, item) + text(7, item), {"list": "[true,true]"}),
        (text(3, b""), {"m": [("", 0)]}),
    ]
    decoder = ProtobufDecoder(schema)
    for many in (1, 10):
        batch, refused = decoder.decode(framed(*[body for body, _ in cases] * many))
        assert refused == []
        assert plain_rows(batch) == [base | row for _, row in cases] * many


def test_sub_microseconds_are_cut_where_the_settings_say_so() -> None:
    """Down to the microsecond before, of timestamps before 1970 and of negative durations too."""
    schema = """
      syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
      message Row { google.protobuf.Timestamp t = 1; repeated google.protobuf.Duration d = 2; }
    """
    body = text(1, moment(-1, 999_999_999)) + text(2, moment(-1, -1)) + text(2, moment(1, 1))
    decoder = ProtobufDecoder(schema, sub_micros="floor")
    for many in (1, 40):
        batch, refused = decoder.decode(framed(*[body] * many))
        assert refused == []
        assert plain_rows(batch) == [{"t": -1, "d": [-1_000_001, 1_000_000]}] * many


@pytest.mark.parametrize(
    ("field", "seconds", "nanos"),
    [
        (1, -62_135_596_801, 0),
        (1, 253_402_300_800, 0),
        (1, 2**63 - 1, 0),
        (1, 0, -1000),
        (1, 0, 10**9),
        (2, 315_576_000_001, 0),
        (2, 1, -1000),
        (2, -1, 1000),
        (2, 0, 10**9),
        (2, -(2**63), 0),
    ],
)
def test_moments_out_of_range_are_refused(field: int, seconds: int, nanos: int) -> None:
    """Both engines hold to the ranges of timestamp.proto and duration.proto."""
    schema = """
      syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
      message Row { google.protobuf.Timestamp t = 1; google.protobuf.Duration d = 2; }
    """
    decoder = ProtobufDecoder(schema)
    for many in (1, 40):
        batch, refused = decoder.decode(framed(*[b"", text(field, moment(seconds, nanos))] * many))
        assert batch.num_rows == many
        assert {r.reason for r in refused} == {"protobuf_out_of_range"}
        assert [r.index for r in refused] == list(range(1, 2 * many, 2))


def test_groups_and_extensions_are_columns() -> None:
    """proto2's groups are structs by the exact engine, and extensions that the schema declares are fields."""
    schema = """
      syntax = "proto2"; package t;
      message Row {
        optional group Part = 1 { optional int32 a = 1; }
        optional int32 n = 2;
        extensions 100 to 200;
      }
      extend Row { optional string note = 100; repeated group Line = 101 { optional string s = 1; } }
    """
    decoder = ProtobufDecoder(schema)
    assert "groups" in (decoder.fast_refusal or "")
    line = b"\xab\x06" + text(1, "l") + b"\xac\x06"
    body = b"\x0b\x08\x05\x0c" + tag(2, VARINT) + b"\x01" + text(100, "hi") + line * 2
    batch, refused = decoder.decode(framed(*[body, b"", b"\x0b\x08\x05"]))
    assert [r.reason for r in refused] == ["protobuf_truncated"]
    assert plain_rows(batch) == [
        {"part": {"a": 5}, "n": 1, "note": "hi", "line": [{"s": "l"}, {"s": "l"}]},
        {"part": None, "n": None, "note": None, "line": []},
    ]


def test_giant_field_numbers_are_left_to_the_exact_engine() -> None:
    """The native reader would need gigabytes for them."""
    decoder = ProtobufDecoder('syntax = "proto3"; message Row { int32 a = 536870911; }')
    assert "field numbers" in (decoder.fast_refusal or "")
    batch, refused = decoder.decode(framed(*[tag(536_870_911, VARINT) + b"\x05"] * 50))
    assert refused == []
    assert plain_rows(batch) == [{"a": 5}] * 50


JSON = """
syntax = "proto3"; package t;
import "google/protobuf/any.proto"; import "google/protobuf/struct.proto";
import "google/protobuf/empty.proto"; import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto"; import "google/protobuf/field_mask.proto";
message Row {
  Node tree = 1; google.protobuf.Any any = 2; google.protobuf.Value value = 3;
  google.protobuf.Empty empty = 4;
  repeated google.protobuf.Value values = 5; map<string, google.protobuf.Struct> map = 6; Row me = 7;
}
message Node {
  enum Color { RED = 0; BLUE = 1; }
  repeated Node children = 1; int64 big = 2; bytes raw = 3; float f = 4; double d = 5; Color color = 6;
  google.protobuf.Timestamp at = 7; google.protobuf.Duration took = 8; google.protobuf.UInt64Value wide = 9;
  map<bool, int32> flags = 10; google.protobuf.FieldMask mask = 11; google.protobuf.StringValue word = 12;
}
"""


def test_json_text() -> None:
    """What has no columns is ProtoJSON with the names of the .proto file; both engines write the same."""
    import json
    import math

    decoder = ProtobufDecoder(JSON)
    row = _class_of(decoder)
    node = GetMessageClass(row.DESCRIPTOR.fields_by_name["tree"].message_type)
    inner = node(big=-(2**63), raw=b"\xff\xfe", f=0.1, d=math.inf, color=1)
    inner.at.seconds, inner.at.nanos, inner.took.seconds = 1, 5, -3
    inner.wide.value, inner.word.value = 2**64 - 1, ""
    inner.flags[True] = 1
    inner.mask.paths.append("a.b_c")
    outer = node(children=[inner, node(color=7)])
    outer.f = math.nan
    full = row(tree=outer)
    full.any.Pack(inner)
    full.value.number_value = math.nan
    full.empty.SetInParent()
    full.values.add(null_value=0)
    full.values.add(string_value="é\u0000")
    full.map["k"].update({"b": 1.5, "a": [True, None]})
    full.me.value.bool_value = True
    strange = row()
    strange.any.type_url, strange.any.value = "x/y.Z", b"\x01"
    text_of_inner = {
        "big": "-9223372036854775808",
        "raw": "//4=",
        "f": 0.1,
        "d": "Infinity",
        "color": "BLUE",
        "at": "1970-01-01T00:00:01.000000005Z",
        "took": "-3s",
        "wide": "18446744073709551615",
        "flags": {"true": 1},
        "mask": "a.b_c",
        "word": "",
    }
    for many in (1, 20):
        values = framed(*[one.SerializeToString() for one in (full, strange)] * many)
        batch, refused = decoder.decode(values)
        assert refused == []
        first, second = plain_rows(batch)[:2]
        assert json.loads(first["tree"]) == {"children": [text_of_inner, {"color": 7}], "f": "NaN"}
        assert json.loads(first["any"]) == {"@type": "type.googleapis.com/t.Node", **text_of_inner}
        assert (first["value"], first["empty"]) == ('"NaN"', "{}")
        assert first["values"] == ["null", '"é\\u0000"']
        assert first["map"] == [("k", '{"a":[true,null],"b":1.5}')]
        assert first["me"] == '{"value":true}'
        assert second["any"] == '{"@type":"x/y.Z","value":"AQ=="}'
        assert (second["tree"], second["value"], second["values"], second["map"]) == (None, None, [], [])


def _class_of(decoder: ProtobufDecoder) -> Any:
    from tabletopic_kernel.formats.protobuf.schema.protoc import compile_schema
    from tabletopic_kernel.formats.protobuf.schema.tree import load

    files, _ = compile_schema(JSON)
    return GetMessageClass(load(files).FindMessageTypeByName(decoder.message))


@pytest.mark.parametrize("depth", [50, 99, 100, 101, 5000])
def test_deep_json_is_text_or_refused(depth: int) -> None:
    """Messages within themselves have Protobuf's limit of 100 levels; nothing overflows beyond it."""
    decoder = ProtobufDecoder(JSON)
    body = b""
    for _ in range(depth):
        body = text(1, body)
    for many in (1, 40):
        batch, refused = decoder.decode(framed(*[body] * many))
        assert (batch.num_rows, len(refused)) == ((many, 0) if depth < 100 else (0, many))
        assert {r.reason for r in refused} <= {"protobuf_too_deep"}


def test_a_message_without_fields_is_one_column() -> None:
    """An empty top level is JSON text in ``_kafka_value``."""
    decoder = ProtobufDecoder('syntax = "proto3"; message Nothing {}')
    batch, refused = decoder.decode(framed(*[b"", b"\x08\x01", b"\x08"] * 20))
    assert plain_rows(batch) == [{"_kafka_value": "{}"}] * 40
    assert len(refused) == 20


def test_closed_enums_keep_their_strange_numbers() -> None:
    """A number without a name is text, also where proto2's own parser would drop it."""
    schema = """
      syntax = "proto2"; package t;
      enum E { option allow_alias = true; NO = 0; TWO = 2; ZWEI = 2; }
      message Row { optional E e = 1; repeated E es = 2; map<string, E> m = 3; }
    """
    body = (
        tag(1, VARINT)
        + b"\x09"
        + tag(2, VARINT)
        + b"\x02"
        + tag(2, VARINT)
        + varint(-1)
        + text(3, b"\x0a\x01k")
    )
    decoder = ProtobufDecoder(schema)
    row = {"e": "9", "es": ["TWO", "-1"], "m": [("k", "NO")]}
    for many in (1, 40):
        batch, refused = decoder.decode(framed(*[body] * many))
        assert refused == []
        assert plain_rows(batch) == [row] * many


def test_a_negative_number_in_five_bytes() -> None:
    """Some writers do not spread the sign of an int32 over 64 bits, as all readers allow."""
    decoder = ProtobufDecoder('syntax = "proto3"; message Row { int32 n = 1; }')
    bodies = [
        b"\x08\xff\xff\xff\xff\x0f",
        b"\x08" + varint(-1),
        b"\x08" + varint(2**32),
        b"\x08" + varint(-(2**31) - 1),
    ]
    batch, refused = decoder.decode(framed(*bodies * 20))
    assert plain_rows(batch) == [{"n": -1}] * 40
    assert {r.reason for r in refused} == {"protobuf_out_of_range"}
