"""What a Spark task does with its records: frame, decode, transform, conform, write data files.

Runs on the executors. A task returns one ``StageResult``; the bytes never pass through the driver.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from tabletopic_kernel.core import dead_letter
from tabletopic_kernel.core.ledger import added
from tabletopic_kernel.core.steps import Step, reach
from tabletopic_kernel.core.transform import TOMBSTONE
from tabletopic_kernel.core.wire import SchemaKey
from tabletopic_kernel.ingest.conform import conform
from tabletopic_kernel.ingest.decoders import InferringDecoder
from tabletopic_kernel.ingest.frame import Group, split, unsplit
from tabletopic_kernel.ingest.held import Held
from tabletopic_kernel.ingest.kafka_columns import (
    headers_of,
    kafka_columns,
    note_newest,
    with_null_headers,
)
from tabletopic_kernel.ingest.keys import KeyColumns
from tabletopic_kernel.ingest.letters import Positions, Refusals, letters_of
from tabletopic_kernel.ingest.loaded import LoadedPlan, load_plan
from tabletopic_kernel.ingest.plan import RefusedRecord, StagePlan, StageResult
from tabletopic_kernel.ingest.relabel import relabel
from tabletopic_kernel.ingest.rows import Rows
from tabletopic_kernel.ingest.verdicts import Refused

RESULT_SCHEMA = "result binary"
SOURCE_COLUMNS = ("value", "key", "headers", "partition", "offset", "timestamp")
# Records decoded together: enough to make the fast engine's fixed cost per call (about 2 ms) small,
# few enough that a group of long records stays within memory.
_GROUP_RECORDS = 65_536
_GROUP_BYTES = 32 * 1024**2

OnRefused = Callable[[pa.RecordBatch, Refusals], None]


class StageTask:
    """The function given to ``mapInArrow``: batches of ``SOURCE_COLUMNS`` in, one pickled result out."""

    def __init__(self, plan: StagePlan) -> None:
        self._plan = pickle.dumps(plan)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Stage all records of the task."""
        stage = Stage(load_plan(self._plan))
        reach(Step.STAGE)
        for batch in _merged(batches):
            stage.take(with_null_headers(batch))
        result = pickle.dumps(stage.finish())
        reach(Step.STAGED)
        yield pa.RecordBatch.from_arrays([pa.array([result], pa.binary())], names=["result"])


class Stage:
    """One task's work under way; ``on_refused`` is told of records that become no row."""

    def __init__(self, loaded: LoadedPlan, on_refused: OnRefused | None = None) -> None:
        self._on_refused = on_refused
        self._loaded = loaded
        self._plan = loaded.plan
        self._result = StageResult()
        self._rows = Held(loaded.writer)
        self._letters = Held(loaded.letter_writer)

    def take(self, batch: pa.RecordBatch) -> None:
        """Decode a batch and hold its rows and letters for the next file."""
        result = self._result
        result.records += len(batch)
        note_newest(batch, result.newest_ms)
        values = batch.column("value")
        result.value_bytes += values.nbytes
        groups, unframed = split(values, headers_of(batch)) if self._plan.framed else unsplit(values)
        result.needed |= {group.schema_id for group in groups if not self._known(group.schema_id)}
        keys = self._loaded.keys.read(batch)
        result.needed_keys |= keys.needed
        if self._void:
            return
        self._refuse(batch, unframed)
        for group in groups:
            self._take_group(batch, group, keys)

    @property
    def _void(self) -> bool:
        """Whether this round's files will be thrown away: then only needs and reasons still matter."""
        result = self._result
        stops = self._plan.errors == "stop" and bool(result.refused)
        return bool(result.needs) or stops

    def _known(self, schema_id: SchemaKey | None) -> bool:
        if schema_id is None and self._plan.passes_over_tombstones:
            return True
        if schema_id is not None and schema_id in self._plan.refused_schemas:
            return True
        if self._loaded.writer is None:  # inferred columns come from the records themselves
            return self._loaded.infers
        return self._plan.covers_tombstones if schema_id is None else schema_id in self._plan.schemas

    def _take_group(self, batch: pa.RecordBatch, group: Group, keys: KeyColumns) -> None:
        positions, values = group.positions, group.values
        if group.schema_id is None and self._plan.passes_over_tombstones:
            self._result.passed_over = added(self._result.passed_over, {TOMBSTONE: len(positions)})
            return
        if group.schema_id is not None and group.schema_id in self._plan.refused_schemas:
            reason, message = self._plan.refused_schemas[group.schema_id]
            self._refuse(batch, Refusals(positions, group.schema_id, reason, message))
            return
        if group.schema_id is not None and (fault := group.header_fault(self._kind(group.schema_id))):
            self._refuse(batch, Refusals(positions, group.schema_id, dead_letter.BAD_SCHEMA_HEADER, fault))
            return
        if len(keys.refused):
            self._refuse(batch, keys.refused.among(positions, group.schema_id))
            bad = np.isin(positions, keys.refused.positions)
            positions, values = positions[~bad], values.filter(pa.array(~bad))
        columns: dict[str, pa.Array] = {}
        if group.schema_id is not None:
            decoder = self._loaded.decoder(group.schema_id)
            rows, refused = decoder.decode(values)
            if isinstance(decoder, InferringDecoder) and decoder.needed is not None:
                self._result.needed_columns.append(decoder.needed)
            self._refuse(batch, _refusals(positions, group.schema_id, refused))
            if refused:
                positions = np.delete(positions, [bad.index for bad in refused])
            if self._void:
                return
            columns, positions = self._transformed(batch, rows, positions, group.schema_id)
        if self._loaded.projection is not None:
            found = self._loaded.projection.rows(columns, len(positions))
            columns, positions = self._taken(batch, found, positions, group.schema_id)
        if self._void or not len(positions):
            return
        source = batch if len(positions) == len(batch) else batch.take(pa.array(positions))
        columns.update(kafka_columns(source, self._plan.metadata_columns, self._plan.key_format))
        columns.update(keys.at(positions, len(batch)))
        self._hold(batch, columns, positions, group.schema_id)

    def _kind(self, schema_id: SchemaKey) -> str:
        return self._plan.schemas[schema_id].kind

    def _transformed(
        self, batch: pa.RecordBatch, rows: pa.RecordBatch, positions: Positions, schema_id: SchemaKey
    ) -> tuple[dict[str, pa.Array], Positions]:
        """Decoded rows, which are the records at ``positions``, as columns; and which records those are."""
        offsets = batch.column("offset")
        if len(positions) < len(batch):
            offsets = offsets.take(pa.array(positions))
        found = self._loaded.step(schema_id).rows(rows, offsets)
        columns, positions = self._taken(batch, found, positions, schema_id)
        renames = self._plan.schemas[schema_id].renames
        return relabel(columns, dict(renames)) if renames else columns, positions

    def _taken(
        self, batch: pa.RecordBatch, found: Rows, positions: Positions, schema_id: SchemaKey | None
    ) -> tuple[dict[str, pa.Array], Positions]:
        """What a transform made of the records at ``positions``: the columns of those that it kept."""
        self._refuse(batch, _refusals(positions, schema_id, found.refused))
        self._result.passed_over = added(self._result.passed_over, found.passed_over)
        return found.columns, positions if len(found.kept) == len(positions) else positions[found.kept]

    def _hold(
        self,
        batch: pa.RecordBatch,
        columns: Mapping[str, pa.Array],
        at: Positions,
        schema_id: SchemaKey | None,
    ) -> None:
        """Hold the rows of ``columns``, which are the records at ``at``; what does not fit is refused."""
        target = self._loaded.target
        if target is None:  # records that tell of no column, before the first that does
            return
        try:
            rows = conform(columns, len(at), target)
        except pa.ArrowInvalid as error:
            if len(at) == 1:
                self._refuse(batch, Refusals(at, schema_id, dead_letter.DOES_NOT_FIT, str(error)))
                return
            middle = len(at) // 2
            for start, stop in ((0, middle), (middle, len(at))):
                part = {name: array.slice(start, stop - start) for name, array in columns.items()}
                self._hold(batch, part, at[start:stop], schema_id)
            return
        self._result.rows += len(rows)
        self._result.files += self._rows.add(rows)

    def _refuse(self, batch: pa.RecordBatch, refused: Refusals) -> None:
        if not len(refused):
            return
        if self._on_refused is not None:
            self._on_refused(batch, refused)
        result = self._result
        reasons = refused.reasons
        counts = {reasons: len(refused)} if isinstance(reasons, str) else Counter(reasons)
        for reason, count in counts.items():
            result.refused[reason] = result.refused.get(reason, 0) + count
        for index, position in enumerate(refused.positions.tolist()):
            if not result.wants_samples:
                break
            partition, offset = (batch.column(name)[position].as_py() for name in ("partition", "offset"))
            told = (refused.reason(index), refused.message(index))
            result.sample(RefusedRecord(partition, offset, refused.told_id, *told))
        if self._plan.errors != "dead_letter":
            return
        target = self._loaded.letter_target
        if target is None:
            result.needs_dead_letters = True
            return
        letters = letters_of(self._plan.topic, batch, refused, datetime.now(UTC), target)
        result.letters += self._letters.add(letters)

    def finish(self) -> StageResult:
        """Write what is held and return the result."""
        if not self._void:
            self._result.files += self._rows.flush()
            self._result.letters += self._letters.flush()
        if self._loaded.writer is not None:
            self._result.spec_id = self._loaded.writer.spec_id
        return self._result


def _refusals(positions: Positions, schema_id: SchemaKey | None, refused: list[Refused]) -> Refusals:
    chosen = positions[[bad.index for bad in refused]] if refused else positions[:0]
    return Refusals(chosen, schema_id, [bad.reason for bad in refused], [bad.message for bad in refused])


def _merged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches until a group is worth a call of the fast engine; cut those that are too long."""
    held: list[pa.RecordBatch] = []
    records = size = 0
    for batch in batches:
        for part in _cut(batch):
            held.append(part)
            records += len(part)
            size += part.nbytes
            if records >= _GROUP_RECORDS or size >= _GROUP_BYTES:
                yield _concat(held)
                held, records, size = [], 0, 0
    if held:
        yield _concat(held)


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in slices of at most ``_GROUP_BYTES``, or one record."""
    if batch.nbytes <= _GROUP_BYTES or len(batch) < 2:
        yield batch
        return
    middle = len(batch) // 2
    yield from _cut(batch.slice(0, middle))
    yield from _cut(batch.slice(middle))


def _concat(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
