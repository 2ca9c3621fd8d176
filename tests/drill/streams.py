"""The records of a drill: producers that continue while things break, and remember what the broker accepted.

Longer than other modules, as its kinds of records, and what each must become, are one contract with the
verdict.
"""

from __future__ import annotations

import io
import json
import random
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.schema_registry import Schema

from tabletopic_kernel.clients.kafka.reader import Reader
from tabletopic_kernel.clients.registry.client import registry_client
from tabletopic_kernel.model.errors import InternalError, RetryableError

_PROTO = 'syntax = "proto3"; message Row { int64 id = 1; string text = 2; int64 count = 3; }'
_NOBODYS_ID = 0x7F000000
_HELD_VERSION = 2  # held-back schemas are this version plus their own fields
_TRANSACTION_RECORDS = 40
_FLUSH_S = 240.0
# Longer than any fault of a drill: else the broker aborts a transaction that the producer is about to commit.
_TRANSACTION_MS = 600_000


class Fate(StrEnum):
    """What must become of a record."""

    ROW = "row"
    NULLS = "nulls"  # no value: a row of nulls
    LETTER = "letter"
    UNSURE = "unsure"  # its transaction's outcome is unknown: at most one row
    GONE = "gone"  # a newer one of its key replaced or deleted it, or it deletes: no row
    LATER = "later"  # its schema is registered later: a letter until a replay after that, then a row


@dataclass(frozen=True, slots=True)
class Sent:
    """A record that the broker acknowledged; its value follows from the others, the key from ``number``."""

    partition: int
    offset: int
    number: int
    version: int
    fate: Fate
    held: int = 0
    key: int | None = None  # in a topic with one row per key

    @property
    def value(self) -> dict[str, Any]:
        """What its row has."""
        if self.fate is Fate.NULLS:
            return {}
        key = {} if self.key is None else {"_kafka_key": key_of(self.key)}
        return value_of(self.number, self.version, self.held) | key


@dataclass(frozen=True)
class StreamPlan:
    """One topic of the drill: its format, how its producer behaves, and its settings as a table topic."""

    topic: str
    kind: str  # avro, protobuf or json
    partitions: int
    transactional: bool
    settings: Mapping[str, Any]
    poison: float = 0.02
    tombstones: float = 0.02
    later: float = 0.0  # share of records whose schema is registered later
    keys: int = 0  # so many, of a table with one row per key; a key stays in its partition


PLANS = (
    StreamPlan(
        "orders",
        "avro",
        3,
        False,
        {"partition_by": ["bucket(2, id)"], "sort_by": ["count desc", "id"]},
        later=0.03,
    ),
    StreamPlan("payments", "protobuf", 2, True, {}),
    StreamPlan("visits", "json", 2, False, {"value_format": "json", "on_gap": "go_on"}, tombstones=0.0),
    StreamPlan(
        "accounts",
        "json",
        2,
        False,
        {"mode": "upsert", "value_format": "json", "key_format": "string"},
        tombstones=0.2,
        keys=500,
    ),
)


def key_of(number: int) -> str:
    """The Kafka key of one of the keys."""
    return f"key {number}"


def newest_of_keys(sent: Sequence[Sent]) -> list[Sent]:
    """The records, with another fate for those that left no row: a dict's, in the order of offsets."""
    rows = (Fate.ROW, Fate.NULLS)
    newest = {one.key: one.offset for one in sorted(sent, key=lambda o: o.offset) if one.fate in rows}
    return [
        replace(one, fate=Fate.GONE)
        if one.key is not None
        and one.fate in rows
        and (one.fate is Fate.NULLS or one.offset < newest[one.key])
        else one
        for one in sent
    ]


def value_of(number: int, version: int, held: int = 0) -> dict[str, Any]:
    """Record ``number`` in version 1, 2, … of the schema: each later one adds or widens a column.

    ``held``: the number of the held-back schema that the record was written with; 0 if with none.
    """
    value: dict[str, Any] = {"id": number, "text": f"text {number} ✓", "count": number % 1000}
    if version > 1:
        value |= {"count": 5_000_000_000 + number, "extra": number / 8}
    value |= {f"late_{k}": f"late {k} of {number}" for k in range(3, version + 1)}
    return value | dict.fromkeys(held_names(held), f"held {held} of {number}")


def held_names(held: int) -> list[str]:
    """The fields of a held-back schema: a different set for each, from few names, as they become columns.

    >>> held_names(5)
    ['held_0', 'held_2']
    """
    return [f"held_{bit}" for bit in range(held.bit_length()) if held >> bit & 1]


def avro_schema(version: int, held: int = 0) -> str:
    """The Avro schema of ``version`` and ``held``; each can read the records of those before it."""
    count = "long" if version > 1 else "int"
    fields: list[dict[str, Any]] = [
        {"name": "id", "type": "long"},
        {"name": "text", "type": "string"},
        {"name": "count", "type": count},
    ]
    if version > 1:
        fields.append({"name": "extra", "type": ["null", "double"], "default": None})
    late = [f"late_{k}" for k in range(3, version + 1)] + held_names(held)
    fields += [{"name": name, "type": ["null", "string"], "default": None} for name in late]
    return json.dumps({"type": "record", "name": "Row", "fields": fields})


class Stream:
    """Sends to one topic from ``begin`` to ``end``, in several schema versions at once."""

    def __init__(
        self, plan: StreamPlan, kafka: Mapping[str, Any], registry: Mapping[str, Any], seed: int
    ) -> None:
        self.plan = plan
        self.sent: list[Sent] = []
        self.ends: dict[int, int] = {}  # partition → the offset after the last acknowledged record
        self.aborted = 0
        self._random = random.Random(f"{seed} {plan.topic}")
        self._registry = registry_client({**registry, "timeout": 10})
        self._ids: dict[int, int] = {}
        self._held = (0, 0)  # number and id of the schema that records name but the topic's subject lacks
        self._partitions = plan.partitions
        self._number = 0
        self._stop = threading.Event()
        self._error: Exception | None = None
        self._in_transaction = False
        self._started = 0  # the transaction's first record
        properties = {
            **kafka,
            "enable.idempotence": True,
            "linger.ms": 5,
            "log_level": 0,
            "message.timeout.ms": int(_FLUSH_S * 1000),
            # To find an added partition soon.
            "topic.metadata.refresh.interval.ms": 2_000,
        }
        if plan.transactional:
            properties |= {
                "transactional.id": f"drill-{plan.topic}-{seed}",
                "transaction.timeout.ms": _TRANSACTION_MS,
            }
            properties["message.timeout.ms"] = 60_000
        self._kafka = kafka
        self._properties = properties
        self.producer = Producer(properties)
        self._thread = threading.Thread(target=self._run, name=f"stream {plan.topic}", daemon=True)
        self._rate = 0.0
        self._register(1)
        self._register(2)
        if plan.later:
            self._hold_back()

    @property
    def version(self) -> int:
        """The newest version of the schema."""
        return max(self._ids)

    @property
    def error(self) -> Exception | None:
        """The error that ended the producer."""
        return self._error

    def evolve(self) -> int:
        """Register another version of the schema and send records of it; returns the version."""
        version = self.version + (self.plan.kind == "avro")
        self._register(version)
        return version

    def release(self) -> bool:
        """Register the held-back schema, and hold back the next one; returns whether there was one.

        A replay now turns letters that name it into rows.
        """
        held, schema_id = self._held
        if not held:
            return False
        schema = Schema(avro_schema(_HELD_VERSION, held), "AVRO")
        known = self._registry.register_schema(f"{self.plan.topic}-value", schema)
        if known != schema_id:
            raise InternalError(f"the registry calls one schema {schema_id} and {known}")
        self._hold_back()
        return True

    def _hold_back(self) -> None:
        """Register a schema under a subject of no topic: it has an id, but is not one of the topic's yet."""
        held = self._held[0] + 1
        schema = Schema(avro_schema(_HELD_VERSION, held), "AVRO")
        self._held = (held, self._registry.register_schema(f"{self.plan.topic}-held-{held}", schema))

    def add_partition(self, count: int) -> None:
        """Use the partitions below ``count`` too."""
        self._partitions = count

    def begin(self, per_second: float) -> None:
        """Start sending."""
        self._rate = per_second
        self._thread.start()

    def go(self) -> None:
        """Does nothing: it continues by itself."""

    def end(self) -> None:
        """Stop, and wait until everything is acknowledged; raises what ended the producer."""
        self._stop.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _register(self, version: int) -> None:
        """Register a version before its records are sent, as the registry may be down then."""
        if self.plan.kind == "avro":
            schema = Schema(avro_schema(version), "AVRO")
        elif self.plan.kind == "protobuf":
            schema = Schema(_PROTO, "PROTOBUF")
        else:
            self._ids[version] = 0
            return
        self._ids[version] = self._registry.register_schema(f"{self.plan.topic}-value", schema)

    def _run(self) -> None:
        try:
            if self.plan.transactional:
                self.producer.init_transactions(120)
                self._send_transactions()
            else:
                for _ in self._ticks():
                    self.send_one(self.sent)
                    self.producer.poll(0)
            if self.producer.flush(_FLUSH_S):
                raise InternalError(f"the broker did not take the last records of {self.plan.topic}")
        except Exception as error:
            self._error = error

    def _ticks(self) -> Iterator[None]:
        next_at = time.monotonic()
        while not self._stop.is_set():
            yield
            next_at = max(next_at + 1 / self._rate, time.monotonic() - 1)
            self._stop.wait(max(0.0, next_at - time.monotonic()))

    def _send_transactions(self) -> None:
        """Send transactions of some records; every fifth is aborted."""
        open_records: list[Sent] = []
        for _ in self._ticks():
            try:
                if not self._in_transaction:
                    self.producer.begin_transaction()
                    self._in_transaction = True
                    self._started = self._number
                self.send_one(open_records)
            except KafkaException as error:
                if not error.args[0].fatal() and error.args[0].code() != KafkaError._FATAL:
                    raise
                self.begin_anew(open_records)
            self.producer.poll(0)
            if self._number - self._started >= _TRANSACTION_RECORDS:
                self._end_transaction(open_records)
        if self._in_transaction:
            self._end_transaction(open_records)

    def _end_transaction(self, records: list[Sent]) -> None:
        self._in_transaction = False
        if self._random.random() < 0.2:
            self._abort(records)
            return
        try:
            self._retried(self.producer.commit_transaction)
        except KafkaException as error:
            if error.args[0].fatal():
                self.begin_anew(records)
                return
            if not error.args[0].txn_requires_abort():
                raise
            self._abort(records)
            return
        self._acknowledge(records)

    def _abort(self, records: list[Sent]) -> None:
        self.producer.flush(30)  # a broker refuses to end a transaction that it does not know
        try:
            self._retried(self.producer.abort_transaction)
        except KafkaException as error:
            if not error.args[0].fatal():
                raise
            self.begin_anew(records)
            return
        self.aborted += self._number - self._started
        records.clear()

    def begin_anew(self, records: list[Sent]) -> None:
        """Replace the producer by one of the same id, which ends open transactions; the log shows how."""
        self._in_transaction = False
        self.producer = Producer(self._properties)
        self.producer.init_transactions(120)
        try:
            sent = self._as_logged(records)
        except RetryableError:
            sent = [replace(record, fate=Fate.UNSURE) for record in records]
        records.clear()
        self._acknowledge(sent)

    def _as_logged(self, records: Sequence[Sent]) -> list[Sent]:
        """The records that read-committed consumers get; unsure if retention was faster."""
        offsets: dict[int, list[int]] = {}
        for one in records:
            offsets.setdefault(one.partition, []).append(one.offset)
        starts = {partition: min(found) for partition, found in offsets.items()}
        ends = {partition: max(found) + 1 for partition, found in offsets.items()}
        with Reader(self._kafka, "tabletopic-drill") as reader:
            batches = list(reader.read_range(self.plan.topic, starts, ends))
            first = {partition: reader.bounds(self.plan.topic, partition)[0] for partition in starts}
        committed = {(one.partition(), one.offset()) for batch in batches for one in batch}
        gone = [record for record in records if record.offset < first[record.partition]]
        return [
            *(one for one in records if (one.partition, one.offset) in committed),
            *(replace(o, fate=Fate.UNSURE) for o in gone if (o.partition, o.offset) not in committed),
        ]

    def _retried(self, call: Any) -> None:
        """Retry while the broker is down; a transaction's end may be requested again."""
        ends_at = time.monotonic() + _FLUSH_S
        while True:
            try:
                call(30)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > ends_at:
                    raise

    def _acknowledge(self, records: list[Sent]) -> None:
        self.sent += records
        for record in records:
            self.ends[record.partition] = max(self.ends.get(record.partition, 0), record.offset + 1)
        records.clear()

    def send_one(self, taken: list[Sent]) -> None:
        """Send the next record, and keep it in ``taken``."""
        number, chance = self._number, self._random.random()
        self._number += 1
        version = self._random.choice((1, 2, self.version)) if number > 20 else 1
        if self.plan.kind == "protobuf":  # its message has the fields of the first version
            version = 1
        fate = Fate.ROW
        if number > 20 and chance < self.plan.poison:
            fate = Fate.LETTER
        elif number > 20 and 0 <= chance - self.plan.poison < self.plan.tombstones:
            fate = Fate.NULLS
        data = None if fate is Fate.NULLS else self.bytes_of(number, version)
        held = 0
        if fate is Fate.ROW and number > 20 and self._random.random() < self.plan.later:
            fate, version, (held, schema_id) = Fate.LATER, _HELD_VERSION, self._held
            data = _framed(schema_id, avro_body(value_of(number, version, held)))
        if fate is Fate.LETTER and data is not None:
            data = poisoned(data, number, self.plan.kind)
        key = self._random.randrange(self.plan.keys) if self.plan.keys else None

        def delivered(error: Any, message: Message) -> None:
            if error is not None:
                if not self.plan.transactional:  # otherwise its transaction is aborted
                    self._error = KafkaException(error)
                return
            place = (message.partition() or 0, message.offset() or 0)
            taken.append(Sent(*place, number, version, fate, held, key))
            if taken is self.sent:
                self.ends[place[0]] = max(self.ends.get(place[0], 0), place[1] + 1)

        partition, kafka_key = number % self._partitions, None
        if key is not None:
            partition, kafka_key = key % self.plan.partitions, key_of(key)
        while True:
            try:
                self.producer.produce(
                    self.plan.topic, data, kafka_key, partition=partition, on_delivery=delivered
                )
                return
            except BufferError:
                self.producer.poll(0.1)
            except KafkaException as error:
                if error.args[0].code() != KafkaError._UNKNOWN_PARTITION or partition < self.plan.partitions:
                    raise
                partition = number % self.plan.partitions  # the added one is not known here yet

    def bytes_of(self, number: int, version: int) -> bytes:
        """The record's value as sent to the topic."""
        value = value_of(number, version)
        if self.plan.kind == "json":
            return json.dumps(value, ensure_ascii=False).encode()
        schema_id = self._ids[version]
        if self.plan.kind == "avro":
            return _framed(schema_id, avro_body(value))
        return _framed(schema_id, b"\0" + protobuf_body(value))


def _framed(schema_id: int, body: bytes) -> bytes:
    return struct.pack(">bI", 0, schema_id) + body


def poisoned(data: bytes, number: int, kind: str) -> bytes:
    """A value that cannot become a row: truncated, with an unregistered id, or not a record at all."""
    if kind == "json":
        return (data[:-1], b"\xff\xfe" + data, data + b"}")[number % 3]
    return (data[:-1], struct.pack(">bI", 0, _NOBODYS_ID) + data[5:], b"bad %d" % number)[number % 3]


def avro_body(value: Mapping[str, Any]) -> bytes:
    """Encode by the Avro specification (binary encoding), in ``avro_schema``'s order of fields."""
    out = io.BytesIO()
    out.write(_zigzag(value["id"]))
    text = value["text"].encode()
    out.write(_zigzag(len(text)) + text + _zigzag(value["count"]))
    for name, one in value.items():
        if name == "extra":
            out.write(_zigzag(1) + struct.pack("<d", one))
        elif name.startswith(("late_", "held_")):
            out.write(_zigzag(1) + _zigzag(len(one.encode())) + one.encode())
    return out.getvalue()


def protobuf_body(value: Mapping[str, Any]) -> bytes:
    """Encode by the Protobuf specification (wire format): fields 1, 2 and 3 of ``Row``."""
    text: bytes = value["text"].encode()
    words = b"\x12" + _varint(len(text)) + text
    return b"\x08" + _varint(value["id"]) + words + b"\x18" + _varint(value["count"])


def _zigzag(number: int) -> bytes:
    return _varint((number << 1) ^ (number >> 63))


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
