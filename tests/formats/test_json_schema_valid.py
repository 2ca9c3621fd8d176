"""Whatever is valid by a JSON Schema is a row: corner cases of the standard, with ``jsonschema`` as judge.

Cases as in the JSON Schema Test Suite (unevaluatedProperties, unevaluatedItems, prefixItems, dynamicRef),
whose schemas do not restrict other types than those of the values.
"""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pyarrow as pa
import pytest

from tabletopic_kernel.formats.json.decoder import JsonSchemaDecoder
from tabletopic_kernel.formats.wire import prefix

FOO = {"properties": {"foo": {"type": "string"}}, "unevaluatedProperties": False}
BAR = {"properties": {"bar": {"type": "string"}}}
ONE = {"type": "array", "prefixItems": [{"type": "string"}]}
OLD = {"type": "array", "items": [{"type": "string"}]}
ANCHOR = {
    "type": "array",
    "items": {"$ref": "#items"},
    "$defs": {"foo": {"$dynamicAnchor": "items", "type": "string"}},
}
URN = {
    "$id": "urn:uuid:deadbeef-1234-ff00-00ff-4321feebdaed",
    "properties": {"foo": {"$ref": "urn:uuid:deadbeef-1234-ff00-00ff-4321feebdaed#something"}},
    "definitions": {"bar": {"$id": "#something", "type": "string"}},
}
D20, D19, D7 = (
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema#",
)


@pytest.mark.parametrize(
    ("draft", "schema", "values"),
    [
        (D20, {**FOO, "additionalProperties": True}, [{"foo": "a"}, {"foo": "a", "bar": 1}]),
        (D20, {**FOO, "additionalProperties": {}}, [{"foo": "a", "bar": 1}]),
        (D20, {**FOO, "additionalProperties": {"type": "integer"}}, [{"foo": "a", "bar": 1}]),
        (D19, {**FOO, "allOf": [{"additionalProperties": True}]}, [{"foo": "a", "bar": 1}]),
        (D20, {**FOO, "allOf": [{**BAR, "unevaluatedProperties": True}]}, [{"foo": "a", "x": 1}]),
        (D20, {**FOO, "allOf": [BAR]}, [{"foo": "a", "bar": "b"}]),
        (D20, ONE, [["a"], ["a", 1, None, {"b": 2}], []]),
        (D20, {**ONE, "items": True}, [["a", 1]]),
        (D20, {**ONE, "items": {}}, [["a", 1, None]]),
        (D20, {**ONE, "items": {"type": "integer"}}, [["a", 1, 2]]),
        (D20, {**ONE, "items": False}, [["a"]]),
        (D20, {**ONE, "maxItems": 1}, [["a"], []]),
        (D20, {**ONE, "maxItems": 2}, [["a", 1]]),
        (D20, {**ONE, "unevaluatedItems": False}, [["a"]]),
        (D20, {**ONE, "unevaluatedItems": False, "contains": {"type": "integer"}}, [["a", 1]]),
        (D20, {**ONE, "unevaluatedItems": False, "allOf": [{"items": True}]}, [["a", 1]]),
        (
            D20,
            {**ONE, "unevaluatedItems": False, "if": {"prefixItems": [True, {"const": 1}]}},
            [["a", 1], ["a"]],
        ),
        (D7, OLD, [["a", 1]]),
        (D7, {**OLD, "additionalItems": True}, [["a", 1, None]]),
        (D7, {**OLD, "additionalItems": False}, [["a"]]),
        (D7, {**OLD, "additionalItems": {"type": "string"}}, [["a", "b"]]),
        (D7, {"type": "array", "additionalItems": {"type": "string"}}, [[1, None]]),
        (D7, {"allOf": [OLD], "additionalItems": {"type": "integer"}}, [["a", "b", None]]),
        (D20, ANCHOR, [["a", "b"]]),
        (D7, URN, [{"foo": "a"}]),
    ],
)
def test_what_is_valid_is_a_row(draft: str, schema: dict[str, Any], values: list[Any]) -> None:
    """Alone, and among enough others for the fast engine; nothing of it is lost."""
    whole = {"$schema": draft, **schema}
    judge = jsonschema.validators.validator_for(whole)(whole)
    for value in values:
        judge.validate(value)
    decoder = JsonSchemaDecoder(json.dumps(whole))
    for found in (values, values * 40):
        raw = pa.array([prefix(1) + json.dumps(value).encode() for value in found], pa.binary())
        batch, refused = decoder.decode(raw)
        assert refused == []
        told = batch.to_pylist()
        for value, row in zip(found, told, strict=True):
            assert _read(row) == value


def _read(row: dict[str, Any]) -> Any:
    """The value from which a row was made, as far as these schemas' columns show it."""
    rest = json.loads(row.pop("_kafka_value_rest", None) or "{}")
    if row.keys() == {"_kafka_value"}:
        found = row["_kafka_value"]
        if isinstance(found, str):
            return json.loads(found)
        return [json.loads(one) if one in ("1", "null") else one for one in found]
    return {name: one for name, one in row.items() if one is not None} | rest


def test_what_is_closed_stays_closed() -> None:
    """Properties and items that the schema does not allow are still refused."""
    for schema, value in (
        (FOO, {"foo": "a", "bar": 1}),
        ({**FOO, "additionalProperties": False}, {"foo": "a", "bar": 1}),
        ({**ONE, "items": False}, ["a", 1]),
        ({**ONE, "maxItems": 1}, ["a", 1]),
        ({**ONE, "unevaluatedItems": False}, ["a", 1]),
    ):
        raw = pa.array([prefix(1) + json.dumps(value).encode()], pa.binary())
        _, refused = JsonSchemaDecoder(json.dumps({"$schema": D20, **schema})).decode(raw)
        assert len(refused) == 1
