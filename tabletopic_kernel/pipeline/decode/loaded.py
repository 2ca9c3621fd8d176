"""What a task makes of its plan, and keeps for the next one: writers, decoders, transforms."""

from __future__ import annotations

import hashlib
import pickle
import threading
from functools import cached_property
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema

from tabletopic_kernel.formats.decoder import Decoder, cached_decoder, inferring_decoder
from tabletopic_kernel.formats.wire import SchemaKey
from tabletopic_kernel.formats.writer_schema import WriterSchema
from tabletopic_kernel.pipeline.conform import file_schema
from tabletopic_kernel.pipeline.keys import KeyReader
from tabletopic_kernel.pipeline.plan import WHOLE_TOPIC, StagePlan, TablePlan
from tabletopic_kernel.pipeline.projection.child import ChildProjection
from tabletopic_kernel.pipeline.transform.columns import reserved_in_rows
from tabletopic_kernel.pipeline.transform.transform import Step, make_projection, make_step
from tabletopic_kernel.pipeline.write.data_files import DataFileWriter

if TYPE_CHECKING:
    from tabletopic_kernel.pipeline.projection.projection import SqlProjection

_MOST_PLANS = 64  # of other topics, or of the table before it evolved


class LoadedPlan:
    """A plan with what is costly to make; kept between the tasks of a Python worker.

    For one thread: its decoders, transforms and projection are, and ``cached_decoder`` gives each its own.

    ``is_worker``: this process is one.
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
        """The decoder of a schema id that the plan covers."""
        if not self.infers:
            return cached_decoder(schema_id, self.schema(schema_id))
        if self._inferring is None:
            self._inferring = inferring_decoder(
                self.plan.inferred or Schema(), reserved_in_rows(self.plan.settings.transform)
            )
        return self._inferring

    def schema(self, schema_id: SchemaKey) -> WriterSchema:
        """The schema of an id that the plan covers, or may."""
        found = self.plan.schemas.get(schema_id)
        return self.plan.candidates[schema_id] if found is None else found

    def step(self, schema_id: SchemaKey) -> Step:
        """The transform of rows that were decoded by ``decoder``."""
        if schema_id not in self._steps:
            decoded = self.decoder(schema_id).iceberg_schema
            self._steps[schema_id] = make_step(self.plan.settings.transform, decoded)
        return self._steps[schema_id]


def _writer(table: TablePlan | None, epoch: int) -> DataFileWriter | None:
    return DataFileWriter(table.metadata, table.io_properties, epoch) if table else None


class _Loaded(threading.local):
    """The plans of one thread."""

    def __init__(self) -> None:
        self.plans: dict[bytes, LoadedPlan] = {}


_LOADED = _Loaded()


def load_plan(pickled: bytes) -> LoadedPlan:
    """The plan of a task; in one thread the same object as long as the plan stays the same."""
    key, plans = hashlib.sha256(pickled).digest(), _LOADED.plans
    if key not in plans:
        while len(plans) >= _MOST_PLANS:
            plans.pop(next(iter(plans)))
        plans[key] = LoadedPlan(pickle.loads(pickled), is_worker=True)
    return plans[key]
