"""What Connect's converters say that numbers stand for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka.schema_registry.confluent import meta_pb2
from pyiceberg.schema import Schema

from tabletopic_kernel.formats.avro.definitions import AvroSchemaError
from tabletopic_kernel.formats.avro.schema import parse
from tabletopic_kernel.formats.avro.types import iceberg_schema_of
from tabletopic_kernel.formats.json.decoder import JsonSchemaDecoder
from tabletopic_kernel.formats.protobuf.schema import tree
from tabletopic_kernel.formats.protobuf.schema.protoc import compile_schema
from tabletopic_kernel.formats.protobuf.schema.types import iceberg_schema_of as protobuf_columns
from tabletopic_kernel.model.columns.evolution import evolve
from tabletopic_kernel.model.columns.types import avro_meaning, json_meaning, meaning_in

US = {"type": "long", "connect.version": 1, "connect.name": "io.debezium.time.MicroTimestamp"}
BITS = {"type": "bytes", "connect.name": "io.debezium.data.Bits", "connect.parameters": {"length": "5"}}
NUMERIC = {"type": "bytes", "connect.name": "a.Decimal", "connect.parameters": {"scale": "4"}}


@pytest.mark.parametrize(
    ("kind", "meaning"),
    [
        (US, "io.debezium.time.MicroTimestamp"),
        (["null", US], "io.debezium.time.MicroTimestamp"),
        ({"type": US}, "io.debezium.time.MicroTimestamp"),
        ({"type": "array", "items": ["null", US]}, "io.debezium.time.MicroTimestamp"),
        ({"type": "map", "values": US}, "io.debezium.time.MicroTimestamp"),
        (BITS, "io.debezium.data.Bits"),
        (NUMERIC, "a.Decimal scale 4"),
        (["null", US, "string"], None),
        ("long", None),
        ({"type": "string", "connect.name": "io.debezium.data.Json"}, None),
        ({"type": "record", "name": "P", "fields": [], "connect.name": "a.Point"}, None),
        ({"type": "long", "connect.name": 5}, None),
        ({"type": "long", "connect.name": "a b"}, None),
    ],
)  # fmt: skip
def test_meanings_of_avro(kind: Any, meaning: str | None) -> None:
    """Numbers and bytes have one, alone, optional, in lists and in maps."""
    assert avro_meaning(kind) == meaning


@pytest.mark.parametrize(
    ("schema", "meaning"),
    [
        ({"type": "integer", "title": "a.MicroTime", "connect.type": "int64"}, "a.MicroTime"),
        ({"oneOf": [{"type": "null"}, {"type": "integer", "title": "a.T", "connect.type": "int64"}]}, "a.T"),
        ({"type": "array", "items": {"type": "integer", "title": "a.T", "connect.type": "int64"}}, "a.T"),
        (
            {
                "type": "string", "title": "a.Decimal", "connect.type": "bytes",
                "connect.parameters": {"scale": "2"},
            },
            "a.Decimal scale 2",
        ),
        (
            {
                "type": "number", "title": "a.Decimal", "connect.type": "bytes",
                "connect.parameters": {"scale": "2"},
            },
            "a.Decimal",
        ),
        ({"type": "integer", "title": "a.MicroTime"}, None),
        ({"type": "string", "title": "a.Json", "connect.type": "string"}, None),
        (True, None),
    ],
)  # fmt: skip
def test_meanings_of_json_schema(schema: Any, meaning: str | None) -> None:
    """A title means something only where Connect wrote it."""
    assert json_meaning(schema) == meaning


def test_what_does_not_fit_in_another_unit_or_scale() -> None:
    """It would be another number: refused, or with a column of its own."""

    def columns(scale: str) -> Schema:
        kind = {"type": "string", "title": "a.Decimal", "connect.type": "bytes"}
        kind |= {"connect.parameters": {"scale": scale}}
        return JsonSchemaDecoder(json.dumps({"type": "object", "properties": {"price": kind}})).iceberg_schema

    table = columns("2")
    assert not evolve(table, columns("2"), table.highest_field_id).refused
    assert evolve(table, columns("4"), table.highest_field_id).refused.keys() == {"price"}
    before, after = (
        _protobuf(f"int64 at = 1 {_meta(connect_name=f'io.debezium.time.{name}')};")
        for name in ("Timestamp", "MicroTimestamp")
    )
    assert not evolve(before, before, before.highest_field_id).refused
    assert evolve(before, after, before.highest_field_id).refused.keys() == {"at"}
    beside = evolve(before, after, before.highest_field_id, new_columns=True)
    assert [column.name for column in beside.schema.fields] == ["at", "at_MicroTimestamp"]


def _protobuf(fields: str) -> Schema:
    text = f'syntax = "proto3"; import "confluent/meta.proto"; message Row {{ {fields} }}'
    files, name = compile_schema(text)
    return protobuf_columns(tree.parse(tree.message_named(tree.load(files).FindFileByName(name), None)))


def _meta(**params: str) -> str:
    told = ", ".join(f'{{key: "{key.replace("_", ".")}", value: "{one}"}}' for key, one in params.items())
    return f"[(confluent.field_meta) = {{params: [{told}]}}]"


@pytest.mark.parametrize(
    ("field", "meaning"),
    [
        (f"int64 at = 1 {_meta(connect_name='io.debezium.time.Timestamp')};", "io.debezium.time.Timestamp"),
        (f"repeated int64 at = 1 {_meta(connect_name='a.T')};", "a.T"),
        (f"map<string, int64> at = 1 {_meta(connect_name='a.T')};", "a.T"),
        (f"optional bytes at = 1 {_meta(connect_name='a.Decimal', scale='4')};", "a.Decimal scale 4"),
        (f"uint64 at = 1 {_meta(connect_name='a.T')};", "a.T"),
        (f"string at = 1 {_meta(connect_name='a.Json')};", None),
        (f"int32 at = 1 {_meta(connect_type='int16')};", None),
        (f"int64 at = 1 {_meta(connect_name='a b')};", None),
        ("int64 at = 1;", None),
    ],
)
def test_meanings_of_protobuf(field: str, meaning: str | None) -> None:
    """Numbers and bytes have one where the field's option names it, in lists and maps too."""
    assert meaning_in(_protobuf(field).find_field("at").doc) == meaning


OTHER_META = """syntax = "proto2"; package confluent; import "google/protobuf/descriptor.proto";
    message Meta { optional string doc = 1; }
    extend google.protobuf.FieldOptions { optional %s field_meta = 1088; }"""
OTHER_USE = 'syntax = "proto3"; import "confluent/meta.proto"; message Row { int64 at = 1 [%s]; }'


def test_another_option_in_confluents_place() -> None:
    """One of its name says nothing; one of another type under its number cannot be read."""
    use = OTHER_USE % '(confluent.field_meta) = {doc: "connect.name"}'
    files, name = compile_schema(use, {"confluent/meta.proto": OTHER_META % "Meta"})
    root = tree.parse(tree.message_named(tree.load(files).FindFileByName(name), None))
    assert protobuf_columns(root).find_field("at").doc is None
    assert meta_pb2.field_meta.number == 1088  # type: ignore[attr-defined]
    use = OTHER_USE % '(confluent.field_meta) = "connect.name"'
    with pytest.raises(tree.ProtobufSchemaError, match="option"):
        compile_schema(use, {"confluent/meta.proto": OTHER_META % "string"})


def test_types_that_say_themselves_what_they_are_have_no_note() -> None:
    """A timestamp is one in the table, whatever the converter calls it."""
    kind = {"type": "long", "logicalType": "timestamp-millis", "connect.name": "a.Timestamp"}
    fields = [{"name": "at", "type": kind, "doc": "when"}, {"name": "n", "type": US, "doc": "how long"}]
    found = iceberg_schema_of(parse(json.dumps({"type": "record", "name": "R", "fields": fields})))
    assert found.find_field("at").doc == "when"
    assert meaning_in(found.find_field("n").doc) == "io.debezium.time.MicroTimestamp"


def test_as_many_optional_fields_as_the_page_says() -> None:
    """20,000, whether they may be null or not; one more is refused."""

    def schema(count: int) -> str:
        kinds = ["long", ["null", "long"]]
        fields = [{"name": f"f{at}", "type": kinds[at % 2]} for at in range(count)]
        return json.dumps({"type": "record", "name": "R", "fields": fields})

    assert len(iceberg_schema_of(parse(schema(20_000))).fields) == 20_000
    with pytest.raises(AvroSchemaError, match="more than 20000"):
        parse(schema(20_001))
