"""Fuzzed records of which nothing is kept whole, half and half with good ones, through the whole stage.

Magic byte, schema id or GUID (in front or in a header), message indexes, body and key are all damaged, or all
of them are noise. Each good record must be a row with equal values, each other one a row or a letter, and the
table must not become another topic's. ``test_many_of_each`` has the volume.
"""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import fastavro
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.clients.registry.registry import RegisteredSchema, Registry, UnknownSchemaError
from tabletopic_kernel.formats.wire import GUID_MAGIC, KEY_HEADER, VALUE_HEADER, SchemaKey, prefix
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.host.topics.control_topic import ControlLog
from tabletopic_kernel.model.dead_letter import INTERNAL_ERROR
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_names import table_identifier
from tabletopic_kernel.pipeline.decode import LoadedPlan
from tabletopic_kernel.table.schemas.keeper import SchemaKeeper
from tests.formats import damage
from tests.formats.protobuf_cases import varint
from tests.pipeline.source import SOURCE
from tests.pipeline.whole_path import Tried
from tests.table.samples import FakeBroker, FakeControl

BATCH = 8_000
COLUMNS = ("id", "text", "sizes")
ROUNDS = 12  # a batch is staged again when the table must change; of damaged names there may be several
GROWTH_BYTES = 400 * 1024**2
TOPIC = "fuzzed"
SIZES = {"type": "array", "items": "int"}
AVRO = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "text", "type": "string"},
        {"name": "sizes", "type": SIZES},
    ],
}
WIDER = {**AVRO, "fields": [*AVRO["fields"], {"name": "more", "type": ["null", "double"], "default": None}]}
FOREIGN = {**AVRO, "name": "Foreign", "fields": [{"name": "foreign", "type": "string"}]}
PROTO = (
    'syntax = "proto3"; message Row { int64 id = 1; string text = 2; repeated int32 sizes = 3; } message Z {}'
)
JSON = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer"},
        "text": {"type": "string"},
        "sizes": {"type": "array", "items": {"type": "integer"}},
    },
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", AVRO], "default": None},
        {"name": "after", "type": ["null", "Row"], "default": None},
        {"name": "op", "type": "string"},
    ],
}
KEY = {"type": "record", "name": "Key", "fields": [{"name": "k", "type": "long"}]}
GUID = "6da336d8-f1d3-0f98-4c47-d03ee8a14a10"
TEXTS: dict[SchemaKey, tuple[str, str, str]] = {
    1: ("AVRO", json.dumps(AVRO), f"{TOPIC}-value"),
    2: ("AVRO", json.dumps(WIDER), f"{TOPIC}-value"),
    3: ("PROTOBUF", PROTO, f"{TOPIC}-value"),
    4: ("JSON", json.dumps(JSON), f"{TOPIC}-value"),
    5: ("AVRO", json.dumps(ENVELOPE), f"{TOPIC}-value"),
    6: ("AVRO", json.dumps(KEY), f"{TOPIC}-key"),
    7: ("AVRO", json.dumps(FOREIGN), "another-value"),
    8: ("PROTOBUF", 'syntax = "proto3"; message A { B b = 1; }', f"{TOPIC}-value"),
    9: ("AVRO", '{"type": "array", "items": ' * 70 + '"int"' + "}" * 70, f"{TOPIC}-key"),
    GUID: ("AVRO", json.dumps(AVRO), f"{TOPIC}-value"),
}
Row = dict[str, Any]
Record = tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]  # value, key, headers


def _avro(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def _proto(row: Row) -> bytes:
    text, sizes = row["text"].encode(), b"".join(varint(one) for one in row["sizes"])
    found = b"\x08" + varint(row["id"]) + b"\x12" + varint(len(text)) + text
    return b"\0" + found + (b"\x1a" + varint(len(sizes)) + sizes if sizes else b"")


@dataclass(frozen=True)
class Form:
    """A format: its schema's id (None: there is none), a row's bytes, and settings."""

    id: SchemaKey | None
    body: Callable[[Row], bytes]
    settings: dict[str, Any] = field(default_factory=dict)


FORMS = {
    "avro": Form(1, lambda row: _avro(AVRO, row)),
    "protobuf": Form(3, _proto),
    "json_schema": Form(4, lambda row: json.dumps(row).encode()),
    "json": Form(None, lambda row: json.dumps(row).encode(), {"value_format": "json"}),
    "debezium": Form(
        5,
        lambda row: _avro(ENVELOPE, {"before": None, "after": row, "op": "c"}),
        {"transform": "flatten_debezium"},
    ),
    "typed_keys": Form(1, lambda row: _avro(AVRO, row), {"key_format": "by_schema_id"}),
}
DAMAGES: list[damage.Damage] = [
    *damage.ANYWHERE,
    damage.insert(lambda rng, raw: rng.randbytes(rng.randint(1, 6))),
    lambda rng, raw: rng.randbytes(rng.randrange(40)),
    lambda rng, raw: raw[:5] + rng.randbytes(len(raw)),
    lambda rng, raw: raw[:1] + rng.randrange(12).to_bytes(4, "big") + raw[5:],
    lambda rng, raw: raw[:5] + bytes([rng.randrange(8), rng.randrange(256)]) + raw[5:],
    lambda rng, raw: raw[:5] + bytes([2]) + b"\xff" * rng.randint(1, 9) + raw[5:],
    lambda rng, raw: raw * rng.randint(2, 4),
]


class Schemas:
    """A registry in this process that has ``TEXTS``."""

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Nothing: the table comes with the records."""
        return None

    def by_id(self, key: SchemaKey, subject: str = "") -> RegisteredSchema:
        """A schema with its subject."""
        if key not in TEXTS:
            raise UnknownSchemaError(f"there is no {key}")
        kind, text, subject = TEXTS[key]
        return RegisteredSchema(key, kind, text, (), subject, 1, (subject,))

    def by_guid(self, guid: str, subject: str) -> RegisteredSchema:
        """The same by GUID."""
        return self.by_id(guid)

    def has(self, subject: str, schema: RegisteredSchema) -> bool:
        """Whether it is the subject of a GUID's schema."""
        return subject in (schema.subjects or ())


class Topic:
    """A table topic without Kafka and Spark: what a batch's records become."""

    def __init__(self, folder: Path, settings: TopicSettings) -> None:
        place = {"uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/w"}
        catalog = open_catalog({"name": "lake", "type": "sql", **place})
        services = Services(
            catalog=lambda: catalog,
            spark=lambda: cast(Any, None),
            broker=cast(Broker, FakeBroker()),
            registry=cast(Registry, Schemas()),
            control=cast(ControlLog, FakeControl()),
            host="",
        )
        self.keeper = SchemaKeeper(catalog, table_identifier(TOPIC, settings), TOPIC, settings, services)
        self.keeper.adopt(None, Ledger(TOPIC, "cluster", "id", {0: 0}, 1, "claim"))
        self.offset = 0
        self.rounds = 0

    def take(self, records: list[Record]) -> tuple[dict[int, Row], dict[int, str], int]:
        """Rows by position, reasons of letters by position, and how many asked for no row."""
        rows = [
            {
                "value": value,
                "key": key,
                "headers": [{"key": name, "value": raw} for name, raw in headers],
                "partition": 0,
                "offset": self.offset + at,
                "timestamp": at,
            }
            for at, (value, key, headers) in enumerate(records)
        ]
        batch, begin = pa.RecordBatch.from_pylist(rows, schema=SOURCE), self.offset
        self.offset += len(records)
        plan = self.keeper.plan()
        if asked := plan.to_ask_again(0):
            self.keeper.cover(asked, recheck=True)
        for _ in range(ROUNDS):
            self.rounds += 1
            tried = Tried(LoadedPlan(self.keeper.plan().with_settings(errors="skip")), batch)
            result = tried.result
            if not result.needs:
                break
            self.keeper.cover(result.needs)
        else:
            raise AssertionError(f"the table does not come to rest: {result.needs}")
        assert not result.alike
        found: dict[int, Row] = {}
        for file in result.files:
            path = Path(file.file_path.removeprefix("file://"))
            # Of JSON the damage makes hundreds of columns up; a good record has these.
            for row in pq.read_table(path, columns=[*COLUMNS, "_kafka_metadata"]).to_pylist():
                found[row["_kafka_metadata"]["offset"] - begin] = row
            path.unlink()
        dead_letters = {offset - begin: reason for (_, offset), reason in tried.reasons.items()}
        return found, dead_letters, sum(result.passed_over.values())


def _good(form: Form, rng: random.Random, number: int) -> tuple[Row, Record]:
    sizes = [rng.randrange(100) for _ in range(rng.randrange(3))]
    row = {"id": number, "text": f"größe {rng.randrange(1_000)}", "sizes": sizes}
    body, key = form.body(row), prefix(6) + _avro(KEY, {"k": number})
    if form.id is None:
        return row, (body, key, [])
    how = rng.randrange(8)
    if how == 0 and form.id == 1:
        return row, (body, key, [(VALUE_HEADER, bytes([GUID_MAGIC]) + bytes.fromhex(GUID.replace("-", "")))])
    if how == 1 and form.id != 3:
        return row, (body, key, [("trace", b"x"), (VALUE_HEADER, prefix(cast(int, form.id)))])
    return row, (prefix(cast(int, form.id)) + body, key, [])


def _fuzzed(form: Form, rng: random.Random, number: int) -> Record:
    """A record of which nothing is sure to be whole."""
    _, (value, key, headers) = _good(form, rng, number)
    for _ in range(rng.randint(1, 3)):
        value = rng.choice(DAMAGES)(rng, value or b"")
    if rng.random() < 0.3:
        key = rng.choice(DAMAGES)(rng, key or b"")
    headers = [(name, rng.choice(DAMAGES)(rng, raw)) for name, raw in headers]
    if rng.random() < 0.1:
        headers.append((rng.choice([VALUE_HEADER, KEY_HEADER]), rng.randbytes(rng.randrange(20))))
    return (None if rng.random() < 0.01 else value), (None if rng.random() < 0.05 else key), headers


def fuzz(name: str, count: int, folder: Path) -> Counter[str]:
    """Send ``count`` fuzzed records and as many good ones; what became of the fuzzed ones."""
    form, rng = FORMS[name], random.Random(count)
    topic = Topic(folder, TopicSettings(**form.settings))
    told: Counter[str] = Counter()
    start_bytes = 0
    first, record = _good(form, rng, 0)
    while not first["sizes"]:  # of JSON an empty list makes no column
        first, record = _good(form, rng, 0)
    assert _as_sent(topic.take([record])[0][0]) == first
    for begin in range(0, count, BATCH // 2):
        records: list[Record] = []
        good: dict[int, Row] = {}
        fuzzed_left = good_left = min(BATCH // 2, count - begin)
        while fuzzed_left or good_left:
            if rng.random() * (fuzzed_left + good_left) < good_left:
                good_left -= 1
                row, record = _good(form, rng, rng.randrange(2**40))
                good[len(records)] = row
            else:
                fuzzed_left -= 1
                record = _fuzzed(form, rng, rng.randrange(2**40))
            records.append(record)
        rows, dead_letters, passed = topic.take(records)
        assert not rows.keys() & dead_letters.keys()
        assert len(rows) + len(dead_letters) + passed == len(records)
        assert {at: _as_sent(rows[at]) for at in good} == good
        told.update(reason for at, reason in dead_letters.items())
        told["row"] += len(rows) - len(good)
        if begin >= 2 * BATCH and not start_bytes:
            start_bytes = psutil.Process().memory_info().rss
    columns = {one.name for one in topic.keeper.needed_table().table.schema().fields}
    assert "foreign" not in columns
    assert INTERNAL_ERROR not in told
    if start_bytes:
        assert psutil.Process().memory_info().rss - start_bytes < GROWTH_BYTES
    told["rounds"] = topic.rounds
    return told


def _as_sent(row: Row) -> Row:
    return {"id": row["id"], "text": row["text"], "sizes": row["sizes"] or []}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.timeout(300)
def test_nothing_is_whole(name: str, tmp_path: Path) -> None:
    """Of a few thousand; more than one reason is given, so the damage reaches more than one place."""
    told = fuzz(name, 2_000, tmp_path)
    assert len(told) > 3


# The hundred thousand are for what memory does; formats differ in what one record does.
@pytest.mark.integration
@pytest.mark.parametrize(("name", "count"), [(name, 100_000 if name == "avro" else 20_000) for name in FORMS])
@pytest.mark.timeout(3_600)
def test_many_of_each(name: str, count: int, tmp_path: Path) -> None:
    """The same with so many fuzzed records, and as many good ones; memory stays."""
    assert sum(fuzz(name, count, tmp_path).values()) >= 0.9 * count
