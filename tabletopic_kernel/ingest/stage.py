"""What a Spark task does with its records: frame, decode, conform, write data files.

Runs on the executors. A task returns one ``StageResult``; the bytes never pass through the driver.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFile

from tabletopic_kernel.adapters.datafiles import DataFileWriter
from tabletopic_kernel.core.evolution import HEADER, KEY, METADATA, VALUE
from tabletopic_kernel.ingest.conform import conform, file_schema
from tabletopic_kernel.ingest.decode_avro import AvroDecoder
from tabletopic_kernel.ingest.frame import Group, split

RESULT_SCHEMA = "result binary"
SOURCE_COLUMNS = ("value", "key", "headers", "partition", "offset", "timestamp")
# Records decoded together: enough to make the fast engine's fixed cost per call (about 2 ms) small,
# few enough that a group of long records stays within memory.
_GROUP_RECORDS = 65_536
_GROUP_BYTES = 32 * 1024**2
# Arrow bytes held before a file is written: bounds the memory of a task whatever the batch.
_HELD_BYTES = 128 * 1024**2
_MAX_REFUSED = 20  # enough to see a pattern; the rest is counted


@dataclass(frozen=True)
class WriterSchema:
    """One registered schema and those it refers to (name → text)."""

    text: str
    references: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class StagePlan:
    """Everything a task needs, sent with it.

    ``table_metadata`` is the table's metadata as JSON, None while there is no table. ``schemas`` holds
    the writer schemas that the table covers by id; ``covers_tombstones`` says that every value column
    is optional. Records of other ids are not written: their ids come back as ``needed``.
    """

    table_metadata: str | None
    io_properties: dict[str, str]
    epoch: int
    schemas: dict[int, WriterSchema]
    covers_tombstones: bool
    whole_value: bool
    key_format: str
    metadata_columns: tuple[str, ...]


@dataclass(frozen=True)
class RefusedRecord:
    """A record that cannot become a row: where it is and why."""

    partition: int
    offset: int
    schema_id: int | None
    reason: str
    message: str


@dataclass
class StageResult:
    """What one task did. ``needed`` None stands for tombstones; rows count only what is in files."""

    files: list[DataFile] = field(default_factory=list)
    spec_id: int = 0
    rows: int = 0
    records: int = 0
    value_bytes: int = 0
    newest_ms: dict[int, int] = field(default_factory=dict)
    needed: set[int | None] = field(default_factory=set)
    refused: list[RefusedRecord] = field(default_factory=list)
    refused_count: int = 0

    def add(self, pickled: bytes) -> None:
        """Take in a task's result."""
        other: StageResult = pickle.loads(pickled)
        for file in other.files:
            file.spec_id = other.spec_id  # PyIceberg keeps it beside the fields that pickle carries
        self.files += other.files
        self.rows += other.rows
        self.records += other.records
        self.value_bytes += other.value_bytes
        for partition, newest in other.newest_ms.items():
            self.newest_ms[partition] = max(newest, self.newest_ms.get(partition, newest))
        self.needed |= other.needed
        self.refused = (self.refused + other.refused)[:_MAX_REFUSED]
        self.refused_count += other.refused_count


class StageTask:
    """The function given to ``mapInArrow``: batches of ``SOURCE_COLUMNS`` in, one pickled result out."""

    def __init__(self, plan: StagePlan) -> None:
        self._plan = pickle.dumps(plan)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Stage all records of the task."""
        stage = _Stage(_load_plan(self._plan))
        for batch in _merged(batches):
            stage.take(batch)
        result = pickle.dumps(stage.finish())
        yield pa.RecordBatch.from_arrays([pa.array([result], pa.binary())], names=["result"])


class _Stage:
    """One task's work under way."""

    def __init__(self, loaded: _LoadedPlan) -> None:
        self._loaded = loaded
        self._plan = loaded.plan
        self._result = StageResult()
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0

    def take(self, batch: pa.RecordBatch) -> None:
        """Decode a batch and hold its rows for the next file."""
        result = self._result
        result.records += len(batch)
        _note_newest(batch, result.newest_ms)
        values = batch.column("value")
        result.value_bytes += values.nbytes
        groups, unframed = split(values)
        for bad in unframed:
            self._refuse(batch, bad.position, None, "no_schema_id", bad.message)
        for group in groups:
            if self._covered(group.schema_id):
                self._take_group(batch, group)
            else:
                result.needed.add(group.schema_id)

    def _covered(self, schema_id: int | None) -> bool:
        if self._loaded.writer is None:
            return False
        return self._plan.covers_tombstones if schema_id is None else schema_id in self._plan.schemas

    def _take_group(self, batch: pa.RecordBatch, group: Group) -> None:
        columns: dict[str, pa.Array] = {}
        kept = group.positions
        if group.schema_id is not None:
            rows, refused = self._loaded.decoder(group.schema_id).decode(group.values)
            for bad in refused:
                position = int(group.positions[bad.index])
                self._refuse(batch, position, group.schema_id, bad.reason, bad.message)
            if refused:
                kept = np.delete(kept, [bad.index for bad in refused])
            columns = dict(zip(rows.schema.names, rows.columns, strict=True))
            if self._plan.whole_value and list(columns) != [VALUE]:
                columns = {VALUE: rows.to_struct_array()}
        if self._plan.key_format == "string":
            self._refuse_keys(batch, group)
        if self._result.needed or self._result.refused_count:
            return  # this round's files are thrown away: only ids and reasons still matter
        source = batch if len(kept) == len(batch) else batch.take(pa.array(kept))
        columns.update(_kafka_columns(source, self._plan))
        target = self._loaded.target
        assert target is not None
        self._hold(conform(columns, len(kept), target))

    def _refuse_keys(self, batch: pa.RecordBatch, group: Group) -> None:
        """Keys that are to be text and are not UTF-8."""
        keys = batch.column("key")
        try:
            keys.cast(pa.large_string())
        except pa.ArrowInvalid:
            for position in group.positions.tolist():
                key = keys[position].as_py()
                if key is not None and not _is_text(key):
                    told = (
                        "the key is not UTF-8; enable the topic with the key format raw and another --table"
                    )
                    self._refuse(batch, position, group.schema_id, "key_not_text", told)

    def _hold(self, rows: pa.RecordBatch) -> None:
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        writer = self._loaded.writer
        if writer is not None and self._held_bytes >= min(writer.target_bytes, _HELD_BYTES):
            self._flush()

    def _flush(self) -> None:
        if not self._held or self._loaded.writer is None:
            return
        table = pa.Table.from_batches(self._held)
        self._held, self._held_bytes = [], 0
        if len(table):
            self._result.files += self._loaded.writer.write(table)
            self._result.rows += len(table)

    def _refuse(
        self, batch: pa.RecordBatch, position: int, schema_id: int | None, reason: str, message: str
    ) -> None:
        self._result.refused_count += 1
        if len(self._result.refused) < _MAX_REFUSED:
            partition = batch.column("partition")[position].as_py()
            offset = batch.column("offset")[position].as_py()
            self._result.refused.append(RefusedRecord(partition, offset, schema_id, reason, message))

    def finish(self) -> StageResult:
        """Write what is held and return the result."""
        if not self._result.needed and not self._result.refused_count:
            self._flush()
        if self._loaded.writer is not None:
            self._result.spec_id = self._loaded.writer.spec_id
        return self._result


class _LoadedPlan:
    """A plan with what is costly to make; kept between the tasks of a Python worker."""

    def __init__(self, plan: StagePlan) -> None:
        self.plan = plan
        self.writer: DataFileWriter | None = None
        self.target: pa.Schema | None = None
        if plan.table_metadata is not None:
            self.writer = DataFileWriter(plan.table_metadata, plan.io_properties, plan.epoch)
            self.target = file_schema(self.writer.schema)

    def decoder(self, schema_id: int) -> AvroDecoder:
        """The decoder of a schema id that the plan covers."""
        return _decoder(schema_id, self.plan.schemas[schema_id])


@lru_cache(maxsize=256)
def _decoder(schema_id: int, schema: WriterSchema) -> AvroDecoder:
    return AvroDecoder(schema_id, schema.text, dict(schema.references))


_LOADED: dict[bytes, _LoadedPlan] = {}


def _load_plan(pickled: bytes) -> _LoadedPlan:
    key = hashlib.sha256(pickled).digest()
    if key not in _LOADED:
        while len(_LOADED) >= 64:  # plans of other topics, or of the table before it evolved
            _LOADED.pop(next(iter(_LOADED)))
        _LOADED[key] = _LoadedPlan(pickle.loads(pickled))
    return _LOADED[key]


def _merged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches until a group is worth a call of the fast engine."""
    held: list[pa.RecordBatch] = []
    records = size = 0
    for batch in batches:
        held.append(batch)
        records += len(batch)
        size += batch.nbytes
        if records >= _GROUP_RECORDS or size >= _GROUP_BYTES:
            yield _concat(held)
            held, records, size = [], 0, 0
    if held:
        yield _concat(held)


def _concat(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _is_text(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True


def _note_newest(batch: pa.RecordBatch, newest_ms: dict[int, int]) -> None:
    """Newest record timestamp by partition, in ms."""
    if not len(batch):
        return
    timestamps = batch.column("timestamp").cast(pa.int64()).to_numpy(zero_copy_only=False) // 1000
    partitions = batch.column("partition").to_numpy(zero_copy_only=False)
    for partition in np.unique(partitions).tolist():
        newest = int(timestamps[partitions == partition].max())
        newest_ms[partition] = max(newest, newest_ms.get(partition, newest))


def _kafka_columns(source: pa.RecordBatch, plan: StagePlan) -> dict[str, pa.Array]:
    columns: dict[str, pa.Array] = {}
    if "key" in plan.metadata_columns and plan.key_format != "none":
        columns[KEY] = source.column("key")
    if "header" in plan.metadata_columns:
        columns[HEADER] = _headers(source.column("headers"))
    if "metadata" in plan.metadata_columns:
        place = [source.column(name) for name in ("partition", "offset", "timestamp")]
        columns[METADATA] = pa.StructArray.from_arrays(place, names=["partition", "offset", "timestamp"])
    return columns


_HEADER_TYPE = pa.map_(pa.large_string(), pa.large_binary())


def _headers(headers: pa.Array) -> pa.Array:
    """Kafka's list of (key, value) as a map; null where a record has none, of a repeated key the last."""
    if headers.null_count == len(headers):
        return pa.nulls(len(headers), _HEADER_TYPE)
    entries = headers.values
    keys = entries.field(0)
    lists = headers.value_lengths()
    parents = pc.list_parent_indices(headers).to_numpy(zero_copy_only=False)
    flat_keys = headers.flatten().field(0)
    if pc.max(lists).as_py() > 1 and _repeats(parents, flat_keys):
        last = [
            row and list({one["key"]: one["value"] for one in row}.items()) for row in headers.to_pylist()
        ]
        return pa.array(last, _HEADER_TYPE)
    key_array, value_array = keys.cast(pa.large_string()), entries.field(1).cast(pa.large_binary())
    pairs = pa.StructArray.from_arrays(
        [key_array, value_array], fields=[_HEADER_TYPE.key_field, _HEADER_TYPE.item_field]
    )
    return pa.Array.from_buffers(
        _HEADER_TYPE, len(headers), headers.buffers()[:2], offset=headers.offset, children=[pairs]
    )


def _repeats(parents: np.ndarray, keys: pa.Array) -> bool:
    codes = keys.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    pairs = parents.astype(np.int64) * (int(codes.max(initial=0)) + 1) + codes
    return len(np.unique(pairs)) != len(pairs)
