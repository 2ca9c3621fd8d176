"""JSON without a schema: nothing is lost, whatever the columns are, and the columns stabilise."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, DecimalType, IntegerType, ListType, LongType, NestedField, StringType

from tabletopic_kernel.formats.json.decoder import JsonDecoder
from tabletopic_kernel.formats.json.infer import MAX_COLUMNS, merged_columns, value_struct
from tabletopic_kernel.formats.json.types import REST, JsonType, ListOf, Struct, Text
from tabletopic_kernel.formats.rejection import NotRows
from tabletopic_kernel.model.columns.evolution import evolve
from tests.formats.damage import SCALE
from tests.formats.test_decode_json import exact_batch, fast_rows

CALM = settings(max_examples=60 * SCALE, report_multiple_bugs=False)
NOTHING = object()


def texts(*records: Any) -> pa.Array:
    """Records as Kafka values."""
    found = [record if isinstance(record, str) else json.dumps(record) for record in records]
    return pa.array([one.encode() for one in found], pa.binary())


def settled(known: Schema, values: pa.Array) -> tuple[JsonDecoder, pa.RecordBatch]:
    """Decode, evolving the table as often as the decoder requests, like a real table."""
    for _ in range(4):
        decoder = JsonDecoder(known)
        batch, refused = decoder.decode(values)
        assert refused == []
        if decoder.needed is None:
            return decoder, batch
        outcome = evolve(known, decoder.needed, known.highest_field_id)
        assert outcome.refused == {}
        assert outcome.changes
        known = outcome.schema
    raise AssertionError("the columns do not come to rest")


def columns_of(schema: Schema) -> dict[str, str]:
    """Column names and types."""
    return {column.name: str(column.field_type) for column in schema.fields}


def infer(*records: Any) -> dict[str, str]:
    """The columns created from these records alone."""
    return columns_of(settled(Schema(), texts(*records))[0].iceberg_schema)


def original(node: JsonType, value: Any, left: Any) -> Any:
    """The record represented by a row and its rest, without its nulls."""
    if value is None:
        return without_nulls(left)
    match node:
        case Text():
            return without_nulls(parsed(value))
        case ListOf(items, _):
            rests = left if isinstance(left, list) else []
            rests = rests + [NOTHING] * (len(value) - len(rests))
            pairs = zip(value, rests, strict=True)
            return [original(items, one, NOTHING if rest is None else rest) for one, rest in pairs]
        case Struct(fields):
            found = dict(left) if isinstance(left, dict) else {}
            for field in fields:
                found[field.key] = original(field.type, value[field.name], found.get(field.key, NOTHING))
            return without_nulls(found)
    assert left is NOTHING
    return Decimal(repr(value)) if isinstance(value, float) else value


def without_nulls(value: Any) -> Any:
    """Objects without null or empty properties; nulls in lists stay."""
    if isinstance(value, dict):
        kept = {k: without_nulls(v) for k, v in value.items() if v is not NOTHING}
        return {k: v for k, v in kept.items() if v is not None}
    if isinstance(value, list):
        return [without_nulls(one) for one in value]
    return None if value is NOTHING else value


def parsed(text: str) -> Any:
    """JSON with all its digits."""
    return json.loads(text, parse_int=Decimal, parse_float=Decimal)


KEYS = st.sampled_from(["a", "b", "A", "a.b", "a\0b", "", "_kafka_key", "_kafka_value_rest", "größe", "é"])
NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(10**40), 10**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.1, 1.5, 2.0**60]),
)
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, st.sampled_from(["", "x", "2026-01-01", "1"]))
ANY = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)
RECORDS = st.lists(st.one_of(st.dictionaries(KEYS, ANY, max_size=5), ANY), min_size=1, max_size=6)


@CALM
@given(RECORDS, RECORDS)
def test_rows_and_rest_together_are_the_records(first: list[Any], second: list[Any]) -> None:
    """Whatever came first, every record can be told again from its row, to the last digit."""
    decoder, _ = settled(Schema(), texts(*map(json.dumps, first)))
    decoder, batch = settled(decoder.iceberg_schema, texts(*map(json.dumps, second)))
    batch.validate(full=True)
    columns = value_struct(decoder.iceberg_schema)
    for row, record in zip(batch.to_pylist(), second, strict=True):
        rest = row.get(REST)
        left = NOTHING if rest is None else parsed(rest)
        is_object = rest is None or isinstance(left, dict)
        found = original(columns, row, left) if is_object else without_nulls(left)
        wanted = without_nulls(parsed(json.dumps(record)))
        assert found == ({} if wanted is None else wanted)


# Records of one shape, as a topic has them; now and then one that is another or none.
KINDS = st.sampled_from(
    [
        st.booleans(),
        st.integers(-3, 3),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(["", "x", "2026-01-01", "größe"]),
        st.lists(st.integers(0, 9) | st.none(), max_size=3),
        st.fixed_dictionaries({}, optional={"a": st.integers(), "b": st.sampled_from(["", "y"])}),
    ]
)
SHAPED = st.dictionaries(KEYS, KINDS, min_size=1, max_size=5).flatmap(
    lambda shape: st.tuples(
        st.fixed_dictionaries(shape), st.lists(st.fixed_dictionaries({}, optional=shape), max_size=5)
    ).map(lambda records: [records[0], *records[1]])
)
MOSTLY_SHAPED = st.tuples(SHAPED, st.lists(ANY, max_size=1)).map(lambda both: both[0] + both[1])


@CALM
@given(SHAPED | MOSTLY_SHAPED)
def test_both_engines_agree(records: list[Any]) -> None:
    """The fast engine gives the exact engine's rows, or suspects them."""
    values = texts(*map(json.dumps, records))
    decoder, _ = settled(Schema(), values)
    assume(decoder.fast is not None)
    wanted = exact_batch(decoder, values)
    try:
        found = fast_rows(decoder, values)
    except NotRows:
        reject()
    assert found.suspects is not None
    sure = np.flatnonzero(~found.suspects)
    assume(len(sure))
    assert found.batch.take(pa.array(sure, pa.int64())).to_pylist() == [wanted.to_pylist()[i] for i in sure]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([True, None, False], "boolean"),
        ([1, 2**63 - 1], "long"),
        ([1, 1.5], "double"),
        ([2**53 + 1, 1.5], "string"),
        ([1, 2**64], "decimal(38, 0)"),
        ([10**40 + 1], "string"),
        (["x", "2026-01-01"], "string"),
        (["x", 1], "string"),
        ([{"x": 1, "y": "t"}, {"x": 2}], "struct<2: x: optional long, 3: y: optional string>"),
        ([[1], [], [2.5, None]], "list<double>"),
        ([[1], ["x"]], "string"),
        ([[{"x": 1}]], "list<struct<3: x: optional long>>"),
        ([[[1]]], "list<list<long>>"),
        ([{"x": 1}, 1], "string"),
    ],
)
def test_the_type_of_a_column_holds_every_value(values: list[Any], kind: str) -> None:
    """One column, whatever the order of the values."""
    for order in (values, values[::-1]):
        assert infer(*({"f": value} for value in order)) == {"f": kind}


def test_numbers_that_no_column_holds_are_text() -> None:
    """More digits than a double has are kept, as JSON."""
    _, batch = settled(Schema(), texts('{"f":3.14159265358979323846}', '{"f":1}'))
    assert batch.to_pylist() == [{"f": "3.14159265358979323846"}, {"f": "1"}]


def test_values_of_unknown_type_make_no_column() -> None:
    """Nulls are absent; empty lists and objects wait in the rest for a column."""
    decoder, batch = settled(Schema(), texts({"n": None, "l": [], "o": {}, "x": 1}, {"x": 2}))
    assert columns_of(decoder.iceberg_schema) == {"x": "long", REST: "string"}
    assert batch.to_pylist() == [{"x": 1, REST: '{"l":[],"o":{}}'}, {"x": 2, REST: None}]


def test_a_column_of_a_table_keeps_its_type() -> None:
    """What does not fit stands in the rest, its column is null, and others are as they were."""
    first, _ = settled(Schema(), texts({"price": 5, "tags": [1]}))
    _, batch = settled(first.iceberg_schema, texts({"price": 5.99, "tags": [1, "x", 2]}, {"price": 6}))
    assert batch.to_pylist() == [
        {"price": None, "tags": [1, None, 2], REST: '{"price":5.99,"tags":[null,"x"]}'},
        {"price": 6, "tags": None, REST: None},
    ]


def test_what_iceberg_can_widen_is_widened() -> None:
    """A column int that somebody made becomes long when it must, one of dates takes dates."""
    known = Schema(
        NestedField(1, "n", IntegerType(), required=False),
        NestedField(2, "d", DateType(), required=False),
        NestedField(3, "m", DecimalType(9, 2), required=False),
    )
    decoder, batch = settled(known, texts({"n": 2**40, "d": "2026-01-31", "m": "39.59"}))
    assert decoder.iceberg_schema.find_type("n") == LongType()
    assert batch.to_pylist()[0]["m"] == Decimal("39.59")
    assert str(batch.to_pylist()[0]["d"]) == "2026-01-31"


def test_a_table_may_have_columns_that_json_cannot_fill() -> None:
    """Required elements and columns of others are no trouble: the value goes to the rest as a whole."""
    elements = ListType(2, LongType(), element_required=True)
    known = Schema(NestedField(1, "l", elements, required=False))
    _, batch = settled(known, texts({"l": [1, "x"]}, {"l": [1, 2]}))
    assert batch.to_pylist() == [{"l": None, REST: '{"l":[1,"x"]}'}, {"l": [1, 2], REST: None}]


def test_names_that_engines_cannot_tell_apart() -> None:
    """Columns differ by more than case, dots are gone, and the rows find their columns again."""
    decoder, batch = settled(Schema(), texts({"id": 1, "ID": 2, "a.b": 3, "": 4, "_kafka_key": 5}))
    assert list(columns_of(decoder.iceberg_schema)) == ["id", "ID_2", "a_b", "_", REST]
    assert batch.to_pylist() == [{"id": 1, "ID_2": 2, "a_b": 3, "_": 4, REST: '{"_kafka_key":5}'}]
    assert decoder.iceberg_schema.find_field("a_b", case_sensitive=True).doc == 'property "a.b"'


@pytest.mark.parametrize("count", [1, 200])  # one by one, and by the native reader
def test_a_name_with_nul_is_no_name_of_a_column(count: int) -> None:
    """Engines to which Arrow's columns are lent would read the name up to there."""
    decoder, batch = settled(Schema(), texts(*[{"a\0b": n, "in": {"\0": n}} for n in range(count)]))
    assert batch.to_pylist() == [{"a_b": n, "in": {"_": n}} for n in range(count)]
    assert decoder.iceberg_schema.find_field("a_b").doc == r'property "a\u0000b"'
    again, _ = settled(decoder.iceberg_schema, texts({"a\0b": 1, "in": {"\0": 1}}))
    assert again.iceberg_schema == decoder.iceberg_schema


def test_columns_have_a_budget() -> None:
    """Objects with ids for names fill the table to its limit, and the rest takes the rest."""
    records = [{"by_id": {f"k{i}": i}, "n": i} for i in range(MAX_COLUMNS + 200)]
    decoder, batch = settled(Schema(), texts(*records))
    by_id = decoder.iceberg_schema.find_type("by_id")
    assert len(by_id.fields) == MAX_COLUMNS - 1  # type: ignore[attr-defined]
    last = batch.to_pylist()[-1]
    assert (last["n"], last[REST]) == (
        MAX_COLUMNS + 199,
        json.dumps({"by_id": {f"k{MAX_COLUMNS + 199}": MAX_COLUMNS + 199}}, separators=(",", ":")),
    )


def test_a_second_look_is_enough() -> None:
    """What is asked for covers the records that asked: columns and, if one is left over, the rest."""
    values = texts({"x": 1, "y": [], "_kafka_key": 2}, {"x": 1.5}, "[1]")
    first = JsonDecoder(Schema())
    first.decode(values)
    assert first.needed is not None
    second = JsonDecoder(first.needed)
    assert second.decode(values)[0].num_rows == 3
    assert second.needed is None


def test_records_that_are_no_objects_are_rest() -> None:
    """Any JSON is a row; only null is a row of nothing."""
    _, batch = settled(Schema(), texts('{"x":1}', "[1, 2.50]", '"t"', "7", "null"))
    assert [row[REST] for row in batch.to_pylist()] == [None, "[1,2.50]", '"t"', "7", None]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"x":1', "json_syntax"),
        ("", "json_syntax"),
        ('{"x":1,"x":2}', "json_duplicate_key"),
        ('{"y":' + "[" * 200 + "]" * 200 + "}", "json_too_deep"),
        ('{"y":"\\ud800"}', "json_surrogate"),
        (b'{"y":"\xff"}', "json_utf8"),
    ],
)
def test_what_is_no_json_is_refused(text: str | bytes, reason: str) -> None:
    """With and without columns, alone and among others."""
    bad = text.encode() if isinstance(text, str) else text
    for known in (Schema(), Schema(NestedField(1, "x", LongType(), required=False))):
        for around in (0, 40):
            values = pa.array([b'{"x":1}'] * around + [bad] + [b'{"x":1}'] * around, pa.binary())
            _, refused = JsonDecoder(known).decode(values)
            assert [(r.index, r.reason) for r in refused] == [(around, reason)]


def test_deep_values_are_text() -> None:
    """Levels beyond those of a table are one column of JSON."""
    deep: Any = 1
    for _ in range(60):
        deep = {"d": deep}
    decoder, batch = settled(Schema(), texts(deep))
    assert JsonDecoder(decoder.iceberg_schema).decode(texts(deep))[1] == []
    assert original(value_struct(decoder.iceberg_schema), batch.to_pylist()[0], NOTHING) == parsed(
        json.dumps(deep)
    )


def test_needs_of_several_tasks_come_together() -> None:
    """Whatever the order: numbers meet in what holds both, other differences in JSON text."""
    known, _ = settled(Schema(), texts({"x": 1}))
    needs = []
    for record in ({"a": 1, "b": 1, "l": [1]}, {"a": 1.5, "b": "t", "l": ["t"], "x": "no"}, {"c": {"d": 1}}):
        decoder = JsonDecoder(known.iceberg_schema)
        decoder.decode(texts(record))
        assert decoder.needed is not None
        needs.append(decoder.needed)
    for order in (needs, needs[::-1]):
        merged = merged_columns(known.iceberg_schema, order)
        types = {name: kind.split("<")[0] for name, kind in columns_of(merged).items()}
        assert types == {
            "x": "long",
            "a": "double",
            "b": "string",
            "l": "string",
            REST: "string",
            "c": "struct",
        }
        assert evolve(known.iceberg_schema, merged, 100).refused == {}
        assert isinstance(merged.find_type("b"), StringType)
