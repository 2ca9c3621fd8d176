"""A real catalog in a temporary folder, and stand-ins for broker, registry and Spark."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.clients.kafka.broker import TopicFacts
from tabletopic_kernel.clients.kafka.reader import KafkaRecord
from tabletopic_kernel.clients.registry.registry import RegisteredSchema
from tabletopic_kernel.model.columns.partitions import partition_spec
from tabletopic_kernel.model.ledger import Ledger, StagedOffsets
from tabletopic_kernel.model.progress.events import ControlEvent
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.conform import conform, file_schema
from tabletopic_kernel.pipeline.plan import StagedBatch
from tabletopic_kernel.pipeline.write import DataFileWriter
from tabletopic_kernel.table.changes.change import appended
from tabletopic_kernel.table.topic_table import TopicTable

if TYPE_CHECKING:
    from tests.host.rig import Rig

TOPIC = "clicks"
IDENTIFIER = ("default", "clicks")
SCHEMA = Schema(NestedField(1, "a", IntegerType(), required=False))
AVRO = json.dumps(
    {"type": "record", "name": "Row", "fields": [{"name": "a", "type": ["null", "int"], "default": None}]}
)


def sqlite_catalog(folder: object, name: str = "lake") -> Catalog:
    """A catalog of a folder's own."""
    place = {"uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/w"}
    return open_catalog({"name": name, "type": "sql", **place})


@pytest.fixture
def catalog_properties(tmp_path: Path) -> dict[str, str]:
    """Properties of a SQLite catalog of the test's own."""
    return {
        "name": "lake",
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }


@pytest.fixture
def catalog(catalog_properties: dict[str, str]) -> Catalog:
    """The catalog."""
    return open_catalog(catalog_properties)


@pytest.fixture
def table(catalog: Catalog) -> TopicTable:
    """A new table of the topic, without a ledger."""
    spec = partition_spec((), SCHEMA)
    return TopicTable.create(catalog, IDENTIFIER, SCHEMA, spec, TOPIC, TopicSettings())


@pytest.fixture
def owned(table: TopicTable) -> tuple[TopicTable, Ledger]:
    """A table claimed under epoch 1, its two partitions at 0."""
    ledger = Ledger(TOPIC, "cluster", "topic-id", {0: 0, 1: 0}, 1, "claim")
    table.claim(ledger, None)
    return table, ledger


def write_rows(table: TopicTable, rows: int, epoch: int) -> list[DataFile]:
    """Stage one data file with ``rows`` rows."""
    plan = table.plan()
    writer = DataFileWriter(plan.metadata, plan.io_properties, epoch)
    schema = file_schema(writer.schema)
    columns = conform({"a": pa.array(range(rows), pa.int32())}, rows, schema)
    files = writer.write(pa.Table.from_batches([columns]))
    for file in files:
        file.spec_id = writer.spec_id
    return files


def batch(table: TopicTable, start: int, end: int, *, epoch: int = 1, partition: int = 0) -> StagedBatch:
    """A staged batch over offsets ``start`` to ``end`` of a partition."""
    files = write_rows(table, end - start, epoch) if end > start else []
    offsets = StagedOffsets({partition: start}, {partition: end}, {partition: 1000 + end})
    return StagedBatch(offsets, tuple(files), end - start, 0.1)


def next_commit(ledger: Ledger, staged: StagedBatch) -> Ledger:
    """The ledger after a batch, under a new commit id."""
    return ledger.advanced(staged.offsets, str(uuid.uuid4()))


@dataclass
class FlakyCatalog:
    """Between a table and its catalog: runs the next fault around ``commit_table``."""

    real: Catalog
    faults: list[Callable[[Callable[[], Any]], Any]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def load_table(self, identifier: Any) -> Any:
        """As the real one, but the table commits through here."""
        table = self.real.load_table(identifier)
        table.catalog = self
        return table

    def create_table(self, *args: Any, **more: Any) -> Any:
        """As the real one, but the table commits through here."""
        table = self.real.create_table(*args, **more)
        table.catalog = self
        return table

    def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
        """The real commit inside the next fault."""

        def commit() -> Any:
            return self.real.commit_table(table, requirements, updates)

        return self.faults.pop(0)(commit) if self.faults else commit()


def commit_staged(table: TopicTable, ledger: Ledger, staged: StagedBatch) -> Ledger:
    """Commit a batch; the ledger after it."""
    after = next_commit(ledger, staged)
    table.commit(ledger, appended(after, staged.files))
    return after


def answer_lost(commit: Callable[[], Any]) -> Any:
    """The commit succeeds and the answer is lost."""
    commit()
    raise ConnectionError("connection reset")


def never_arrived(_: Callable[[], Any]) -> Any:
    """The commit does not arrive, and nobody can tell."""
    raise ConnectionError("connection reset")


def refused(_: Callable[[], Any]) -> Any:
    """The catalog reports that another writer was first."""
    raise CommitFailedException("conflict")


def sent_twice(commit: Callable[[], Any]) -> Any:
    """A proxy repeats the request, and the answer to the second one is returned."""
    commit()
    return commit()


@dataclass
class FakeBroker:
    """A topic's facts as the test sets them."""

    facts_now: TopicFacts = field(
        default_factory=lambda: TopicFacts(TOPIC, "cluster", "topic-id", {0: 0, 1: 0}, {0: 100, 1: 100})
    )
    properties: dict[str, str] = field(default_factory=lambda: {"bootstrap.servers": "nowhere:1"})
    trouble: list[Exception] = field(default_factory=list)
    log: list[KafkaRecord] = field(default_factory=list)
    rests: list[Exception] = field(default_factory=list)

    def facts(self, topic: str) -> TopicFacts:
        """What the test set, after the troubles it set."""
        assert topic == TOPIC
        if self.trouble:
            raise self.trouble.pop(0)
        return self.facts_now

    def topic_id(self, topic: str) -> str:
        """As in the facts."""
        return self.facts(topic).topic_id

    def read(
        self, topic: str, starts: Mapping[int, int], ends: Mapping[int, int]
    ) -> Iterator[list[KafkaRecord]]:
        """The records that the test put into the log."""
        assert topic == TOPIC
        yield [
            record
            for record in self.log
            if starts.get(record.partition, record.offset + 1) <= record.offset < ends[record.partition]
        ]

    def rest(self, error: Exception) -> None:
        """Log in no more."""
        self.rests.append(error)

    def change(self, **more: Any) -> None:
        """Change the facts."""
        self.facts_now = replace(self.facts_now, **more)


@dataclass
class FakeRegistry:
    """Schemas by id; the newest is the highest."""

    schemas: dict[int, str] = field(default_factory=lambda: {1: AVRO})

    def latest(self, subject: str) -> RegisteredSchema | None:
        """The newest schema."""
        return self.by_id(max(self.schemas)) if self.schemas else None

    def by_id(self, schema_id: int, subject: str = "") -> RegisteredSchema:
        """A schema by id."""
        return RegisteredSchema(schema_id, "AVRO", self.schemas[schema_id], (), f"{TOPIC}-value", schema_id)

    def text_of(self, schema_id: int, subject: str = "") -> RegisteredSchema:
        """A schema by id, without its places."""
        return self.by_id(schema_id)


@dataclass
class FakeControl:
    """Keeps what was written."""

    written: list[ControlEvent] = field(default_factory=list)
    rests: list[Exception] = field(default_factory=list)

    def write(self, event: ControlEvent) -> None:
        """Keep an event."""
        self.written.append(event)

    def close(self) -> None:
        """Nothing is on its way."""

    def rest(self, error: Exception) -> None:
        """Keep why."""
        self.rests.append(error)

    def types(self) -> list[str]:
        """Types of what was written, in order."""
        return [event.type for event in self.written]


@pytest.fixture
def rig(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """Everything around a coordinator, and the coordinator."""
    from tests.host.rig import made_rig

    return made_rig(catalog, monkeypatch)
