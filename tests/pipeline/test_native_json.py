"""JSON with its schema in each record becomes what the names of its types mean."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog

from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.decode import LoadedPlan
from tests.pipeline.source import SOURCE
from tests.pipeline.test_debezium import ROW, connect_schema, event, with_schema
from tests.pipeline.test_native_types import CONNECT, DATA, TIME, TYPES, US
from tests.pipeline.whole_path import Path, Tried

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


def test_a_flat_delete_needs_its_key_alone(catalog: Catalog) -> None:
    """A value that its column cannot hold is null in it, as in a change event's."""
    rows = [{"id": 1, "date": 2_932_897, "__deleted": flag} for flag in ("false", "true")]
    schema = {**connect_schema(rows[0], SENT | ROW), "name": "flat"}
    path = json_path(catalog, transform="flatten")
    (made,) = path.send(*(json.dumps({"schema": schema, "payload": row}).encode() for row in rows))
    assert path.dead_letters == {0: "does_not_fit"}
    assert (made["id"], made["date"], made["__deleted"]) == (1, None, "true")


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
        json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()
        for payload in payloads
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
