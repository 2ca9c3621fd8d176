"""The values passed around: the coordinator's plan for a task, its result, and a worker's staged batches."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema

from tabletopic_kernel.formats.rejection import MIN_ALIKE
from tabletopic_kernel.formats.wire import SchemaKey, WriterSchema
from tabletopic_kernel.model.columns.upsert_columns import UpsertColumns
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.ledger import Outliers, StagedOffsets, added, all_outliers, newest
from tabletopic_kernel.model.moved_rows import MovedRows
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.transform.columns import Projection

WHOLE_TOPIC: Final = -1  # the id of the one schema of a topic whose values carry none
ASK_AGAIN_MS: Final = 60_000  # how often the registry's texts of known ids are compared, while records come
_MAX_TRACES, MAX_SAMPLES = 5, 20  # enough to see a pattern; the rest is counted


@dataclass(frozen=True)
class TablePlan:
    """What a task needs to write a table's data files; ``metadata`` is JSON."""

    metadata: str
    io_properties: dict[str, str] = field(repr=False)  # with the storage's keys


@dataclass(frozen=True)
class SchemaPlan:
    """The schemas of values, or of keys, by id: those that the table covers, and others.

    Records of ``refused`` ones are refused, with reason and message; ``unknown`` are those of them that the
    registry did not know at the last lookup, and may know by now. The table changes for one of ``candidates``
    once a record was decoded with it. Records of ids that are nowhere come back as needs.
    """

    schemas: Mapping[SchemaKey, WriterSchema] = field(default_factory=dict)
    refused: Mapping[SchemaKey, tuple[str, str]] = field(default_factory=dict)
    unknown: frozenset[SchemaKey] = frozenset()
    candidates: Mapping[SchemaKey, WriterSchema] = field(default_factory=dict)

    def schema(self, schema_id: SchemaKey) -> WriterSchema:
        """The schema that records of this id are decoded with."""
        return self.schemas.get(schema_id) or self.candidates[schema_id]

    def knows(self, schema_id: SchemaKey) -> bool:
        """Whether it is clear what to do with records of this id."""
        return schema_id in self.schemas or schema_id in self.refused or schema_id in self.candidates


@dataclass(frozen=True)
class StagePlan:
    """Everything a task needs, sent with it.

    ``table`` and ``dead_letters`` are None while there is no such table, ``keys`` if no column has keys that
    name schemas. ``covers_tombstones``: all value columns are optional. ``inferred``: what JSON is decoded to
    if it has no schema. ``patient``: no batch is given up because its first records all fail alike.
    """

    topic: str
    table: TablePlan | None
    dead_letters: TablePlan | None
    epoch: int
    values: SchemaPlan
    covers_tombstones: bool
    settings: TopicSettings
    inferred: Schema | None = None
    projection: Projection | None = None
    keys: SchemaPlan | None = None
    patient: bool = False
    tasks: int = 1  # that stage the batch
    upsert: UpsertColumns | None = None  # of a table that is kept by key

    def with_settings(self, **changes: object) -> StagePlan:
        return replace(self, settings=self.settings.model_copy(update=changes))

    def tolerant(self) -> StagePlan:
        """This plan, but each record is tried, and rejected ones are left out."""
        return replace(self.with_settings(errors="skip"), patient=True)

    @property
    def passes_over_tombstones(self) -> bool:
        """Whether records without a value are passed over: they follow deletes, for log compaction."""
        return self.settings.transform == "flatten_debezium"

    def to_ask_again(self, since_s: float) -> Needs | None:
        """What to look up in the registry again, ``since_s`` after the last time; None: nothing."""
        needs = Needs(self.values.unknown, key_ids=self.keys.unknown if self.keys else frozenset())
        is_due = self.settings.value_format == "by_latest_schema" or since_s * 1000 >= ASK_AGAIN_MS
        return needs if needs or is_due else None


@dataclass(frozen=True)
class Needs:
    """What is required before a batch can be staged.

    ``schema_ids``: of values (None: tombstones). ``columns``: those that inferred records need. ``key_ids``:
    of keys. ``proved`` and ``proved_keys``: candidates with which a record was decoded. ``carried``: ids and
    texts of schemas that records have in them.
    """

    schema_ids: frozenset[SchemaKey | None] = frozenset()
    columns: tuple[Schema, ...] = ()
    dead_letters: bool = False
    key_ids: frozenset[SchemaKey] = frozenset()
    proved: frozenset[SchemaKey] = frozenset()
    proved_keys: frozenset[SchemaKey] = frozenset()
    carried: frozenset[tuple[SchemaKey, str]] = frozenset()

    @property
    def of_table(self) -> bool:
        """Whether the topic's table must, or may have to, change."""
        return bool(self.schema_ids or self.columns or self.key_ids or self.proved or self.proved_keys)

    def __bool__(self) -> bool:
        return self.of_table or self.dead_letters

    def __or__(self, other: Needs) -> Needs:
        return Needs(
            self.schema_ids | other.schema_ids,
            self.columns + other.columns,
            self.dead_letters or other.dead_letters,
            self.key_ids | other.key_ids,
            self.proved | other.proved,
            self.proved_keys | other.proved_keys,
            self.carried | other.carried,
        )


@dataclass(frozen=True)
class RefusedRecord:
    """A record that cannot become a row: its position and the reason."""

    partition: int
    offset: int
    schema_id: int | None
    reason: str
    message: str


@dataclass
class StageResult:
    """The result of one task, or of a whole batch.

    ``decoded``: records that became rows, or describe none. ``failed`` counts unexpected exceptions by class;
    ``traces`` has a few, by their last lines. ``alike``: a group was given up, as all seemed to fail alike.
    """

    records: int = 0
    value_bytes: int = 0
    newest_ms: dict[int, int] = field(default_factory=dict)  # of records, by partition
    outliers: dict[int, Outliers] = field(default_factory=dict)
    last_records: dict[int, tuple[int, str]] = field(default_factory=dict)
    files: list[DataFile] = field(default_factory=list)
    rows: int = 0
    dead_letters: list[DataFile] = field(default_factory=list)
    deletes: list[DataFile] = field(default_factory=list)  # of keys, for an upsert table
    unavailable: frozenset[int] = frozenset()  # columns in which some rows lack their value
    decoded: int = 0
    needs: Needs = Needs()
    refused: dict[str, int] = field(default_factory=dict)
    samples: list[RefusedRecord] = field(default_factory=list)
    passed_over: dict[str, int] = field(default_factory=dict)
    expectation_failures: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    traces: dict[str, str] = field(default_factory=dict)
    alike: bool = False
    error: TableTopicError | None = None  # why the topic waits, or cannot continue with these settings

    def add(self, pickled: bytes) -> None:
        """Add a task's result."""
        other: StageResult = pickle.loads(pickled)
        self.records, self.value_bytes = self.records + other.records, self.value_bytes + other.value_bytes
        self.newest_ms = newest(self.newest_ms, other.newest_ms)
        self.outliers = all_outliers(self.outliers, other.outliers)
        self.last_records = newest(self.last_records, other.last_records)
        self.files += other.files
        self.rows += other.rows
        self.dead_letters += other.dead_letters
        self.deletes += other.deletes
        self.unavailable |= other.unavailable
        self.decoded += other.decoded
        self.needs |= other.needs
        self.refused = added(self.refused, other.refused)
        self.samples = (self.samples + other.samples)[:MAX_SAMPLES]
        self.passed_over = added(self.passed_over, other.passed_over)
        self.expectation_failures = added(self.expectation_failures, other.expectation_failures)
        self.failed = added(self.failed, other.failed)
        for line, trace in other.traces.items():
            self.trace(line, trace)
        self.alike, self.error = self.alike or other.alike, self.error or other.error

    def trace(self, line: str, trace: str) -> None:
        """Keep a trace, while they are few."""
        if len(self.traces) < _MAX_TRACES:
            self.traces.setdefault(line, trace)

    @property
    def all_fail_alike(self) -> bool:
        """Whether nothing was decoded, and enough records caused the same exception."""
        return not self.decoded and len(self.failed) == 1 and sum(self.failed.values()) >= MIN_ALIKE

    def ends(self, settings: TopicSettings) -> bool:
        """Whether further records do not matter, except for needs and reasons.

        If only the dead-letter table is missing, they still count: the share of refused ones decides whether
        it is created.
        """
        stops = settings.errors == "stop" and bool(self.refused)
        return self.needs.of_table or self.error is not None or self.alike or stops

    def is_void(self, settings: TopicSettings) -> bool:
        """Whether its files, if any, are to be discarded."""
        return self.needs.dead_letters or self.ends(settings)

    @property
    def own_files(self) -> list[DataFile]:
        """All files but dead letters."""
        return [*self.files, *self.deletes]

    @property
    def refused_count(self) -> int:
        """The number of records that cannot become rows."""
        return sum(self.refused.values())


@dataclass(frozen=True)
class Replaced:
    """Data files whose rows are now in other files, and the table's delete files when they were chosen.

    ``moved`` says where each file's rows are; ``applied`` has the delete files that deleted rows of them,
    each with the locations of all data files that it names.
    """

    files: tuple[DataFile, ...]
    delete_files: frozenset[str]
    moved: tuple[MovedRows, ...] = ()
    applied: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def dropped_rows(self) -> int:
        """The number of deleted rows that the new files lack."""
        return sum(rows.dropped_rows for rows in self.moved)


@dataclass(frozen=True)
class StagedBatch:
    """Data files that no snapshot refers to yet, and the offsets of their records.

    ``dead_letters`` are files of the dead-letter table, ``deletes`` of deleted keys. ``refused`` counts
    records that became no row, by reason, and ``passed_over`` those that describe none.
    """

    offsets: StagedOffsets
    files: tuple[DataFile, ...]
    rows: int
    seconds: float
    dead_letters: tuple[DataFile, ...] = ()
    refused: Mapping[str, int] = field(default_factory=dict)
    samples: tuple[RefusedRecord, ...] = ()
    passed_over: Mapping[str, int] = field(default_factory=dict)
    deletes: tuple[DataFile, ...] = ()
    unavailable: frozenset[int] = frozenset()
    expectation_failures: Mapping[str, int] = field(default_factory=dict)

    @property
    def own_files(self) -> tuple[DataFile, ...]:
        """All files but dead letters."""
        return (*self.files, *self.deletes)

    @property
    def bytes(self) -> int:
        return sum(file.file_size_in_bytes for file in (*self.own_files, *self.dead_letters))


@dataclass(frozen=True)
class ReplayedBatch(StagedBatch):
    """Rows that were dead letters; ``replay_id`` names their round of a replay. Moves no offsets."""

    replay_id: str = field(kw_only=True)


class OwnCommit(StagedBatch):
    """A batch that moves no offsets, and is a commit of its own."""


@dataclass(frozen=True)
class CompactedBatch(OwnCommit):
    """Files with the rows of those that they ``replaced``."""

    replaced: Replaced = field(kw_only=True)
