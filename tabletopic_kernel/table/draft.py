"""Planning without an owner, to preview what would become of a topic and its records.

Why nothing changes: a draft keeps its changes to itself and accepts no commits, and its events are collected
instead of sent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import TableUpdate, update_table_metadata

from tabletopic_kernel.clients.registry.registry import Registry, UnknownSchemaError
from tabletopic_kernel.formats.decoder import cached_decoder
from tabletopic_kernel.formats.json.infer import merged_columns
from tabletopic_kernel.formats.wire import CONNECT_KIND, SchemaKey, WriterSchema
from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.columns.evolution import KEY, VALUE
from tabletopic_kernel.model.columns.table_columns import metadata_columns
from tabletopic_kernel.model.dead_letter import BAD_SCHEMA
from tabletopic_kernel.model.errors import ActionNeededError, InternalError, UsageError
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.model.progress.events import ControlEvent, SchemaEvolved
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.decode import LoadedPlan
from tabletopic_kernel.pipeline.plan import WHOLE_TOPIC, Needs, SchemaPlan, StagePlan, StageResult
from tabletopic_kernel.pipeline.sinks import Sink
from tabletopic_kernel.pipeline.stage import stage
from tabletopic_kernel.table.changes.change import TableChange
from tabletopic_kernel.table.schemas.columns import ValueColumns, writer_columns
from tabletopic_kernel.table.schemas.evolve import EventWriter
from tabletopic_kernel.table.schemas.keeper import SchemaKeeper
from tabletopic_kernel.table.schemas.registered import (
    WITHOUT_SCHEMA,
    find_registered,
    key_subject,
    key_writer,
    value_writer,
    whole_writer,
    why_foreign,
)
from tabletopic_kernel.table.topic_table import TopicTable

S = TypeVar("S", bound=Sink)


class Draft(Protocol):
    """Plans the staging of records, as far as it knows their schemas."""

    def plan(self) -> StagePlan:
        """The plan for the schemas known so far."""

    def cover(self, needs: Needs) -> None:
        """Look up what records need; raises RetryableError if the registry does not respond."""


def try_records(
    draft: Draft, records: Sequence[pa.RecordBatch], new_sink: Callable[[], S]
) -> tuple[S, StageResult]:
    """A sink that got all that the records become, and counts; ActionNeededError if the topic would stop."""
    while True:
        sink = new_sink()
        result = stage(LoadedPlan(draft.plan()), records, sink)
        if result.error is not None:
            raise result.error
        if not result.needs:
            return sink, result
        draft.cover(result.needs)


class TableDraft(TopicTable):
    """A copy of a table: it evolves like the table, but accepts no commits."""

    def _change(self, updates: tuple[TableUpdate, ...], epoch: int) -> None:
        self.table.metadata = update_table_metadata(self.table.metadata, updates)

    def commit(self, planned: Ledger | None, change: TableChange) -> None:
        """Raises InternalError: a draft has no snapshots of its own."""
        raise InternalError(f"a commit to a draft of {self.identifier}")


class TopicDraft:
    """The plan of a topic's table, with the ``changes`` that more records make; rejects are left out."""

    def __init__(self, table: TopicTable, topic: str, settings: TopicSettings, registry: Registry) -> None:
        ledger = table.ledger
        assert ledger is not None  # the table of a topic has been claimed
        self.changes: list[str] = []
        services = _Services(registry, self)
        catalog, identifier = table.table.catalog, table.table.name()
        self._keeper = SchemaKeeper(catalog, identifier, topic, settings, services)
        self._keeper.adopt(TableDraft(table.table), ledger)
        self.recheck()

    def plan(self) -> StagePlan:
        return self._keeper.plan().tolerant()

    def recheck(self) -> None:
        """Look up again what the registry may have by now, as when a batch begins; raises as ``cover``."""
        self._keeper.cover(self._keeper.plan().to_ask_again(math.inf) or Needs(), recheck=True)

    @property
    def table(self) -> Table:
        """The copy of the table, with the columns of the rows."""
        return self._keeper.needed_table().table

    @property
    def columns(self) -> Schema:
        return self.table.schema()

    def cover(self, needs: Needs) -> None:
        self._keeper.cover(needs)

    def write(self, event: ControlEvent) -> None:
        """Note the changes of columns."""
        if isinstance(event, SchemaEvolved):
            self.changes += event.changes


@dataclass(frozen=True)
class _Services:
    """A schema keeper's services, for planning."""

    registry: Registry
    control: EventWriter
    host: str = ""
    now_ms: Callable[[], int] = now_ms


_BY_ID = {"value_format": "by_schema_id"}


class ValuesDraft:
    """The plan of reading a topic's values, or its keys, as they were written: there is no table.

    Each schema that a record names is used if it is the topic's; with JSON, columns are those of the records.
    """

    def __init__(
        self, topic: str, settings: TopicSettings, registry: Registry, *, of_keys: bool = False
    ) -> None:
        self._topic = topic
        self._types = settings.debezium_types
        self._settings = settings.model_copy(update={"debezium_types": "as_sent"})
        self._registry = registry
        self._of_keys = of_keys
        self._schemas: dict[SchemaKey, WriterSchema] = {}
        self._refused: dict[SchemaKey, tuple[str, str]] = {}
        self._inferred = Schema()
        if not of_keys and (kind := WITHOUT_SCHEMA.get(settings.value_format)):
            self._schemas[WHOLE_TOPIC] = whole_writer(kind)

    def plan(self) -> StagePlan:
        values = SchemaPlan(dict(self._schemas), dict(self._refused))
        unchanged = {"transform": "flatten", "projection": None, "key_format": "raw", "errors": "skip"}
        if self._of_keys:
            in_json = self._types == "native" and self._settings.value_format == "json"
            unchanged |= {"value_format": "json", "debezium_types": "native"} if in_json else _BY_ID
        plan = StagePlan(
            self._topic, None, None, 0, values, True, self._settings, self._inferred, patient=True
        )
        return plan.with_settings(**unchanged)

    def cover(self, needs: Needs) -> None:
        self._inferred = merged_columns(self._inferred, needs.columns)
        carried = {key: WriterSchema(text, kind=CONNECT_KIND) for key, text in needs.carried}
        self._schemas |= carried
        for schema_id in needs.schema_ids - carried.keys():
            assert schema_id is not None  # of a record without a value: there are none
            try:
                self._look_up(schema_id)
            except (UnknownSchemaError, ActionNeededError) as error:
                self._refused[schema_id] = ("", str(error))

    def _look_up(self, schema_id: SchemaKey) -> None:
        registry, settings = self._registry, self._settings
        subject = key_subject(self._topic) if self._of_keys else settings.subject_of(self._topic)
        if schema_id == WHOLE_TOPIC:
            registered = registry.latest(subject)
            if registered is None:
                raise ActionNeededError(f"the subject {subject} has no schema yet")
        else:
            registered = find_registered(registry, schema_id, subject, settings)
        if why := why_foreign(registry, registered, self._topic, settings, of_keys=self._of_keys):
            self._refused[schema_id] = (BAD_SCHEMA, why)
            return
        writer = key_writer if self._of_keys else value_writer
        schema = writer(registered, settings)
        cached_decoder(schema_id, schema)  # or say now that it cannot be built
        self._schemas[schema_id] = schema


def newest_columns(
    topic: str, settings: TopicSettings, registry: Registry
) -> tuple[ValueColumns | None, str]:
    """The value's columns as known now, and their origin; None while unknown."""
    kind = WITHOUT_SCHEMA.get(settings.value_format)
    if kind == "INFERRED":
        return None, "JSON without a schema: the records determine the columns"
    if kind is not None:
        return writer_columns(WHOLE_TOPIC, whole_writer(kind), settings), "one column for the value"
    subject = settings.subject_of(topic)
    latest = registry.latest(subject)
    if latest is None:
        return None, f"no schema is registered as {subject} yet: the first record determines the columns"
    writer = value_writer(latest, settings)
    origin = f"version {latest.version} of {latest.subject} (id {latest.id})"
    return writer_columns(latest.id, writer, settings), origin


def with_types_of(table: TopicTable, settings: TopicSettings) -> TopicSettings:
    """The settings with the table's types of values; raises UsageError if they ask for others."""
    adapted = table.adapted(settings)
    if "debezium_types" in settings.model_fields_set and adapted != settings:
        raise UsageError(
            f"the table was created with debezium_types {adapted.debezium_types}: keep that, or choose "
            "another --table"
        )
    return adapted


def check_columns(table: Table, writer: Schema, settings: TopicSettings) -> None:
    """Check that the settings that determine columns match the table's, or select fewer."""
    types = {column.name: column.field_type for column in table.schema().fields}
    for column in metadata_columns(settings):
        if column.name not in types:
            raise UsageError(
                f"the table has no column {column.name}; switch it off with metadata_columns, "
                "or choose another --table"
            )
        if column.name == KEY and types[KEY] != column.field_type:
            raise UsageError(
                f"{KEY} is {types[KEY]} in the table: keep the key format, or choose another --table"
            )
    if settings.projection is not None:
        return  # the projection's outputs are the columns
    if (VALUE in types) != (VALUE in [column.name for column in writer.fields]):
        layout = f"one column for the whole value ({VALUE})" if VALUE in types else "a column for each field"
        raise UsageError(
            f"the table has {layout}, which does not match value_format {settings.value_format} with "
            f"transform {settings.transform}; keep those that it was created with, or choose another --table"
        )
