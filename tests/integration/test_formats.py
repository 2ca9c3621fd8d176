"""Topics of every value format on the real broker, registry, Spark and catalog."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema

from tabletopic_kernel.formats.wire import prefix
from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.conftest import METADATA, Sender, dead_letters_by_offset, rows_by_offset
from tests.integration.rows import FAST, field, record
from tests.integration.together import Story, together

pytestmark = [pytest.mark.story, pytest.mark.usefixtures("host")]

PROTO = """
syntax = "proto3";
message Click { int64 id = 1; string url = 2; optional double size = 3; repeated string tags = 4; }
"""
JSON_SCHEMA = json.dumps(
    {
        "title": "A click",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "url": {"type": "string"}, "size": {"type": "number"}},
        "required": ["id"],
    }
)
AVRO = record(field("id", "long"), field("url", "string"))


def proto_message(number: int) -> bytes:
    """A Click with a tag, by hand: field 1 varint, 2 and 4 text."""
    url = f"/{number}".encode()
    return b"\x08" + bytes([number]) + b"\x12" + bytes([len(url)]) + url + b"\x22\x01t"


def by_offset(bench: Workbench, topic: str, *names: str) -> dict[int, tuple[Any, ...]]:
    """Columns of each row, by offset."""
    rows = rows_by_offset(bench, topic).values()
    return {row[METADATA]["offset"]: tuple(row[name] for name in names) for row in rows}


@together()
def test_three_formats_in_one_topic(bench: Workbench, sender: Sender) -> Story:
    """Avro, Protobuf and JSON Schema by their ids, record by record; what is damaged is a letter each."""
    ids = {
        kind: sender.registry.register_schema(f"{sender.topic}-{record}", Schema(text, kind))
        for kind, record, text in (("PROTOBUF", "Click", PROTO), ("JSON", "A click", JSON_SCHEMA))
    }
    for number in range(1, 31):
        sender.raw(sender.serialize(AVRO, {"id": number, "url": f"/{number}"}))
        sender.raw(prefix(ids["PROTOBUF"]) + b"\x00" + proto_message(number))
        sender.raw(prefix(ids["JSON"]) + json.dumps({"id": number, "url": f"/{number}"}).encode())
    sender.raw(prefix(ids["PROTOBUF"]) + b"\x00" + proto_message(1)[:-1])
    sender.raw(prefix(ids["JSON"]) + b'{"id": "x"}')
    sender.flush()
    status = yield FAST
    expected = {3 * (n - 1) + k: (n, f"/{n}") for n in range(1, 31) for k in range(3)}
    assert by_offset(bench, sender.topic, "id", "url") == expected
    dead_letters = dead_letters_by_offset(bench, sender.topic)
    assert sorted(offset for _, offset in dead_letters) == [90, 91]
    assert {letter["reason"].split("_")[0] for letter in dead_letters.values()} == {"protobuf", "json"}
    assert status.rows == 90


@together()
def test_json_without_a_schema(bench: Workbench, sender: Sender) -> Story:
    """Columns come with the records and widen; what is no JSON is a letter."""
    for number in range(20):
        sender.raw(json.dumps({"id": number, "at": "2026-01-31", "in": {"x": number / 2}}).encode())
    sender.raw(b'{"id": 1')
    sender.flush()
    yield {**FAST, "value_format": "json"}
    sender.raw(json.dumps({"id": 2**60, "more": [1, 2], "in": {"y": True}}).encode())
    sender.flush()
    yield None
    rows = {row[METADATA]["offset"]: row for row in rows_by_offset(bench, sender.topic).values()}
    assert set(rows) == {*range(20), 21}
    assert (rows[3]["id"], rows[3]["at"], rows[3]["in"]) == (3, "2026-01-31", {"x": 1.5, "y": None})
    assert (rows[21]["id"], rows[21]["more"], rows[21]["in"]) == (2**60, [1, 2], {"x": None, "y": True})
    assert [offset for _, offset in dead_letters_by_offset(bench, sender.topic)] == [20]


@together()
def test_schemas_that_were_deleted_softly_are_read(bench: Workbench, sender: Sender) -> Story:
    """One version, then the subject: records that name them are rows, of a table that is new or has them."""
    newer = record(field("id", "long"), field("url", "string"), field("size", "long", default=0))
    last = record(field("id", "long"), field("url", "string"), field("more", ["null", "long"], default=None))
    sender.avro(AVRO, {"id": 0, "url": "/0"})
    sender.avro(newer, {"id": 1, "url": "/1", "size": 1})
    subject = f"{sender.topic}-value"
    sender.registry.delete_version(subject, 1)
    yield FAST
    values = [sender.serialize(last, {"id": n, "url": f"/{n}", "more": n}) for n in (2, 3)]
    sender.registry.delete_subject(subject)
    for value in values:
        sender.raw(value)
    sender.avro(AVRO, {"id": 4, "url": "/4"})  # the serializer knows its id
    yield None
    assert by_offset(bench, sender.topic, "id", "url", "size", "more") == {
        0: (0, "/0", None, None),
        1: (1, "/1", 1, None),
        2: (2, "/2", None, 2),
        3: (3, "/3", None, 3),
        4: (4, "/4", None, None),
    }


@pytest.mark.parametrize("kind", ["AVRO", "PROTOBUF", "JSON"])
@together()
def test_values_of_the_newest_schema(bench: Workbench, sender: Sender, kind: str) -> Story:
    """Values without an id are read by the newest schema of the subject that is set."""
    subject = f"of-{sender.topic}"
    text = {"AVRO": AVRO, "PROTOBUF": PROTO, "JSON": JSON_SCHEMA}[kind]
    sender.registry.register_schema(subject, Schema(text, kind))

    def value(number: int) -> bytes:
        if kind == "PROTOBUF":
            return proto_message(number)
        if kind == "JSON":
            return json.dumps({"id": number, "url": f"/{number}"}).encode()
        return bytes([2 * number, 4]) + f"/{number}".encode()

    for number in range(1, 10):
        sender.raw(value(number))
    sender.raw(b"\xff\xff")
    sender.flush()
    yield {**FAST, "value_format": "by_latest_schema", "value_subject": subject}
    assert by_offset(bench, sender.topic, "id", "url") == {n - 1: (n, f"/{n}") for n in range(1, 10)}
    assert [offset for _, offset in dead_letters_by_offset(bench, sender.topic)] == [9]
