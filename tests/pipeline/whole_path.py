"""A table topic without Kafka and Spark: records in, rows of real data files out, columns evolve between."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.formats.wire import prefix
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.host.topics.control_topic import ControlLog
from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_names import table_identifier
from tabletopic_kernel.pipeline.decode import LoadedPlan
from tabletopic_kernel.pipeline.plan import StageResult
from tabletopic_kernel.pipeline.sinks import Files, Place, Rejections, StagedRows, places_of
from tabletopic_kernel.pipeline.stage import stage
from tabletopic_kernel.table.schemas.keeper import SchemaKeeper
from tabletopic_kernel.table.topic_table import TopicTable
from tests.pipeline.source import SOURCE
from tests.table.samples import FakeBroker, FakeControl, FakeRegistry

_NAMES = itertools.count()


@dataclass
class Path:
    """One topic with its table; ``registry`` has schemas by id. What ``send`` refuses is in ``refused``."""

    catalog: Catalog
    settings: TopicSettings
    registry: FakeRegistry = field(default_factory=lambda: FakeRegistry({}))
    topic: str = field(default_factory=lambda: f"topic{next(_NAMES)}")
    clock: Callable[[], int] = now_ms

    def __post_init__(self) -> None:
        self.control = FakeControl()
        self._offset = 0
        self.restart()

    def restart(self) -> None:
        """Begin as a new host does: by what the table says."""
        services = Services(
            catalog=lambda: self.catalog,
            spark=lambda: cast(Any, None),
            broker=cast(Broker, FakeBroker()),
            registry=cast(Registry, self.registry),
            control=cast(ControlLog, self.control),
            host="",
            now_ms=self.clock,
        )
        identifier = table_identifier(self.topic, self.settings)
        self.keeper = SchemaKeeper(self.catalog, identifier, self.topic, self.settings, services)
        table = TopicTable.load(self.catalog, identifier, self.topic) or self.keeper.create()
        ledger = table.ledger if table else None
        if ledger is None:
            ledger = Ledger(self.topic, "cluster", "id", {0: 0}, 1, "claim")
            if table is not None:
                table.claim(ledger, None)
        self.keeper.adopt(table, ledger)

    def send(self, *values: bytes | None) -> list[dict[str, Any]]:
        """Stage records and read back the rows that they are; ``result`` tells the rest."""
        rows = [
            {"value": value, "key": b"k", "partition": 0, "offset": self._offset + at, "timestamp": at}
            for at, value in enumerate(values)
        ]
        self._offset += len(values)
        batch = pa.RecordBatch.from_pylist(rows, schema=SOURCE)
        for _ in range(5):
            loaded = LoadedPlan(self.keeper.plan().with_settings(errors="skip"), is_worker=True)
            tried = Tried(loaded, batch)
            self.result = tried.result
            self.dead_letters = {offset: reason for (_, offset), reason in tried.reasons.items()}
            self.messages = {offset: message for (_, offset), message in tried.messages.items()}
            if not (needs := self.result.needs):
                break
            self.keeper.cover(needs)
        else:
            raise AssertionError(f"the columns do not come to rest: {needs}")
        assert self.result.rows + len(self.dead_letters) + sum(self.result.passed_over.values()) == len(
            values
        )
        return read(self.result)

    def columns(self) -> dict[str, str]:
        """The value's columns of the table: name to type."""
        table = self.keeper.needed_table().table
        return {
            one.name: str(one.field_type)
            for one in table.schema().fields
            if not one.name.startswith("_kafka_")
        }


class Tried:
    """A sink of files that keeps the reasons and messages of rejected records, by their places."""

    def __init__(self, loaded: LoadedPlan, batch: pa.RecordBatch) -> None:
        self.reasons: dict[Place, str] = {}
        self.messages: dict[Place, str] = {}
        self._files = Files(loaded.plan.topic, loaded.writer, loaded.dead_letter_writer)
        self.result = stage(loaded, [batch], self)
        self._files.close(self.result, is_void=self.result.is_void(loaded.plan.settings))

    def rows(self, batch: pa.RecordBatch, rows: StagedRows) -> None:
        """Into the files."""
        self._files.rows(batch, rows)

    def rejected(self, batch: pa.RecordBatch, rejected: Rejections) -> None:
        """Into the files, with a note."""
        self._files.rejected(batch, rejected)
        for index, place in enumerate(places_of(batch, rejected.positions)):
            self.reasons[place], self.messages[place] = rejected.reason(index), rejected.message(index)

    def deletes(self, deletes: pa.Table) -> None:
        """Into the files."""
        self._files.deletes(deletes)


def read(result: StageResult) -> list[dict[str, Any]]:
    """Everything in the data files, by offset, without the ``_kafka_*`` columns."""
    found = [
        row for file in result.files for row in pq.read_table(_path(file)).to_pylist(maps_as_pydicts=None)
    ]
    found.sort(key=lambda row: row["_kafka_metadata"]["offset"])
    return [
        {name: value for name, value in row.items() if not _is_metadata(name)}
        | {"@": row["_kafka_metadata"]["offset"]}
        for row in found
    ]


def _is_metadata(name: str) -> bool:
    return name in ("_kafka_key", "_kafka_header", "_kafka_metadata")


def _path(file: DataFile) -> str:
    return file.file_path.removeprefix("file://")


def avro_values(schema_id: int, schema: dict[str, Any], *records: dict[str, Any]) -> list[bytes]:
    """Records in Confluent's wire format."""
    found = []
    for record in records:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, record)
        found.append(prefix(schema_id) + out.getvalue())
    return found


def without(rows: Sequence[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    """The rows without some columns."""
    return [{name: value for name, value in row.items() if name not in names} for row in rows]
