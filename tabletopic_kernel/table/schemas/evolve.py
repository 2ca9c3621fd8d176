"""Creates and changes a topic's table as schemas need it, and reports each change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pyiceberg.catalog import Catalog

from tabletopic_kernel.clients.registry.registry import RegisteredSchema, Registry
from tabletopic_kernel.formats.wire import SchemaKey
from tabletopic_kernel.model.columns.evolution import Evolution
from tabletopic_kernel.model.columns.partitions import partition_spec
from tabletopic_kernel.model.columns.sort_orders import sort_order
from tabletopic_kernel.model.columns.table_columns import table_schema
from tabletopic_kernel.model.columns.upsert_columns import UpsertColumns, check_same_key, upsert_columns
from tabletopic_kernel.model.errors import HeadMovedError, RetryableError
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.layout import lay_out, names_before
from tabletopic_kernel.table.schemas.columns import Columns, ValueColumns, newest_key_type
from tabletopic_kernel.table.schemas.covered import (
    CoveredSchema,
    batch_property,
    covered_schemas,
    covered_schemas_property,
    former_names_property,
)
from tabletopic_kernel.table.schemas.numbers import names_property
from tabletopic_kernel.table.topic_table import TopicTable

_MOST_TEXTS = 4  # of one id, besides the newest
_TRIES = 5  # while other writers change the schema at the same time


class EventWriter(Protocol):
    """Where events go."""

    def write(self, event: events.ControlEvent) -> None:
        """Send an event."""


class SchemaServices(Protocol):
    """The registry, a clock, and where to report."""

    @property
    def registry(self) -> Registry:
        """The registry."""

    @property
    def control(self) -> EventWriter:
        """Where changes of the table are reported."""

    @property
    def host(self) -> str:
        """The host that reports them."""

    @property
    def now_ms(self) -> Callable[[], int]:
        """The clock, in ms since 1970."""


@dataclass
class EvolvingTable:
    """A topic's table, or none yet, and its owner's ledger. Only for the coordinator's thread."""

    catalog: Catalog
    identifier: tuple[str, ...]
    topic: str
    settings: TopicSettings
    services: SchemaServices
    table: TopicTable | None = None
    ledger: Ledger | None = None

    def create(self, columns: ValueColumns, registered: RegisteredSchema | None) -> TopicTable:
        """Create the table, unclaimed; raises UsageError if columns and settings contradict each other."""
        settings = self.settings
        key = newest_key_type(self.topic, settings, self.services.registry)
        value, batch = columns.first(settings)
        schema = table_schema(value, settings, key)
        former = columns.former_names(schema, settings)
        if settings.mode == "upsert":
            upsert_columns(settings, schema, former)
        spec = partition_spec(settings.partition_by, schema, former)
        order = sort_order(settings.sort_by, schema, former)
        noted = batch_property(batch)
        place = self.catalog, self.identifier
        table = TopicTable.create(*place, schema, spec, self.topic, settings, order, noted)
        if registered is not None:
            first = columns.evolution(table, settings)
            covered = covered_schemas_property([_covered_by(registered, 0, first)])
            noted = former_names_property(first.former) | names_property(first.numbers)
            table.evolve(None, covered | noted, epoch=1)
        self._report_changes([f"create {table.identifier} with {len(schema.fields)} columns"], registered, 0)
        return table

    def lay_out(self) -> None:
        """Apply the settings' partitions, order… to an existing table; raises as ``lay_out``."""
        if self.table is not None and (changes := lay_out(self.table, self.settings)):
            self._report_changes(changes, None, self.table.table.metadata.current_schema_id)

    def upsert_columns(self) -> UpsertColumns | None:
        """The key and the order of a table that is kept by key; raises UsageError if it lacks one."""
        if self.table is None or self.settings.mode == "append":
            return None
        return upsert_columns(self.settings, self.table.table.schema(), names_before(self.table))

    def evolution(self, columns: Columns, schema_id: SchemaKey | None) -> Evolution:
        """What covering the columns, of a registered schema or of none, would do to the existing table."""
        assert self.table is not None
        return columns.evolution(self.table, self.settings, schema_id)

    def cover(self, columns: Columns, registered: RegisteredSchema | None) -> Evolution:
        """Create the table or change its columns, and note the schema; nothing if a change is refused."""
        assert self.ledger is not None
        if self.table is None:
            assert isinstance(columns, ValueColumns)
            table = self.create(columns, registered)
            table.claim(self.ledger, None)
            self.table = table
        table = self.table
        for _ in range(_TRIES):
            covered = covered_schemas(table.table.properties, columns.noted_in)
            known = covered.get(registered.id) if registered else None
            if known is not None and registered is not None and not known.may_be(registered.fingerprint):
                known = None  # somebody accepted another text
            change = self.evolution(columns, known.id if known else None)
            is_noted = registered is None or (known and known.texts == (registered.fingerprint,))
            if change.refused or (is_noted and not change.is_needed):
                return change
            table_schema_id = table.table.metadata.current_schema_id
            if change.changes:
                check_same_key(self.settings, table.table.schema(), change.schema, names_before(table))
                table_schema_id = table.next_schema_id
            if registered is not None:
                schema = known or _covered_by(registered, table_schema_id, change)
                covered[registered.id] = replace(schema, texts=(registered.fingerprint,))
            noted = covered_schemas_property(covered.values(), columns.noted_in)
            noted |= former_names_property(change.former) | batch_property(change.batch)
            noted |= names_property(change.numbers)
            try:
                table.evolve(change.schema if change.changes else None, noted, self.ledger.epoch)
            except HeadMovedError:
                table.reload()
                continue
            if change.changes:
                self._report_changes([*map(str, change.changes)], registered, table_schema_id)
            return change
        raise RetryableError(f"the schema of {table.identifier} keeps changing")

    def note_text(self, noted_in: str, schema_id: SchemaKey, text: str) -> None:
        """Note that the registry has another text for a covered id; raises as ``TopicTable.evolve``."""
        assert self.table is not None
        assert self.ledger is not None
        covered = covered_schemas(self.table.table.properties, noted_in)
        texts = covered[schema_id].texts
        covered[schema_id] = replace(covered[schema_id], texts=(*texts[:_MOST_TEXTS], text))
        self.table.evolve(None, covered_schemas_property(covered.values(), noted_in), self.ledger.epoch)

    def report_refused(self, refused: dict[str, str], registered: RegisteredSchema) -> None:
        cause = _cause(registered)
        self.services.control.write(events.SchemaRefused(**self._origin(), refused=refused, cause=cause))

    def _report_changes(
        self, changes: list[str], registered: RegisteredSchema | None, schema_id: int
    ) -> None:
        cause = _cause(registered) if registered else None
        self.services.control.write(
            events.SchemaEvolved(**self._origin(), changes=changes, cause=cause, table_schema_id=schema_id)
        )

    def _origin(self) -> dict[str, Any]:
        return {"topic": self.topic, "at_ms": self.services.now_ms(), "host": self.services.host}


def _covered_by(registered: RegisteredSchema, table_schema_id: int, change: Evolution) -> CoveredSchema:
    renames = tuple(sorted(change.renames.items()))
    place, texts = (registered.subject, registered.version), (registered.fingerprint,)
    return CoveredSchema(registered.id, *place, table_schema_id, renames, texts)


def _cause(registered: RegisteredSchema) -> events.SchemaVersion:
    return events.SchemaVersion(id=registered.id, subject=registered.subject, version=registered.version)
