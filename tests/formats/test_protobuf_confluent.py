"""Values written by Confluent's own serializer, with the schemas that it registers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.formats.protobuf.decoder import ProtobufDecoder
from tabletopic_kernel.formats.protobuf.schema.protoc import compile_schema
from tabletopic_kernel.formats.protobuf.schema.tree import load
from tests.formats.avro_cases import plain_rows

SCHEMA = """
syntax = "proto3"; package shop;
import "shop/money.proto"; import "google/protobuf/timestamp.proto"; import "google/type/date.proto";
message Click { string id = 1; }
message Order {
  map<string, int32> counts = 1;
  message Line { uint64 sku = 1; Money price = 2; enum State { NEW = 0; SENT = 1; } State state = 3; }
  repeated Line lines = 2; google.protobuf.Timestamp at = 3; optional string note = 4;
  google.type.Date day = 5;
  oneof paid { bool cash = 6; string card = 7; }
}
"""
MONEY = 'syntax = "proto3"; package shop; message Money { sint64 units = 1; fixed32 nanos = 2; }'


@pytest.fixture(scope="module")
def registry() -> Any:
    """Confluent's own registry for tests, which keeps everything in memory."""
    return SchemaRegistryClient.new_client({"url": "mock://protobuf"})


@pytest.fixture(scope="module")
def pool() -> DescriptorPool:
    """The messages of ``SCHEMA``."""
    files, _ = compile_schema(SCHEMA, {"shop/money.proto": MONEY})
    return load(files)


def _written(registry: Any, topic: str, messages: list[Any]) -> tuple[pa.Array, int, str, dict[str, str]]:
    """The values, and schema id, text and references as in the registry."""
    serializer = ProtobufSerializer(type(messages[0]), registry, {"use.deprecated.format": False})
    context = SerializationContext(topic, MessageField.VALUE)
    values = pa.array([serializer(message, context) for message in messages], pa.binary())
    found = registry.get_latest_version(f"{topic}-value")
    references = {
        one.name: registry.get_version(one.subject, one.version).schema.schema_str
        for one in found.schema.references or []
    }
    return values, found.schema_id, found.schema.schema_str, references


def _order(pool: DescriptorPool, i: int) -> Any:
    order = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))(counts={"a": i}, note="")
    line = order.lines.add(sku=2**64 - 1, state=i % 3)
    line.price.units, line.price.nanos = -i, 2**32 - 1
    order.at.FromMicroseconds(i * 10**6 + 1)
    order.day.year = 2026
    if i % 2:
        order.card = f"card {i}"
    return order


def _row(i: int) -> dict[str, Any]:
    line = {
        "sku": 2**64 - 1,
        "price": {"units": -i, "nanos": 2**32 - 1},
        "state": ["NEW", "SENT", "2"][i % 3],
    }
    return {
        "counts": [("a", i)],
        "lines": [line],
        "at": i * 10**6 + 1,
        "note": "",
        "day": {"year": 2026, "month": 0, "day": 0},
        "cash": None,
        "card": f"card {i}" if i % 2 else None,
    }


def test_a_message_with_references(registry: Any, pool: DescriptorPool) -> None:
    """Its schema is registered in base64, with a reference to the imported file; the second of its file."""
    messages = [_order(pool, i) for i in range(100)]
    values, schema_id, text, references = _written(registry, "orders", messages)
    assert list(references) == ["shop/money.proto"]
    assert values[0].as_py()[:8] == b"\0" + schema_id.to_bytes(4, "big") + b"\x02\x02" + b"\x0a"
    decoder = ProtobufDecoder(text, references, message="Order")
    batch, refused = decoder.decode(values)
    assert refused == []
    assert decoder.fast_refusal is None
    assert plain_rows(batch) == [_row(i) for i in range(100)]


@pytest.mark.parametrize("name", ["shop.Click", "shop.Order.Line"])
def test_first_and_nested_messages(registry: Any, pool: DescriptorPool, name: str) -> None:
    """The first message of a file, whose indexes are one byte, and one beside a map's own type."""
    message_class = GetMessageClass(pool.FindMessageTypeByName(name))
    field = message_class.DESCRIPTOR.fields[0].name
    messages = [message_class(**{field: "7" if field == "id" else 7}) for _ in range(50)]
    values, _, text, references = _written(registry, name, messages)
    batch, refused = ProtobufDecoder(text, references, message=name).decode(values)
    assert refused == []
    assert [str(row[field]) for row in plain_rows(batch)] == ["7"] * 50


@pytest.mark.integration
def test_a_real_registry(stack: Any, pool: DescriptorPool) -> None:
    """What a registry gives back of a schema that Python's serializer registered, references and all."""
    messages = [_order(pool, i) for i in range(100)]
    context = SerializationContext("protobuf-orders", MessageField.VALUE)
    with SchemaRegistryClient({"url": stack.registry_url, "timeout": 10}) as client:
        serializer = ProtobufSerializer(type(messages[0]), client, {"use.deprecated.format": False})
        values = pa.array([serializer(message, context) for message in messages], pa.binary())
    found = Registry({"url": stack.registry_url}).latest("protobuf-orders-value")
    assert found is not None
    decoder = ProtobufDecoder(found.text, dict(found.references), message="Order")
    batch, refused = decoder.decode(values)
    assert refused == []
    assert plain_rows(batch) == [_row(i) for i in range(100)]
