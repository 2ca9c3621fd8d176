"""A task's work on its records: split, decode, transform, conform, and hand over to a sink.

Runs on the executors. A Spark task returns one ``StageResult``; the bytes never pass through the driver.
"""

from __future__ import annotations

import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from tabletopic_kernel.formats.arrays import Positions
from tabletopic_kernel.formats.rejection import Isolated, isolated
from tabletopic_kernel.formats.wire import SchemaKey
from tabletopic_kernel.model import dead_letter
from tabletopic_kernel.model.errors import ActionNeededError, ProjectionError, RetryableError
from tabletopic_kernel.model.ledger import added
from tabletopic_kernel.model.redact import trace_of
from tabletopic_kernel.model.steps import Step, reach
from tabletopic_kernel.pipeline.conform import headers_of, note_last, note_newest, with_dated_records
from tabletopic_kernel.pipeline.decode import DecodedGroup, KeyColumns, LoadedPlan, decode_group, decode_keys
from tabletopic_kernel.pipeline.plan import MAX_SAMPLES, Needs, RefusedRecord, StagePlan, StageResult
from tabletopic_kernel.pipeline.sinks import Files, Rejections, Sink, StagedRows, places_of
from tabletopic_kernel.pipeline.split_by_schema import (
    Group,
    given_back,
    schema_fault,
    split,
    split_connect,
    unsplit,
)
from tabletopic_kernel.pipeline.transform.columns import CDC, OTHER_SUBJECT, ROWLESS_OPS, TOMBSTONE
from tabletopic_kernel.pipeline.transform.deletes import DELETED, Changes, Followers, changes_of, moved_keys
from tabletopic_kernel.pipeline.transform.unavailable import columns_with_unavailable
from tabletopic_kernel.pipeline.worker.loaded_plans import load_plan

R = TypeVar("R")
RESULT_SCHEMA = "result binary"
DELETE: Final = "delete"  # the word under which an upsert table counts deletes of change events
_NO_KEY: Final = "the record has no key, or a part of it is null; the table is kept by key"


class StageTask:
    """Batches of ``SOURCE_SCHEMA`` in, one pickled result out, as a batch."""

    def __init__(self, plan: StagePlan) -> None:
        self._topic, self._plan = plan.topic, pickle.dumps(plan)
        self.size = len(self._plan)  # of what is sent to each task

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Stage all records of the task."""
        try:
            loaded = load_plan(self._topic, self._plan)
            reach(Step.STAGE)
            result = stage_files(loaded, batches)
            reach(Step.STAGED)
        except RetryableError as error:  # as a value: Spark would end the tasks of other topics, too
            result = StageResult(error=error)
        except Exception as error:
            result = StageResult(error=RetryableError(trace_of(error)))
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(result)], pa.binary())], names=["result"])


def stage_files(loaded: LoadedPlan, records: Iterable[pa.RecordBatch]) -> StageResult:
    """Stage records into files of the table and its dead-letter table."""
    has_letters = loaded.plan.settings.errors == "dead_letter"
    files = Files(
        loaded.plan.topic,
        loaded.writer,
        loaded.dead_letter_writer if has_letters else None,
        of_several=loaded.plan.tasks > 1,
    )
    result = stage(loaded, records, files)
    files.close(result, is_void=result.is_void(loaded.plan.settings))
    return result


def stage(loaded: LoadedPlan, records: Iterable[pa.RecordBatch], sink: Sink) -> StageResult:
    """Hand over to the sink what becomes of the records, of ``SOURCE_SCHEMA`` with or without headers.

    If the plan lacks something, the result says what, and the sink has only some of the records.
    """
    staging = _Staging(loaded, sink)
    for batch in records:
        staging.take(batch)
    return staging.result


@dataclass(frozen=True)
class _Part:
    """A batch, or a part of one, whose records are grouped by schema."""

    batch: pa.RecordBatch
    groups: list[Group]
    unframed: list[Rejections]
    keys: KeyColumns
    texts: Mapping[SchemaKey, str]


_Judged = tuple[DecodedGroup, Sequence[Changes | None], Sequence[pa.Table]]


class _Staging:
    def __init__(self, loaded: LoadedPlan, sink: Sink) -> None:
        self._loaded = loaded
        self._plan = loaded.plan
        self._sink = sink
        self._names_schemas = loaded.plan.settings.value_format == "by_schema_id"
        self._now_ms = time.time_ns() // 1_000_000  # the executor's clock
        self._followers = Followers()
        self.result = StageResult()

    def take(self, batch: pa.RecordBatch) -> None:
        batch, result = with_dated_records(batch), self.result
        result.records += len(batch)
        note_newest(batch, self._now_ms, result.newest_ms, result.outliers)
        note_last(batch, result.last_records)
        result.value_bytes += batch.column("value").nbytes
        split_parts = self._isolated(lambda part: self._split(batch.slice(part.start, len(part))), len(batch))
        for part in split_parts.results:
            self._take_part(part)
        self._failed(batch, None, np.arange(len(batch)), split_parts)

    def _isolated(self, work: Callable[[range], R], count: int) -> Isolated[R]:
        return isolated(work, count, patient=self._plan.patient)

    def _split(self, batch: pa.RecordBatch) -> _Part:
        values, texts = batch.column("value"), dict[SchemaKey, str]()
        if self._loaded.reads_connect:
            (groups, texts), unframed = split_connect(values), list[Rejections]()
        else:
            groups, unframed = split(values, headers_of(batch)) if self._names_schemas else unsplit(values)
        return _Part(batch, groups, unframed, decode_keys(self._loaded, batch), texts)

    def _take_part(self, part: _Part) -> None:
        needed = frozenset(group.schema_id for group in part.groups if not self._knows(group.schema_id))
        carried = frozenset(item for item in part.texts.items() if item[0] in needed)
        self.result.needs |= Needs(
            needed,
            key_ids=part.keys.needed,
            proved_keys=part.keys.proved,
            carried=carried | part.keys.carried,
        )
        if not self.result.ends(self._plan.settings):
            for rejections in part.unframed:
                self._refuse(part.batch, rejections)
        groups = part.groups
        if self._plan.upsert is not None:
            self._followers.begin(part.batch)
            groups = sorted(groups, key=lambda group: group.schema_id is None)  # after the deletes
        for group in groups:
            if not self.result.ends(self._plan.settings) or group.schema_id in self._plan.values.candidates:
                self._take_group(part.batch, group, part.keys)

    def _knows(self, schema_id: SchemaKey | None) -> bool:
        if schema_id is None:
            if self._plan.passes_over_tombstones or self._plan.upsert is not None:
                return True
            return self._loaded.infers if self._loaded.writer is None else self._plan.covers_tombstones
        return self._plan.values.knows(schema_id)

    def _without_passed_over(self, group: Group) -> Group:
        """But for other events, and for records without a value that only follow an event."""
        if (schema_id := group.schema_id) is not None:
            reason = OTHER_SUBJECT
            passed = np.full(len(group), self._plan.values.refused.get(schema_id, ("",))[0] == reason)
        elif self._plan.upsert is not None:
            passed, reason = self._followers.among(group.positions), TOMBSTONE
        else:
            passed, reason = np.full(len(group), self._plan.passes_over_tombstones), TOMBSTONE
        if passed.any():
            self.result.passed_over = added(self.result.passed_over, {reason: int(passed.sum())})
        return group.only(~passed) if passed.any() else group

    def _take_group(self, batch: pa.RecordBatch, group: Group, keys: KeyColumns) -> None:
        result, schema_id = self.result, group.schema_id
        if not len(group := self._without_passed_over(group)):
            return
        if fault := schema_fault(group, self._plan.values):
            self._refuse(batch, fault)
            return
        try:
            decoded = self._isolated(
                lambda part: self._judge(batch, group.part(part.start, part.stop), keys), len(group)
            )
        except ProjectionError as error:  # the statement's fault, not the record's: no letter
            result.error = ActionNeededError(str(error))
            return
        for part, changes, moved in decoded.results:
            for rejections in part.rejections:
                refused, whole = rejections, None
                if self._loaded.infers:  # a reader of keys alone does not
                    refused, whole = given_back(rejections, batch.column("value"))
                self._refuse(batch, refused)
                if whole is not None:
                    self._take_group(batch, whole, keys)
            result.passed_over = added(result.passed_over, part.passed_over)
            result.decoded += sum(part.passed_over.values()) + sum(map(len, part.rows))
            if part.needed_columns is not None:
                result.needs |= Needs(columns=(part.needed_columns,))
            if part.proved and schema_id is not None:
                result.needs |= Needs(proved=frozenset((schema_id,)))
            for rows, change in zip(part.rows, changes, strict=True):
                self._take_rows(batch, rows, change)
            for deletes in moved:
                self._take_deletes(deletes)
        self._failed(batch, schema_id, group.positions, decoded)

    def _judge(self, batch: pa.RecordBatch, group: Group, keys: KeyColumns) -> _Judged:
        """Decode; of an upsert table also what each of the rows says, and the keys that updates changed."""
        decoded, columns = decode_group(self._loaded, batch, group, keys), self._plan.upsert
        if columns is None:
            return decoded, [None] * len(decoded.rows), []
        is_bare = group.schema_id is None
        changes = [changes_of(rows.rows, columns, without_value=is_bare) for rows in decoded.rows]
        after = [(rows.positions, rows.rows) for rows in decoded.rows]
        moved = (moved_keys(old.rows, old.positions, after, columns.key) for old in decoded.before)
        return decoded, changes, [changes_of(rows, columns).deletes for rows in moved]

    def _take_rows(self, batch: pa.RecordBatch, rows: StagedRows, changes: Changes | None) -> None:
        if changes is not None:
            without_value = rows.schema_id is None
            counts = {TOMBSTONE if without_value else DELETE: len(changes.deletes) - changes.truncates}
            counts |= {ROWLESS_OPS["t"]: changes.truncates}
            if changes.keyless.any():
                if without_value and (CDC in rows.rows.schema.names or DELETED in rows.rows.schema.names):
                    counts[TOMBSTONE] += int(changes.keyless.sum())  # it follows the event of a delete
                else:
                    keyless = rows.positions[changes.keyless]
                    self._refuse(batch, Rejections(keyless, rows.schema_id, dead_letter.NO_KEY, _NO_KEY))
            counts = {reason: count for reason, count in counts.items() if count}
            self.result.passed_over = added(self.result.passed_over, counts)
            self._take_deletes(changes.deletes)
            if not without_value:
                self._followers.deleted(rows.positions[changes.deleted])
            kept = rows.rows.filter(pa.array(changes.writes))
            rows = StagedRows(rows.positions[changes.writes], rows.schema_id, kept)
            if CDC in kept.schema.names or DELETED in kept.schema.names:
                self.result.unavailable |= columns_with_unavailable(kept)
        if len(rows := self._expected(batch, rows)) and not self.result.is_void(self._plan.settings):
            self._sink.rows(batch, rows)

    def _expected(self, batch: pa.RecordBatch, rows: StagedRows) -> StagedRows:
        """The rows that the expectations let pass."""
        if (rules := self._loaded.rules) is None or not len(rows):
            return rows
        passing, refused = rules.judged(batch, rows, self.result)
        self._refuse(batch, refused)
        return passing

    def _take_deletes(self, deletes: pa.Table) -> None:
        if len(deletes) and not self.result.is_void(self._plan.settings):
            self._sink.deletes(deletes)

    def _failed(
        self, batch: pa.RecordBatch, schema_id: SchemaKey | None, positions: Positions, outcome: Isolated[Any]
    ) -> None:
        """Add the records at ``positions`` that caused unexpected exceptions."""
        result, failures, alike = self.result, outcome.failures, outcome.alike
        if alike is not None:
            result.alike = True
            result.failed = added(result.failed, {alike.kind: len(positions)})
            result.trace(alike.line, alike.trace)
            self._sample(
                batch,
                Rejections(positions[[alike.index]], schema_id, dead_letter.INTERNAL_ERROR, alike.line),
            )
        for failure in failures:
            result.failed = added(result.failed, {failure.kind: 1})
            result.trace(failure.line, failure.trace)
        if failures:
            failed = positions[[failure.index for failure in failures]]
            lines = [failure.line for failure in failures]
            self._refuse(batch, Rejections(failed, schema_id, dead_letter.INTERNAL_ERROR, lines))

    def _sample(self, batch: pa.RecordBatch, rejections: Rejections) -> None:
        if (wanted := MAX_SAMPLES - len(self.result.samples)) > 0:
            for index, (partition, offset) in enumerate(places_of(batch, rejections.positions[:wanted])):
                why = rejections.reason(index), rejections.message(index)
                self.result.samples.append(RefusedRecord(partition, offset, rejections.known_id, *why))

    def _refuse(self, batch: pa.RecordBatch, rejections: Rejections) -> None:
        if not len(rejections):
            return
        result, reasons = self.result, rejections.reasons
        counts = {reasons: len(rejections)} if isinstance(reasons, str) else Counter(reasons)
        for reason, count in counts.items():
            result.refused[reason] = result.refused.get(reason, 0) + count
        self._sample(batch, rejections)
        if self._plan.settings.errors == "dead_letter" and self._loaded.dead_letter_writer is None:
            result.needs |= Needs(dead_letters=True)
        if not result.is_void(self._plan.settings):
            self._sink.rejected(batch, rejections)
