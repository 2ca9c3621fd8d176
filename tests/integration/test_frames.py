"""Records that name their schemas in every possible way, keys too, on the real broker, registry and Spark."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    prefix_schema_id_serializer,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message_factory import GetMessageClass

from tabletopic_kernel.formats.protobuf.schema.protoc import compile_schema
from tabletopic_kernel.formats.protobuf.schema.tree import load
from tabletopic_kernel.formats.wire import KEY_HEADER, VALUE_HEADER, prefix
from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.conftest import METADATA, Sender, dead_letters_by_offset, rows_by_offset
from tests.integration.rows import FAST
from tests.integration.together import Story, together

pytestmark = [pytest.mark.story, pytest.mark.usefixtures("host")]

Make = Callable[[Any], Any]


def record(name: str, *fields: tuple[str, Any]) -> str:
    """An Avro record in a namespace."""
    made: list[dict[str, Any]] = [{"name": field, "type": kind} for field, kind in fields]
    for one in made:
        if isinstance(one["type"], list):
            one["default"] = None
    return json.dumps({"type": "record", "name": name, "namespace": "shop", "fields": made})


CLICK = record("Click", ("id", "long"), ("url", "string"))
ORDER = record("Order", ("id", "long"), ("price", ["null", "double"]))
KEY_1 = record("Key", ("user", "int"))
KEY_2 = record("Key", ("user", "long"), ("region", ["null", "string"]))
VIEW = json.dumps(
    {
        "title": "View",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "seconds": {"type": "number"}},
        "required": ["id"],
        "additionalProperties": False,
    }
)
LIKE = 'syntax = "proto3"; package shop; message Other { int32 x = 1; } message Like { int64 id = 1; }'


def in_header(payload: bytes, context: SerializationContext, schema_id: Any) -> bytes:
    """As Confluent's header serializer; with the id, as the embedded registry has no GUIDs."""
    name = KEY_HEADER if context.field == MessageField.KEY else VALUE_HEADER
    context.headers.append((name, schema_id.id_to_bytes()))
    return payload


class Writer:
    """Sends records through Confluent's serializers, and records what must be in the table."""

    def __init__(self, sender: Sender) -> None:
        self.sender = sender
        self.expected: dict[int, tuple[dict[str, Any], Any]] = {}  # offset: columns that are set, key
        self._count = 0
        files, name = compile_schema(LIKE, {})
        like = load(files).FindFileByName(name).message_types_by_name["Like"]
        self._like = GetMessageClass(like)

    def _serializer(self, schema: str, conf: dict[str, Any]) -> Any:
        registry = self.sender.registry
        if schema == VIEW:
            return JSONSerializer(schema, registry, conf=conf)
        if schema == LIKE:
            return ProtobufSerializer(self._like, registry, {"use.deprecated.format": False, **conf})
        return AvroSerializer(registry, schema, conf=conf)

    def _bytes(self, schema: str, value: Any, field: str, how: Any, headers: Any, strategy: Any) -> Any:
        conf = {"schema.id.serializer": how, "subject.name.strategy": strategy}
        message = self._like(**value) if schema == LIKE else value
        return self._serializer(schema, conf)(
            message, SerializationContext(self.sender.topic, field, headers)
        )

    def send(self, value: tuple[str, Any] | None, key: tuple[str, Any] | None, *, header: bool) -> None:
        """A record of a schema and a value each; ids are in headers or in front."""
        headers: list[tuple[str, bytes]] = [("trace", b"t")]
        how = in_header if header else prefix_schema_id_serializer
        strategy, of_keys = topic_record_subject_name_strategy, record_subject_name_strategy
        body = None if value is None else self._bytes(*value, MessageField.VALUE, how, headers, strategy)
        name = None if key is None else self._bytes(*key, MessageField.KEY, how, headers, of_keys)
        self.sender.raw(body, key=name, headers=headers)
        self.expected[self._count] = (value[1] if value else {}, key[1] if key else None)
        self._count += 1

    def bad(self, value: bytes | None, key: bytes | None, headers: Any = None) -> None:
        """Send a record that must become a letter."""
        self.sender.raw(value, key=key, headers=headers)
        self._count += 1


def _normal(row: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    columns = {name: value for name, value in row.items() if name[0] != "_" and value is not None}
    key = row["_kafka_key"]
    return columns, key and {name: value for name, value in key.items() if value is not None}


@together()
def test_every_way_to_name_a_schema_in_one_topic(bench: Workbench, sender: Sender) -> Story:
    """Ids in front and in headers, four value schemas, two of keys, tombstones; compared value by value."""
    writer = Writer(sender)
    writer.bad(b"no schema", b"no key")
    sender.flush()
    status = yield {**FAST, "key_format": "by_schema_id", "value_message": "Like"}, "waiting"
    assert "has no table" in status.error
    assert "no_schema_id" in status.error
    for number in range(1, 21):
        header = number % 2 == 0
        key_1, key_2 = (KEY_1, {"user": number}), (KEY_2, {"user": 2**40, "region": "eu"})
        writer.send((CLICK, {"id": number, "url": f"/{number}"}), key_1, header=header)
        writer.send((VIEW, {"id": number, "seconds": number / 4}), None, header=header)
        writer.send((ORDER, {"id": number, "price": number / 8}), key_2, header=not header)
        writer.send((LIKE, {"id": number}), key_1, header=header)
        writer.send(None, key_2, header=header)
    guid = b"\1" + uuid.UUID(int=7).bytes
    writer.bad(b"x", None, [(VALUE_HEADER, guid)])
    writer.bad(b"x", None, [(VALUE_HEADER, b"\0")])
    writer.bad(None, prefix(2**31 - 1))
    sender.flush()
    yield None
    rows = {offset: row for (_, offset), row in rows_by_offset(bench, sender.topic).items()}
    assert {offset: _normal(row) for offset, row in rows.items()} == writer.expected
    dead_letters = {
        offset: one["reason"] for (_, offset), one in dead_letters_by_offset(bench, sender.topic).items()
    }
    last = max(writer.expected)
    assert dead_letters == {
        0: "no_schema_id",
        last + 1: "unknown_schema",
        last + 2: "bad_schema_header",
        last + 3: "key_unknown_schema",
    }
    again = bench.lake.sql(f'SELECT * FROM "{sender.topic}"').to_pylist()
    assert {row[METADATA]["offset"]: _normal(row) for row in again} == writer.expected
    schema = bench.topic(sender.topic).schema()
    assert {version.subject for version in schema.versions} == {
        *(f"{sender.topic}-{name}" for name in ("shop.Click", "shop.Order", "View", "shop.Like")),
        "shop.Key",
    }
    newest = bench.topic(sender.topic).peek(8)
    assert [one.error is None for one in newest] == [False] * 3 + [True] * 5
    assert newest[3].key_value == {"user": 2**40, "region": "eu"}
    assert newest[4].value == {"id": 20}
