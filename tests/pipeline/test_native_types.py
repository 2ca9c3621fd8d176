"""Values become what their names in Kafka Connect mean, whatever the unit that they are sent in."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import (
    BinaryType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from tabletopic_kernel.formats.arrays import MAX_DAY, MIN_DAY, arrow_schema_of
from tabletopic_kernel.formats.avro.schema import Array, Primitive, Record, Union, parse
from tabletopic_kernel.model.columns.evolution import VALUE
from tabletopic_kernel.model.columns.table_columns import table_schema
from tabletopic_kernel.model.columns.types import doc_with_meaning
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_names import table_identifier
from tabletopic_kernel.pipeline.transform.transform import make_step
from tabletopic_kernel.table.draft import with_types_of
from tabletopic_kernel.table.topic_table import TYPES_PROPERTY, TopicTable
from tests.pipeline.test_debezium import COLUMNS, MORE, envelope, event
from tests.pipeline.whole_path import Path, avro_values
from tests.table.samples import FakeRegistry

TIME, DATA, CONNECT = "io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data."
DAY_US = 86_400_000_000
EPOCH = datetime(1970, 1, 1)


def named(kind: str, name: str, **more: Any) -> dict[str, Any]:
    """An Avro type as Connect's converters write it."""
    return {"type": kind, "connect.version": 1, "connect.name": name, **more}


_VARIABLE = {
    "type": "record",
    "name": "VariableScaleDecimal",
    "namespace": "io.debezium.data",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
    "connect.name": f"{DATA}VariableScaleDecimal",
}
MOMENT = datetime(2026, 3, 1, 10, 0, 0, 1)
MOMENT_MS = datetime(2026, 3, 1, 10)
US = 1_772_359_200_000_001
# The type as sent, a value, the table's type and the value in it.
TYPES: dict[str, tuple[Any, Any, str, Any]] = {
    "decimal_of_40_digits": (
        named("bytes", f"{CONNECT}Decimal", logicalType="decimal", precision=40, scale=3)
        | {"connect.parameters": {"scale": "3", "connect.decimal.precision": "40"}},
        Decimal("9999999999999999999999999999999999999.999"),
        "string",
        "9999999999999999999999999999999999999.999",
    ),
    "date": (named("int", f"{TIME}Date"), 20_513, "date", date(2026, 3, 1)),
    "time": (named("int", f"{TIME}Time"), 43_200_001, "time", time(12, 0, 0, 1000)),
    "micro_time": (named("long", f"{TIME}MicroTime"), 43_200_000_001, "time", time(12, 0, 0, 1)),
    "nano_time": (named("long", f"{TIME}NanoTime"), 43_200_000_001_000, "time", time(12, 0, 0, 1)),
    "timestamp": (named("long", f"{TIME}Timestamp"), US // 1000, "timestamp", MOMENT_MS),
    "micro_timestamp": (named("long", f"{TIME}MicroTimestamp"), US, "timestamp", MOMENT),
    "nano_timestamp": (named("long", f"{TIME}NanoTimestamp"), US * 1000, "timestamp", MOMENT),
    "zoned": (
        named("string", f"{TIME}ZonedTimestamp"),
        "2026-03-01T10:00:00.000001Z",
        "timestamptz",
        MOMENT.replace(tzinfo=UTC),
    ),
    "zoned_time": (named("string", f"{TIME}ZonedTime"), "10:00:00Z", "string", "10:00:00Z"),
    "interval": (named("long", f"{TIME}MicroDuration"), 5, "long", 5),
    "year": (named("int", f"{TIME}Year"), 2026, "int", 2026),
    "connect_date": (
        named("int", f"{CONNECT}Date", logicalType="date"),
        20_513,
        "date",
        date(2026, 3, 1),
    ),
    "connect_time": (
        named("int", f"{CONNECT}Time", logicalType="time-millis"),
        43_200_001,
        "time",
        time(12, 0, 0, 1000),
    ),
    "connect_timestamp": (
        named("long", f"{CONNECT}Timestamp", logicalType="timestamp-millis"),
        US // 1000,
        "timestamptz",
        MOMENT_MS.replace(tzinfo=UTC),
    ),
    "decimal": (MORE["type"][1], b"\x01\xbc", "decimal(9, 2)", Decimal("4.44")),
    "variable": (_VARIABLE, {"scale": 3, "value": b"\x03\xe9"}, "string", "1.001"),
    "again": (f"{DATA}VariableScaleDecimal", {"scale": 0, "value": b"\xff"}, "string", "-1"),
    "uuid": (
        named("string", f"{DATA}Uuid"),
        "0f0e0d0c-0b0a-0908-0706-050403020100",
        "uuid",
        UUID("0f0e0d0c-0b0a-0908-0706-050403020100"),
    ),
    "json": (named("string", f"{DATA}Json"), '{"a":1}', "string", '{"a":1}'),
    "xml": (named("string", f"{DATA}Xml"), "<a/>", "string", "<a/>"),
    "enum": (named("string", f"{DATA}Enum"), "a", "string", "a"),
    "bits": (named("bytes", f"{DATA}Bits"), b"\x05", "binary", b"\x05"),
    "dates": (
        {"type": "array", "items": ["null", named("int", f"{TIME}Date")]},
        [20_513, None],
        "list<date>",
        [date(2026, 3, 1), None],
    ),
    "uuids": (
        {"type": "array", "items": named("string", f"{DATA}Uuid")},
        ["0f0e0d0c-0b0a-0908-0706-050403020100"],
        "list<uuid>",
        [UUID("0f0e0d0c-0b0a-0908-0706-050403020100")],
    ),
    "by_name": (
        {"type": "map", "values": named("long", f"{TIME}Timestamp")},
        {"a": US // 1000},
        "map<string, timestamp>",
        [("a", MOMENT_MS)],
    ),
}


def column(name: str) -> dict[str, Any]:
    """A nullable column of the source's table."""
    return {"name": name, "type": ["null", TYPES[name][0]], "default": None}


def flat(*columns: dict[str, Any]) -> dict[str, Any]:
    """The schema of flat events, as ExtractNewRecordState makes them."""
    return {"type": "record", "name": "Value", "namespace": "pg.t", "fields": list(columns)}


@pytest.mark.parametrize("transform", ["flatten_debezium", "flatten"])
@pytest.mark.parametrize("count", [3, 100])
def test_each_type_in_avro(catalog: Catalog, transform: Any, count: int) -> None:
    """The table has the type that the name means, for both engines, events and flat rows, nulls included."""
    columns = [COLUMNS[0], *map(column, TYPES)]
    row = {"id": 1} | {name: TYPES[name][1] for name in TYPES}
    rows = [row, {"id": 2} | dict.fromkeys(TYPES)] * (count // 2 + 1)
    schema = envelope(*columns) if transform == "flatten_debezium" else flat(*columns)
    records = [event("c", None, one) for one in rows] if transform == "flatten_debezium" else rows
    path = Path(catalog, TopicSettings(transform=transform), FakeRegistry({1: json.dumps(schema)}))
    made = path.send(*avro_values(1, schema, *records))
    assert path.dead_letters == {}
    types = {name: kind for name, kind in path.columns().items() if name in TYPES}
    assert types == {name: kind for name, (_, _, kind, _) in TYPES.items()}
    assert {name: made[0][name] for name in TYPES} == {name: value for name, (*_, value) in TYPES.items()}
    assert {name: made[-1][name] for name in TYPES} == dict.fromkeys(TYPES)
    assert (len(made), made[0] | {"@": 0, "_cdc": 0}) == (len(rows), made[2] | {"@": 0, "_cdc": 0})
    docs = {field.name: field.doc for field in path.keeper.needed_table().table.schema().fields}
    assert (docs["micro_timestamp"], docs["interval"]) == (None, f"connect.name {TIME}MicroDuration")


def test_one_of_several_avro_types_keeps_its_logical_type() -> None:
    """Its column has no doc for a name, and neither has a whole value; fields beside and in it have one."""
    moment = named("long", f"{CONNECT}Timestamp", logicalType="timestamp-millis")
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "at", "type": moment}]}
    several = ["null", moment, "string", {"type": "array", "items": moment}, inner]
    fields = [{"name": "u", "type": several}, {"name": "at", "type": ["null", moment]}]
    root = parse(json.dumps({"type": "record", "name": "R", "fields": fields}), by_name=True).root
    logical, plain = Primitive("long", "timestamp-millis"), Primitive("long")
    assert isinstance(root, Record)
    union = root.fields[0].type
    assert isinstance(union, Union)
    assert (union.branches[1], union.branches[3]) == (logical, Array(logical))
    assert isinstance(record := union.branches[4], Record)
    assert [record.fields[0].type, root.fields[1].type] == [plain, Union((Primitive("null"), plain))]
    whole = parse(json.dumps(["null", moment]), by_name=True).root
    assert whole == Union((Primitive("null"), logical))


UNITS = [("timestamp", 1000), ("micro_timestamp", 1_000_000), ("nano_timestamp", 1_000_000_000)]


@pytest.mark.parametrize("before", UNITS)
@pytest.mark.parametrize("after", UNITS)
def test_another_unit_of_one_moment_is_the_same_value(
    catalog: Catalog, before: tuple[str, int], after: tuple[str, int]
) -> None:
    """ALTER TABLE … TYPE timestamp(6) changes the unit that is sent, and nothing in the table."""
    schemas = [
        envelope(COLUMNS[0], {**column(name), "name": "at"}) for name in (before[0], after[0], before[0])
    ]
    path = Path(
        catalog,
        TopicSettings(transform="flatten_debezium"),
        FakeRegistry({at: json.dumps(one) for at, one in enumerate(schemas, 1)}),
    )
    for at, (schema, (_, per_second)) in enumerate(
        zip(schemas, (before, after, before), strict=True), start=1
    ):
        change = event("u", None, {"id": at, "at": 1_772_359_200 * per_second})
        (row,) = path.send(*avro_values(at, schema, change))
        assert row["at"] == MOMENT_MS
    assert path.columns().keys() == {"id", "at", "_cdc"}
    assert path.control.types() == ["SchemaEvolved"]


@pytest.mark.parametrize("how", ["dead_letter", "new_column"])
def test_another_meaning_is_another_type(catalog: Catalog, how: Any) -> None:
    """A date does not become a timestamp in place: its records are refused, or get a column."""
    old, new = (envelope(COLUMNS[0], {**column(name), "name": "at"}) for name in ("date", "micro_timestamp"))
    path = Path(
        catalog,
        TopicSettings(transform="flatten_debezium", on_incompatible=how),
        FakeRegistry({1: json.dumps(old)}),
    )
    path.send(*avro_values(1, old, event("c", None, {"id": 1, "at": 20_513})))
    path.registry.schemas[2] = json.dumps(new)
    rows = path.send(*avro_values(2, new, event("c", None, {"id": 2, "at": US})))
    if how == "dead_letter":
        assert path.dead_letters == {1: "incompatible_schema"}
        assert "is date in the table and timestamp in the new schema" in path.messages[1]
    else:
        assert (rows[0]["at"], rows[0]["at_timestamp"]) == (None, MOMENT)


BEYOND: list[tuple[str, Any]] = [
    ("date", -719_163),
    ("date", 2_932_897),
    ("date", -2_147_472_692),
    ("time", 86_400_000),
    ("micro_time", 86_400_000_000),
    ("nano_time", -1),
    ("timestamp", -62_135_769_600_000),
    ("micro_timestamp", 2**63 - 1),
    ("micro_timestamp", -(2**63)),
    ("nano_timestamp", 1),
    ("connect_date", -735_160),
    ("zoned", "infinity"),
    ("zoned", "-0043-03-15T00:00:00Z"),
    ("zoned", "2026-02-30T00:00:00Z"),
    ("uuid", ""),
    ("dates", [20_513, 2**31 - 1]),
    ("by_name", {"a": 2**62}),
]


@pytest.mark.parametrize(("name", "value"), BEYOND)
def test_a_value_that_its_column_cannot_hold(catalog: Catalog, name: str, value: Any) -> None:
    """It refuses its record, but not one whose other image has it, nor a delete; neighbours are rows."""
    schema = envelope(COLUMNS[0], column(name), column("interval"))
    path = Path(catalog, TopicSettings(transform="flatten_debezium"), FakeRegistry({1: json.dumps(schema)}))
    good, bad = TYPES[name][1], {"id": 2, name: value, "interval": 5}
    fine = {"id": 1, name: good, "interval": None}
    changes = [
        event("c", None, fine),
        event("c", None, bad),
        event("u", bad, fine),
        event("d", bad, None),
        event("d", fine, None),
    ]
    rows = path.send(*avro_values(1, schema, *changes * 20))
    assert set(path.dead_letters.values()) == {"does_not_fit"}
    assert list(path.dead_letters) == list(range(1, 100, 5))
    assert path.messages[1].startswith(f"{name} has a value that its type cannot hold")
    assert "another table with debezium_types = as_sent" in path.messages[1]
    seen = [(row["_cdc"]["op"], row["id"], row["interval"]) for row in rows[:4]]
    assert seen == [("I", 1, None), ("U", 1, None), ("D", 2, 5), ("D", 1, None)]
    assert [row[name] for row in rows[:4]] == [
        *[TYPES[name][3]] * 2,
        None,
        TYPES[name][3],
    ]


@pytest.mark.parametrize("transform", ["flatten", "none"])
def test_a_required_value_below_a_null_image(catalog: Catalog, transform: Any) -> None:
    """An insert has no ``before`` and a delete no ``after``: there is no value to judge."""
    names = ["date", "zoned", "uuid", "decimal"]
    schema = envelope(COLUMNS[0], *({"name": name, "type": TYPES[name][0]} for name in names))
    path = Path(catalog, TopicSettings(transform=transform), FakeRegistry({1: json.dumps(schema)}))
    row = {"id": 1} | {name: TYPES[name][1] for name in names}
    changes = [event("c", None, row), event("d", row, None), event("u", row, row)]
    rows = path.send(*avro_values(1, schema, *changes * 20))
    assert path.dead_letters == {}
    made = {"id": 1} | {name: TYPES[name][3] for name in names}
    images = [row if transform == "flatten" else row[VALUE] for row in rows[:3]]
    assert [(image["before"], image["after"]) for image in images] == [
        (None, made),
        (made, None),
        (made, made),
    ]


@pytest.mark.parametrize("start", [0, 1, 2])
def test_a_slice_of_structs_with_required_values(start: int) -> None:
    """Each struct keeps its own value, and a null one hides whatever its child has."""
    inner = StructType(NestedField(2, "z", StringType(), doc=f"connect.name {TIME}ZonedTimestamp"))
    columns = Schema(NestedField(1, "v", inner, required=False))
    texts = pa.array(["2026-03-01T10:00:00.000001Z", "", "infinity"], pa.large_string())
    kind = arrow_schema_of(columns).field(0).type
    structs = pa.StructArray.from_arrays([texts], fields=list(kind), mask=pa.array([False, True, False]))
    batch = pa.RecordBatch.from_arrays([structs.slice(start)], ["v"])
    rows = make_step("flatten", columns, native=True)(batch, pa.nulls(len(batch)))
    moments = [{"z": MOMENT.replace(tzinfo=UTC)}, None]
    assert rows.columns["v"].to_pylist() == moments[start:]
    assert [one.index for one in rows.refused] == [2 - start]


def test_times_finer_than_a_microsecond_as_value_nanos_says(catalog: Catalog) -> None:
    """Rounded down where the setting says so."""
    schema = envelope(COLUMNS[0], column("nano_timestamp"))
    path = Path(
        catalog,
        TopicSettings(transform="flatten_debezium", value_nanos="floor"),
        FakeRegistry({1: json.dumps(schema)}),
    )
    (row,) = path.send(*avro_values(1, schema, event("c", None, {"id": 1, "nano_timestamp": -1})))
    assert row["nano_timestamp"] == EPOCH - timedelta(microseconds=1)


def converted(kind: Any, meaning: str, values: list[Any]) -> tuple[dict[int, Any], set[int]]:
    """The values of a column by their index, and the indexes of those refused."""
    columns = Schema(NestedField(1, "v", kind, required=False, doc=doc_with_meaning(None, meaning)))
    batch = pa.RecordBatch.from_pylist([{"v": value} for value in values], arrow_schema_of(columns))
    rows = make_step("flatten", columns, native=True)(batch, pa.nulls(len(values)))
    return dict(zip(rows.kept.tolist(), rows.columns["v"].to_pylist(), strict=True)), {
        one.index for one in rows.refused
    }


def _moment(value: int | None, micros_per_tick: int) -> datetime | str | None:
    if value is None:
        return None
    micros, rest = (value * micros_per_tick, 0) if micros_per_tick else divmod(value, 1000)
    fits = not rest and MIN_DAY <= micros // DAY_US <= MAX_DAY
    return EPOCH + timedelta(microseconds=micros) if fits else "refused"


@given(
    st.sampled_from([("Timestamp", 1000), ("MicroTimestamp", 1), ("NanoTimestamp", 0)]),
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-(2**47), 2**47), max_size=20),
)
def test_a_moment_is_exact_or_refused(unit: tuple[str, int], values: list[int | None]) -> None:
    """In every unit, and each value by itself."""
    rows, refused = converted(LongType(), TIME + unit[0], values)
    moments = {index: _moment(value, unit[1]) for index, value in enumerate(values)}
    assert rows == {index: moment for index, moment in moments.items() if moment != "refused"}
    assert refused == {index for index, moment in moments.items() if moment == "refused"}


@given(st.lists(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=4) | st.none(), max_size=9))
def test_dates_in_lists_are_exact_or_refused(values: list[Any]) -> None:
    """A list with one that does not fit refuses its record, and only that."""
    rows, refused = converted(ListType(2, IntegerType(), element_required=False), f"{TIME}Date", values)
    fits = [all(day is None or MIN_DAY <= day <= MAX_DAY for day in value or ()) for value in values]
    assert refused == {index for index, each in enumerate(fits) if not each}
    for index, row in rows.items():
        days = values[index]
        assert (
            row == (days and [None if day is None else date.fromordinal(719_163 + day) for day in days])
            or row == days
        )


@given(st.integers(-(10**40), 10**40), st.integers(0, 20))
def test_decimals_of_any_scale_keep_their_digits(unscaled: int, scale: int) -> None:
    """As text, with as many digits behind the point as the scale says."""
    length = unscaled.bit_length() // 8 + 1
    value = {"scale": scale, "value": unscaled.to_bytes(length, "big", signed=True)}
    struct = StructType(NestedField(2, "scale", IntegerType()), NestedField(3, "value", BinaryType()))
    rows, _ = converted(struct, f"{DATA}VariableScaleDecimal", [value, None])
    assert int(rows[0].replace(".", "")) == unscaled
    assert (len(rows[0].partition(".")[2]), rows[1]) == (scale, None)


def test_an_existing_table_keeps_its_types(catalog: Catalog) -> None:
    """A table of before has numbers, and goes on with them; asking for others is refused."""
    settings = TopicSettings(transform="flatten_debezium")
    schema = envelope(COLUMNS[0], column("micro_timestamp"), column("uuid"))
    path = Path(catalog, settings, FakeRegistry({1: json.dumps(schema)}))
    topic, identifier = "of_before", table_identifier("of_before", settings)
    fields = [NestedField(1, "id", IntegerType()), NestedField(2, "micro_timestamp", LongType())]
    table = TopicTable.create(
        catalog,
        identifier,
        table_schema(Schema(*fields), settings),
        UNPARTITIONED_PARTITION_SPEC,
        topic,
        settings,
        UNSORTED_SORT_ORDER,
    )
    with table.table.transaction() as change:
        change.remove_properties(TYPES_PROPERTY)
    path.topic = topic
    path.restart()
    row = {"id": 1, "micro_timestamp": US, "uuid": "", "@": 0}
    (made,) = path.send(*avro_values(1, schema, event("c", None, row)))
    assert {name: made[name] for name in row} == row
    loaded = TopicTable.load(catalog, identifier, topic)
    assert loaded is not None
    assert with_types_of(loaded, settings).debezium_types == "as_sent"
    with pytest.raises(UsageError, match="created with debezium_types as_sent"):
        with_types_of(loaded, TopicSettings(debezium_types="native"))


def test_a_map_of_structs_keeps_what_has_no_name() -> None:
    """Only the named parts of nested values change."""
    inner = StructType(
        NestedField(3, "at", LongType(), required=False, doc=f"connect.name {TIME}MicroTimestamp"),
        NestedField(4, "n", LongType(), required=False),
    )
    kind = MapType(5, StringType(), 6, inner, value_required=False)
    columns = Schema(NestedField(1, "v", kind, required=False))
    values = [[("a", {"at": 1, "n": 1}), ("b", None)], None, [], [("c", {"at": 2**62, "n": 2})]]
    batch = pa.RecordBatch.from_arrays([pa.array(values, arrow_schema_of(columns).field(0).type)], ["v"])
    rows = make_step("flatten", columns, native=True)(batch, pa.nulls(4))
    moment = {"at": EPOCH + timedelta(microseconds=1), "n": 1}
    assert rows.columns["v"].to_pylist() == [[("a", moment), ("b", None)], None, []]
    assert [one.index for one in rows.refused] == [3]
