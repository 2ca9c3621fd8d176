"""The benchmarked topics: the clickstream's 13 fields in each format, and further shapes in Avro.

These have 100 columns (``wide``), schema ids of two versions in turns (``two_ids``), or a table of 50
partitions, all of which get records at once (``partitioned``).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, get_args

from confluent_kafka.schema_registry import Schema as RegistrySchema
from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]
from pyiceberg.schema import Schema

from benchmarks import wide
from tabletopic_kernel._datasets.clickstream.avro import Encoder, schema_text
from tabletopic_kernel._datasets.clickstream.generator import Clickstream
from tabletopic_kernel._datasets.clickstream.produce import send_in_circles
from tabletopic_kernel.clients.registry.client import registry_client
from tabletopic_kernel.formats.decoder import Decoder, inferring_decoder, make_decoder
from tabletopic_kernel.formats.protobuf.schema.protoc import compile_schema
from tabletopic_kernel.formats.protobuf.schema.tree import load as load_protobuf
from tabletopic_kernel.formats.wire import WriterSchema, prefix
from tabletopic_kernel.workbench.workbench import Workbench

Format = Literal["avro", "protobuf", "json_schema", "json", "wide", "two_ids", "partitioned"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
_DISTINCT = 50_000
PARTITIONS: Final = 50

_PROTO: Final = """
syntax = "proto3";
package shop.clickstream;
import "google/protobuf/timestamp.proto";
message ClickEvent {
  enum EventType { home = 0; category = 1; product = 2; cart = 3; checkout = 4; purchase = 5; }
  message Device { string type = 1; string os = 2; string browser = 3; }
  string event_id = 1;
  google.protobuf.Timestamp event_time = 2;
  string user_id = 3;
  string session_id = 4;
  EventType event_type = 5;
  string url = 6;
  optional string referrer = 7;
  optional string product_id = 8;
  optional double price = 9;
  optional int32 quantity = 10;
  Device device = 11;
  string country = 12;
  int32 duration_ms = 13;
}
"""
_TEXT: Final = {"type": "string"}
_JSON_SCHEMA: Final = json.dumps(
    {
        "title": "ClickEvent",
        "type": "object",
        "properties": {
            "event_id": _TEXT,
            "event_time": {"type": "string", "format": "date-time"},
            "user_id": _TEXT,
            "session_id": _TEXT,
            "event_type": {"enum": ["home", "category", "product", "cart", "checkout", "purchase"]},
            "url": _TEXT,
            "referrer": {"type": ["string", "null"]},
            "product_id": {"type": ["string", "null"]},
            "price": {"type": ["number", "null"]},
            "quantity": {"type": ["integer", "null"]},
            "device": {
                "type": "object",
                "properties": {"type": _TEXT, "os": _TEXT, "browser": _TEXT},
                "additionalProperties": False,
            },
            "country": _TEXT,
            "duration_ms": {"type": "integer"},
        },
        "additionalProperties": False,
    }
)
_REGISTERED: Final[dict[Format, tuple[str, str]]] = {
    "avro": ("AVRO", schema_text("v1")),
    "protobuf": ("PROTOBUF", _PROTO),
    "json_schema": ("JSON", _JSON_SCHEMA),
    "wide": ("AVRO", wide.SCHEMA),
    "two_ids": ("AVRO", schema_text("v1")),
    "partitioned": ("AVRO", schema_text("v1")),
}


@dataclass(frozen=True)
class Load:
    """A topic's records: keys and values of ``records``, repeated. ``schema_id`` None: they name none.
    ``schema``: its text, if it is not the format's own."""

    topic: str
    format: Format
    schema_id: int | None
    records: list[tuple[bytes, bytes]]
    event_ids: tuple[str, ...] = ()
    schema: str = ""

    @property
    def value_format(self) -> str:
        """The value_format with which the topic is read."""
        return "json" if self.schema_id is None else "by_schema_id"

    @property
    def partition_by(self) -> list[str]:
        """The setting of the topic's table."""
        return [f"bucket({PARTITIONS}, user_id)"] if self.format == "partitioned" else []

    @property
    def of_one_schema(self) -> list[bytes]:
        """Values that ``decoder`` decodes."""
        begin = b"" if self.schema_id is None else prefix(self.schema_id)
        return [value for _, value in self.records if value.startswith(begin)]

    @property
    def bytes_per_record(self) -> float:
        """Average size of a value."""
        return sum(len(value) for _, value in self.records) / len(self.records)

    @property
    def avro_schema(self) -> str | None:
        """The schema's text; None for other formats than Avro."""
        kind, text = _REGISTERED.get(self.format, ("", ""))
        return self.schema or text if kind == "AVRO" else None

    def send(
        self, workbench: Workbench, count: int, on_progress: Callable[[int], None], partitions: int = 4
    ) -> None:
        """Fill the topic with ``count`` records; ``partitions``: of a topic that is not there yet."""
        kafka = workbench.servers.kafka
        send_in_circles(
            kafka, self.topic, self.records, count, partitions=partitions, on_progress=on_progress
        )

    def decoder(self, columns: Schema) -> Decoder:
        """The decoder that a worker uses for them; ``columns``: the value's columns in the table."""
        if self.schema_id is None:
            return inferring_decoder(columns)
        kind, text = _REGISTERED[self.format]
        return make_decoder(self.schema_id, WriterSchema(self.schema or text, kind=kind))


def make_load(workbench: Workbench, topic: str, format_: Format) -> Load:
    """Register the schema and encode the events."""
    schema_id = later_id = None
    if format_ != "json":
        kind, text = _REGISTERED[format_]
        with registry_client(workbench.servers.registry) as client:
            schema_id = client.register_schema(f"{topic}-value", RegistrySchema(text, kind))
            later_id = schema_id
            if format_ == "two_ids":
                text = json.dumps(
                    {**json.loads(text), "doc": "A click, as the shop's second version sends it."}
                )
                later_id = client.register_schema(f"{topic}-value", RegistrySchema(text, kind))
    encoders = [encoder(format_, schema_id) for schema_id in (schema_id, later_id)]
    events = [(event.key, event.value) for event in Clickstream(7, "v1").events(_DISTINCT)]
    if format_ == "wide":
        events = [(value["event_id"].encode(), value) for value in wide.events(_DISTINCT)]
    records = [(key, encoders[at % 2](value)) for at, (key, value) in enumerate(events)]
    return Load(topic, format_, schema_id, records, tuple(value["event_id"] for _, value in events))


def encoder(format_: Format, schema_id: int | None) -> Callable[[dict[str, Any]], bytes]:
    """A function from an event to a record's value; ``schema_id`` is None only for JSON without a schema."""
    if schema_id is None:
        return _json
    encoders = {"json_schema": _framed_json, "protobuf": _protobuf, "wide": wide.encoder}
    return encoders.get(format_, _avro)(schema_id)


def _avro(schema_id: int) -> Callable[[dict[str, Any]], bytes]:
    return Encoder("v1").frame(schema_id).encode


def _json(value: dict[str, Any]) -> bytes:
    event_time = datetime.fromtimestamp(value["event_time"] / 1000, UTC).isoformat(timespec="milliseconds")
    return json.dumps({**value, "event_time": event_time.replace("+00:00", "Z")}, default=float).encode()


def _framed_json(schema_id: int) -> Callable[[dict[str, Any]], bytes]:
    return lambda value: prefix(schema_id) + _json(value)


def _protobuf(schema_id: int) -> Callable[[dict[str, Any]], bytes]:
    files, _ = compile_schema(_PROTO)
    message_class = GetMessageClass(load_protobuf(files).FindMessageTypeByName("shop.clickstream.ClickEvent"))

    def encode(value: dict[str, Any]) -> bytes:
        price = value["price"]
        fields = {**value, "price": None if price is None else float(price)}
        milliseconds = fields.pop("event_time")
        message = message_class(**fields)
        message.event_time.FromMilliseconds(milliseconds)
        # A 0 byte between id and message: the schema's first message type.
        return prefix(schema_id) + b"\0" + bytes(message.SerializeToString())

    return encode
