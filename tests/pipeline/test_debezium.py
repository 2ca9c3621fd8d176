"""Change events as Debezium's connectors write them become rows of the table that they tell of."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import IntegerType, NestedField, StructType

from tabletopic_kernel.formats.arrays import arrow_schema_of
from tabletopic_kernel.formats.avro.schema import parse
from tabletopic_kernel.formats.avro.types import iceberg_schema_of
from tabletopic_kernel.formats.decoder import make_decoder
from tabletopic_kernel.formats.json.decoder import payloads
from tabletopic_kernel.formats.wire import WriterSchema, prefix
from tabletopic_kernel.model.columns.table_columns import table_schema
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_names import table_identifier
from tabletopic_kernel.pipeline.transform.columns import CDC_STRUCT, NotAnEnvelopeError, value_columns
from tabletopic_kernel.pipeline.transform.transform import make_step
from tabletopic_kernel.table.topic_table import TopicTable
from tests.pipeline.whole_path import Path, avro_values, without
from tests.table.samples import FakeRegistry

# The shapes of Debezium's PostgreSQL connector 2.x, as its documentation and Confluent's Avro converter
# give them.
_SOURCE_FIELDS = [
    {"name": "version", "type": "string"},
    {"name": "connector", "type": "string"},
    {"name": "name", "type": "string"},
    {"name": "ts_ms", "type": "long"},
    {
        "name": "snapshot",
        "type": [
            {
                "type": "string",
                "connect.version": 1,
                "connect.parameters": {"allowed": "true,last,false,incremental"},
                "connect.default": "false",
                "connect.name": "io.debezium.data.Enum",
            },
            "null",
        ],
        "default": "false",
    },
    {"name": "db", "type": "string"},
    {"name": "sequence", "type": ["null", "string"], "default": None},
    {"name": "schema", "type": "string"},
    {"name": "table", "type": "string"},
    {"name": "txId", "type": ["null", "long"], "default": None},
    {"name": "lsn", "type": ["null", "long"], "default": None},
    {"name": "xmin", "type": ["null", "long"], "default": None},
]
COLUMNS = [
    {"name": "id", "type": {"type": "int", "connect.default": 0}, "default": 0},
    {"name": "first_name", "type": "string"},
    {"name": "email", "type": ["null", "string"], "default": None},
]
MORE = {
    "name": "balance",
    "type": [
        "null",
        {
            "type": "bytes",
            "scale": 2,
            "precision": 9,
            "connect.version": 1,
            "connect.parameters": {"scale": "2", "connect.decimal.precision": "9"},
            "connect.name": "org.apache.kafka.connect.data.Decimal",
            "logicalType": "decimal",
        },
    ],
    "default": None,
}


def envelope(*columns: dict[str, Any]) -> dict[str, Any]:
    """The Avro schema of a table's change events."""
    value = {"type": "record", "name": "Value", "fields": list(columns), "connect.name": "pg.customers.Value"}
    block = [("id", "string"), ("total_order", "long"), ("data_collection_order", "long")]
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "pg.public.customers",
        "fields": [
            {"name": "before", "type": ["null", value], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {
                "name": "source",
                "type": {
                    "type": "record",
                    "name": "Source",
                    "namespace": "io.debezium.connector.postgresql",
                    "fields": _SOURCE_FIELDS,
                    "connect.name": "io.debezium.connector.postgresql.Source",
                },
            },
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], "default": None},
            {
                "name": "transaction",
                "type": [
                    "null",
                    {
                        "type": "record",
                        "name": "block",
                        "namespace": "event",
                        "fields": [{"name": name, "type": kind} for name, kind in block],
                    },
                ],
                "default": None,
            },
        ],
        "connect.name": "pg.public.customers.Envelope",
    }


def event(op: str, before: Any, after: Any, ts_ms: int | None = 1_559_033_904_863) -> dict[str, Any]:
    """The payload of a change event."""
    return {
        "before": before,
        "after": after,
        "source": {
            "version": "2.7.0.Final",
            "connector": "postgresql",
            "name": "PostgreSQL_server",
            "ts_ms": 1_559_033_904_000,
            "snapshot": "false",
            "db": "postgres",
            "sequence": '["24023119","24023128"]',
            "schema": "public",
            "table": "customers",
            "txId": 555,
            "lsn": 24_023_128,
            "xmin": None,
        },
        "op": op,
        "ts_ms": ts_ms,
        "transaction": None,
    }


ANNE = {"id": 1, "first_name": "Anne", "email": "annek@noanswer.org"}
MARIE = {**ANNE, "first_name": "Anne Marie"}
EVENTS = [
    event("r", None, {"id": 0, "first_name": "Sally", "email": None}),
    event("c", None, ANNE),
    event("u", ANNE, MARIE),
    event("d", MARIE, None),
]
EVENTS_NATIVE = TopicSettings(transform="flatten_debezium")
AS_SENT = TopicSettings(transform="flatten_debezium", debezium_types="as_sent")
CDC = {
    "ts": datetime(2019, 5, 28, 8, 58, 24, 863_000, tzinfo=UTC),
    "source": "public.customers",
    "source_ts": datetime(2019, 5, 28, 8, 58, 24, tzinfo=UTC),
    "lsn": 24_023_128,
    "tx_id": "555",
    "tx_order": None,
    "snapshot": "false",
}
ROWS = [
    {"id": 0, "first_name": "Sally", "email": None, "_cdc": {"op": "I", "offset": 0, **CDC}, "@": 0},
    {**ANNE, "_cdc": {"op": "I", "offset": 1, **CDC}, "@": 1},
    {**MARIE, "_cdc": {"op": "U", "offset": 2, **CDC}, "@": 2},
    {**MARIE, "_cdc": {"op": "D", "offset": 3, **CDC}, "@": 3},
]


def of_avro(catalog: Catalog, settings: TopicSettings = EVENTS_NATIVE, **schemas: dict[str, Any]) -> Path:
    """A topic of change events in Avro; ``v3`` is the schema with id 3."""
    registry = FakeRegistry({int(name[1:]): json.dumps(schema) for name, schema in schemas.items()})
    return Path(catalog, settings, registry)


def of_json(catalog: Catalog, settings: TopicSettings = EVENTS_NATIVE) -> Path:
    """A topic of change events in JSON without schema ids."""
    return Path(catalog, settings.model_copy(update={"value_format": "json"}))


def connect_schema(value: Any, columns: dict[str, Any] | None = None) -> dict[str, Any]:
    """A schema of Connect's for a value; ``columns`` have those of fields, where the value does not tell."""
    if isinstance(value, dict):
        fields = [
            {**((columns or {}).get(name) or connect_schema(part, columns)), "field": name}
            for name, part in value.items()
        ]
        return {"type": "struct", "fields": fields, "optional": True, "name": "pg.public.customers.X"}
    kind = {bool: "boolean", int: "int64", float: "double", list: "array"}.get(type(value), "string")
    return {"type": kind, "optional": True} | ({"items": {"type": "string"}} if kind == "array" else {})


ROW = {"id": {"type": "int32", "optional": True}}


def with_schema(payload: Any, columns: dict[str, Any] = ROW) -> bytes:
    """As Connect's JsonConverter writes it with ``schemas.enable``; ``columns``: of the row, if no text."""
    images = [payload[name] for name in ("before", "after") if isinstance(payload.get(name), dict)]
    image = connect_schema({name: None for one in images for name in one}, columns)
    source = connect_schema(payload.get("source"), {"xmin": {"type": "int64", "optional": True}})
    transaction = connect_schema({"id": "", "total_order": 1, "data_collection_order": 1})
    known = {"before": image, "after": image, "source": source, "transaction": transaction}
    schema = connect_schema(payload, known | {"ts_ms": {"type": "int64", "optional": True}})
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()


def plain(payload: Any) -> bytes:
    """As it is written without."""
    return json.dumps(payload, separators=(",", ":")).encode()


def test_events_in_avro_become_rows(catalog: Catalog) -> None:
    """A row has the columns of after, of a delete those of before, and _cdc says what was done and when."""
    path = of_avro(catalog, v1=envelope(*COLUMNS))
    assert path.send(*avro_values(1, envelope(*COLUMNS), *EVENTS)) == ROWS
    assert {name: kind for name, kind in path.columns().items() if name != "_cdc"} == {
        "id": "int",
        "first_name": "string",
        "email": "string",
    }
    assert not any(column.required for column in path.keeper.needed_table().table.schema().fields)


@pytest.mark.parametrize("write", [plain, with_schema])
def test_events_in_json_become_the_same_rows(catalog: Catalog, write: Any) -> None:
    """With the envelope's schema in each record or without, and again after a restart."""
    path = of_json(catalog)
    assert path.send(*map(write, EVENTS)) == ROWS
    assert path.columns().keys() == {"id", "first_name", "email", "_cdc"}
    path.restart()
    again = path.send(*map(write, EVENTS))
    assert without(again, "_cdc", "@") == without(ROWS, "_cdc", "@")
    assert path.control.types() == ["SchemaEvolved"]


def test_a_large_group_of_events_in_json(catalog: Catalog) -> None:
    """Many records, some with a schema and some without, are rows in their order."""
    path = of_json(catalog)
    rows = [{"id": at, "first_name": f"n{at}", "email": None} for at in range(500)]
    values = [(with_schema if at % 3 else plain)(event("c", None, row)) for at, row in enumerate(rows)]
    assert [(row["id"], row["@"]) for row in path.send(*values)] == [(at, at) for at in range(500)]


def test_columns_added_in_the_source_are_added_through_the_envelope(catalog: Catalog) -> None:
    """A new version of the envelope adds the column; older events after newer ones have null there."""
    old, new = envelope(*COLUMNS), envelope(*COLUMNS, MORE)
    path = of_avro(catalog, v1=old)
    path.send(*avro_values(1, old, EVENTS[1]))
    path.registry.schemas[2] = json.dumps(new)
    rich = {**ANNE, "balance": None}
    found = path.send(
        *avro_values(2, new, event("u", rich, rich), event("d", rich, None)), *avro_values(1, old, EVENTS[1])
    )
    assert [(row["balance"], row["_cdc"]["op"]) for row in found] == [(None, "U"), (None, "D"), (None, "I")]
    assert path.columns()["balance"] == "decimal(9, 2)"
    path.restart()
    assert len(path.send(*avro_values(2, new, event("c", None, rich)), *avro_values(1, old, EVENTS[1]))) == 2


def time_column(kind: str, name: str | None, *, nullable: bool = True) -> dict[str, Any]:
    """A column of the source as Connect writes it."""
    written = {"type": kind, **({"connect.version": 1, "connect.name": name} if name else {})}
    found = {"name": "at", "type": ["null", written] if nullable else written}
    return {**found, "default": None} if nullable else found


MS, US = ("long", "io.debezium.time.Timestamp"), ("long", "io.debezium.time.MicroTimestamp")


@pytest.mark.parametrize(
    ("before", "after"),
    [(MS, US), (US, MS), (("int", "io.debezium.time.Date"), US), (("int", "io.debezium.time.Time"), US)],
)
@pytest.mark.parametrize("nullable", [True, False])
def test_a_number_that_comes_to_mean_something_else_is_another_field(
    catalog: Catalog, before: tuple[str, str], after: tuple[str, str], nullable: bool
) -> None:
    """ALTER TABLE makes milliseconds microseconds, both longs: the new ones are not for the old column."""
    old = envelope(COLUMNS[0], time_column(*before, nullable=nullable))
    new = envelope(COLUMNS[0], time_column(*after, nullable=nullable))
    first, second = event("c", None, {"id": 1, "at": 1000}), event("c", None, {"id": 2, "at": 1_000_000})
    path = of_avro(catalog, AS_SENT, v1=old)
    assert [row["at"] for row in path.send(*avro_values(1, old, first))] == [1000]
    path.registry.schemas[2] = json.dumps(new)
    path.restart()
    found = path.send(*avro_values(2, new, second), *avro_values(1, old, first))
    assert [(row["id"], row["at"]) for row in found] == [(1, 1000)]
    assert path.dead_letters == {1: "incompatible_schema"}
    assert before[1] in path.messages[1]
    assert after[1] in path.messages[1]


def test_a_number_that_comes_to_mean_something_else_gets_a_column_of_its_own(catalog: Catalog) -> None:
    """Where on_incompatible says so: by the name of its meaning, the same for every later schema."""
    old, new = (envelope(COLUMNS[0], time_column(*kind)) for kind in (MS, US))
    more = envelope(COLUMNS[0], time_column(*US), MORE)
    settings = AS_SENT.model_copy(update={"on_incompatible": "new_column"})
    path = Path(catalog, settings, FakeRegistry({1: json.dumps(old)}))
    path.registry.schemas |= {2: json.dumps(new), 3: json.dumps(more)}
    for at, schema, value in ((1, old, 5), (2, new, 6), (3, more, 7), (1, old, 8), (2, new, 9)):
        row = {"id": at, "at": value, **({"balance": None} if at == 3 else {})}
        (found,) = path.send(*avro_values(at, schema, event("c", None, row)))
        home, other = ("at", "at_MicroTimestamp") if at == 1 else ("at_MicroTimestamp", "at")
        assert (found[home], found.get(other)) == (value, None)
    assert path.columns().keys() == {"id", "at", "at_MicroTimestamp", "balance", "_cdc"}
    path.restart()
    assert path.send(*avro_values(2, new, event("c", None, {"id": 1, "at": 3})))[0]["at_MicroTimestamp"] == 3


def test_what_says_itself_what_it_is_may_be_called_otherwise(catalog: Catalog) -> None:
    """Texts and records keep their column whatever Connect calls them; so does a number that had no name."""
    enum = {"type": "string", "connect.name": "io.debezium.data.Enum", "connect.parameters": {"allowed": "a"}}
    wider = {**enum, "connect.parameters": {"allowed": "a,b"}}
    versions = [
        envelope(COLUMNS[0], {"name": "kind", "type": kind}, time_column("long", name))
        for kind, name in ((enum, None), (wider, MS[1]), ("string", None))
    ]
    path = Path(
        catalog,
        AS_SENT,
        FakeRegistry({at: json.dumps(one) for at, one in enumerate(versions, 1)}),
    )
    for at, schema in enumerate(versions, 1):
        (found,) = path.send(*avro_values(at, schema, event("c", None, {"id": 1, "kind": "a", "at": 5})))
        assert (found["kind"], found["at"]) == ("a", 5)
    assert path.columns().keys() == {"id", "kind", "at", "_cdc"}


@pytest.mark.parametrize("name", ["_cdc", "_CDC", "_kafka_metadata", "_kafka_value_rest"])
def test_json_with_a_column_that_cannot_be_one_here(catalog: Catalog, name: str) -> None:
    """A reserved name in a row is kept with what has no column, whenever it comes; the topic goes on."""
    path = of_json(catalog)
    odd = {"id": 2, name: {"a": "b"}}
    (first,) = path.send(plain(event("c", None, odd)))
    assert (first["id"], json.loads(first["_kafka_value_rest"])) == (2, {"after": {name: {"a": "b"}}})
    found = path.send(plain(EVENTS[1]), plain(event("d", odd, None)), plain(event("c", None, {name: 1})))
    assert [row["id"] for row in found] == [1, 2, None]
    assert [row["_kafka_value_rest"] and json.loads(row["_kafka_value_rest"]) for row in found] == [
        None,
        {"before": {name: {"a": "b"}}},
        {"after": {name: 1}},
    ]
    assert path.columns().keys() == {"id", "first_name", "email", "_cdc"}
    path.restart()
    assert len(path.send(plain(event("c", None, odd)), plain(EVENTS[1]))) == 2
    assert path.dead_letters == {}


@pytest.mark.parametrize("name", ["_cdc", "_CDC"])
def test_a_schema_with_a_column_that_cannot_be_one_here(catalog: Catalog, name: str) -> None:
    """Engines take names that differ in case for one, so it is refused in whatever case."""
    with pytest.raises(NotAnEnvelopeError, match=name):
        value_columns(
            iceberg_schema_of(parse(json.dumps(envelope({"name": name, "type": "int"})))), "flatten_debezium"
        )


def test_what_tells_of_no_row_is_counted(catalog: Catalog) -> None:
    """Tombstones and messages are neither rows nor letters."""
    path = of_avro(catalog, v1=envelope(*COLUMNS))
    rowless = avro_values(1, envelope(*COLUMNS), event("m", None, None))
    assert path.send(None, *rowless, None, None) == []
    assert path.result.passed_over == {"tombstone": 3, "message": 1}
    assert (path.dead_letters, path.result.refused) == ({}, {})


@pytest.mark.parametrize("around", [EVENTS, EVENTS[1:3], EVENTS[3:], []])
def test_a_truncate_is_a_row_of_nulls(catalog: Catalog, around: list[Any]) -> None:
    """Whatever the events beside it are, so that a query can tell what it emptied."""
    path = of_avro(catalog, v1=envelope(*COLUMNS, MORE))
    events = [
        one | {name: {**one[name], "balance": None} for name in ("before", "after") if one[name]}
        for one in around
    ]
    truncate = event("t", None, None) | {"transaction": block("555:24023128", 3)}
    rows = path.send(*avro_values(1, envelope(*COLUMNS, MORE), *events, truncate, *events))
    assert [row["_cdc"]["op"] for row in rows] == [
        *(op := [{"r": "I", "c": "I", "u": "U", "d": "D"}[one["op"]] for one in around]),
        "T",
        *op,
    ]
    cdc = {**CDC, "op": "T", "offset": len(around), "tx_order": 3}
    nulls = dict.fromkeys(("id", "first_name", "email", "balance"))
    assert rows[len(around)] == {**nulls, "_cdc": cdc, "@": len(around)}
    assert all(row["id"] is not None for row in rows if row["_cdc"]["op"] != "T")


def block(name: str, order: int) -> dict[str, Any]:
    """What an event says of its transaction, where the connector provides that."""
    return {"id": name, "total_order": order, "data_collection_order": 1}


def test_a_truncate_is_counted_where_columns_are_required(catalog: Catalog) -> None:
    """No row of nulls can be in such a table."""
    decoded = iceberg_schema_of(parse(json.dumps(envelope(*COLUMNS))))
    batch = pa.RecordBatch.from_pylist([event("t", None, None)], arrow_schema_of(decoded))
    outcome = make_step("flatten_debezium", decoded, keeps_truncates=False)(batch, pa.array([3]))
    assert (len(outcome.kept), outcome.passed_over) == (0, {"truncate": 1})


# What connectors say of a change's place, and what _cdc makes of it.
_PLACES: list[tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any]]] = [
    ({"lsn": 5, "sequence": '["1","9"]', "txId": 7}, None, {"lsn": 5, "tx_id": "7"}),
    ({"lsn": None, "sequence": '["24023119","24023128"]'}, None, {"lsn": 24_023_128}),
    ({"sequence": '[null,"24023128"]', "snapshot": "incremental"}, None, {"lsn": 24_023_128}),
    ({"sequence": "[null,null]"}, None, {}),
    ({"sequence": "nonsense"}, block("7:5", 2), {"tx_id": "7:5", "tx_order": 2}),
    ({"file": "binlog.000003", "pos": 154}, None, {"lsn": 3 * 2**32 + 154}),
    ({"file": "", "pos": 154, "snapshot": "first"}, None, {}),
    ({"scn": "2122184", "txId": "0a001f00"}, None, {"lsn": 2_122_184, "tx_id": "0a001f00"}),
    ({"change_lsn": "00000027:00000758:0003"}, None, {}),
    ({"lsn": "text", "txId": [1], "snapshot": 1}, None, {}),
]


@pytest.mark.parametrize(("place", "transaction", "known"), _PLACES)
def test_the_place_of_a_change(
    catalog: Catalog, place: dict[str, Any], transaction: Any, known: dict[str, Any]
) -> None:
    """A number that grows from change to change, as each connector writes it, and its transaction."""
    path = of_json(catalog)
    change = event("c", None, {"id": 1}) | {"transaction": transaction}
    change["source"] = {"table": "t", "snapshot": "false"} | place
    (row,) = path.send(plain(change))
    empty = {**dict.fromkeys(("lsn", "tx_id", "tx_order")), "snapshot": place.get("snapshot", "false")}
    expected = empty | known | ({"snapshot": None} if place.get("snapshot") == 1 else {})
    assert {name: row["_cdc"][name] for name in empty} == expected


@pytest.mark.parametrize("kind", ["avro", "json"])
def test_a_table_of_before_gets_what_cdc_lacks(catalog: Catalog, kind: str) -> None:
    """As columns, by the rules for every new field, when a host takes it over or with the first record."""
    path = of_avro(catalog, v1=envelope(*COLUMNS)) if kind == "avro" else of_json(catalog)
    topic = f"{kind}_of_before"
    identifier = table_identifier(topic, path.settings)
    fields = [NestedField(1, "id", IntegerType()), NestedField(1, "_cdc", StructType(*CDC_STRUCT.fields[:5]))]
    schema = table_schema(Schema(*fields), path.settings)
    TopicTable.create(
        catalog, identifier, schema, UNPARTITIONED_PARTITION_SPEC, topic, path.settings, UNSORTED_SORT_ORDER
    )
    path.topic = topic
    path.restart()
    values = avro_values(1, envelope(*COLUMNS), EVENTS[1]) if kind == "avro" else [plain(EVENTS[1])]
    (row,) = path.send(*values)
    assert row["_cdc"] == {**CDC, "op": "I", "offset": 0}


def test_what_is_no_event_is_a_letter(catalog: Catalog) -> None:
    """An unknown op, and a change whose row is missing, are refused one by one; their neighbours are rows."""
    path = of_avro(catalog, v1=envelope(*COLUMNS))
    bad = [
        event("x", None, ANNE),
        event("u", ANNE, None),
        event("c", None, ANNE, 10**17),
    ]
    found = path.send(*avro_values(1, envelope(*COLUMNS), EVENTS[1], *bad, EVENTS[2]))
    assert [row["@"] for row in found] == [0, 4]
    assert path.dead_letters == dict.fromkeys((1, 2, 3), "not_an_envelope")
    assert [path.messages[at].split(";")[0] for at in (1, 2, 3)] == [
        "not a change event of Debezium: its op is 'x'",
        "a change without a row: op is u, and after is null",
        "the time of the change is not in the years 0001 to 9999",
    ]


@pytest.mark.parametrize("around", [[], EVENTS])
def test_a_delete_needs_its_key_alone(catalog: Catalog, around: list[Any]) -> None:
    """Without the row's data, it is a row of nulls if the table keeps keys, and else a letter."""
    values = avro_values(1, envelope(*COLUMNS), *around, event("d", None, None), *around)
    *before, row = of_avro(catalog, v1=envelope(*COLUMNS)).send(*values)[: len(around) + 1]
    assert [one["id"] is None for one in before] == [False] * len(around)
    assert row == {
        **dict.fromkeys(("id", "first_name", "email")),
        "_cdc": {**CDC, "op": "D", "offset": len(around)},
        "@": len(around),
    }
    for settings in ({"key_format": "none"}, {"metadata_columns": ("metadata",)}):
        path = of_avro(catalog, EVENTS_NATIVE.model_copy(update=settings), v1=envelope(*COLUMNS))
        path.send(*values)
        assert path.dead_letters == {len(around): "not_an_envelope"}
        assert "a delete without the row's data: op is d, and before is null" in path.messages[len(around)]


def test_a_schema_that_is_no_envelope_refuses_its_records(catalog: Catalog) -> None:
    """Records of an ordinary schema on such a topic are letters with that reason."""
    ordinary = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "long"}]}
    path = of_avro(catalog, v1=envelope(*COLUMNS))
    path.registry.schemas[2] = json.dumps(ordinary)
    found = path.send(*avro_values(2, ordinary, {"id": 1}), *avro_values(1, envelope(*COLUMNS), EVENTS[1]))
    assert [row["id"] for row in found] == [1]
    assert path.dead_letters == {0: "not_an_envelope"}
    assert "it has no text field op" in path.messages[0]


def test_json_that_is_no_event_is_a_letter(catalog: Catalog) -> None:
    """Also before the first event has come."""
    path = of_json(catalog)
    assert path.send(b'{"a":1}', b'{"op":"c","after":"text"}', b"[]", b"no json") == []
    assert path.dead_letters == {
        0: "not_an_envelope",
        1: "not_an_envelope",
        2: "not_an_envelope",
        3: "json_syntax",
    }
    found = path.send(plain(EVENTS[1]), b'{"a":1}', b'{"op":"c","after":"text"}', plain(EVENTS[2]))
    assert [row["first_name"] for row in found] == ["Anne", "Anne Marie"]
    assert path.dead_letters == {5: "not_an_envelope", 6: "not_an_envelope"}


# As Confluent's converters write the envelope's schema: a null is one of two, and unset in Protobuf.
_NULL_OR = {"oneOf": [{"type": "null"}, {"type": "object", "properties": {"id": {"type": "integer"}}}]}
_PLACE = {name: {"type": "string"} for name in ("db", "schema", "table")} | {"ts_ms": {"type": "integer"}}
ENVELOPES = {
    "JSON": json.dumps(
        {
            "type": "object",
            "properties": {
                "before": _NULL_OR,
                "after": _NULL_OR,
                "source": {"type": "object", "properties": _PLACE},
                "op": {"type": "string"},
                "ts_ms": {"oneOf": [{"type": "null"}, {"type": "integer"}]},
            },
        }
    ),
    "PROTOBUF": """syntax = "proto3";
        message Envelope { Value before = 1; Value after = 2; Source source = 3; string op = 4;
          optional int64 ts_ms = 5; }
        message Value { int64 id = 1; }
        message Source { string db = 1; string schema = 2; string table = 3; int64 ts_ms = 4; }""",
}


@pytest.mark.parametrize(
    ("kind", "insert", "delete"),
    [
        (
            "JSON",
            b'{"after":{"id":7},"before":null,"op":"c","ts_ms":1,"source":{"schema":"s","table":"t"}}',
            b'{"after":null,"before":{"id":8},"op":"d","ts_ms":null,"source":{"db":"d","table":"t"}}',
        ),
        (  # fields 2, 4, 5, 3; then 1, 4, 3
            "PROTOBUF",
            b"\x00\x12\x02\x08\x07\x22\x01c\x28\x01\x1a\x06\x12\x01s\x1a\x01t",
            b"\x00\x0a\x02\x08\x08\x22\x01d\x1a\x06\x12\x01s\x1a\x01t",
        ),
    ],
)
def test_envelopes_of_other_formats(kind: str, insert: bytes, delete: bytes) -> None:
    """Events by a JSON Schema or in Protobuf are the same rows."""
    decoder = make_decoder(5, WriterSchema(ENVELOPES[kind], kind=kind))
    values = pa.array([prefix(5) + insert, prefix(5) + delete], pa.binary())
    batch, refused = decoder.decode(values)
    assert refused == []
    found = make_step("flatten_debezium", decoder.iceberg_schema)(batch, pa.array([3, 4]))
    assert found.columns["id"].to_pylist() == [7, 8]
    assert [one["op"] for one in found.columns["_cdc"].to_pylist()] == ["I", "D"]
    assert found.columns["_cdc"][0]["source"].as_py() == "s.t"
    columns = value_columns(decoder.iceberg_schema, "flatten_debezium")
    assert {"id", "_cdc"} <= {field.name for field in columns.fields} == set(found.columns)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_payloads_are_cut_out_whatever_the_record_looks_like(kind: pa.DataType) -> None:
    """The payload keeps its numbers, a record without one stays as it is, and the decoder sees the damage."""
    first = with_schema({"id": 1, "x": 1.50})
    cases = {
        first: b'{"id":1,"x":1.5}',
        with_schema({"id": 2}): b'{"id":2}',
        b'{"payload":{"a":1.50},"schema":null}': b'{"a":1.50}',
        b' {"schema" : {"a":",\\"payload\\":"}, "payload" : {"b" : 12345678901234567890.10}} ': (
            b'{"b" : 12345678901234567890.10}'
        ),
        b'{"schema":{"x":1,"payload":2},"payload":{"c":1}}': b'{"c":1}',
        b'{"schema":1,"payload":{"a":1},"more":2}': b'{"a":1},"more":2',  # no JSON: read as a whole then
        b'{"payload":{"a":1},"more":2}': b'{"payload":{"a":1},"more":2}',
        b'{"schema":1}': b'{"schema":1}',
        b'{"schema":1,"payload":{"a":': b'{"schema":1,"payload":{"a":',
        b'{"before":null,"after":{"payload":1}}': b'{"before":null,"after":{"payload":1}}',
        b"\xff": b"\xff",
        b"": b"",
    }
    for values in (list(cases), list(cases)[::-1], list(cases) * 3):
        assert payloads(pa.array(values, kind)).to_pylist() == [cases[value] for value in values]
