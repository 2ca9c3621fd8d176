"""Random histories of a topic's table and its log, and what a live read must answer at any moment.

The judge knows the records that were sent, and PyIceberg's reading of the snapshot that the query chose.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyiceberg.catalog import Catalog

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.clients.kafka.broker import Broker, TopicFacts
from tabletopic_kernel.clients.registry.registry import RegisteredSchema, Registry, UnknownSchemaError
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.host.topics.control_topic import ControlLog
from tabletopic_kernel.model.ledger import TAG, Ledger, StagedOffsets
from tabletopic_kernel.model.settings.sections import LiveSettings, TopicSettings
from tabletopic_kernel.pipeline.decode import LoadedPlan
from tabletopic_kernel.pipeline.plan import StageResult
from tabletopic_kernel.pipeline.sinks import Files
from tabletopic_kernel.pipeline.source import Limits, next_offsets
from tabletopic_kernel.pipeline.stage import stage
from tabletopic_kernel.query.answer import Answer
from tabletopic_kernel.query.duckdb import DuckLake
from tabletopic_kernel.table.changes.change import appended
from tabletopic_kernel.table.schemas.keeper import SchemaKeeper
from tabletopic_kernel.table.topic_table import TopicTable
from tabletopic_kernel.workbench.topics.live import LiveReads
from tests.pipeline.source import SOURCE
from tests.pipeline.whole_path import avro_values
from tests.table.samples import IDENTIFIER, TOPIC, FakeControl, FakeRegistry

METADATA = "_kafka_metadata"


def _avro(*fields: tuple[str, Any]) -> dict[str, Any]:
    optional = {"default": None}
    return {
        "type": "record",
        "name": "Row",
        "fields": [
            {"name": name, "type": kind, **(optional if isinstance(kind, list) else {})}
            for name, kind in fields
        ],
    }


def _place(*fields: tuple[str, Any]) -> list[Any]:
    return ["null", {**_avro(*fields), "name": "Place"}]


NAME = ("name", ["null", "string"])
CITY, ZIP = ("city", "string"), ("zip", ["null", "string"])
# By id: each evolves the one before, and the last renames a column by its alias.
SCHEMAS: dict[int, dict[str, Any]] = {
    1: _avro(("n", "int"), NAME),
    2: _avro(("n", "long"), NAME, ("extra", ["null", "double"])),
    3: _avro(("n", "long"), NAME, ("extra", ["null", "double"]), ("place", _place(CITY))),
    4: _avro(
        ("n", "long"), NAME, ("place", _place(CITY, ZIP)), ("tags", {"type": "array", "items": "string"})
    ),
    5: _avro(
        ("n", "long"),
        NAME,
        ("places", ["null", {"type": "array", "items": {**_avro(CITY, ZIP), "name": "P"}}]),
    ),
}


class LifeRegistry(FakeRegistry):
    """The schemas of ``SCHEMAS``; other ids are unknown."""

    def by_id(self, schema_id: int, subject: str = "") -> RegisteredSchema:
        """A schema by id."""
        if schema_id not in self.schemas:
            raise UnknownSchemaError(f"no schema {schema_id}")
        return super().by_id(schema_id)


@dataclass(frozen=True)
class Sent:
    """A record of the log; ``fields`` None: it cannot be a row."""

    value: bytes | None
    timestamp_ms: int
    fields: Mapping[str, Any] | None


class Life:
    """A topic of two partitions, its table, and everybody who changes them. ``broker`` of its live reads."""

    properties: Mapping[str, str] = {}

    def __init__(
        self,
        folder: Path,
        seed: int = 0,
        limits: LiveSettings | None = None,
        registry: FakeRegistry | None = None,
        settings: TopicSettings | None = None,
    ) -> None:
        self.random = random.Random(seed)
        self.catalog: Catalog = open_catalog(
            {
                "name": "lake",
                "type": "sql",
                "uri": f"sqlite:///{folder}/{seed}.db",
                "warehouse": f"file://{folder}/{seed}",
            }
        )
        self.log: dict[int, list[Sent]] = {0: [], 1: []}
        self.settings, self.enabled = settings or TopicSettings(), True
        schemas = {key: json.dumps(schema) for key, schema in SCHEMAS.items()}
        self.registry: FakeRegistry = registry or LifeRegistry(schemas)
        self.newest_schema, self.n = 1, 0
        self.meanwhile: list[str] = []  # what happens between the snapshot and the end offsets
        self.topic_id, self.first = "topic-id", {0: 0, 1: 0}
        self.asked: list[str] = []
        self.keeper = self._keeper(registry or FakeRegistry({1: schemas[1]}))
        self.ledger = Ledger(TOPIC, "cluster", "topic-id", {0: 0, 1: 0}, 1, "claim")
        table = self.keeper.create()
        assert table is not None
        table.claim(self.ledger, None)
        self.own()
        self.reads = LiveReads(
            cast(Broker, self),
            cast(Registry, self.registry),
            lambda topics: dict.fromkeys(topics, (self.settings, self.enabled)),
            limits or LiveSettings(),
            lambda *_: self,
        )
        self.lake = DuckLake(self.catalog, tails=self.reads.tails)

    def _keeper(self, registry: FakeRegistry) -> SchemaKeeper:
        services = Services(
            catalog=lambda: self.catalog,
            spark=lambda: cast(Any, None),
            broker=cast(Any, None),
            registry=cast(Registry, registry),
            control=cast(ControlLog, FakeControl()),
            host="",
        )
        return SchemaKeeper(self.catalog, IDENTIFIER, TOPIC, self.settings, services)

    def own(self) -> TopicTable:
        """Take the table as it is now, as an owner does."""
        table = TopicTable.load(self.catalog, IDENTIFIER, TOPIC)
        assert table is not None
        self.keeper = self._keeper(self.registry)
        self.keeper.adopt(table, self.ledger)
        return table

    # -- the broker and the source of its live reads

    def facts(self, topic: str) -> TopicFacts:
        """The log as it is; after what happens meanwhile."""
        for step in self.meanwhile:
            getattr(self, step)()
        self.meanwhile = []
        self.asked.append(topic)
        return TopicFacts(topic, "cluster", self.topic_id, self.first, self.ends())

    def ends(self) -> dict[int, int]:
        """The end offsets."""
        return {p: len(records) for p, records in self.log.items()}

    def next(self, position: Mapping[int, int], limits: Limits) -> StagedOffsets | None:
        """See ``Source``."""
        return next_offsets(position, limits)

    def read(self, batch: StagedOffsets) -> Iterator[pa.RecordBatch]:
        """See ``Source``; small batches of one partition each."""
        for p, start in batch.start.items():
            for at in range(start, batch.end[p], 5):
                yield self.batch({p: at}, {p: min(at + 5, batch.end[p])})

    def batch(self, start: Mapping[int, int], end: Mapping[int, int]) -> pa.RecordBatch:
        """Records of the log."""
        return pa.RecordBatch.from_pylist(
            [
                {
                    "value": self.log[p][offset].value,
                    "key": b"k",
                    "partition": p,
                    "offset": offset,
                    "timestamp": self.log[p][offset].timestamp_ms * 1000,
                }
                for p, first in start.items()
                for offset in range(first, end[p])
            ],
            schema=SOURCE,
        )

    # -- what happens

    def put(self, value: bytes | None, partition: int = 0) -> None:
        """A producer sends this value."""
        self.log[partition].append(Sent(value, 1_700_000_000_000, None))

    def send(self, count: int | None = None) -> None:
        """Producers send records of the schemas there are, and some that cannot be rows."""
        for _ in range(self.random.randint(1, 12) if count is None else count):
            self.n += 1
            value, fields = self._record()
            self.log[self.random.randrange(2)].append(Sent(value, 1_700_000_000_000 + self.n, fields))

    def _record(self) -> tuple[bytes | None, Mapping[str, Any] | None]:
        kind = self.random.random()
        if kind < 0.05:
            return None, {}
        if kind < 0.1:
            return self.random.choice([b"garbage", b"\x00\x00\x00\x00\x63x", b"\x00\x00\x00\x00\x01"]), None
        schema_id = self.random.randint(1, self.newest_schema)
        fields: dict[str, Any] = {"n": self.n, "name": self.random.choice(["a", "ö", None])}
        place = {"city": "Delft", "zip": self.random.choice([None, "2611"])}
        fields |= {"extra": self.n / 2} if schema_id in (2, 3) else {}
        fields |= (
            {"place": {k: place[k] for k in (("city",), ("city", "zip"))[schema_id == 4]}}
            if schema_id in (3, 4)
            else {}
        )
        fields |= {"tags": ["x", "y"][: self.n % 3]} if schema_id == 4 else {}
        fields |= {"places": [place] * (self.n % 3)} if schema_id == 5 else {}
        return avro_values(schema_id, SCHEMAS[schema_id], fields)[0], fields

    def evolve(self) -> None:
        """The producers begin to use the next schema."""
        self.newest_schema = min(max(SCHEMAS), self.newest_schema + 1)

    def commit(self) -> None:
        """The owner commits some of the records."""
        start = self.ledger.next_offsets
        end = {p: self.random.randint(start[p], stop) for p, stop in self.ends().items()}
        self._commit(end)

    def commit_all(self) -> None:
        """The owner commits all records."""
        self._commit(self.ends())

    def _commit(self, end: Mapping[int, int]) -> None:
        table = self.own()
        batch = self.batch(self.ledger.next_offsets, end)
        while True:
            loaded = LoadedPlan(self.keeper.plan().with_settings(errors="skip"), is_worker=True)
            files = Files(TOPIC, loaded.writer, None)
            result = stage(loaded, [batch] if len(batch) else [], files)
            files.close(result, is_void=result.is_void(loaded.plan.settings))
            if not result.needs:
                break
            self.keeper.cover(result.needs)
        staged = StagedOffsets(
            self.ledger.next_offsets, end, result.newest_ms, last_records=result.last_records
        )
        after = self.ledger.advanced(staged, str(uuid.uuid4()), result.refused, result.passed_over)
        table.reload()
        self.keep(table, after, result)

    def keep(self, table: TopicTable, after: Ledger, result: StageResult) -> None:
        """Commit what was staged."""
        table.commit(self.ledger, appended(after, result.files))
        self.ledger = after

    def claim(self) -> None:
        """Another owner takes the table."""
        table = self.own()
        after = self.ledger.for_next_owner(table.newest_epoch)
        table.claim(after, self.ledger)
        self.ledger = after

    def append(self) -> None:
        """Another program adds a row."""
        self.n += 1
        table = self.catalog.load_table(IDENTIFIER)
        column = table.schema().find_field("n")
        kind = pa.int32() if str(column.field_type) == "int" else pa.int64()
        table.append(pa.table([[self.n]], pa.schema([pa.field("n", kind, not column.required)])))

    def delete(self) -> None:
        """Another program deletes rows."""
        self.catalog.load_table(IDENTIFIER).delete(f"n < {self.random.randint(0, self.n)}")

    def rewrite(self) -> None:
        """Another program moves all rows into other files."""
        table = self.catalog.load_table(IDENTIFIER)
        table.overwrite(table.scan().to_arrow())

    def add_column(self) -> None:
        """Another program adds a column of its own."""
        with self.catalog.load_table(IDENTIFIER).update_schema() as update:
            update.union_by_name(pa.schema([("own", pa.string())]))

    def drop_column(self) -> None:
        """Another program drops a column; records bring it back."""
        table = self.catalog.load_table(IDENTIFIER)
        if "extra" in table.schema().column_names:
            with table.update_schema() as update:
                update.delete_column("extra")

    def expire(self) -> None:
        """Another program expires what is older than the newest ledger."""
        table = self.catalog.load_table(IDENTIFIER)
        kept = table.snapshot_by_id(table.metadata.refs[TAG].snapshot_id)
        assert kept is not None
        newest = kept.sequence_number or 0
        if old := [
            snapshot.snapshot_id for snapshot in table.snapshots() if (snapshot.sequence_number or 0) < newest
        ]:
            table.maintenance.expire_snapshots().by_ids(old).commit()

    # -- the judge

    def check(self) -> Answer:
        """A live query answers the rows of its snapshot and of each record behind it, once."""
        answer = self.lake.query(self.random.choice(["FROM clicks$live", "FROM clicks"]), live=True)
        (read,) = answer.tables
        assert read.live is not None
        table = self.catalog.load_table(IDENTIFIER)
        snapshot = table.snapshot_by_id(read.snapshot_id or 0)
        assert snapshot is not None
        names = answer.rows.column_names
        in_table = [
            {name: row.get(name) for name in names}
            for row in table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist()
        ]
        # A column that was dropped and came back is another one; PyIceberg reads by the snapshot's schema.
        behind = [
            expected_row(record.fields, p, offset, record.timestamp_ms, answer.rows.schema)
            for p, first in read.live.table_to.items()
            for offset, record in enumerate(self.log[p][: read.live.live_to[p]])
            if offset >= first and record.fields is not None
        ]
        count = sum(read.live.live_to[p] - first for p, first in read.live.table_to.items())
        assert read.live.records == count
        assert count - len(behind) == sum(read.live.refused.values())
        assert read.live.live_to == self.ends()
        answered, wanted = as_multiset(answer.rows.to_pylist()), as_multiset([*in_table, *behind])
        wrong = [*(answered - wanted)][:2], [*(wanted - answered)][:2]
        assert wrong == ([], []), wrong
        return answer


def expected_row(
    fields: Mapping[str, Any], partition: int, offset: int, timestamp_ms: int, schema: pa.Schema
) -> dict[str, Any]:
    """The row of a record, with the columns of the table as it is now."""
    row = {field.name: only(fields.get(field.name), field.type) for field in schema}
    return row | {"_kafka_key": b"k", METADATA: (partition, offset, timestamp_ms)}


def only(value: Any, kind: pa.DataType) -> Any:
    """A value without the nested fields that a type lacks, and with null for those that it adds."""
    if value is not None and pa.types.is_struct(kind):
        return {field.name: only(value.get(field.name), field.type) for field in kind}
    if value is not None and pa.types.is_list(kind):
        return [only(item, kind.value_type) for item in value]
    return value


def as_multiset(rows: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """Rows, and how often each is there; PyIceberg reads null lists as empty ones."""

    def plain(row: Mapping[str, Any]) -> dict[str, Any]:
        where = row.get(METADATA)
        if isinstance(where, dict):
            stamp = round(where["timestamp"].timestamp() * 1000)
            where = (where["partition"], where["offset"], stamp)
        return {name: value or None for name, value in {**row, METADATA: where}.items()}

    return Counter(repr(sorted(plain(row).items())) for row in rows)


STEPS = (
    "send", "send", "send", "commit", "commit", "commit_all", "evolve", "claim", "append", "delete",
    "rewrite", "add_column", "drop_column", "expire",
)  # fmt: skip


def play(folder: Path, seed: int, steps: int = 8, checks: int = 2) -> None:
    """A history: random steps, and live queries between them, also while something is committed."""
    life = Life(folder, seed)
    life.send()
    at = set(life.random.sample(range(steps), checks - 1)) | {steps - 1}
    for number in range(steps):
        getattr(life, life.random.choice(STEPS))()
        if number in at:
            life.meanwhile = life.random.choices(
                ["send", "commit", "commit_all", "evolve", "delete"], k=number % 3
            )
            life.check()
    life.lake.close()


def main(first: int, last: int) -> None:
    """Play many histories; the seed of one that fails is the last line."""
    for seed in range(first, last):
        sys.stdout.write(f"{seed}\n")
        sys.stdout.flush()
        with tempfile.TemporaryDirectory() as folder:
            play(Path(folder), seed)
    sys.stdout.write(f"{last - first} histories kept the promise\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
