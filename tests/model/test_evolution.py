"""Schema evolution: add, relax, widen at every depth; everything else refused."""

import itertools

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from tabletopic_kernel.model.columns.evolution import METADATA, evolve
from tabletopic_kernel.model.columns.table_columns import table_schema
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.sections import TopicSettings

SETTINGS = TopicSettings()
PRIMITIVES: list[IcebergType] = [
    BooleanType(), IntegerType(), LongType(), FloatType(), DoubleType(), StringType(), DecimalType(9, 2),
    DecimalType(12, 2), DecimalType(12, 3), FixedType(4), BinaryType(),
]  # fmt: skip
WIDER = {(IntegerType(), LongType()), (FloatType(), DoubleType()), (DecimalType(9, 2), DecimalType(12, 2))}
# What a column has room for without becoming another one, though it could not become that.
ROOM = {
    (IntegerType(), DoubleType()),
    (IntegerType(), DecimalType(12, 2)),
    (DecimalType(9, 2), DecimalType(12, 3)),
    (FixedType(4), BinaryType()),
}

FEW = settings(max_examples=40)


def _schema(*columns: tuple[str, IcebergType, bool]) -> Schema:
    return Schema(*(NestedField(i, n, t, required=r) for i, (n, t, r) in enumerate(columns, 1)))


def _evolve(table: Schema, writer: Schema) -> tuple[Schema, list[str], dict[str, str]]:
    outcome = evolve(table, writer, table.highest_field_id)
    return outcome.schema, [str(change) for change in outcome.changes], outcome.refused


@pytest.mark.parametrize("where", ["column", "struct", "element", "value"])
def test_every_pair_of_primitives_at_every_depth(where: str) -> None:
    """Equal types and those there is room for need nothing, wider ones widen, others are refused."""

    def wrap(kind: IcebergType) -> Schema:
        nested: IcebergType = {
            "column": kind,
            "struct": StructType(NestedField(2, "x", kind, required=True)),
            "element": ListType(2, kind, element_required=True),
            "value": MapType(2, StringType(), 3, kind, value_required=True),
        }[where]
        return _schema(("c", nested, True))

    for before, after in itertools.product(PRIMITIVES, PRIMITIVES):
        schema, changes, refused = _evolve(wrap(before), wrap(after))
        if (before, after) in WIDER:
            assert schema == wrap(after)
            assert len(changes) == 1
            assert "widen" in changes[0]
        else:
            assert schema == wrap(before)
            assert changes == []
            assert bool(refused) == (before != after and (after, before) not in WIDER | ROOM), (before, after)


@st.composite
def _types(draw: st.DrawFn, depth: int = 3) -> IcebergType:
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(PRIMITIVES))
    kind = draw(st.sampled_from(["struct", "list", "map"]))
    if kind == "struct":
        return draw(_structs(depth - 1))
    inner = draw(_types(depth - 1))
    if kind == "list":
        return ListType(1, inner, element_required=draw(st.booleans()))
    return MapType(1, StringType(), 2, inner, value_required=draw(st.booleans()))


@st.composite
def _structs(draw: st.DrawFn, depth: int = 2) -> StructType:
    names = draw(st.lists(st.sampled_from("abcde"), unique=True, min_size=1))
    return StructType(
        *(NestedField(1, name, draw(_types(depth)), required=draw(st.booleans())) for name in names)
    )


_SCHEMAS = _structs().map(lambda struct: Schema(*struct.fields))


@FEW
@given(_SCHEMAS)
def test_a_new_table_covers_its_own_schema(writer: Schema) -> None:
    """A table made from a schema needs no change to take that schema's records."""
    table = table_schema(writer, SETTINGS)
    schema, changes, refused = _evolve(table, writer)
    assert (schema, changes, refused) == (table, [], {})


def _later(draw: st.DrawFn, kind: IcebergType, widened: list[IcebergType]) -> IcebergType:
    """A type that has room for all of ``kind``, mostly with something wider in it."""
    match kind:
        case StructType():
            # A struct without fields is none to PyIceberg.
            kept = [one for one in kind.fields if draw(st.integers(0, 9)) < 9] or kind.fields[:1]
            there = {field.name for field in kind.fields}
            added = draw(_structs(0)).fields if draw(st.booleans()) else ()
            fields = [
                NestedField(1, one.name, _later(draw, one.field_type, widened), required=draw(st.booleans()))
                for one in kept
            ]
            return StructType(*fields, *(one for one in added if one.name not in there))
        case ListType():
            inner = _later(draw, kind.element_type, widened)
            return ListType(1, inner, element_required=draw(st.booleans()))
        case MapType():
            inner = _later(draw, kind.value_type, widened)
            return MapType(1, StringType(), 2, inner, value_required=draw(st.booleans()))
    wider = [after for before, after in WIDER if before == kind]
    if not wider or draw(st.integers(0, 3)) == 3:
        return kind
    widened.append(kind)
    return wider[0]


@st.composite
def _versions(draw: st.DrawFn) -> tuple[Schema, Schema, int]:
    """Two versions of a schema, and how many types are wider in the second."""
    number = NestedField(1, "f", draw(st.sampled_from([IntegerType(), FloatType(), DecimalType(9, 2)])))
    first, widened = StructType(*draw(_structs()).fields, number), list[IcebergType]()
    second = _later(draw, first, widened)
    assert isinstance(second, StructType)
    return Schema(*first.fields), Schema(*second.fields), len(widened)


@FEW
@given(_versions())
def test_evolution_settles_after_one_round(versions: tuple[Schema, Schema, int]) -> None:
    """Each wider type widens its column; then both versions fit without a further change."""
    first, second, widened = versions
    assume(widened)
    table = table_schema(first, SETTINGS)
    schema, changes, refused = _evolve(table, second)
    assert refused == {}
    assert sum(change.startswith("widen ") for change in changes) == widened
    assert _evolve(schema, second) == (schema, [], {})
    assert _evolve(schema, first)[2] == {}


@FEW
@given(_SCHEMAS, _SCHEMAS)
def test_what_does_not_fit_changes_nothing_twice(first: Schema, second: Schema) -> None:
    """Whatever the two have to do with each other, the second round has no change."""
    schema, _, refused = _evolve(table_schema(first, SETTINGS), second)
    assert _evolve(schema, second) == (schema, [], refused)


@FEW
@given(_SCHEMAS, _SCHEMAS)
def test_field_ids_stay_and_are_unique(first: Schema, second: Schema) -> None:
    """A column keeps its id for ever, new ones get ids that were never used."""
    table = table_schema(first, SETTINGS)
    schema, _, _ = _evolve(table, second)
    before = {name: table.find_field(name).field_id for name in table.column_names}
    after = {name: schema.find_field(name).field_id for name in schema.column_names}
    assert {name: after[name] for name in before} == before
    assert len(set(after.values())) == len(after)
    assert all(i > table.highest_field_id for name, i in after.items() if name not in before)


def test_columns_of_fields_that_come_and_go() -> None:
    """Soft drop keeps old rows; an added one is optional; metadata columns are not taken for removed."""
    table = _schema(("a", IntegerType(), True), ("b", IntegerType(), True))
    schema, changes, _ = _evolve(table, _schema(("a", IntegerType(), True)))
    assert changes == ["relax b to optional"]
    assert schema.find_field("b").optional
    table = _schema(("a", IntegerType(), True))
    schema, changes, _ = _evolve(table, _schema(("a", IntegerType(), True), ("b", LongType(), True)))
    assert changes == ["add b long"]
    assert schema.find_field("b").optional
    table = table_schema(_schema(("a", IntegerType(), True)), SETTINGS)
    assert _evolve(table, _schema(("a", IntegerType(), True))) == (table, [], {})
    assert METADATA in table.column_names
    table = table_schema(_schema(("a", IntegerType(), True), ("b", StringType(), False)), SETTINGS)
    schema, changes, _ = _evolve(table, Schema())
    assert changes == ["relax a to optional"]
    assert not any(column.required for column in schema.fields)


def test_a_clash_with_a_metadata_column_is_refused_and_can_be_switched_off() -> None:
    """A value field named like a metadata column needs that column off."""
    writer = _schema((METADATA, IntegerType(), True))
    with pytest.raises(UsageError, match="metadata_columns"):
        table_schema(writer, SETTINGS)
    off = TopicSettings(metadata_columns=("key", "header"))
    assert table_schema(writer, off).find_field(METADATA).field_type == IntegerType()


def _columns(**types: IcebergType) -> Schema:
    fields = [NestedField(at, name, kind, required=True) for at, (name, kind) in enumerate(types.items(), 1)]
    return Schema(*fields)


def _struct(**types: IcebergType) -> StructType:
    return _columns(**types).as_struct()


@pytest.mark.parametrize(
    ("table", "writer", "renames"),
    [
        ({"a": IntegerType()}, {"a": StringType()}, {"a": "a_string"}),
        ({"a": IntegerType()}, {"a": DecimalType(9, 2)}, {"a": "a_decimal_9_2"}),
        ({"a": LongType()}, {"a": _struct(x=IntegerType())}, {"a": "a_struct"}),
        ({"s": _struct(x=IntegerType())}, {"s": _struct(x=StringType())}, {"s.x": "x_string"}),
        ({"l": ListType(9, IntegerType())}, {"l": ListType(9, StringType())}, {"l": "l_list_string"}),
        (
            {"l": ListType(9, _struct(x=IntegerType()))},
            {"l": ListType(9, _struct(x=StringType()))},
            {"l.element.x": "x_string"},
        ),
        ({"a": IntegerType()}, {"a": LongType()}, {}),
    ],
)
def test_a_field_that_does_not_fit_gets_a_column_of_its_own(
    table: dict[str, IcebergType], writer: dict[str, IcebergType], renames: dict[str, str]
) -> None:
    """Where that is wished nothing is refused, the old column stays, and so it does the next time."""
    before = _columns(**table)
    first = evolve(before, _columns(**writer), 100, new_columns=True)
    assert (first.refused, first.renames) == ({}, renames)
    for path, name in renames.items():
        assert first.schema.find_field(path.rpartition(".")[0] + "." * ("." in path) + name)
    again = evolve(first.schema, _columns(**writer), 200, new_columns=True)
    assert (again.changes, again.refused, again.renames) == ((), {}, renames)
    back = evolve(first.schema, before, 200, new_columns=True)
    assert (back.changes, back.refused, back.renames) == ((), {}, {})


def test_names_and_aliases_that_are_taken() -> None:
    """The first takes the column; a field goes back to the one that had its name."""
    writer = _columns(a=StringType(), a_string=StringType())
    outcome = evolve(_columns(a=IntegerType()), writer, 100, new_columns=True)
    assert set(outcome.refused) == {"a"}
    writer = _columns(b=IntegerType(), c=IntegerType())
    outcome = evolve(_columns(a=IntegerType()), writer, 1, aliases={"b": ("a",), "c": ("a",)})
    assert [str(change) for change in outcome.changes] == ["rename a to b", "add c int"]
    assert outcome.former == {1: ("a",), 2: ("a",)}
    inner = StructType(NestedField(4, "y", IntegerType()), NestedField(5, "x", IntegerType()))
    swapped = _columns(b=IntegerType(), a=IntegerType(), s=inner)
    aliases = {"b": ("a",), "a": ("b",), "s.y": ("x",)}
    first = evolve(_columns(a=IntegerType(), b=IntegerType()), swapped, 2, aliases=aliases)
    assert first.former == {}
    renamed = evolve(first.schema, _columns(c=IntegerType()), 9, aliases={"c": ("a",)}, former=first.former)
    back = evolve(renamed.schema, _columns(a=IntegerType()), 9, former=renamed.former)
    assert back.renames == {"a": "c"}


def test_a_new_column_has_a_name_of_its_own() -> None:
    """Not a partition field's nor a metadata column's; dots and empty names are told apart."""
    table = _columns(town=StringType())
    writer = _columns(town=StringType(), town_day=IntegerType())
    outcome = evolve(table, writer, 1, partition_names={"town_day": 1, "town": 1})
    assert [column.name for column in outcome.schema.fields] == ["town", "town_day_2"]
    assert outcome.schema.find_field("town_day_2").doc == 'field "town_day"'
    assert outcome.renames == {"town_day": "town_day_2"}
    again = evolve(outcome.schema, writer, 2, partition_names={"town_day": 1, "town": 1})
    assert (again.changes, again.renames) == ((), outcome.renames)
    inner = StructType(NestedField(2, "x.y", IntegerType(), required=True))
    writer = Schema(
        NestedField(1, "a", inner, required=True),
        NestedField(3, "c.d", StringType(), required=True),
        NestedField(4, "", StringType(), required=True),
    )
    table = table_schema(writer, SETTINGS)
    assert {"a", "a.x_y", "c_d", "_"} <= set(table.column_names)
    outcome = evolve(table, writer, table.highest_field_id)
    assert (outcome.changes, outcome.refused) == ((), {})
    assert outcome.renames == {"a.x\\.y": "x_y", "c\\.d": "c_d", "": "_"}
