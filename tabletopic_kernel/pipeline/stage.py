"""A Spark task's work on its records: split, decode, transform, conform, write data files.

Runs on the executors. A task returns one ``StageResult``; the bytes never pass through the driver.
"""

from __future__ import annotations

import os
import pickle
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from tabletopic_kernel.formats.arrays import Positions
from tabletopic_kernel.formats.rejection import Narrowed, in_parts, narrowed
from tabletopic_kernel.formats.wire import SchemaKey
from tabletopic_kernel.model import dead_letter
from tabletopic_kernel.model.errors import ProjectionError
from tabletopic_kernel.model.ledger import added
from tabletopic_kernel.model.steps import Step, reach
from tabletopic_kernel.pipeline.conform import headers_of, note_newest, with_dated_records, with_null_headers
from tabletopic_kernel.pipeline.decode import GroupRows, LoadedPlan, Made, load_plan
from tabletopic_kernel.pipeline.keys import KeyColumns
from tabletopic_kernel.pipeline.plan import RefusedRecord, StagePlan, StageResult
from tabletopic_kernel.pipeline.split_by_schema import Group, split, unsplit
from tabletopic_kernel.pipeline.transform.columns import TOMBSTONE
from tabletopic_kernel.pipeline.transform.projection.child import has_to_end
from tabletopic_kernel.pipeline.write import Held, Refusals, dead_letters_of

RESULT_SCHEMA = "result binary"
SOURCE_COLUMNS = ("value", "key", "headers", "partition", "offset", "timestamp")
SOURCE_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
# Records decoded together: enough to make the fast engine's fixed cost per call (about 2 ms) small, few
# enough that a group of long records fits into memory.
_GROUP_RECORDS = 65_536
_GROUP_BYTES = 32 * 1024**2

_PLACE = ("partition", "offset")
_HANDED_OVER_S = 5.0  # by then, a result has reached Spark
OnRefused = Callable[[pa.RecordBatch, Refusals], None]


@dataclass(frozen=True)
class _Part:
    """A batch, or a part of one, whose records are grouped by schema."""

    batch: pa.RecordBatch
    groups: list[Group]
    unframed: Refusals
    keys: KeyColumns


class StageTask:
    """The function for ``mapInArrow``: batches of ``SOURCE_COLUMNS`` in, one pickled result out."""

    def __init__(self, plan: StagePlan) -> None:
        self._topic, self._plan = plan.topic, pickle.dumps(plan)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Stage all records of the task."""
        if has_to_end():
            os._exit(1)  # another task's statement still runs here; Spark starts another worker
        stage = Stage(load_plan(self._topic, self._plan))
        reach(Step.STAGE)
        for batch in _merged(batches):
            stage.take(batch)
        result = pickle.dumps(stage.finish())
        reach(Step.STAGED)
        yield pa.RecordBatch.from_arrays([pa.array([result], pa.binary())], names=["result"])
        if has_to_end():
            threading.Timer(_HANDED_OVER_S, os._exit, (1,)).start()


class Stage:
    """One task's state; ``on_refused`` gets rejected records.

    Without ``writes``, rows are counted and no file is written, for a plan.
    """

    def __init__(
        self, loaded: LoadedPlan, on_refused: OnRefused | None = None, *, writes: bool = True
    ) -> None:
        self._on_refused = on_refused
        self._writes = writes
        self._loaded = loaded
        self._plan = loaded.plan
        self._made = GroupRows(loaded)
        self._result = StageResult()
        self._rows = Held(loaded.writer)
        self._letters = Held(loaded.dead_letter_writer)
        self._refused: list[Refusals] = []  # of the batch under way

    def take(self, batch: pa.RecordBatch) -> None:
        """Decode a batch and buffer its rows and dead letters for the next file."""
        batch, result = with_dated_records(with_null_headers(batch)), self._result
        result.records += len(batch)
        note_newest(batch, result.newest_ms)
        result.value_bytes += batch.column("value").nbytes
        in_parts(lambda start, stop: self._take(batch.slice(start, stop - start)), len(batch))

    def _take(self, batch: pa.RecordBatch) -> None:
        found = narrowed(
            lambda start, stop: self._split(batch.slice(start, stop - start)),
            len(batch),
            patient=self._plan.patient,
        )
        for part in found.made:
            self._take_part(part)
        self._failed(batch, None, np.arange(len(batch)), found)
        self._keep_dead_letters(batch)

    def _split(self, batch: pa.RecordBatch) -> _Part:
        values = batch.column("value")
        groups, unframed = split(values, headers_of(batch)) if self._plan.names_schemas else unsplit(values)
        return _Part(batch, groups, unframed, self._loaded.keys.read(batch))

    def _take_part(self, part: _Part) -> None:
        result, keys = self._result, part.keys
        result.needed |= {group.schema_id for group in part.groups if not self._known(group.schema_id)}
        result.needed_keys |= keys.needed
        result.proved_keys |= keys.proved
        if not self._ends:
            self._refuse(part.batch, part.unframed)
        for group in part.groups:
            if not self._ends or group.schema_id in self._plan.candidates:
                self._take_group(part.batch, group, keys)
        self._keep_dead_letters(part.batch)

    @property
    def _ends(self) -> bool:
        """Whether the rest of this round's records do not matter, except for needs and reasons."""
        result = self._result
        stops = self._plan.settings.errors == "stop" and bool(result.refused)
        return bool(result.needs.of_table or result.stopped) or stops or result.alike

    @property
    def _void(self) -> bool:
        """Whether this round's files will be discarded.

        If only the dead-letter table is missing, records still count: whether it is created depends on the
        share of those that are refused.
        """
        return self._ends or self._result.needs_dead_letters

    def _known(self, schema_id: SchemaKey | None) -> bool:
        if schema_id is None and self._plan.passes_over_tombstones:
            return True
        if schema_id is not None and (
            schema_id in self._plan.refused_schemas or schema_id in self._plan.candidates
        ):
            return True
        if self._loaded.writer is None:  # inferred columns come from the records themselves
            return self._loaded.infers
        return self._plan.covers_tombstones if schema_id is None else schema_id in self._plan.schemas

    def _take_group(self, batch: pa.RecordBatch, group: Group, keys: KeyColumns) -> None:
        schema_id = group.schema_id
        if schema_id is None and self._plan.passes_over_tombstones:
            self._result.passed_over = added(self._result.passed_over, {TOMBSTONE: len(group)})
            return
        if schema_id is not None and schema_id in self._plan.refused_schemas:
            reason, message = self._plan.refused_schemas[schema_id]
            self._refuse(batch, Refusals(group.positions, schema_id, reason, message))
            return
        if schema_id is not None and (fault := group.header_fault(self._loaded.schema(schema_id).kind)):
            self._refuse(batch, Refusals(group.positions, schema_id, dead_letter.BAD_SCHEMA_HEADER, fault))
            return
        try:
            found = narrowed(
                lambda start, stop: self._made.of(batch, group.part(start, stop), keys),
                len(group),
                patient=self._plan.patient,
            )
        except ProjectionError as error:  # it takes too much, whatever the record: not a letter
            self._result.stopped = str(error)
            return
        for made in found.made:
            self._keep(batch, schema_id, made)
        self._failed(batch, schema_id, group.positions, found)

    def _keep(self, batch: pa.RecordBatch, schema_id: SchemaKey | None, made: Made) -> None:
        result = self._result
        for refused in made.refused:
            self._refuse(batch, refused)
        result.passed_over = added(result.passed_over, made.passed_over)
        result.decoded += sum(made.passed_over.values()) + sum(len(rows) for rows in made.rows)
        if made.needed_columns is not None:
            result.needed_columns.append(made.needed_columns)
        if made.proved and schema_id is not None:
            result.proved.add(schema_id)
        for rows in made.rows:
            if not self._void:
                result.rows += len(rows)
                if self._writes:
                    result.files += self._rows.add(rows)

    def _failed(
        self, batch: pa.RecordBatch, schema_id: SchemaKey | None, positions: Positions, found: Narrowed[Any]
    ) -> None:
        """Add the records at ``positions`` that caused unexpected exceptions."""
        result = self._result
        if found.alike is not None:
            result.alike = True
            result.failed = added(result.failed, {found.alike.kind: len(positions)})
            result.trace(found.alike.line, found.alike.trace)
            partition, offset = (
                batch.column(name)[positions[found.alike.index].item()].as_py() for name in _PLACE
            )
            known_id = Refusals(positions[:0], schema_id, "", "").known_id
            result.sample(
                RefusedRecord(partition, offset, known_id, dead_letter.INTERNAL_ERROR, found.alike.line)
            )
        for one in found.failures:
            result.failed = added(result.failed, {one.kind: 1})
            result.trace(one.line, one.trace)
        if found.failures:
            at = positions[[one.index for one in found.failures]]
            lines = [one.line for one in found.failures]
            self._refuse(batch, Refusals(at, schema_id, dead_letter.INTERNAL_ERROR, lines))

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
            partition, offset = (batch.column(name)[position].as_py() for name in _PLACE)
            why = (refused.reason(index), refused.message(index))
            result.sample(RefusedRecord(partition, offset, refused.known_id, *why))
        if self._plan.settings.errors != "dead_letter":
            return
        result.needs_dead_letters |= self._loaded.dead_letter_target is None
        self._refused.append(refused)

    def _keep_dead_letters(self, batch: pa.RecordBatch) -> None:
        """Buffer dead letters for the rejected records of ``batch``."""
        refused, self._refused = self._refused, []
        target = self._loaded.dead_letter_target
        if refused and target is not None and not self._void:
            dead_letters = dead_letters_of(self._plan.topic, batch, refused, datetime.now(UTC), target)
            self._result.dead_letters += self._letters.add(dead_letters)

    def finish(self) -> StageResult:
        """Write what is buffered and return the result."""
        if not self._void:
            self._result.files += self._rows.flush()
            self._result.dead_letters += self._letters.flush()
        if self._loaded.writer is not None:
            self._result.spec_id = self._loaded.writer.spec_id
        if self._loaded.dead_letter_writer is not None:
            self._result.dead_letters_spec_id = self._loaded.dead_letter_writer.spec_id
        return self._result


def _merged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches until they are worth a call of the fast engine; split those that are too long."""
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
