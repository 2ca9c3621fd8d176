"""Avro values to Arrow rows: both engines on good records, and the choice between them."""

from __future__ import annotations

import decimal
import json
import struct
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabletopic_kernel.formats.arrays import Bodies
from tabletopic_kernel.formats.avro.decoder import AvroDecoder
from tabletopic_kernel.formats.avro.definitions import AvroSchemaError
from tabletopic_kernel.formats.rejection import NotRows, Refusal, Refused
from tabletopic_kernel.formats.wire import PREFIX_BYTES
from tests.formats.avro_cases import (
    DAY_ONE,
    LAST_DAY,
    MS,
    framed,
    plain_rows,
    row_schema,
    rows,
    tree_case,
    zigzag,
)
from tests.formats.damage import SCALE

FEW = settings(max_examples=30 * SCALE)
STRING_AND_INT = row_schema("string", "int")


def fast_batch(decoder: AvroDecoder, values: pa.Array) -> pa.RecordBatch:
    """The fast engine's rows of all values; raises NotRows."""
    assert decoder.fast is not None
    batch, suspects = decoder.fast.rows(Bodies(values, PREFIX_BYTES))
    assert suspects is None
    return batch


def exact_batch(decoder: AvroDecoder, values: pa.Array) -> pa.RecordBatch:
    """The exact engine's rows of all values; raises Refusal."""
    return decoder.exact.batch([decoder.exact.row(v[PREFIX_BYTES:]) for v in values.to_pylist()])


def text(value: str) -> bytes:
    """An Avro string."""
    return zigzag(len(value.encode())) + value.encode()


def good(count: int) -> list[bytes]:
    """Bodies of ``STRING_AND_INT``."""
    return [text(f"row {i}") + zigzag(i) for i in range(count)]


def expected(count: int) -> list[dict[str, Any]]:
    """The rows of ``good``."""
    return [{"f0": f"row {i}", "f1": i} for i in range(count)]


def one(kind: Any, body: bytes) -> Any:
    """The value of one field of one record, by both engines; raises Refusal."""
    decoder = AvroDecoder(row_schema(kind))
    rows_of = [plain_rows(exact_batch(decoder, framed(body)))]
    if decoder.fast_refusal is None:
        rows_of.append(plain_rows(fast_batch(decoder, framed(body))))
    assert all(found == rows_of[0] for found in rows_of)
    return rows_of[0][0]["f0"]


@FEW
@given(st.lists(tree_case().pairs, min_size=1, max_size=4))
def test_a_record_within_itself_is_json(pairs: list[tuple[bytes, Any]]) -> None:
    """The top-level record keeps its columns; what points back to it is JSON text."""
    decoder = AvroDecoder(json.dumps(tree_case().schema))
    assert "contains itself" in (decoder.fast_refusal or "")
    batch, refused = decoder.decode(framed(*(raw for raw, _ in pairs)))
    assert refused == []
    assert plain_rows(batch) == [value for _, value in pairs]


@FEW
@given(rows())
def test_the_bytes_of_these_tests_are_those_of_fastavro(drawn: Any) -> None:
    """fastavro reads every generated record to its end, so the tests' own encoder is right."""
    import io

    case, pairs = drawn
    schema = fastavro.parse_schema(_without_logical_types(case.schema))
    for raw, _ in pairs:
        stream = io.BytesIO(raw)
        fastavro.schemaless_reader(stream, schema)
        assert stream.tell() == len(raw)


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {k: _without_logical_types(v) for k, v in schema.items() if k != "logicalType"}
    return [_without_logical_types(item) for item in schema] if isinstance(schema, list) else schema


def test_no_records_of_nested_uuids() -> None:
    """An empty batch can be made of types that pyarrow itself makes no empty table of."""
    uuids = {"type": "array", "items": {"type": "string", "logicalType": "uuid"}}
    batch, refused = AvroDecoder(row_schema(uuids)).decode(framed())
    assert (batch.num_rows, refused) == (0, [])


def test_fields_named_like_the_proof() -> None:
    """Names of the fast engine's own schema may be used by writers, at every level."""
    names = ["proof", "boundary", "row", "c0", "t0"]
    fields = [{"name": n, "type": {"type": "fixed", "name": n, "size": 5}} for n in names]
    inner = {"type": "record", "name": "row", "fields": [{"name": n, "type": "int"} for n in names]}
    fields.append({"name": "inner", "type": ["null", inner | {"name": "inner_row"}]})
    schema = json.dumps({"type": "record", "name": "top", "fields": fields})
    decoder = AvroDecoder(schema)
    body = b"12345" * len(names) + b"\x02" + b"\x02\x04\x06\x08\x0a"
    values = framed(*[body] * 60)
    row = dict.fromkeys(names, b"12345") | {"inner": dict(zip(names, (1, 2, 3, 4, 5), strict=True))}
    assert plain_rows(fast_batch(decoder, values)) == [row] * 60
    assert plain_rows(exact_batch(decoder, values)) == [row] * 60


@pytest.mark.parametrize(
    ("schema", "body", "value"),
    [
        ('"string"', text("x"), "x"),
        ('["null", "long"]', b"\x02\x06", 3),
        ('{"type": "array", "items": "int"}', b"\x02\x06\x00", [3]),
        ('{"type": "record", "name": "E", "fields": []}', b"", "{}"),
        ("long", b"\x06", 3),
    ],
)
def test_a_top_level_that_is_no_record_is_one_column(schema: str, body: bytes, value: Any) -> None:
    """A bare type, and a record without fields, become the column _kafka_value, by both engines."""
    decoder = AvroDecoder(schema)
    assert decoder.fast_refusal is None
    for batch in (fast_batch(decoder, framed(body)), exact_batch(decoder, framed(body))):
        assert plain_rows(batch) == [{"_kafka_value": value}]


MANY = [{"type": "enum", "name": f"E{i}", "symbols": ["A"]} for i in range(127)]


@pytest.mark.parametrize(
    ("kind", "body", "value"),
    [
        ({"type": "array", "items": "null"}, b"\x04\x00", [None, None]),
        ({"type": "map", "values": "null"}, b"\x02" + text("a") + b"\x00", [("a", None)]),
        (["null", {"type": "record", "name": "R", "fields": []}], b"\x02", "{}"),
        (MANY, zigzag(126) + b"\x00", {f"E{i}": "A" if i == 126 else None for i in range(127)}),
    ],
)
def test_what_the_fast_engine_cannot_take_the_exact_one_reads(kind: Any, body: bytes, value: Any) -> None:
    """Schemas that the fast engine refuses have a reason, and rows all the same."""
    decoder = AvroDecoder(row_schema(kind))
    assert decoder.fast_refusal
    batch, refused = decoder.decode(framed(*[body] * 60))
    assert refused == []
    assert plain_rows(batch) == [{"f0": value}] * 60


def test_references_are_resolved_whatever_their_order() -> None:
    """Types of other subjects are used by name, and may use each other."""
    references = {
        "b.Outer": json.dumps(
            {"type": "record", "name": "b.Outer", "fields": [{"name": "i", "type": ["null", "a.Inner"]}]}
        ),
        "a.Inner": json.dumps(
            {"type": "record", "name": "Inner", "namespace": "a", "fields": [{"name": "n", "type": "int"}]}
        ),
    }
    decoder = AvroDecoder(row_schema("b.Outer", "a.Inner"), references)
    values = framed(*[b"\x02\x06\x08"] * 60)
    batch, refused = decoder.decode(values)
    assert refused == []
    assert plain_rows(batch) == [{"f0": {"i": {"n": 3}}, "f1": {"n": 4}}] * 60


def test_a_missing_reference_says_so() -> None:
    """A type that nothing defines is an error that names it."""
    with pytest.raises(AvroSchemaError, match=r"'other\.Thing' is not defined"):
        AvroDecoder(row_schema("other.Thing"))


def test_of_two_equal_keys_in_a_map_the_last_counts() -> None:
    """Duplicate keys, which only a faulty writer makes, end as in Avro's own libraries."""
    entries = b"\x06" + text("a") + zigzag(1) + text("b") + zigzag(2) + text("a") + zigzag(3) + b"\x00"
    decoder = AvroDecoder(row_schema({"type": "map", "values": "int"}))
    plain = b"\x02" + text("a") + zigzag(9) + b"\x00"
    batch, refused = decoder.decode(framed(*[plain] * 60, entries, *[plain] * 60))
    assert refused == []
    assert plain_rows(batch)[60] == {"f0": [("a", 3), ("b", 2)]}


DATE = {"type": "int", "logicalType": "date"}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "local-timestamp-micros"}
TIME = {"type": "int", "logicalType": "time-millis"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}
WIDE = {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2}
UUID = {"type": "string", "logicalType": "uuid"}
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}


@pytest.mark.parametrize(
    ("kind", "body", "value"),
    [
        ("int", b"\x82\x80\x80\x80\x00", 1),  # over-long
        ("long", b"\xff" * 9 + b"\x01", -(2**63)),
        ("double", struct.pack("<d", -0.0), "-0.0"),
        ("float", struct.pack("<f", float("-inf")), "-inf"),
        (DATE, zigzag(LAST_DAY), LAST_DAY),
        (MILLIS, zigzag(DAY_ONE * MS), DAY_ONE * MS * 1000),
        (MICROS, zigzag((LAST_DAY + 1) * MS * 1000 - 1), (LAST_DAY + 1) * MS * 1000 - 1),
        (DECIMAL, b"\x00", decimal.Decimal("0.0")),  # no bytes
        (DECIMAL, b"\x02\x9d", decimal.Decimal("-9.9")),
        (WIDE, b"\x02\x9d", "-0.99"),
        (WIDE, b"\x00", "0.00"),
        (["string"], b"\x00\x02x", "x"),
        (["null"], b"\x00", None),
        (["int", "null"], b"\x02", None),
        ({"type": "fixed", "name": "F", "size": 0}, b"", b""),
        ([ENUM, "int"], b"\x00\x02", {"E": "B", "int": None}),
        ([ENUM, "int"], b"\x02\x02", {"E": None, "int": 1}),
        (["null", "boolean", "bytes"], b"\x02\x01", {"boolean": True, "bytes": None}),
    ],
)
def test_values_at_the_edge_are_taken(kind: Any, body: bytes, value: Any) -> None:
    """The last values inside the limits, and legal oddities, are the same in both engines."""
    assert one(kind, body) == value


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        ("int", zigzag(2**31), "avro_varint"),
        ("long", b"\xff" * 9 + b"\x02", "avro_varint"),
        ("long", b"\x80", "avro_truncated"),
        ("string", b"\x01", "avro_length"),
        ("string", b"\x04a", "avro_truncated"),
        ("string", b"\x02\xff", "avro_utf8"),
        ("string", b"\x06\xed\xa0\x80", "avro_utf8"),  # a lone surrogate
        ("boolean", b"\x02", "avro_boolean"),
        ("float", b"\x00\x00\x00", "avro_truncated"),
        (DATE, zigzag(LAST_DAY + 1), "avro_out_of_range"),
        (DATE, zigzag(DAY_ONE - 1), "avro_out_of_range"),
        (MILLIS, zigzag(2**63 - 1), "avro_out_of_range"),
        (MILLIS, zigzag(DAY_ONE * MS - 1), "avro_out_of_range"),
        (MICROS, zigzag((LAST_DAY + 1) * MS * 1000), "avro_out_of_range"),
        (TIME, zigzag(MS), "avro_out_of_range"),
        (TIME, zigzag(-1), "avro_out_of_range"),
        (DECIMAL, b"\x04\x03\xe8", "avro_out_of_range"),
        (DECIMAL, b"\x26\x7f" + b"\xff" * 18, "avro_out_of_range"),
        (WIDE, b"\x28\x7f" + b"\xff" * 19, "avro_out_of_range"),
        (UUID, text("not-a-uuid"), "avro_uuid"),
        (UUID, text("{0f0e0d0c-0b0a-0908-0706-050403020100}"), "avro_uuid"),
        (UUID, text("0f0e0d0c0b0a09080706050403020100"), "avro_uuid"),
        (UUID, text("0f0e0d0c-0b0a-0908-0706-05040302010é"), "avro_uuid"),
        (ENUM, b"\x04", "avro_enum"),
        (ENUM, b"\x01", "avro_enum"),
        (["null", "int"], b"\x04\x02", "avro_union"),
        (["null", "int"], b"\x01", "avro_union"),
        (["int", "null"], b"\x04", "avro_union"),
        (["null"], b"\x02\x00", "avro_union"),
        ({"type": "array", "items": "int"}, b"\x01\x01\x02\x00", "avro_length"),
        ({"type": "array", "items": "int"}, zigzag(2**62) + b"\x02", "avro_truncated"),
        ({"type": "array", "items": "null"}, zigzag(2**62) + b"\x00", "avro_too_many_items"),
        ({"type": "array", "items": "null"}, zigzag(-(2**63)) + b"\x00\x00", "avro_too_many_items"),
        ([], b"\x00", "avro_union"),
    ],
)
def test_values_beyond_the_edge_are_refused(kind: Any, body: bytes, reason: str) -> None:
    """The first values outside the limits are refused by both engines, with the reason and the field."""
    decoder = AvroDecoder(row_schema(kind))
    with pytest.raises(Refusal) as raised:
        exact_batch(decoder, framed(body))
    assert raised.value.reason == reason
    assert raised.value.text().startswith("f0")
    if decoder.fast_refusal is None:
        with pytest.raises(NotRows):
            fast_batch(decoder, framed(body))


def test_a_refusal_names_the_path() -> None:
    """The message leads a person to the nested field."""
    inner = {"type": "record", "name": "Geo", "fields": [{"name": "city", "type": "string"}]}
    _, refused = AvroDecoder(row_schema("int", inner)).decode(framed(b"\x02\x02\xff"))
    assert refused == [Refused(0, "avro_utf8", "f1.city: text that is not UTF-8 at byte 0")]
