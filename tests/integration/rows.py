"""Records of two versions, as sent values and as expected rows."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.conftest import METADATA, Sender, rows_by_offset

# Of a topic that takes any timestamp, as brokers before Kafka 4 do; and one that is no milliseconds.
ANY_TIME = {
    "message.timestamp.after.max.ms": str(2**63 - 1),
    "message.timestamp.before.max.ms": str(2**63 - 1),
}
NANOSECONDS = 1_750_000_000_000_000_000  # where milliseconds belong
FAST = {"commit_interval_ms": "500ms"}


def record(*fields: dict[str, Any], name: str = "Row") -> str:
    """An Avro record schema as JSON."""
    return json.dumps({"type": "record", "name": name, "fields": fields})


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    """One field of a record."""
    return {"name": name, "type": kind, **more}


V1 = record(
    field("id", "long"),
    field("name", "string"),
    field("count", "int"),
    field("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
    field("at", {"type": "long", "logicalType": "timestamp-millis"}),
    field("place", {"type": "record", "name": "Place", "fields": [field("city", "string")]}),
    field("tags", {"type": "array", "items": "string"}),
    field("note", ["null", "string"], default=None),
)
V2 = record(
    field("id", "long"),
    field("name", ["string", "null"], default=""),
    field("count", "long"),
    field("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
    field("at", {"type": "long", "logicalType": "timestamp-millis"}),
    field(
        "place",
        {
            "type": "record",
            "name": "Place",
            "fields": [field("city", "string"), field("zip", ["null", "string"], default=None)],
        },
    ),
    field("tags", {"type": "array", "items": "string"}),
    field("note", ["null", "string"], default=None),
    field("extra", {"type": "map", "values": "double"}, default={}),
)


def row_v1(number: int) -> dict[str, Any]:
    """A record of version 1."""
    return {
        "id": number,
        "name": f"näme {number}",
        "count": number % 1000,
        "price": Decimal(number) / 100,
        "at": datetime.fromtimestamp(1_750_000_000 + number, UTC),
        "place": {"city": "Ōsaka"},
        "tags": [str(n) for n in range(number % 4)],
        "note": None if number % 2 else "odd",
    }


def row_v2(number: int) -> dict[str, Any]:
    """A record of version 2: null names, counts beyond 32 bits, the new fields."""
    return {
        **row_v1(number),
        "name": None if number % 3 else "three",
        "count": 5_000_000_000 + number,
        "place": {"city": "Łódź", "zip": "90-001" if number % 2 else None},
        "extra": {"x": number / 2},
    }


def check_rows(bench: Workbench, sender: Sender) -> dict[tuple[int, int], dict[str, Any]]:
    """Every acknowledged record is a row once, with its values, key, headers, offset and time."""
    rows = rows_by_offset(bench, sender.topic)
    assert rows.keys() == {(sent.partition, sent.offset) for sent in sender.sent}
    for sent in sender.sent:
        row = rows[sent.partition, sent.offset]
        assert row["_kafka_key"] == sent.key
        assert [(one["key"], one["value"]) for one in row["_kafka_header"] or ()] == (sent.headers or [])
        assert round(row[METADATA]["timestamp"].timestamp() * 1000) == sent.timestamp_ms
        for name, value in (sent.value or {}).items():
            found = row[name]
            if isinstance(value, dict) and isinstance(found, list):
                found = dict(found)
            if isinstance(value, dict) and isinstance(found, dict):
                found = {k: v for k, v in found.items() if k in value}
            assert found == value, (name, sent)
    return rows
