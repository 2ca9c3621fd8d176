"""What Connect's converters say that numbers stand for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyiceberg.schema import Schema

from tabletopic_kernel.formats.avro.schema import AvroSchemaError, parse
from tabletopic_kernel.formats.json.schema.columns import parse_json_schema
from tabletopic_kernel.formats.types import iceberg_schema_of
from tabletopic_kernel.model.columns.evolution import evolve
from tabletopic_kernel.model.columns.meaning import avro_meaning, json_meaning, meaning_in

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
        (
            {"type": "record", "name": "P", "fields": [], "connect.name": "a.Point"},
            None,
        ),
        ({"type": "long", "connect.name": 5}, None),
        ({"type": "long", "connect.name": "a b"}, None),
    ],
)
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
                "type": "string",
                "title": "a.Decimal",
                "connect.type": "bytes",
                "connect.parameters": {"scale": "2"},
            },
            "a.Decimal scale 2",
        ),
        ({"type": "integer", "title": "a.MicroTime"}, None),
        ({"type": "string", "title": "a.Json", "connect.type": "string"}, None),
        (True, None),
    ],
)
def test_meanings_of_json_schema(schema: Any, meaning: str | None) -> None:
    """A title means something only where Connect wrote it."""
    assert json_meaning(schema) == meaning


def test_a_decimal_as_bytes_of_another_scale_does_not_fit() -> None:
    """Without its scale a number of Connect's Decimal is another number; in JSON it is text of base64."""

    def columns(scale: str) -> Schema:
        kind = {"type": "string", "title": "a.Decimal", "connect.type": "bytes"}
        kind |= {"connect.parameters": {"scale": scale}}
        return parse_json_schema(json.dumps({"type": "object", "properties": {"price": kind}})).iceberg_schema

    table = columns("2")
    assert not evolve(table, columns("2"), table.highest_field_id).refused
    assert evolve(table, columns("4"), table.highest_field_id).refused.keys() == {"price"}


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
