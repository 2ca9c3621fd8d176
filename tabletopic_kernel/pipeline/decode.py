"""Turns the records of one schema into rows of the table: decode, transform, project, conform.

Nothing is kept of records, so the same ones can be retried in smaller parts (``formats/rejection.py``).

Keys that name their schema are split and decoded like values. They become the column ``_kafka_key``,
or another one next to it if their schema does not fit it. A record with an unreadable key is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema

from tabletopic_kernel.formats.arrays import Positions, not_text, valid
from tabletopic_kernel.formats.decoder import (
    BadSchemaError,
    Decoder,
    InferringDecoder,
    cached_decoder,
    inferring_decoder,
)
from tabletopic_kernel.formats.wire import SchemaKey
from tabletopic_kernel.model import dead_letter
from tabletopic_kernel.model.columns.evolution import KEY, VALUE
from tabletopic_kernel.model.ledger import added
from tabletopic_kernel.pipeline.conform import as_batch, fitted, headers_of, kafka_columns, rename
from tabletopic_kernel.pipeline.plan import WHOLE_TOPIC, StagePlan, TablePlan
from tabletopic_kernel.pipeline.sinks import Rejections, StagedRows
from tabletopic_kernel.pipeline.split_by_schema import (
    NO_REJECTIONS,
    Group,
    rejections_of_keys,
    schema_fault,
    split_keys,
)
from tabletopic_kernel.pipeline.transform.columns import Rows, reserved_in_rows
from tabletopic_kernel.pipeline.transform.deletes import former_rows
from tabletopic_kernel.pipeline.transform.expectations import Rules
from tabletopic_kernel.pipeline.transform.native import NativeDecoder
from tabletopic_kernel.pipeline.transform.projection.evaluation import Evaluation, evaluation
from tabletopic_kernel.pipeline.transform.transform import Step, make_step
from tabletopic_kernel.pipeline.write import DataFileWriter


class LoadedPlan:
    """A plan with its expensive objects, for one thread; ``is_worker``: whether Spark runs this process."""

    def __init__(self, plan: StagePlan, *, is_worker: bool = False) -> None:
        self.plan = plan
        self._is_worker = is_worker
        self.writer = _writer(plan.table, plan.epoch)
        self.dead_letter_writer = _writer(plan.dead_letters, plan.epoch)
        whole = plan.values.schemas.get(WHOLE_TOPIC)
        self.infers = whole is not None and whole.kind == "INFERRED"
        self._is_native = plan.settings.debezium_types == "native"
        self.reads_connect = self._is_native and plan.settings.value_format == "json"
        columns = plan.settings.metadata_columns if plan.settings.key_format != "none" else ()
        self.keeps_keys = plan.passes_over_tombstones and "key" in columns  # needed of deletes alone
        self._floors = plan.settings.value_nanos == "floor"
        self._steps: dict[SchemaKey, Step] = {}

    @property
    def target(self) -> pa.Schema | None:
        """The columns of the table's files; None without a table."""
        return self.writer.target if self.writer else None

    @cached_property
    def projection(self) -> Evaluation | None:
        plan = self.plan.projection
        return evaluation(plan.text, plan.columns, is_worker=self._is_worker) if plan else None

    @cached_property
    def rules(self) -> Rules | None:
        """The expectations on rows of the table, if there are any."""
        spelled, schema = self.plan.settings.expectations, self.writer and self.writer.schema
        return Rules(self.plan, schema, is_worker=self._is_worker) if spelled and schema else None

    @cached_property
    def _inferring(self) -> Decoder:
        reserved = reserved_in_rows(self.plan.settings.transform)
        return inferring_decoder(self.plan.inferred or Schema(), reserved)

    def decoder(self, schema_id: SchemaKey) -> Decoder:
        """The decoder for values of a schema; raises BadSchemaError."""
        if self.infers and schema_id == WHOLE_TOPIC:
            return self._inferring
        return cached_decoder(schema_id, self.plan.values.schema(schema_id))

    def key_decoder(self, schema_id: SchemaKey) -> Decoder:
        """The decoder for keys of a schema; raises BadSchemaError."""
        assert self.plan.keys is not None
        decoder = cached_decoder(schema_id, self.plan.keys.schema(schema_id))
        return NativeDecoder(decoder, floor=self._floors) if self._is_native else decoder

    def step(self, schema_id: SchemaKey) -> Step:
        """The transform for rows of this schema's ``decoder``."""
        if schema_id not in self._steps:
            decoded = self.decoder(schema_id).iceberg_schema
            self._steps[schema_id] = make_step(
                self.plan.settings.transform,
                decoded,
                keeps_truncates=self.plan.covers_tombstones,
                native=self._is_native,
                floor=self._floors,
            )
        return self._steps[schema_id]


def _writer(table: TablePlan | None, epoch: int) -> DataFileWriter | None:
    return DataFileWriter(table.metadata, table.io_properties, epoch) if table else None


@dataclass
class DecodedGroup:
    """What became of some records: each is in ``rows``, refused, or passed over.

    Incomplete if inferred records first need ``needed_columns``, or if a candidate was ``proved``.
    ``before``: for an upsert table by columns of the value, updated rows as they were, as deletes.
    """

    rows: list[StagedRows] = field(default_factory=list)
    before: list[StagedRows] = field(default_factory=list)
    rejections: list[Rejections] = field(default_factory=list)
    passed_over: Mapping[str, int] = field(default_factory=dict)
    needed_columns: Schema | None = None
    proved: bool = False

    def take(
        self, outcome: Rows, positions: Positions, schema_id: SchemaKey | None
    ) -> tuple[dict[str, pa.Array], Positions]:
        """Note records that a transform did not keep; returns columns and positions of the others."""
        if outcome.refused:
            self.rejections.append(Rejections.of(outcome.refused, positions, schema_id))
        self.passed_over = added(self.passed_over, outcome.passed_over)
        kept = positions if len(outcome.kept) == len(positions) else positions[outcome.kept]
        return outcome.columns, kept


def decode_group(loaded: LoadedPlan, batch: pa.RecordBatch, group: Group, keys: KeyColumns) -> DecodedGroup:
    """Decode a group of ``batch``, whose keys are ``keys``."""
    result, plan = DecodedGroup(), loaded.plan
    if len(keys.rejections) and (bad := np.isin(group.positions, keys.rejections.positions)).any():
        result.rejections.append(keys.rejections.among(group.positions, group.schema_id))
        group = group.only(~bad)
    schema_id, positions = group.schema_id, group.positions
    if schema_id is not None:
        rows, positions = _decode(group, schema_id, loaded.decoder, result.rejections)
        if rows is None:
            return result
        if loaded.infers and isinstance(decoder := loaded.decoder(schema_id), InferringDecoder):
            result.needed_columns = decoder.needed
        if schema_id in plan.values.candidates:
            result.proved = len(rows) > 0
            return result
        if result.needed_columns is not None:
            return result
        _to_rows(loaded, batch, rows, positions, schema_id, keys, result)
        if plan.upsert is not None and not plan.upsert.by_record:
            chosen, events = former_rows(rows)
            former = DecodedGroup()
            _to_rows(loaded, batch, events, positions[chosen], schema_id, keys, former)
            result.before += former.rows
    else:
        _to_rows(loaded, batch, None, positions, None, keys, result)
    return result


def _to_rows(
    loaded: LoadedPlan,
    batch: pa.RecordBatch,
    rows: pa.RecordBatch | None,
    positions: Positions,
    schema_id: SchemaKey | None,
    keys: KeyColumns,
    result: DecodedGroup,
) -> None:
    """Add to ``result`` what becomes of decoded rows, or of records without a value."""
    plan, columns = loaded.plan, dict[str, pa.Array]()
    if rows is not None and schema_id is not None:
        offsets = batch.column("offset")
        offsets = offsets if len(positions) == len(batch) else offsets.take(pa.array(positions))
        has_key = valid(batch.column("key"))[positions] if loaded.keeps_keys else None
        transformed = loaded.step(schema_id)(rows, offsets, has_key)
        columns, positions = result.take(transformed, positions, schema_id)
        if renames := plan.values.schemas[schema_id].renames:
            columns = rename(columns, dict(renames))
    if loaded.projection is not None:
        projected = loaded.projection.rows(columns, len(positions))
        columns, positions = result.take(projected, positions, schema_id)
    if not len(positions):
        return
    if loaded.target is None:
        if schema_id is not None:  # a record without a value implies no column
            result.rows.append(StagedRows(positions, schema_id, as_batch(columns, len(positions))))
        return
    source = batch if len(positions) == len(batch) else batch.take(pa.array(positions))
    columns.update(kafka_columns(source, plan.settings.metadata_columns, plan.settings.key_format))
    columns.update(keys.at(positions, len(batch)))
    parts, refused = fitted(columns, len(positions), loaded.target)
    result.rows += [StagedRows(positions[part.start : part.stop], schema_id, rows) for part, rows in parts]
    if refused:
        result.rejections.append(Rejections.of(refused, positions, schema_id))


def _decode(
    group: Group,
    schema_id: SchemaKey,
    decoder_of: Callable[[SchemaKey], Decoder],
    rejections: list[Rejections],
) -> tuple[pa.RecordBatch | None, Positions]:
    """The rows of a group's values, or keys, and their positions; None if there is no decoder."""
    positions = group.positions
    try:
        decoder = decoder_of(schema_id)
    except BadSchemaError as error:  # although planning could build the decoder
        rejections.append(Rejections(positions, schema_id, dead_letter.BAD_SCHEMA, str(error)))
        return None, positions
    rows, refused = decoder.decode(group.values)
    if refused:
        rejections.append(Rejections.of(refused, positions, schema_id))
        positions = np.delete(positions, [bad.index for bad in refused])
    return rows, positions


_NOT_TEXT: Final = "the key is not UTF-8; enable the topic with the key format raw and another --table"


@dataclass(frozen=True)
class KeyColumns:
    """Columns of a batch's keys by name, as long as the batch, and the records whose key is refused.

    They are incomplete if there are ``needed`` schemas, of which keys have the ``carried`` texts in them, or
    if candidates were ``proved``.
    """

    columns: Mapping[str, pa.Array] = field(default_factory=dict)
    rejections: Rejections = NO_REJECTIONS
    needed: frozenset[SchemaKey] = frozenset()
    carried: frozenset[tuple[SchemaKey, str]] = frozenset()
    proved: frozenset[SchemaKey] = frozenset()

    def at(self, positions: Positions, count: int) -> Mapping[str, pa.Array]:
        """The columns of the records at ``positions``, in this order, of the batch's ``count``."""
        if len(positions) == count:
            return self.columns
        return {name: array.take(pa.array(positions)) for name, array in self.columns.items()}


def decode_keys(loaded: LoadedPlan, batch: pa.RecordBatch) -> KeyColumns:
    """The decoded keys of a batch of ``SOURCE_SCHEMA``, according to ``key_format``."""
    keys, plan, target = batch.column("key"), loaded.plan.keys, loaded.target
    if loaded.plan.settings.key_format == "string":
        return KeyColumns(rejections=Rejections(not_text(keys), None, dead_letter.KEY_NOT_TEXT, _NOT_TEXT))
    if plan is None or target is None or keys.null_count == len(keys):
        return KeyColumns()
    groups, rejections, texts = split_keys(keys, headers_of(batch), reads_connect=loaded.reads_connect)
    named = [(group.schema_id, group) for group in groups if group.schema_id is not None]
    if needed := frozenset(schema_id for schema_id, _ in named if not plan.knows(schema_id)):
        carried = frozenset(pair for pair in texts.items() if pair[0] in needed)
        return KeyColumns(needed=needed, carried=carried)
    proved = set[SchemaKey]()
    parts: dict[str, list[tuple[Positions, pa.Array]]] = {}
    for schema_id, group in named:
        if fault := schema_fault(group, plan):
            rejections.append(fault)
            continue
        rows, positions = _decode(group, schema_id, loaded.key_decoder, rejections)
        if rows is None or not len(rows):
            continue
        if schema_id in plan.candidates:
            proved.add(schema_id)
            continue
        is_plain = rows.schema.names == [VALUE]  # a key that is not a record
        column = {KEY: rows.column(0) if is_plain else rows.to_struct_array()}
        column = rename(column, dict(plan.schemas[schema_id].renames))
        (name,) = column
        fit, refused = fitted(column, len(positions), pa.schema([target.field(name)]))
        arrays = parts.setdefault(name, [])
        arrays += [(positions[part.start : part.stop], keys.column(0)) for part, keys in fit]
        if refused:
            rejections.append(Rejections.of(refused, positions, schema_id))
    columns = {name: _in_order(arrays, len(batch)) for name, arrays in parts.items() if arrays}
    return KeyColumns(columns, rejections_of_keys(rejections), proved=frozenset(proved))


def _in_order(parts: list[tuple[Positions, pa.Array]], count: int) -> pa.Array:
    """The parts in the order of the batch of ``count`` records, with null for records in none."""
    positions = np.concatenate([part_positions for part_positions, _ in parts])
    if len(parts) == 1 and len(positions) == count:
        return parts[0][1]
    indices = np.full(count, -1, np.int64)
    indices[positions] = np.arange(len(positions))
    return pa.concat_arrays([array for _, array in parts]).take(pa.array(indices, mask=indices < 0))
