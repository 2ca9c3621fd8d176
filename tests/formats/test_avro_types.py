"""Iceberg types of Avro schemas, and those as Arrow has them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.types import (
    BinaryType,
    FixedType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from tabletopic_kernel.formats.arrays import arrow_schema_of
from tabletopic_kernel.formats.avro import definitions as definitions_of
from tabletopic_kernel.formats.avro.definitions import MAX_DEPTH, AvroSchemaError
from tabletopic_kernel.formats.avro.schema import parse
from tabletopic_kernel.formats.avro.types import iceberg_schema_of
from tests.formats.avro_cases import row_schema, rows


def iceberg_of(text: str, references: dict[str, str] | None = None) -> Schema:
    """The Iceberg schema of an Avro schema's text."""
    return iceberg_schema_of(parse(text, references))


def column(kind: Any, references: dict[str, str] | None = None) -> NestedField:
    """The column of one field."""
    return iceberg_of(row_schema(kind), references).fields[0]


def logical(base: str, name: str, **more: Any) -> dict[str, Any]:
    """A type with a logical type."""
    return {"type": base, "logicalType": name, **more}


def fixed(size: int, **more: Any) -> dict[str, Any]:
    """A fixed type."""
    return {"type": "fixed", "name": "F", "size": size, **more}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (logical("int", "timestamp-millis"), IntegerType()),
        (logical("string", "date"), StringType()),
        (logical("bytes", "uuid"), BinaryType()),
        (logical("bytes", "big-decimal"), BinaryType()),
        (logical("bytes", "decimal"), BinaryType()),
        (logical("bytes", "decimal", precision=0), BinaryType()),
        (logical("bytes", "decimal", precision=True), BinaryType()),
        (logical("bytes", "decimal", precision=2, scale=3), BinaryType()),
        (logical("bytes", "decimal", precision=2, scale=-1), BinaryType()),
        (logical("bytes", "decimal", precision=5_000), BinaryType()),
        (fixed(4, logicalType="decimal", precision=10), FixedType(4)),
        (fixed(15, logicalType="uuid"), FixedType(15)),
        (fixed(11, logicalType="duration"), FixedType(11)),
        (logical("long", "no-such-type"), LongType()),
    ],
)
def test_invalid_logical_types_are_ignored(kind: Any, expected: IcebergType) -> None:
    """A logical type that does not fit, or has bad attributes, leaves the base type (Avro 1.12)."""
    assert column(kind).field_type == expected


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (["null", "int"], "optional int"),
        (["int", "null"], "optional int"),
        (["int"], "required int"),
        (["null"], "optional string"),
        ("null", "optional string"),
        ([], "required string"),
        (["null", "int", "string"], "optional struct<2: int: optional int, 3: string: optional string>"),
        (["int", "string"], "required struct<2: int: optional int, 3: string: optional string>"),
        ({"type": "array", "items": ["null", "int"]}, "required list<int>"),
        ({"type": "map", "values": "int"}, "required map<string, int>"),
        (
            fixed(12, logicalType="duration"),
            "required struct<2: months: required long, 3: days: required long, 4: millis: required long>",
        ),
        ({"type": "record", "name": "E", "fields": []}, "required string"),
    ],
)
def test_unions_and_nullability(kind: Any, text: str) -> None:
    """Null makes a column optional in any position; other unions become a struct of branches."""
    assert str(column(kind)) == f"1: f0: {text}"


@pytest.mark.parametrize("required", [True, False])
def test_elements_and_values_carry_their_own_nullability(required: bool) -> None:
    """A list's elements and a map's values are required unless their type has null."""
    inner = "int" if required else ["int", "null"]
    listed, mapped = column({"type": "array", "items": inner}), column({"type": "map", "values": inner})
    assert isinstance(listed.field_type, ListType)
    assert listed.field_type.element_required is required
    assert isinstance(mapped.field_type, MapType)
    assert mapped.field_type.value_required is required


def test_branches_of_named_types_have_their_short_names() -> None:
    """Named branches drop their namespace, unless two would then be called the same."""
    records = [{"type": "enum", "name": name, "symbols": ["A"]} for name in ("a.X", "b.X", "a.Y", "a_b.X")]
    kind = column(["null", *records, {"type": "array", "items": "int"}]).field_type
    assert isinstance(kind, StructType)
    assert [field.name for field in kind.fields] == ["a_X", "b_X", "Y", "a_b_X", "array"]


def test_branch_names_are_unique_whatever_the_namespaces() -> None:
    """Two full names that are one with underscores for dots get different columns."""
    names = ("a.b_X", "c.b_X", "a.b.X", "c.X", "a_b.X", "a.b_X_")
    kind = column([{"type": "enum", "name": n, "symbols": ["A"]} for n in names]).field_type
    assert isinstance(kind, StructType)
    assert len({field.name for field in kind.fields}) == len(names)


def test_ids_are_assigned_depth_first_and_docs_are_kept() -> None:
    """Parents before children, children before the next sibling; a field's doc is the column's."""
    schema = {
        "type": "record",
        "name": "R",
        "doc": "not a column",
        "fields": [
            {
                "name": "a",
                "type": {"type": "array", "items": {"type": "map", "values": "int"}},
                "doc": "first",
            },
            {
                "name": "b",
                "type": ["null", {"type": "record", "name": "N", "fields": [{"name": "c", "type": "int"}]}],
            },
            {"name": "d", "type": "string", "doc": ""},
        ],
    }
    found = iceberg_of(json.dumps(schema))
    inner = MapType(
        key_id=3, key_type=StringType(), value_id=4, value_type=IntegerType(), value_required=True
    )
    assert found == Schema(
        NestedField(1, "a", ListType(2, inner, element_required=True), required=True, doc="first"),
        NestedField(5, "b", StructType(NestedField(6, "c", IntegerType(), required=True)), required=False),
        NestedField(7, "d", StringType(), required=True),
    )


def test_a_record_within_itself_is_json_everywhere_but_on_top() -> None:
    """The top-level record keeps its columns; a recursive one below is JSON from the first step."""
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    assert str(iceberg_of(json.dumps(node)).fields[0]) == "1: next: optional string"
    assert str(column(node)) == "1: f0: required string"
    assert str(column({"type": "array", "items": node})) == "1: f0: required list<string>"


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20))
def test_records_are_recursive_that_reach_themselves(arrows: list[tuple[int, int]]) -> None:
    """In any graph of records, compared with a search from each."""
    uses = {str(name): [f"r{used}" for user, used in arrows if user == name] for name in range(8)}
    definitions: dict[str, tuple[dict[str, Any], str]] = {
        f"r{name}": ({"type": "record", "name": f"r{name}", "fields": [{"type": one} for one in used]}, "")
        for name, used in uses.items()
    }

    def reaches(start: str) -> set[str]:
        reached, todo = set[str](), [start]
        while todo:
            more = set(uses[todo.pop()[1:]]) - reached
            reached |= more
            todo.extend(more)
        return reached

    assert definitions_of.cyclic_names(definitions) == {name for name in definitions if name in reaches(name)}


def test_each_named_type_is_looked_at_once() -> None:
    """A schema within the registry's limits has tens of thousands; a square of that takes minutes."""
    asked: list[str] = []

    class Arrows(dict[str, list[str]]):
        def __getitem__(self, name: str) -> list[str]:
            asked.append(name)
            return super().__getitem__(name)

    arrows, seen = Arrows({str(name): [str(name + 1)] for name in range(99)} | {"99": []}), set[str]()
    order = [name for start in arrows for name in definitions_of.reach(start, arrows, seen)]
    assert order == [str(name) for name in reversed(range(100))]
    assert len(asked) == 100


def test_namespaces_of_references() -> None:
    """A reference's own names are found in its namespace, or in none."""
    references = {
        "x": json.dumps({"type": "record", "name": "a.X", "fields": [{"name": "y", "type": "Y"}]}),
        "y": json.dumps({"type": "enum", "name": "Y", "namespace": "a", "symbols": ["S"]}),
    }
    assert str(column("a.X", references)) == "1: f0: required struct<2: y: required string>"


@pytest.mark.parametrize(
    "schema", ['"long"', "long", '["null", "long"]', '{"type": "record", "name": "R", "fields": []}']
)
def test_a_top_level_that_is_no_record_is_one_column(schema: str) -> None:
    """Anything but a record with fields becomes the column _kafka_value."""
    assert [field.name for field in iceberg_of(schema).fields] == ["_kafka_value"]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "is not JSON"),
        ("7", "is not an Avro type"),
        (row_schema(None), "is not an Avro type"),
        (row_schema("nothing"), "'nothing' is not defined"),
        (row_schema({"type": "enum", "name": "E"}), "no list of symbols"),
        (row_schema({"type": "fixed", "name": "F"}), "no valid size"),
        (row_schema({"type": "fixed", "size": 3}), "has no name"),
        (row_schema({"type": "array"}), "is not an Avro type"),
        (row_schema(["int", "int"]), "the same type twice"),
        (row_schema(["int", ["null", "string"]]), "another union"),
        (json.dumps({"type": "record", "name": "R"}), "no list of named fields"),
        (
            json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}] * 2}),
            "two fields of the same name",
        ),
    ],
)
def test_invalid_schemas_say_what_is_wrong(schema: str, message: str) -> None:
    """A schema that is not Avro is an error for a person, not a guess."""
    with pytest.raises(AvroSchemaError, match=message):
        iceberg_of(schema)


def test_schemas_without_end_are_refused() -> None:
    """Nesting and repeated references cannot make a schema of unbounded size."""
    deep: Any = "int"
    for _ in range(MAX_DEPTH + 1):
        deep = {"type": "array", "items": deep}
    with pytest.raises(AvroSchemaError, match="nests deeper"):
        column(deep)
    wide = [{"type": "record", "name": "R0", "fields": [{"name": "x", "type": "int"}]}]
    for i in range(1, 20):
        twice = [{"name": n, "type": f"R{i - 1}"} for n in "ab"]
        wide.append({"type": "record", "name": f"R{i}", "fields": twice})
    references = {str(i): json.dumps(record) for i, record in enumerate(wide)}
    with pytest.raises(AvroSchemaError, match="more than"):
        iceberg_of(json.dumps("R19"), references)


@settings(max_examples=25)
@given(rows(max_records=1))
def test_arrow_types_are_those_of_pyiceberg(drawn: Any) -> None:
    """The Arrow schema is PyIceberg's own, and the ids are 1 to n."""
    schema = iceberg_of(json.dumps(drawn[0].schema))
    assert arrow_schema_of(schema).equals(
        schema_to_pyarrow(schema, include_field_ids=False), check_metadata=True
    )
    assert sorted(index_by_id(schema)) == list(range(1, len(index_by_id(schema)) + 1))


def test_fields_that_iceberg_cannot_tell_apart() -> None:
    """A name with a dot that is also the path of another field is said to be the trouble."""
    inner = {"type": "record", "name": "In", "fields": [{"name": "b", "type": "int"}]}
    fields = [{"name": "a", "type": inner}, {"name": "a.b", "type": "int"}]
    with pytest.raises(AvroSchemaError, match="without dots"):
        iceberg_of(json.dumps({"type": "record", "name": "Row", "fields": fields}))
