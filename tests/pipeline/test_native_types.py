"""Values become what their names in Kafka Connect mean, whatever the unit that they are sent in."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
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

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.formats.arrays import MAX_DAY, MIN_DAY, arrow_schema_of
from tabletopic_kernel.formats.avro.schema import Array, Primitive, Record, Union, parse
from tabletopic_kernel.formats.json.values import scalar_reader
from tabletopic_kernel.model.columns.evolution import VALUE
from tabletopic_kernel.model.columns.table_columns import table_schema
from tabletopic_kernel.model.columns.types import doc_with_meaning
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_names import table_identifier
from tabletopic_kernel.pipeline.decode import LoadedPlan
from tabletopic_kernel.pipeline.transform import native
from tabletopic_kernel.pipeline.transform.transform import make_step
from tabletopic_kernel.table.draft import with_types_of
from tabletopic_kernel.table.topic_table import TYPES_PROPERTY, TopicTable
from tests.pipeline.source import SOURCE
from tests.pipeline.test_debezium import COLUMNS, MORE, ROW, connect_schema, envelope, event, with_schema
from tests.pipeline.whole_path import Path, Tried, avro_values
from tests.table.samples import FakeRegistry

TIME, DATA, CONNECT = "io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data."
DAY_US = 86_400_000_000
EPOCH = datetime(1970, 1, 1)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """A catalog of this module's own."""
    root = tmp_path_factory.mktemp("native")
    return open_catalog(
        {"name": "lake", "type": "sql", "uri": f"sqlite:///{root}/c.db", "warehouse": f"file://{root}/w"}
    )


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


# The same types in the schemas that JSON carries, and values; those that do not look the same in the table.
JSON: dict[str, tuple[dict[str, Any], Any]] = {
    "date": ({"type": "int32", "name": f"{TIME}Date"}, 20_513),
    "time": ({"type": "int32", "name": f"{TIME}Time"}, 43_200_001),
    "micro_time": ({"type": "int64", "name": f"{TIME}MicroTime"}, 43_200_000_001),
    "nano_time": ({"type": "int64", "name": f"{TIME}NanoTime"}, 43_200_000_001_000),
    "timestamp": ({"type": "int64", "name": f"{TIME}Timestamp"}, US // 1000),
    "micro_timestamp": ({"type": "int64", "name": f"{TIME}MicroTimestamp"}, US),
    "nano_timestamp": ({"type": "int64", "name": f"{TIME}NanoTimestamp"}, US * 1000),
    "zoned": ({"type": "string", "name": f"{TIME}ZonedTimestamp"}, "2026-03-01T10:00:00.000001Z"),
    "zoned_time": ({"type": "string", "name": f"{TIME}ZonedTime"}, "10:00:00Z"),
    "interval": ({"type": "int64", "name": f"{TIME}MicroDuration"}, 5),
    "year": ({"type": "int32", "name": f"{TIME}Year"}, 2026),
    "connect_date": ({"type": "int32", "name": f"{CONNECT}Date"}, 20_513),
    "connect_time": ({"type": "int32", "name": f"{CONNECT}Time"}, 43_200_001),
    "connect_timestamp": ({"type": "int64", "name": f"{CONNECT}Timestamp"}, US // 1000),
    "decimal": (
        {
            "type": "bytes",
            "name": f"{CONNECT}Decimal",
            "parameters": {"scale": "2", "connect.decimal.precision": "9"},
        },
        "Abw=",
    ),
    "variable": (
        {
            "type": "struct",
            "name": f"{DATA}VariableScaleDecimal",
            "fields": [{"type": "int32", "field": "scale"}, {"type": "bytes", "field": "value"}],
        },
        {"scale": 3, "value": "A+k="},
    ),
    "uuid": ({"type": "string", "name": f"{DATA}Uuid"}, "0f0e0d0c-0b0a-0908-0706-050403020100"),
    "json": ({"type": "string", "name": f"{DATA}Json"}, '{"a":1}'),
    "bits": ({"type": "bytes", "name": f"{DATA}Bits"}, "BQ=="),
    "dates": (
        {"type": "array", "items": {"type": "int32", "name": f"{TIME}Date", "optional": True}},
        [20_513, None],
    ),
    "uuids": (
        {"type": "array", "items": {"type": "string", "name": f"{DATA}Uuid", "optional": False}},
        ["0f0e0d0c-0b0a-0908-0706-050403020100"],
    ),
    "by_name": (
        {
            "type": "map",
            "keys": {"type": "string"},
            "values": {"type": "int64", "name": f"{TIME}Timestamp", "optional": False},
        },
        {"a": US // 1000},
    ),
}
SENT = {name: {**kind, "optional": True} for name, (kind, _) in JSON.items()}


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
    docs = {one.name: one.doc for one in path.keeper.needed_table().table.schema().fields}
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
    assert [(one["before"], one["after"]) for one in images] == [(None, made), (made, None), (made, made)]


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


def test_only_texts_in_another_form_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """One infinity among many moments costs the reading of one text; the others are as they were."""
    read: list[Any] = []

    def reader(node: Any, **rules: Any) -> Any:
        return lambda value: read.append(value) or scalar_reader(node, **rules)(value)

    monkeypatch.setattr(native, "scalar_reader", reader)
    texts = ["2026-03-01T10:00:00.000001Z", "2026-03-01T10:00:00.000001000Z", None, "infinity"] * 2
    rows, refused = converted(StringType(), f"{TIME}ZonedTimestamp", texts)
    moment = MOMENT.replace(tzinfo=UTC)
    assert (rows, refused) == ({0: moment, 1: moment, 2: None, 4: moment, 5: moment, 6: None}, {3, 7})
    assert read == [texts[1], texts[3]] * 2
    ids = ["0f0e0d0c-0b0a-0908-0706-050403020100", "", "0F0E0D0C-0B0A-0908-0706-050403020101"]
    rows, refused = converted(StringType(), f"{DATA}Uuid", ids)
    assert (rows, refused) == ({0: UUID(ids[0]), 2: UUID(ids[2])}, {1})


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


def json_path(catalog: Catalog, **settings: Any) -> Path:
    """A topic of JSON."""
    return Path(catalog, TopicSettings(value_format="json", **settings))


@pytest.mark.parametrize("transform", ["flatten_debezium", "flatten"])
@pytest.mark.parametrize("count", [2, 60])
def test_each_type_in_json_with_its_schema(catalog: Catalog, transform: Any, count: int) -> None:
    """The same columns and values as in Avro, before and after a restart."""
    rows = [{"id": 1} | {name: value for name, (_, value) in JSON.items()}, {"id": 2} | dict.fromkeys(JSON)]
    payloads = [event("c", None, row) for row in rows] if transform == "flatten_debezium" else rows
    if transform == "flatten":
        schema = {**connect_schema(rows[0], SENT | ROW), "name": "flat"}
        records = [json.dumps({"schema": schema, "payload": row}).encode() for row in rows]
    else:
        records = [with_schema(payload, SENT | ROW) for payload in payloads]
    path = json_path(catalog, transform=transform)
    for _ in range(2):
        made = path.send(*records * count)
        assert path.dead_letters == {}
        types = {name: kind for name, kind in path.columns().items() if name in JSON}
        assert types == {name: TYPES[name][2] for name in JSON}
        for row in made[::2]:
            assert {name: row[name] for name in JSON} == {name: TYPES[name][3] for name in JSON}
        assert {name: made[-1][name] for name in JSON} == dict.fromkeys(JSON)
        path.restart()
    assert path.control.types() == ["SchemaEvolved"]


def decimals(scale: int, precision: int = 10) -> dict[str, Any]:
    """Connect's schema of a numeric column."""
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return {"type": "bytes", "name": f"{CONNECT}Decimal", "parameters": parameters, "optional": True}


def test_another_scale_in_json_is_another_type(catalog: Catalog) -> None:
    """What looks alike as base64 is told apart by the schema beside it: never two scales in a column."""
    path = json_path(catalog, transform="flatten_debezium")
    first = with_schema(event("c", None, {"id": 1, "n": "Abw="}), ROW | {"n": decimals(2)})
    wider = with_schema(event("c", None, {"id": 2, "n": "AYaf"}), ROW | {"n": decimals(2, 14)})
    other = with_schema(event("c", None, {"id": 3, "n": "AYaf"}), ROW | {"n": decimals(4, 14)})
    assert [row["n"] for row in path.send(first)] == [Decimal("4.44")]
    rows = path.send(first, wider, other, wider)
    assert [row["n"] for row in rows] == [Decimal("4.44"), Decimal("999.99"), Decimal("999.99")]
    assert path.dead_letters == {3: "incompatible_schema"}
    assert "decimal(14, 2) in the table and decimal(14, 4) in the new schema" in path.messages[3]
    assert path.columns()["n"] == "decimal(14, 2)"


@pytest.mark.parametrize("count", [1, 40])
def test_a_decimal_in_json_may_be_a_number(catalog: Catalog, count: int) -> None:
    """With decimal.format=NUMERIC, it is read exactly, never as a float; text is base64, also of digits."""
    numbers = ["4.44", "-4.4e-1", "900719925474099312345.67", "1234", '"1234"', '"Abw="', "null"]
    numbers += ["0.001", "true"]
    sent = ROW | {"n": decimals(2, 30)}
    records = [
        with_schema(event("c", None, {"id": 1, "n": "@"}), sent).replace(b'"@"', number.encode())
        for number in numbers
    ]
    path = json_path(catalog, transform="flatten_debezium")
    rows = path.send(*records * count)
    values = ["4.44", "-0.44", "900719925474099312345.67", "1234.00", "-26588.24", "4.44", None]
    assert [row["n"] for row in rows] == [value and Decimal(value) for value in values] * count
    assert (path.dead_letters[7], path.dead_letters[8]) == ("json_out_of_range", "json_type")
    assert "0.001 is not a decimal with 2 decimal places" in path.messages[7]
    assert path.columns()["n"] == "decimal(30, 2)"


def test_a_float_in_json_may_be_no_number(catalog: Catalog) -> None:
    """By the schema, NaN and infinities are values, not text, whenever they come; other text is refused."""
    values = ["NaN", 1.5, "Infinity", "-Infinity", None, "five", 2.5]
    sent = ROW | {"f": {"type": "double", "optional": True}}
    records = [with_schema(event("c", None, {"id": 1, "f": value}), sent) for value in values]
    rows = json_path(catalog, transform="flatten_debezium").send(*records * 10)
    seen = [repr(row["f"]) for row in rows[:6]]
    assert seen == ["nan", "1.5", "inf", "-inf", "None", "2.5"]
    path = json_path(catalog, transform="flatten_debezium")
    path.send(*records)
    assert path.dead_letters == {5: "json_type"}


def test_json_with_a_schema_beside_json_without_one(catalog: Catalog) -> None:
    """Each record is read by its own; a property called schema that is none of Connect's is a column."""
    path = json_path(catalog)
    schema = {"type": "struct", "fields": [{"field": "id", "type": "int32", "optional": True}]}
    record = json.dumps({"schema": schema, "payload": {"id": 7}}).encode()
    spaced = json.dumps({"payload": {"id": 8}, "schema": schema}, indent=1).encode()
    assert [row["id"] for row in path.send(record, b'{"id":6}', spaced[:1] + spaced[2:].lstrip(), None)] == [
        7,
        6,
        8,
        None,
    ]
    other = json_path(catalog)
    (row,) = other.send(b'{"schema":{"type":"mine"},"payload":{"id":1}}')
    assert row["payload"] == {"id": 1}


@pytest.mark.parametrize("count", [1, 40])
def test_json_with_more_than_a_schema_and_a_payload(catalog: Catalog, count: int) -> None:
    """Its properties are columns, beside the rows of payloads; damage is refused."""
    path = json_path(catalog)
    schema = b'{"type":"struct","fields":[{"field":"id","type":"int32","optional":true}]}'
    head = b'{"schema":' + schema + b',"payload":{"id":'
    for _ in range(2):
        rows = path.send(*[head + b'1},"x":{"y":2}}', head + b"3}}", head + b'4},"x":}'] * count)
        assert [row["id"] for row in rows if row["x"] is None] == [3] * count
        whole = [row for row in rows if row["x"] is not None]
        assert [(row["x"], row["payload"]) for row in whole] == [({"y": 2}, {"id": 1})] * count
        assert set(path.dead_letters.values()) == {"json_syntax"}
        assert len(path.dead_letters) == count


def test_a_payload_that_is_not_as_its_schema_says(catalog: Catalog) -> None:
    """A letter; its neighbours are rows."""
    path = json_path(catalog)
    schema = {"type": "struct", "fields": [{"field": "id", "type": "int32", "optional": False}]}
    payloads = [{"id": 1}, {"id": "x"}, {"id": None}, {"more": 1}, [], {"id": 2}]
    records = [
        json.dumps({"schema": schema, "payload": one}, separators=(",", ":")).encode() for one in payloads
    ]
    assert [row["id"] for row in path.send(*records)] == [1, 2]
    assert path.dead_letters == {1: "json_type", 2: "json_missing", 3: "json_unknown_field", 4: "json_type"}


def test_an_existing_table_of_json_with_schemas_keeps_what_it_has(catalog: Catalog) -> None:
    """As sent, the schema in the record does not count."""
    path = json_path(catalog, transform="flatten_debezium", debezium_types="as_sent")
    (row,) = path.send(with_schema(event("c", None, {"id": 1, "n": "Abw="}), ROW | {"n": decimals(2)}))
    assert (row["n"], path.columns()["id"]) == ("Abw=", "long")


class KeyPath(Path):
    """A topic whose keys come with the values; ``keys`` are those that the table has."""

    def send_pairs(self, *pairs: tuple[bytes | None, bytes]) -> list[Any]:
        """Stage pairs of key and value; returns the keys of the rows."""
        rows = [
            {"value": value, "key": key, "partition": 0, "offset": at, "timestamp": at}
            for at, (key, value) in enumerate(pairs)
        ]
        batch = pa.RecordBatch.from_pylist(rows, schema=SOURCE)
        while True:
            tried = Tried(LoadedPlan(self.keeper.plan().with_settings(errors="skip"), is_worker=True), batch)
            if not tried.result.needs:
                break
            self.keeper.cover(tried.result.needs)
        self.dead_letters = {offset: reason for (_, offset), reason in tried.reasons.items()}
        return [
            row["_kafka_key"]
            for file in tried.result.files
            for row in pq.read_table(file.file_path.removeprefix("file://")).to_pylist()
        ]


def test_keys_in_json_with_their_schema(catalog: Catalog) -> None:
    """They are decoded by it, as the types that the names mean; other keys are refused as before."""
    path = KeyPath(catalog, TopicSettings(value_format="json", key_format="by_schema_id"))
    day = {"type": "int32", "name": f"{TIME}Date", "optional": False, "field": "d"}
    for kind, number in (("int32", 7), ("int64", 2**40)):
        schema = {"type": "struct", "fields": [{"type": kind, "field": "id", "optional": False}, day]}
        key = json.dumps({"schema": schema, "payload": {"id": number, "d": 20_513}}).encode()
        keys = path.send_pairs((key, b'{"a":1}'), (None, b'{"a":2}'), (b"bare", b'{"a":3}'))
        assert keys == [{"id": number, "d": date(2026, 3, 1)}, None]
        assert path.dead_letters == {2: "key_no_schema_id"}
    whole = json.dumps({"schema": {"type": "string", "optional": False}, "payload": "x"}).encode()
    other = KeyPath(catalog, TopicSettings(value_format="json", key_format="by_schema_id"))
    assert other.send_pairs((whole, b'{"a":1}')) == ["x"]
