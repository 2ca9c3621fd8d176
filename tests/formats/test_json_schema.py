"""JSON Schemas to table columns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tabletopic_kernel.formats.json.decoder import JsonSchemaDecoder
from tabletopic_kernel.formats.json.schema import parse_json_schema
from tabletopic_kernel.formats.json.schema_refs import JsonSchemaError
from tabletopic_kernel.formats.json.types import MAX_LEVELS, REST


def columns(schema: Any, references: dict[str, str] | None = None) -> dict[str, str]:
    """Column name → requiredness and type."""
    decoder = JsonSchemaDecoder(json.dumps(schema), references)
    return {
        column.name: f"{'required' if column.required else 'optional'} {column.field_type}"
        for column in decoder.iceberg_schema.fields
        if column.name != REST
    }


def one(schema: Any, **more: Any) -> str:
    """The column of one required property."""
    whole = {"type": "object", "properties": {"f": schema}, "required": ["f"], **more}
    return columns(whole)["f"]


TEXT = "optional string"  # as JSON: any value may be null
NODE = {"type": "object", "properties": {"next": {"$ref": "#/definitions/node"}, "v": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "column"),
    [
        ({"type": "boolean"}, "required boolean"),
        ({"type": "integer"}, "required long"),
        ({"type": "integer", "minimum": 0, "maximum": 2**64 - 1}, "required decimal(38, 0)"),
        ({"type": "number"}, "required double"),
        ({"type": "string"}, "required string"),
        ({"type": "string", "format": "date"}, "required date"),
        ({"type": "string", "format": "time"}, "required time"),
        ({"type": "string", "format": "date-time"}, "required timestamptz"),
        ({"type": "string", "format": "uuid"}, "required uuid"),
        ({"type": "string", "format": "email"}, "required string"),
        ({"enum": ["A", "B"]}, "required string"),
        ({"enum": [1, 2.5]}, "required double"),
        ({"enum": ["A", 1]}, "required string"),
        ({"const": True}, "required boolean"),
        ({"type": ["null", "string"]}, "optional string"),
        ({"type": "string", "nullable": True}, "optional string"),
        ({"type": ["integer", "number"]}, "required double"),
        ({"type": ["integer", "string"]}, "required string"),
        ({"type": "array", "items": {"type": "integer"}}, "required list<long>"),
        ({"type": "array", "items": [{"type": "integer"}] * 2}, "required string"),
        (
            {"type": "array", "items": [{"type": "integer"}] * 2, "additionalItems": False},
            "required list<long>",
        ),
        ({"type": "array", "prefixItems": [{"type": "number"}] * 2, "maxItems": 2}, "required list<double>"),
        ({"type": "array", "prefixItems": [{"type": "number"}], "items": False}, "required list<double>"),
        (
            {"type": "array", "prefixItems": [{"type": "number"}], "items": {"type": "number"}},
            "required list<double>",
        ),
        ({"type": "array", "prefixItems": [{"type": "number"}], "items": True}, "required string"),
        ({"$ref": "#point"}, "required long"),
        ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]}, "required string"),
        ({"type": "array"}, "required list<string>"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "required map<string, long>"),
        (
            {
                "type": "object",
                "patternProperties": {"^x": {"type": "integer"}},
                "additionalProperties": False,
            },
            "required map<string, long>",
        ),
        ({"type": "object"}, "required string"),
        ({}, TEXT),
        (True, TEXT),
        ({"oneOf": [{"type": "null"}, {"type": "integer"}]}, "optional long"),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, "required double"),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "required string"),
        ({"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]}, "required string"),
        ({"anyOf": [{"const": "a"}, {"const": "b"}]}, "required string"),
        ({"allOf": [{"type": "number"}, {"type": "integer"}, {"minimum": 0}]}, "required long"),
        ({"properties": {"x": {"type": "integer"}}}, "required struct<2: x: optional long>"),
        ({"$ref": "#/definitions/node"}, TEXT),
        ({"$ref": "#"}, TEXT),
        ({"$dynamicRef": "#x"}, TEXT),
    ],
)
def test_the_table_of_types(schema: Any, column: str) -> None:
    """Every row of the module's table."""
    point = {"$dynamicAnchor": "point", "type": "integer"}
    assert one(schema, definitions={"node": NODE, "point": point}) == column


def test_a_property_that_need_not_be_there_is_optional() -> None:
    """Required means in the list and never null."""
    schema = {"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["b"]}
    assert columns(schema) == {"a": "optional long", "b": "required long"}


def test_all_of_is_one_object() -> None:
    """Parts come together, also by references with siblings, and twice by two ways."""
    base = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    schema = {
        "definitions": {"base": base},
        "allOf": [{"$ref": "#/definitions/base"}, {"properties": {"x": {"type": "string"}}}],
        "$ref": "#/definitions/base",
        "additionalProperties": False,
    }
    assert columns(schema) == {"id": "required long", "x": "optional string"}
    assert not any(
        column.name == REST for column in JsonSchemaDecoder(json.dumps(schema)).iceberg_schema.fields
    )


@pytest.mark.parametrize("keyword", ["then", "dependentSchemas"])
@pytest.mark.parametrize("within", ["beside", "allOf"])
def test_properties_that_depend_on_a_value_are_no_unevaluated_ones(keyword: str, within: str) -> None:
    """What ``unevaluatedProperties: false`` says of them depends on the record: they are kept in the rest."""
    more = {keyword: {"properties": {"x": {"type": "integer"}}}, "if": {"required": ["kind"]}}
    schema = {"type": "object", "properties": {"kind": {"type": "string"}}, "unevaluatedProperties": False}
    schema |= more if within == "beside" else {"allOf": [more]}
    for closed, names in (({}, ["kind", REST]), ({"additionalProperties": False}, ["kind"])):
        found = JsonSchemaDecoder(json.dumps(schema | closed)).iceberg_schema
        assert [column.name for column in found.fields] == names


def test_branches_that_only_restrict_do_not_matter() -> None:
    """anyOf of required lists, if and then, not."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "anyOf": [{"required": ["a"]}, {"not": {}}],
        "if": {"required": ["a"]},
        "then": {"minProperties": 1},
    }
    assert columns(schema) == {"a": "optional long"}


@pytest.mark.parametrize(
    ("schema", "references"),
    [
        ({"$ref": "p.json"}, {"p.json": {"type": "integer"}}),
        ({"$ref": "./p.json"}, {"p.json": {"type": "integer"}}),
        ({"$ref": "p.json#/definitions/a~1b"}, {"p.json": {"definitions": {"a/b": {"type": "integer"}}}}),
        ({"$ref": "p.json#age"}, {"p.json": {"$defs": {"a": {"$anchor": "age", "type": "integer"}}}}),
        ({"$ref": "p.json#age"}, {"p.json": {"definitions": {"a": {"$id": "#age", "type": "integer"}}}}),
        ({"$ref": "https://x.org/p"}, {"any": {"$id": "https://x.org/p", "type": "integer"}}),
        ({"$ref": "p.json"}, {"p.json": {"$ref": "q.json"}, "q.json": {"type": "integer"}}),
    ],
)
def test_references_lead_to_other_schemas(schema: Any, references: dict[str, Any]) -> None:
    """By name, path, anchor and id."""
    texts = {name: json.dumps(text) for name, text in references.items()}
    assert columns({"properties": {"f": schema}}, texts) == {"f": "optional long"}


def test_names_and_docs() -> None:
    """Descriptions become docs, and so do names that a column cannot have."""
    schema = {"properties": {"a.b": {"type": "integer", "description": "an age"}, "A_B": {"type": "integer"}}}
    fields = JsonSchemaDecoder(json.dumps(schema)).iceberg_schema.fields
    told = [(column.name, column.doc) for column in fields[:2]]
    assert told == [("a_b", 'an age; property "a.b"'), ("A_B_2", 'property "A_B"')]


def test_levels_beyond_a_table_are_text() -> None:
    """A schema may nest as it likes; what is below the last level that a table has is JSON text."""
    for more, structs, last in ((0, 29, "long"), (1, 30, TEXT), (20, 30, TEXT)):
        schema: Any = {"type": "integer"}
        for _ in range(MAX_LEVELS + more):
            schema = {"type": "object", "properties": {"d": schema}}
        column = columns(schema)["d"]
        assert column.count("struct<") == structs
        assert f"d: optional {last.removeprefix('optional ')}" in column


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ('{"type": 3}', "a type is a string"),
        ('{"type": "whole"}', "no type 'whole'"),
        ("[]", "a schema must be an object"),
        ('{"properties": []}', "properties must be an object"),
        ('{"allOf": {}}', "allOf is a list"),
        ('{"$ref": "gone.json"}', r"register it as a reference named 'gone\.json'"),
        ('{"$ref": "#/definitions/gone"}', "cannot be resolved"),
        ('{"$ref": "#gone"}', "an undefined anchor"),
        ('{"properties": {"_kafka_value_rest": {}}}', "rename it"),
    ],
)
def test_schemas_that_are_none_say_so(text: str, message: str) -> None:
    """The message names what is wrong."""
    with pytest.raises(JsonSchemaError, match=message):
        parse_json_schema(text)


def test_short_texts_that_stand_for_endless_schemas() -> None:
    """References that multiply, go round, or nest without end are an error or text, and soon."""
    laughs: dict[str, Any] = {"a0": {"type": "integer"}}
    for i in range(1, 25):
        inner = {"$ref": f"#/definitions/a{i - 1}"}
        laughs[f"a{i}"] = {"type": "object", "properties": {"l": inner, "r": inner}}
    with pytest.raises(JsonSchemaError, match="make it smaller"):
        parse_json_schema(json.dumps({"definitions": laughs, "$ref": "#/definitions/a24"}))
    chain = {f"c{i}": {"$ref": f"#/definitions/c{i + 1}"} for i in range(5000)}
    with pytest.raises(JsonSchemaError, match="nest too deeply"):
        parse_json_schema(json.dumps({"definitions": chain | {"c5000": {}}, "$ref": "#/definitions/c0"}))
    assert columns({"definitions": {"a": {"$ref": "#/definitions/a"}}, "$ref": "#/definitions/a"}) == {
        "_kafka_value": "optional string"
    }
