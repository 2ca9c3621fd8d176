"""The topic, its broker and its registry, as models: what there is to read, and who says so.

The topic is the record of truth: each record's kind determines what must become of it, and each good one has
a unique value.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tabletopic_kernel.clients.kafka.broker import TopicFacts
from tabletopic_kernel.clients.kafka.reader import KafkaRecord
from tabletopic_kernel.clients.registry.registry import RegisteredSchema, UnknownSchemaError
from tabletopic_kernel.formats.wire import fingerprint

TOPIC = "clicks"
CLUSTER = "cluster"
GENERATION = 1_000_000_000  # values of a topic that was made anew differ by this
CUT, LOGS = 10_000_000, 100  # and those of a log that was cut, from there on; logs of a generation
PARTITION = 1_000_000
_FIRST_MS = 4_000_000_000_000  # of records and of the virtual clock: later than any real clock says
LEARNED = (9, 10, 11)  # schema ids that records name before the registry knows them, one after the other
_KEYED_MS = 1_000_000_000_000  # of records with keys: deleted keys are remembered by times that are past
_ROW = '{"type":"record","name":"Row","fields":[{"name":"a","type":"long"}%s]}'
_ORDERED = (
    '{"name":"a","type":"long"},{"name":"o","type":["null","long"],"default":null},'
    '{"name":"__deleted","type":["null","string"],"default":null}'
)
_MORE = ',{"name":"%s","type":["null","long"],"default":null}'
SCHEMAS = {
    1: _ROW % "",
    2: _ROW % (_MORE % "b"),
    3: _ROW % (_MORE % "c"),
    **{one: _ROW % (_MORE % f"d{one}") for one in LEARNED},
}
REUSED = 2  # the id that the registry may give again, to the same bytes by other words
REUSED_TEXT = _ROW % (_MORE % "z")
# The setting by which a person accepts that text.
ACCEPTED = {"accepted_texts": (f"{REUSED}={REUSED}:{fingerprint('AVRO', REUSED_TEXT, ())}",)}
# Kinds of records: what a schema id is written as, and what may become of it.
GOOD = {"plain": 1, "with b": REUSED, "with c": 3, "with z": REUSED}
UNKNOWN, BAD, HOLE = "unknown", "bad", "hole"


@dataclass(frozen=True)
class Record:
    """One offset of the topic. ``value`` is the expected row; a hole has an offset and no record."""

    kind: str
    value: int
    learned: int = LEARNED[0]  # the schema id of a record whose kind is UNKNOWN
    key: bytes | None = None  # this and the following: of a table kept by key
    ms: int | None = None  # None: by its offset
    order: int | None = None
    deletes: bool = False

    @property
    def must_be_row(self) -> bool:
        """Whether it can only become a row."""
        return self.kind in GOOD

    @property
    def raw(self) -> bytes | None:
        """The record's bytes: magic, schema id, Avro; None deletes its key."""
        if self.deletes and self.order is None:
            return None
        schema_id = self.learned if self.kind == UNKNOWN else GOOD.get(self.kind, 1)
        more = b"" if schema_id == 1 else b"\x02" + _long(self.value) if self.kind == "with z" else b"\x00"
        if self.order is not None:
            more = b"\x02" + _long(self.order) + (b"\x02\x08true" if self.deletes else b"\x00") + more
        body = b"\xff" * 11 if self.kind == BAD else _long(self.value) + more
        return b"\x00" + struct.pack(">I", schema_id) + body


def _long(value: int) -> bytes:
    """Avro's variable-length zigzag."""
    left, out = value << 1, b""
    while left > 0x7F:
        out += bytes([left & 0x7F | 0x80])
        left >>= 7
    return out + bytes([left])


@dataclass
class Topic:
    """Records by partition. ``first`` is where retention has got to."""

    generation: int = 0
    records: dict[int, list[Record]] = field(default_factory=lambda: {0: [], 1: []})
    first: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 0})
    cuts: int = 0
    cut_at: dict[int, int] = field(default_factory=dict)  # the first offset that a partition's log ever lost
    clock_ms: int = _KEYED_MS  # of a table kept by key: the newest record's time
    order: int = 0

    @property
    def id(self) -> str:
        """Kafka's id of the topic."""
        return f"topic-{self.generation}"

    def end(self) -> dict[int, int]:
        """The next offset of every partition."""
        return {partition: len(records) for partition, records in self.records.items()}

    def produce(self, partition: int, kind: str, learned: int = LEARNED[0], **of_key: Any) -> None:
        """One more record."""
        records = self.records[partition]
        value = self.generation * GENERATION + self.cuts * CUT + partition * PARTITION + len(records)
        records.append(Record(kind, value, learned, **of_key))

    def ms(self, partition: int, offset: int) -> int:
        """The timestamp of a record."""
        ms = self.records[partition][offset].ms
        return _FIRST_MS + offset if ms is None else ms

    def cut(self, partition: int, offset: int, more: int) -> None:
        """The log loses what is there from ``offset`` on, and is ``more`` records longer soon after."""
        records = self.records[partition]
        end = len(records) + more
        del records[offset:]
        self.cuts += 1
        self.cut_at[partition] = min(offset, self.cut_at.get(partition, offset))
        while len(records) < end:
            self.produce(partition, "plain")

    def grow(self) -> None:
        """One more partition."""
        self.records[len(self.records)], self.first[len(self.first)] = [], 0

    def made_anew(self) -> None:
        """Deleted, and created under the same name."""
        self.generation += 1
        self.records, self.first = {0: [], 1: []}, {0: 0, 1: 0}
        self.cuts, self.cut_at = 0, {}

    def batch(self, start: Mapping[int, int], end: Mapping[int, int]) -> pa.RecordBatch:
        """The records between, by the source's columns."""
        places = [
            (p, o, self.records[p][o]) for p in sorted(end) for o in range(start.get(p, 0), end[p])
            if self.records[p][o].kind != HOLE
        ]  # fmt: skip
        headers = pa.nulls(len(places), pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
        at = pa.array([self.ms(p, o) * 1000 for p, o, _ in places], pa.timestamp("us", "UTC"))
        columns = {
            "value": pa.array([record.raw for _, _, record in places], pa.binary()),
            "key": pa.array([record.key for _, _, record in places], pa.binary()),
            "headers": headers,
            "partition": pa.array([p for p, _, _ in places], pa.int32()),
            "offset": pa.array([o for _, o, _ in places], pa.int64()),
            "timestamp": at,
        }
        return pa.RecordBatch.from_pydict(columns)


Call = Callable[[str, Callable[[], Any]], Any]


@dataclass
class ModelBroker:
    """The interface of ``adapters.kafka.Broker`` that coordinators use."""

    topic: Topic
    call: Call
    properties: dict[str, str] = field(default_factory=lambda: {"bootstrap.servers": "nowhere:1"})

    def facts(self, topic: str) -> TopicFacts:
        """Identity, first and end offsets."""
        assert topic == TOPIC
        return self.call("broker facts", self._facts)  # type: ignore[no-any-return]

    def _facts(self) -> TopicFacts:
        return TopicFacts(TOPIC, CLUSTER, self.topic.id, dict(self.topic.first), self.topic.end())

    def topic_id(self, topic: str) -> str:
        """Kafka's id of the topic."""
        return self.call("broker topic id", lambda: self.topic.id)  # type: ignore[no-any-return]

    def read(
        self, topic: str, starts: Mapping[int, int], ends: Mapping[int, int]
    ) -> Iterator[list[KafkaRecord]]:
        """What the log has there."""
        assert topic == TOPIC
        yield self.call("broker facts", lambda: list(self._read(starts, ends)))

    def _read(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[KafkaRecord]:
        for p, start in starts.items():
            for offset in range(max(start, self.topic.first[p]), min(ends[p], len(self.topic.records[p]))):
                if (record := self.topic.records[p][offset]).kind != HOLE:
                    yield KafkaRecord(p, offset, record.key, record.raw, self.topic.ms(p, offset))


@dataclass
class Refilled:
    """Whether the registry was emptied and filled again, and whether it has told a host so since."""

    is_so: bool = False
    is_known: bool = False


@dataclass
class ModelRegistry:
    """The interface of ``adapters.registry.Registry`` that coordinators use."""

    call: Call
    known: set[int] = field(default_factory=lambda: {1, 2, 3})
    refilled: Refilled = field(default_factory=Refilled)
    ordered: bool = False  # by a column, which all schemas have

    def latest(self, subject: str) -> RegisteredSchema | None:
        """The newest schema of the topic's values; the first one, so that others change the table."""
        return self.by_id(1)

    def by_id(self, schema_id: int, subject: str = "") -> RegisteredSchema:
        """A schema by id."""
        return self.call("registry", lambda: self._by_id(schema_id))  # type: ignore[no-any-return]

    def _by_id(self, schema_id: int) -> RegisteredSchema:
        if schema_id not in self.known:
            raise UnknownSchemaError(f"the registry has no schema {schema_id}")
        text = SCHEMAS[schema_id]
        if schema_id == REUSED and self.refilled.is_so:
            text, self.refilled.is_known = REUSED_TEXT, True
        if self.ordered:
            text = text.replace('{"name":"a","type":"long"}', _ORDERED)
        return RegisteredSchema(schema_id, "AVRO", text, (), f"{TOPIC}-value", schema_id)

    def text_of(self, schema_id: int, subject: str = "") -> RegisteredSchema:
        """As ``by_id``."""
        return self.by_id(schema_id)

    def by_guid(self, guid: str, subject: str) -> RegisteredSchema:
        """No schema has one here."""
        raise UnknownSchemaError(guid)

    def versions(self, subject: str) -> list[int]:
        """Numbers of the topic's schemas."""
        return sorted(self.known) if subject == f"{TOPIC}-value" else []


@dataclass
class ModelControl:
    """The control topic: nothing correct depends on it; it keeps the newest events for people."""

    written: list[Any] = field(default_factory=list)

    def write(self, event: Any) -> None:
        """Take an event."""
        self.written.append(event)
        del self.written[:-200]
