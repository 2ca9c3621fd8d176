"""Turns the records of one schema into rows of the table: decode, transform, project, conform.

A task keeps what it builds from its plan (writers, decoders, transforms) for the next task. It keeps nothing
of records, so the same ones can be retried in smaller parts (``formats/rejection.py``).
"""

from __future__ import annotations

import hashlib
import pickle
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema

from tabletopic_kernel.formats.arrays import Positions
from tabletopic_kernel.formats.decoder import (
    BadSchemaError,
    Decoder,
    InferringDecoder,
    cached_decoder,
    inferring_decoder,
)
from tabletopic_kernel.formats.rejection import Refused
from tabletopic_kernel.formats.wire import SchemaKey, WriterSchema
from tabletopic_kernel.model import dead_letter
from tabletopic_kernel.model.ledger import added
from tabletopic_kernel.pipeline.conform import conform, file_schema, kafka_columns, part, rename
from tabletopic_kernel.pipeline.keys import KeyColumns, KeyReader
from tabletopic_kernel.pipeline.plan import WHOLE_TOPIC, StagePlan, TablePlan
from tabletopic_kernel.pipeline.split_by_schema import Group
from tabletopic_kernel.pipeline.transform.columns import Rows, reserved_in_rows
from tabletopic_kernel.pipeline.transform.projection.child import ChildProjection
from tabletopic_kernel.pipeline.transform.transform import Step, make_projection, make_step
from tabletopic_kernel.pipeline.write import DataFileWriter, Refusals

if TYPE_CHECKING:
    from tabletopic_kernel.pipeline.transform.projection.projection import SqlProjection


# Topics whose plans are kept: more than a host runs. One of 300 columns takes 0.7 MB, without its decoders.
_MOST_PLANS = 256


class LoadedPlan:
    """A plan with its expensive objects; cached between the tasks of a Python worker.

    For one thread, like its decoders, transforms and projection; ``cached_decoder`` has one per thread.

    ``is_worker``: whether this process is one.
    """

    def __init__(self, plan: StagePlan, *, is_worker: bool = False) -> None:
        self.plan = plan
        self._is_worker = is_worker
        self.writer = _writer(plan.table, plan.epoch)
        self.dead_letter_writer = _writer(plan.dead_letters, plan.epoch)
        self.target = file_schema(self.writer.schema) if self.writer else None
        self.dead_letter_target = (
            file_schema(self.dead_letter_writer.schema) if self.dead_letter_writer else None
        )
        whole = plan.schemas.get(WHOLE_TOPIC)
        self.infers = whole is not None and whole.kind == "INFERRED"
        self._inferring: Decoder | None = None
        self._steps: dict[SchemaKey, Step] = {}
        self.keys = KeyReader(plan, self.target)

    @cached_property
    def projection(self) -> SqlProjection | ChildProjection | None:
        """The projection; raises ProjectionError."""
        plan = self.plan.projection
        return make_projection(plan, is_worker=self._is_worker) if plan else None

    def decoder(self, schema_id: SchemaKey) -> Decoder:
        """The decoder for a schema id that the plan covers."""
        if not self.infers:
            return cached_decoder(schema_id, self.schema(schema_id))
        if self._inferring is None:
            self._inferring = inferring_decoder(
                self.plan.inferred or Schema(), reserved_in_rows(self.plan.settings.transform)
            )
        return self._inferring

    def schema(self, schema_id: SchemaKey) -> WriterSchema:
        """The schema for an id that the plan covers, or may cover."""
        found = self.plan.schemas.get(schema_id)
        return self.plan.candidates[schema_id] if found is None else found

    def step(self, schema_id: SchemaKey) -> Step:
        """The transform for rows of this schema's ``decoder``."""
        if schema_id not in self._steps:
            decoded = self.decoder(schema_id).iceberg_schema
            self._steps[schema_id] = make_step(self.plan.settings.transform, decoded)
        return self._steps[schema_id]


def _writer(table: TablePlan | None, epoch: int) -> DataFileWriter | None:
    return DataFileWriter(table.metadata, table.io_properties, epoch) if table else None


class _Loaded(threading.local):
    """One thread's plans by topic, with their digests, in the order of their last use."""

    def __init__(self) -> None:
        self.plans: dict[str, tuple[bytes, LoadedPlan]] = {}


_LOADED = _Loaded()


def load_plan(topic: str, pickled: bytes) -> LoadedPlan:
    """The topic's plan for a task; the same object per thread while the plan is the same."""
    plans, digest = _LOADED.plans, hashlib.sha256(pickled).digest()
    kept = plans.pop(topic, None)
    loaded = kept[1] if kept and kept[0] == digest else LoadedPlan(pickle.loads(pickled), is_worker=True)
    plans[topic] = digest, loaded
    if len(plans) > _MOST_PLANS:
        del plans[next(iter(plans))]
    return loaded


@dataclass
class Made:
    """What became of some records: each is in ``rows``, refused, or passed over.

    ``needed_columns``: columns that inferred records need first; then there are no rows. ``proved``: a record
    was decoded with a schema that the table does not cover yet, and nothing more was done.
    """

    rows: list[pa.RecordBatch] = field(default_factory=list)
    refused: list[Refusals] = field(default_factory=list)
    passed_over: Mapping[str, int] = field(default_factory=dict)
    needed_columns: Schema | None = None
    proved: bool = False


class GroupRows:
    """Makes rows according to a plan."""

    def __init__(self, loaded: LoadedPlan) -> None:
        self._loaded = loaded
        self._plan = loaded.plan

    def of(self, batch: pa.RecordBatch, group: Group, keys: KeyColumns) -> Made:
        """The result for a group of ``batch``, whose keys are ``keys``."""
        made = Made()
        group = self._without_bad_keys(group, keys, made)
        positions, columns = group.positions, dict[str, pa.Array]()
        if group.schema_id is not None:
            try:
                decoder = self._loaded.decoder(group.schema_id)
            except BadSchemaError as error:  # although the decoder could be built during planning
                made.refused.append(Refusals(positions, group.schema_id, dead_letter.BAD_SCHEMA, str(error)))
                return made
            rows, positions = self._decoded(decoder, group, made)
            if group.schema_id in self._plan.candidates:
                made.proved = len(rows) > 0
                return made
            if made.needed_columns is not None:
                return made
            columns, positions = self._transformed(batch, rows, positions, group.schema_id, made)
        if self._plan.projection is not None:
            assert self._loaded.projection is not None
            found = self._loaded.projection.rows(columns, len(positions))
            columns, positions = self._taken(found, positions, group.schema_id, made)
        if self._loaded.target is None or not len(positions):  # no table: they imply no column
            return made
        source = batch if len(positions) == len(batch) else batch.take(pa.array(positions))
        settings = self._plan.settings
        columns.update(kafka_columns(source, settings.metadata_columns, settings.key_format))
        columns.update(keys.at(positions, len(batch)))
        self._conform(columns, positions, group.schema_id, self._loaded.target, made)
        return made

    def _without_bad_keys(self, group: Group, keys: KeyColumns, made: Made) -> Group:
        if not len(keys.refused):
            return group
        bad = np.isin(group.positions, keys.refused.positions)
        if not bad.any():
            return group
        made.refused.append(keys.refused.among(group.positions, group.schema_id))
        return group.only(~bad)

    def _decoded(self, decoder: Decoder, group: Group, made: Made) -> tuple[pa.RecordBatch, Positions]:
        rows, refused = decoder.decode(group.values)
        if isinstance(decoder, InferringDecoder):
            made.needed_columns = decoder.needed
        self._refuse(group.positions, group.schema_id, refused, made)
        positions = group.positions
        return rows, np.delete(positions, [bad.index for bad in refused]) if refused else positions

    def _transformed(
        self,
        batch: pa.RecordBatch,
        rows: pa.RecordBatch,
        positions: Positions,
        schema_id: SchemaKey,
        made: Made,
    ) -> tuple[dict[str, pa.Array], Positions]:
        """Transform decoded rows, of the records at ``positions``; returns columns and their positions."""
        offsets = batch.column("offset")
        if len(positions) < len(batch):
            offsets = offsets.take(pa.array(positions))
        found = self._loaded.step(schema_id).rows(rows, offsets)
        columns, positions = self._taken(found, positions, schema_id, made)
        renames = self._plan.schemas[schema_id].renames
        return rename(columns, dict(renames)) if renames else columns, positions

    def _taken(
        self, found: Rows, positions: Positions, schema_id: SchemaKey | None, made: Made
    ) -> tuple[dict[str, pa.Array], Positions]:
        """Take a transform's result for the records at ``positions``; returns those it kept."""
        self._refuse(positions, schema_id, found.refused, made)
        made.passed_over = added(made.passed_over, found.passed_over)
        return found.columns, positions if len(found.kept) == len(positions) else positions[found.kept]

    def _conform(
        self,
        columns: Mapping[str, pa.Array],
        at: Positions,
        schema_id: SchemaKey | None,
        target: pa.Schema,
        made: Made,
    ) -> None:
        """Fit ``columns``, of the records at ``at``, to the table; refuse records that do not fit."""
        try:
            made.rows.append(conform(columns, len(at), target))
        except pa.ArrowInvalid as error:
            if len(at) == 1:
                made.refused.append(Refusals(at, schema_id, dead_letter.DOES_NOT_FIT, str(error)))
                return
            middle = len(at) // 2
            for start, stop in ((0, middle), (middle, len(at))):
                self._conform(part(columns, start, stop), at[start:stop], schema_id, target, made)

    def _refuse(
        self, positions: Positions, schema_id: SchemaKey | None, refused: list[Refused], made: Made
    ) -> None:
        if refused:
            why = [bad.reason for bad in refused], [bad.message for bad in refused]
            made.refused.append(Refusals(positions[[bad.index for bad in refused]], schema_id, *why))
