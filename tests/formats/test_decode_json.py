"""JSON values to Arrow rows: both engines on good records, and the choice between them."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from hypothesis import given, settings

from tabletopic_kernel.formats.arrays import Bodies
from tabletopic_kernel.formats.driver import FastRows
from tabletopic_kernel.formats.json.decoder import JsonSchemaDecoder
from tabletopic_kernel.formats.json.schema_refs import JsonSchemaError
from tabletopic_kernel.formats.json.types import REST
from tabletopic_kernel.formats.rejection import NotRows, Refusal, Refused
from tests.formats.avro_cases import plain_rows
from tests.formats.damage import SCALE
from tests.formats.json_cases import PREFIX, framed, rows


def object_schema(*, closed: bool = True, required: tuple[str, ...] = (), **properties: Any) -> str:
    """A record with these properties."""
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": list(required)}
    return json.dumps(schema | ({"additionalProperties": False} if closed else {}))


STRING_AND_INT = object_schema(s={"type": "string"}, n={"type": "integer"}, required=("s",))


def fast_rows(decoder: Any, values: pa.Array) -> FastRows:
    """What the fast engine says of all values; raises NotRows."""
    front = len(PREFIX) if isinstance(decoder, JsonSchemaDecoder) else 0
    found: FastRows = decoder.fast.rows(Bodies(values, front))
    return found


def exact_batch(decoder: Any, values: pa.Array) -> pa.RecordBatch:
    """The exact engine's rows of all values; raises Refusal."""
    exact = decoder.exact
    skipped = len(PREFIX) if isinstance(decoder, JsonSchemaDecoder) else 0
    return exact.batch([exact.row(value[skipped:]) for value in values.to_pylist()])


def good(count: int) -> list[str]:
    """Records of ``STRING_AND_INT``."""
    return [f'{{"s": "row {i}", "n":{i}}}' for i in range(count)]


def expected(count: int) -> list[dict[str, Any]]:
    """The rows of ``good``."""
    return [{"s": f"row {i}", "n": i} for i in range(count)]


def told(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its rest as a value."""
    return {k: json.loads(v) if k == REST and v is not None else v for k, v in row.items()}


@settings(max_examples=20 * SCALE)
@given(rows())
def test_the_values_of_these_tests_are_those_of_json_schema(drawn: Any) -> None:
    """An independent validator takes every generated record, so the tests' own generator is right."""
    schema, values = drawn
    validator = jsonschema.Draft7Validator(schema)
    for value in values:
        validator.validate(json.loads(value.text, parse_float=_number))


def _number(text: str) -> Any:
    exact = Decimal(text)
    return int(exact) if abs(exact) < 10**40 and exact == exact.to_integral_value() else float(text)


@pytest.mark.parametrize(
    ("forged", "reason"),
    [
        ('{"s":"a"}}{"":{"s":"b"}', "json_syntax"),  # two rows in one record
        ('{"s":"a"},"":{"s":"b"}', "json_syntax"),
        ('{"s":"a"},"x":null', "json_syntax"),
        ("", "json_syntax"),  # no row
        ("  ", "json_syntax"),
        ('{"s":"', "json_syntax"),  # reaches into its neighbour
        ('{"s":"\\', "json_syntax"),
        ('[{"s":"a"', "json_syntax"),
        ("null", "json_type"),
        ("7", "json_type"),
        ("\ufeff" + '{"s":"a"}', "json_syntax"),
        ('{"s":"a"}'.encode("utf-16"), "json_utf8"),
        (b'{"s":"\xff"}', "json_utf8"),
        (b'{"s":"\xed\xa0\x80"}', "json_utf8"),
        ('{"s":"\\ud800"}', "json_surrogate"),
        ('{"s":"\\udc00\\ud800"}', "json_surrogate"),
        ('{"s":"a","n":NaN}', "json_syntax"),
        ('{"s":"a","n":01}', "json_syntax"),
        ('{"s":"a\nb"}', "json_syntax"),
        ('{"s":"a\x00b"}', "json_syntax"),
        ("{'s':'a'}", "json_syntax"),
        ('{"s":"a",}', "json_syntax"),
        ('{"s":"a"/**/}', "json_syntax"),
        ('{"s":"a","n":' + "[" * 50_000, "json_too_deep"),
        ('{"s":"a","n":' + "[" * 50_000 + "]" * 50_000 + "}", "json_too_deep"),
        ('{"s":"a","z":' + '{"z":' * 50_000 + "1" + "}" * 50_001, "json_too_deep"),
        ('{"s":"a","z":' + '{"z":' * 200 + "1" + "}" * 201, "json_too_deep"),
    ],
)
def test_records_that_would_shift_others_are_refused(forged: str | bytes, reason: str) -> None:
    """Whatever a record is, it is judged alone, and its neighbours are what they were."""
    for schema in (STRING_AND_INT, STRING_AND_INT.replace("false", "true")):
        decoder = JsonSchemaDecoder(schema)
        texts: list[str | bytes] = [*good(60)]
        texts[20] = forged
        batch, refused = decoder.decode(framed(*texts))
        assert [(r.index, r.reason) for r in refused] == [(20, reason)]
        kept = [{k: v for k, v in row.items() if k != REST} for row in plain_rows(batch)]
        assert kept == [row for i, row in enumerate(expected(60)) if i != 20]


def test_two_forged_records_cannot_cover_for_each_other() -> None:
    """One that holds two rows, beside one that swallows its neighbour: both are refused."""
    decoder = JsonSchemaDecoder(STRING_AND_INT)
    for swallowing in ('{"s":"', '{"s":"a"', '{"s":"a"},"":', "", '{"s":"a"}}{"z":'):
        texts = good(60)
        texts[20] = '{"s":"a"}}{"":{"s":"b"}'
        texts[40] = swallowing
        with pytest.raises(NotRows):
            fast_rows(decoder, framed(*texts))
        batch, refused = decoder.decode(framed(*texts))
        assert [r.index for r in refused] == [20, 40]
        assert plain_rows(batch) == [row for i, row in enumerate(expected(60)) if i not in (20, 40)]


DECIMAL = {"type": "integer", "maximum": 2**80}
LIST = {"type": "array", "items": {"type": "integer"}}
MAP = {"type": "object", "additionalProperties": {"type": "integer"}}


def verdicts(kind: Any, text: str) -> tuple[Any, list[Refused]]:
    """The value of one property, from the exact engine and among others; None if rejected."""
    decoder = JsonSchemaDecoder(object_schema(f=kind, required=("f",)))
    record = f'{{"f":{text}}}'
    batch, refused = decoder.decode(framed(record))
    many, many_refused = decoder.decode(framed(*[record] * 40))
    assert {(r.reason, r.message) for r in many_refused} == {(r.reason, r.message) for r in refused}
    found = [row["f"] for row in plain_rows(batch)]
    assert [row["f"] for row in plain_rows(many)] == found * 40
    return (found[0] if found else None), refused


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ({"type": "integer"}, "-9223372036854775808", -(2**63)),
        ({"type": "integer"}, "9223372036854775807", 2**63 - 1),
        ({"type": "integer"}, "1.0", 1),
        ({"type": "integer"}, "1e3", 1000),
        ({"type": "integer"}, "-0", 0),
        ({"type": "number"}, "-0", "-0.0"),
        ({"type": "number"}, "9007199254740992", "9007199254740992.0"),
        ({"type": "number"}, "1152921504606847000", "1.152921504606847e+18"),
        ({"type": "number"}, "0.10000000000000001", "0.1"),
        ({"type": "number"}, "3.1415926535897931", "3.141592653589793"),
        ({"type": "number"}, "5e-324", "5e-324"),
        ({"type": "number"}, "0e-999", "0.0"),
        ({"type": "number"}, "1.5e-307 ", "1.5e-307"),
        ({"type": "number"}, "100000000000000000000", "1e+20"),
        (DECIMAL, "18446744073709551615", Decimal(2**64 - 1)),
        (DECIMAL, "-" + "9" * 38, Decimal(-(10**38) + 1)),
        ({"type": "string"}, '"\\u0000\\ud83d\\ude00\\/"', "\0😀/"),
        ({"type": "string", "format": "date"}, '"0001-01-01"', -719_162),
        ({"type": "string", "format": "date"}, '"9999-12-31"', 2_932_896),
        ({"type": "string", "format": "date-time"}, '"1970-01-01T00:00:00.000001000Z"', 1),
        ({"type": "string", "format": "date-time"}, '"1970-01-01T01:00:00+01:00"', 0),
        ({"type": "string", "format": "time"}, '"00:30:00+01:00"', 84_600_000_000),
        ({"type": "string", "format": "time"}, '"23:59:59.999999"', 86_399_999_999),
        (LIST, "[]", []),
        (MAP, '{"":1,"a":2}', [("", 1), ("a", 2)]),
        ({}, '{ "a" : 1.50, "b":[ null ] }', '{"a":1.50,"b":[null]}'),
    ],
)
def test_values_at_the_edge_are_taken(kind: Any, text: str, value: Any) -> None:
    """The last values inside the limits, and legal oddities."""
    found, refused = verdicts(kind, text)
    assert refused == []
    assert found == value


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ({"type": "integer"}, "9223372036854775808", "json_out_of_range"),
        ({"type": "integer"}, "1.5", "json_out_of_range"),
        ({"type": "integer"}, "1e400000000", "json_out_of_range"),
        ({"type": "integer"}, "9" * 5000, "json_out_of_range"),
        ({"type": "integer"}, "true", "json_type"),
        ({"type": "integer"}, '"1"', "json_type"),
        ({"type": "integer"}, "[1]", "json_type"),
        ({"type": "number"}, "9007199254740993", "json_out_of_range"),
        ({"type": "number"}, "123456789012345678", "json_out_of_range"),
        ({"type": "number"}, "12345678901234567.89", "json_out_of_range"),
        ({"type": "number"}, "3.14159265358979323846", "json_out_of_range"),
        ({"type": "number"}, "0.000000000000123456789012345678", "json_out_of_range"),
        ({"type": "number"}, "1e400", "json_out_of_range"),
        ({"type": "number"}, "9" * 400, "json_out_of_range"),
        ({"type": "number"}, "1e-400", "json_out_of_range"),
        ({"type": "number"}, "-2.4E-00000000324 ", "json_out_of_range"),
        ({"type": "number"}, f"0.{'0' * 330}1", "json_out_of_range"),
        ({"type": "number"}, "NaN", "json_syntax"),
        ({"type": "number"}, "-Infinity", "json_syntax"),
        ({"type": "number"}, '"1.5"', "json_type"),
        (DECIMAL, "1" + "0" * 38, "json_out_of_range"),
        (DECIMAL, "0.5", "json_out_of_range"),
        ({"type": "boolean"}, "1", "json_type"),
        ({"type": "boolean"}, '"true"', "json_type"),
        ({"type": "string"}, "1", "json_type"),
        ({"type": "string", "format": "date"}, '"2026-02-30"', "json_format"),
        ({"type": "string", "format": "date"}, '"0000-01-01"', "json_format"),
        ({"type": "string", "format": "date"}, '"2026-1-1"', "json_format"),
        ({"type": "string", "format": "date"}, '"2026-01-01T00:00:00Z"', "json_format"),
        ({"type": "string", "format": "date"}, '""', "json_format"),
        ({"type": "string", "format": "date-time"}, '"2026-01-01T00:00:00"', "json_format"),
        ({"type": "string", "format": "date-time"}, '"2026-01-01"', "json_format"),
        ({"type": "string", "format": "date-time"}, '"2026-01-01T24:00:00Z"', "json_format"),
        ({"type": "string", "format": "date-time"}, '"2026-01-01T00:00:60Z"', "json_format"),
        ({"type": "string", "format": "date-time"}, '"2026-01-01T00:00:00.0000001Z"', "json_out_of_range"),
        ({"type": "string", "format": "date-time"}, '"0001-01-01T00:00:00+00:01"', "json_out_of_range"),
        ({"type": "string", "format": "date-time"}, '"9999-12-31T23:59:59-00:01"', "json_out_of_range"),
        ({"type": "string", "format": "time"}, '"24:00:00"', "json_format"),
        ({"type": "string", "format": "time"}, '"12:00"', "json_format"),
        ({"type": "string", "format": "uuid"}, '"0f0e0d0c0b0a09080706050403020100"', "json_format"),
        ({"type": "string", "format": "uuid"}, '"0f0e0d0c-0b0a-0908-0706-05040302010é"', "json_format"),
        (LIST, "[1, null]", "json_missing"),
        (LIST, '[1, "2"]', "json_type"),
        (LIST, "{}", "json_type"),
        (MAP, '{"a": null}', "json_missing"),
        (MAP, '{"a": 1, "a": 2}', "json_duplicate_key"),
        ({}, '{"a": 1, "\\u0061": 2}', "json_duplicate_key"),
        ({"type": "integer"}, "null", "json_missing"),
    ],
)
def test_values_beyond_the_edge_are_refused(kind: Any, text: str, reason: str) -> None:
    """The first values outside the limits are refused with the reason, alone and among others."""
    _, refused = verdicts(kind, text)
    assert [r.reason for r in refused] == [reason]


@pytest.mark.parametrize(
    ("kind", "text", "micros"),
    [
        ("date-time", "1970-01-01T00:00:00.1234567Z", 123_456),
        ("date-time", "1969-12-31T23:59:59.999999999+00:00", -1),
        ("date-time", "1970-01-01 01:00:00.00000000000000000001+01:00", 0),
        ("time", "23:59:59.999999999", 86_399_999_999),
        ("time", "00:00:00.0000009", 0),
        ("date-time", "1970-01-01T00:00:00.123456x89Z", None),
        ("date-time", "1970-01-01T00:00:00.1234567890", None),
        ("date-time", "1970-01-01T00:00:00.123456789.1Z", None),
    ],
)
def test_times_finer_than_microseconds_are_cut_if_asked_for(kind: str, text: str, micros: int | None) -> None:
    """Down to the microsecond before them, by both engines; what is no time stays none."""
    schema = object_schema(f={"type": "string", "format": kind})
    values = framed(*[json.dumps({"f": text})] * 40)
    decoder = JsonSchemaDecoder(schema, nanos="floor")
    batch, refused = decoder.decode(values)
    assert [row["f"] for row in plain_rows(batch)] == ([] if micros is None else [micros] * 40)
    assert len(refused) == (40 if micros is None else 0)
    if micros is not None:
        assert plain_rows(exact_batch(decoder, values)) == plain_rows(batch)
        suspects = fast_rows(decoder, values).suspects
        assert suspects is not None
        assert not suspects.any()
        batch, refused = JsonSchemaDecoder(schema).decode(values)
        assert [one.reason for one in refused] == ["json_out_of_range"] * 40


def test_a_refusal_names_the_path() -> None:
    """The message leads a person to the nested field."""
    inner = {"type": "object", "properties": {"city": {"type": "string"}}}
    schema = object_schema(geo={"type": "array", "items": inner})
    _, refused = JsonSchemaDecoder(schema).decode(framed('{"geo":[{}, {"city":5}]}'))
    assert refused == [Refused(0, "json_type", "geo.1.city: expected text, got the number 5")]


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, '"x"', "x"),
        ({"type": ["integer", "null"]}, "3", 3),
        ({"type": ["integer", "null"]}, "null", None),
        ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
        ({"type": "string", "format": "uuid"}, '"00000000-0000-0000-0000-000000000001"', bytes(15) + b"\1"),
        (True, '{"a": [1]}', '{"a":[1]}'),
        ({"type": "object"}, '{"a":1}', '{"a":1}'),
    ],
)
def test_a_top_level_that_is_no_record_is_one_column(schema: Any, text: str, value: Any) -> None:
    """A bare type, and an object without named properties, become the column _kafka_value."""
    decoder = JsonSchemaDecoder(json.dumps(schema))
    batch, refused = decoder.decode(framed(*[text] * 40))
    assert refused == []
    assert plain_rows(batch) == [{"_kafka_value": value}] * 40


def test_a_record_may_be_null_where_the_schema_says_so() -> None:
    """It is a row of nulls, also of what an object must have; elsewhere it is refused."""
    schema = {"type": ["object", "null"], "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    decoder = JsonSchemaDecoder(json.dumps(schema))
    batch, refused = decoder.decode(framed(*["null", '{"a": 1}'] * 20))
    assert refused == []
    assert [row["a"] for row in plain_rows(batch)] == [None, 1] * 20
    batch, refused = JsonSchemaDecoder(json.dumps(schema | {"type": "object"})).decode(framed("null"))
    assert [one.reason for one in refused] == ["json_type"]


def test_what_the_schema_allows_and_does_not_name_is_kept() -> None:
    """Unknown properties stand in the rest where they stood; nulls count as absent."""
    inner = {"type": "object", "properties": {"x": {"type": "integer"}}}
    schema = object_schema(closed=False, a={"type": "array", "items": inner}, o=inner)
    text = '{"a":[{"x":1},{"x":2,"y":1.50},{"x":3}],"o":{"x":4,"z":null},"é.":{"k":[null]}}'
    batch, refused = JsonSchemaDecoder(schema).decode(framed(*[text] * 40))
    assert refused == []
    row = {
        "a": [{"x": 1}, {"x": 2}, {"x": 3}],
        "o": {"x": 4},
        REST: '{"a":[null,{"y":1.50}],"é.":{"k":[null]}}',
    }
    assert plain_rows(batch) == [row] * 40


def test_references_are_resolved_across_documents() -> None:
    """Schemas of other subjects are used by name."""
    schema = object_schema(p={"$ref": "person.json"}, q={"$ref": "person.json#/$defs/age"})
    person = {
        "type": "object",
        "properties": {"age": {"$ref": "#/$defs/age"}},
        "$defs": {"age": {"type": "integer"}},
    }
    decoder = JsonSchemaDecoder(schema, {"person.json": json.dumps(person)})
    batch, refused = decoder.decode(framed(*['{"p":{"age":3},"q":4}'] * 40))
    assert refused == []
    assert plain_rows(batch) == [{"p": {"age": 3}, "q": 4, REST: None}] * 40


def test_a_missing_reference_says_so() -> None:
    """A schema that nothing defines is an error that names it."""
    with pytest.raises(JsonSchemaError, match=r"'other\.json' refers to no schema"):
        JsonSchemaDecoder(object_schema(p={"$ref": "other.json"}))


def test_the_exact_engine_raises_refusals_only() -> None:
    """Its verdict is a reason, whatever the bytes."""
    decoder = JsonSchemaDecoder(STRING_AND_INT)
    with pytest.raises(Refusal, match="not UTF-8"):
        decoder.exact.row(b"\xff")


@pytest.mark.parametrize("every", [1, 3, 40, 100, 2_999])
@pytest.mark.parametrize("also", [{}, {"geo": {"s": 1}}], ids=["its own name", "a name of two meanings"])
def test_values_of_another_kind_are_named_however_many_there_are(every: int, also: dict[str, Any]) -> None:
    """Once one was met, the like are looked for in the text; neighbours and reasons stay as they are."""
    inner = {"type": "object", "properties": {"s": {"type": "integer"}}}
    ids = {"type": "array", "items": {"type": "string", "format": "uuid"}}
    decoder = JsonSchemaDecoder(object_schema(s={"type": "string"}, geo=inner, ids=ids))
    records = [{"s": "x", **also} if at % every else {"s": 5, **also} for at in range(3_000)]
    for _ in range(2):  # what it learned does no harm to the next batch
        batch, refused = decoder.decode(framed(*map(json.dumps, records)))
        assert [bad.index for bad in refused] == list(range(0, 3_000, every))
        assert {(bad.reason, bad.message) for bad in refused} == {
            ("json_type", "s: expected text, got the number 5")
        }
        assert plain_rows(batch.select(["s"])) == [{"s": "x"}] * (3_000 - len(refused))
