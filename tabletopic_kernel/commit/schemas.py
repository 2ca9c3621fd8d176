"""Keeps a table's columns ahead of its records: creates the table, evolves it, plans the staging."""

from __future__ import annotations

import logging

from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema

from tabletopic_kernel.adapters.registry import RegisteredSchema, UnknownSchemaError
from tabletopic_kernel.commit.services import Services
from tabletopic_kernel.commit.snapshot import CoveredSchema, TopicTable
from tabletopic_kernel.core import events
from tabletopic_kernel.core.errors import ActionNeededError, BadRecordError, HeadMovedError, RetryableError
from tabletopic_kernel.core.evolution import Evolution, evolve, table_schema, value_columns
from tabletopic_kernel.core.ledger import Ledger
from tabletopic_kernel.core.partitions import partition_spec
from tabletopic_kernel.core.settings import TopicSettings
from tabletopic_kernel.core.types import iceberg_struct_of_avro
from tabletopic_kernel.ingest.stage import StagePlan, WriterSchema

_LOG = logging.getLogger(__name__)
_TRIES = 5  # another writer changed the schema at the same moment
_NO_COLUMNS = Schema()  # what a tombstone brings: every column of the value must be optional


class SchemaKeeper:
    """One table topic's schemas. Used by the coordinator's thread alone."""

    def __init__(
        self,
        catalog: Catalog,
        identifier: tuple[str, ...],
        topic: str,
        settings: TopicSettings,
        services: Services,
    ) -> None:
        self._catalog = catalog
        self._identifier = identifier
        self._topic = topic
        self._settings = settings
        self._services = services
        self._texts: dict[int, WriterSchema] = {}
        self.table: TopicTable | None = None
        self.ledger: Ledger | None = None

    def create_from_registry(self) -> TopicTable | None:
        """Create the table from the newest schema of ``<topic>-value``; None while there is none.

        Raises:
            RetryableError: registry or catalog do not answer.
            ActionNeededError: the schema cannot be a table.
        """
        latest = self._services.registry.latest(f"{self._topic}-value")
        return None if latest is None else self._create(latest)

    def adopt(self, table: TopicTable | None, ledger: Ledger) -> None:
        """Take over table and ledger, and the schemas that it covers as far as the registry answers."""
        self.table, self.ledger = table, ledger
        for schema_id in sorted(table.covered() if table else ())[-8:]:
            try:
                self._remember(self._services.registry.by_id(schema_id))
            except (RetryableError, UnknownSchemaError) as error:
                _LOG.warning("%s: %s", self._topic, error)  # asked for again when a record needs it

    def plan(self) -> StagePlan:
        """What tasks need to stage records of the schemas known so far."""
        table, settings = self.table, self._settings
        columns = table.table.schema().fields if table else ()
        covered = table.covered() if table else {}
        return StagePlan(
            table_metadata=table.staging_metadata() if table else None,
            io_properties=table.io_properties() if table else {},
            epoch=self.ledger.epoch if self.ledger else 1,
            schemas={one: text for one, text in self._texts.items() if one in covered},
            covers_tombstones=not any(column.required for column in columns),
            whole_value=settings.transform == "none",
            key_format=settings.key_format,
            metadata_columns=settings.metadata_columns,
        )

    def cover(self, needed: frozenset[int | None]) -> StagePlan:
        """Make the table's columns fit the schemas ``needed`` (None: tombstones) and plan anew.

        Raises:
            RetryableError: registry or catalog do not answer (I9).
            BadRecordError: the registry has no such schema.
            ActionNeededError: the schema does not fit the table, or is of another format.
        """
        for schema_id in sorted(one for one in needed if one is not None):
            try:
                registered = self._services.registry.by_id(schema_id)
            except UnknownSchemaError as error:
                raise BadRecordError(f"a record of {self._topic} names an unknown schema: {error}") from error
            self._cover_one(registered)
        if None in needed:
            if self.table is None:
                raise RetryableError(
                    f"{self._topic} begins with records without a value; waiting for a schema"
                )
            self._evolve(_NO_COLUMNS, None)
        return self.plan()

    def _cover_one(self, registered: RegisteredSchema) -> None:
        if self.table is None:
            table = self._create(registered)
            assert self.ledger is not None
            table.claim(self.ledger, None)
            self.table = table
        elif registered.id not in self.table.covered():
            self._evolve(self._columns(registered), registered)
        self._remember(registered)

    def _columns(self, registered: RegisteredSchema) -> Schema:
        if registered.kind != "AVRO":
            raise ActionNeededError(
                f"schema id {registered.id} of {self._topic} is {registered.kind}; "
                "only Avro is understood so far"
            )
        writer = iceberg_struct_of_avro(registered.text, dict(registered.references))
        return value_columns(writer, self._settings)

    def _create(self, registered: RegisteredSchema) -> TopicTable:
        schema = table_schema(self._columns(registered), self._settings)
        spec = partition_spec(self._settings.partition_by, schema)
        table = TopicTable.create(self._catalog, self._identifier, schema, spec, self._topic, self._settings)
        cause = CoveredSchema(registered.id, registered.subject, registered.version, 0)
        table.evolve(None, {registered.id: cause}, epoch=1)
        self._remember(registered)
        self._tell([f"create {table.identifier} with {len(schema.fields)} columns"], cause, 0)
        return table

    def _evolve(self, columns: Schema, registered: RegisteredSchema | None) -> None:
        table, ledger = self.table, self.ledger
        assert table is not None
        assert ledger is not None
        for attempt in range(_TRIES):
            metadata = table.table.metadata
            outcome = evolve(metadata.schema(), columns, metadata.last_column_id)
            if outcome.refused:
                self._refuse(outcome, registered)
            try:
                self._apply(table, ledger, outcome, registered)
                return
            except HeadMovedError as error:
                if attempt == _TRIES - 1:
                    raise RetryableError(
                        f"the schema of {table.identifier} keeps changing: {error}"
                    ) from error
                table.reload()

    def _apply(
        self, table: TopicTable, ledger: Ledger, outcome: Evolution, registered: RegisteredSchema | None
    ) -> None:
        metadata = table.table.metadata
        schema_id = table.next_schema_id if outcome.changes else metadata.current_schema_id
        covered = table.covered()
        cause = None
        if registered is not None:
            cause = CoveredSchema(registered.id, registered.subject, registered.version, schema_id)
            covered[registered.id] = cause
        table.evolve(outcome.schema if outcome.changes else None, covered, ledger.epoch)
        if outcome.changes:
            self._tell([str(change) for change in outcome.changes], cause, schema_id)

    def _refuse(self, outcome: Evolution, registered: RegisteredSchema | None) -> None:
        self._services.control.write(
            events.SchemaRefused(
                topic=self._topic,
                at_ms=self._services.now_ms(),
                host=self._services.host,
                refused=outcome.refused,
                cause=_cause(registered),
            )
        )
        told = "; ".join(f"{column} {why}" for column, why in outcome.refused.items())
        which = (
            f"version {registered.version} of {registered.subject} (id {registered.id})"
            if registered
            else "it"
        )
        raise ActionNeededError(
            f"{self._topic}: {which} cannot be fitted to the table without loss: {told}. "
            "Enable the topic with another --table, or register a compatible schema"
        )

    def _remember(self, registered: RegisteredSchema) -> None:
        self._texts[registered.id] = WriterSchema(registered.text, registered.references)

    def _tell(self, changes: list[str], cause: CoveredSchema | None, table_schema_id: int) -> None:
        named = (
            events.SchemaVersion(id=cause.id, subject=cause.subject, version=cause.version) if cause else None
        )
        self._services.control.write(
            events.SchemaEvolved(
                topic=self._topic,
                at_ms=self._services.now_ms(),
                host=self._services.host,
                changes=changes,
                cause=named,
                table_schema_id=table_schema_id,
            )
        )


def _cause(registered: RegisteredSchema | None) -> events.SchemaVersion | None:
    if registered is None:
        return None
    return events.SchemaVersion(id=registered.id, subject=registered.subject, version=registered.version)
