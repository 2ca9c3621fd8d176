"""Keeps a table's columns ahead of its records: finds their schemas, and plans the staging."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema

from tabletopic_kernel.adapters.registry import RegisteredSchema, UnknownSchemaError, find_schema
from tabletopic_kernel.commit.columns import TableColumns
from tabletopic_kernel.commit.key_schemas import KeySchemas
from tabletopic_kernel.commit.projected import batch_columns
from tabletopic_kernel.commit.services import Services
from tabletopic_kernel.commit.snapshot import TopicTable
from tabletopic_kernel.commit.writers import WriterColumns, writer_columns
from tabletopic_kernel.core.dead_letter import (
    BAD_SCHEMA,
    INCOMPATIBLE_SCHEMA,
    NOT_AN_ENVELOPE,
    PROJECTION_FAILED,
    UNKNOWN_SCHEMA,
)
from tabletopic_kernel.core.errors import (
    ActionNeededError,
    BadRecordError,
    ProjectionError,
    RetryableError,
    TableTopicError,
)
from tabletopic_kernel.core.evolution import Evolution
from tabletopic_kernel.core.ledger import Ledger
from tabletopic_kernel.core.settings import TopicSettings
from tabletopic_kernel.core.table_columns import clashing_names
from tabletopic_kernel.core.transform import (
    NotAnEnvelopeError,
    decoded_columns,
    has_row,
    inferred_columns,
    value_columns,
)
from tabletopic_kernel.core.wire import SchemaKey, age
from tabletopic_kernel.ingest.decoders import BadSchemaError
from tabletopic_kernel.ingest.plan import WHOLE_TOPIC, Projection, StagePlan, WriterSchema

_LOG = logging.getLogger(__name__)
# Values that name no schema, by value_format: the kind of their one writer schema.
WITHOUT_SCHEMA = {"json": "INFERRED", "string": "STRING", "raw": "RAW"}
# Why the records of a schema are refused.
_REASONS: dict[type[TableTopicError], str] = {
    BadSchemaError: BAD_SCHEMA,
    NotAnEnvelopeError: NOT_AN_ENVELOPE,
    ProjectionError: PROJECTION_FAILED,
}
# What keeps a schema from being taken over; it is asked for again when a record needs it.
_CANNOT: tuple[type[TableTopicError], ...] = (RetryableError, UnknownSchemaError, *_REASONS)
_NO_COLUMNS = WriterColumns(Schema())  # what a tombstone brings: every column of the value must be optional


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
        self._columns = TableColumns(catalog, identifier, topic, settings, services)
        self._keys = KeySchemas(self._columns, topic, settings, services)
        self._topic = topic
        self._settings = settings
        self._services = services
        self._known: dict[SchemaKey, WriterSchema] = {}
        self._wanted: dict[SchemaKey, WriterColumns] = {}  # of those that are known
        self._refused: dict[SchemaKey, tuple[str, str]] = {}
        self._unknown: dict[SchemaKey, tuple[str, str]] = {}
        self._learned = Schema()  # of change events in JSON: properties that the table does not have
        self._whole: WriterSchema | None = None  # of a topic whose values name none

    @property
    def table(self) -> TopicTable | None:
        """The table; None while it has no columns."""
        return self._columns.table

    def create(self) -> TopicTable | None:
        """Create the table: from the newest schema of its subject, or from a format without schemas.

        None while there is no schema, or the columns come with the first record.

        Raises:
            RetryableError: registry or catalog do not answer.
            UsageError: the schema cannot be a table with these settings.
        """
        if kind := WITHOUT_SCHEMA.get(self._settings.value_format):
            self._whole = WriterSchema(kind=kind, framed=False)
            if kind == "INFERRED":
                return None
            return self._columns.create(self._columns_of(WHOLE_TOPIC, self._whole), None)
        latest = self._services.registry.latest(self._subject)
        if latest is None:
            return None
        try:
            return self._columns.create(self._columns_of(latest.id, self._writer(latest)), latest)
        except tuple(_REASONS) as error:  # records of other schemas may come
            _LOG.warning("%s: %s", self._topic, error)
            return None

    @property
    def _subject(self) -> str:
        return self._settings.subject_of(self._topic)

    def _find(self, schema_id: SchemaKey) -> RegisteredSchema:
        return find_schema(self._services.registry, schema_id, self._subject)

    @property
    def _follows_latest(self) -> bool:
        return self._settings.value_format == "by_latest_schema"

    def lay_out(self) -> None:
        """Give the table the partitions and properties of the settings; raises as ``layout.lay_out``."""
        self._columns.lay_out()

    def adopt(self, table: TopicTable | None, ledger: Ledger) -> None:
        """Take over table and ledger, and the schemas that it covers as far as the registry answers."""
        self._columns.table, self._columns.ledger = table, ledger
        self._keys.adopt()
        if kind := WITHOUT_SCHEMA.get(self._settings.value_format):
            self._whole = WriterSchema(kind=kind, framed=False)
            if table is not None and self._settings.projection and kind != "INFERRED":
                self._columns.fit(self._columns_of(WHOLE_TOPIC, self._whole), None)
            return
        if self._follows_latest:
            return  # each batch asks
        for schema_id in sorted(table.covered() if table else (), key=age)[-8:]:
            try:
                registered = self._find(schema_id)
                writer = self._writer(registered)
                columns = self._columns_of(schema_id, writer)
                outcome = self._columns.outcome(columns, schema_id)
            except _CANNOT as error:
                _LOG.warning("%s: %s", self._topic, error)
                continue
            if not (outcome.is_needed or outcome.refused):
                self._remember(schema_id, writer, columns, outcome)

    def needed_table(self) -> TopicTable:
        """The table.

        Raises:
            RetryableError: there is none until a record with a schema comes.
        """
        if self.table is None:
            raise RetryableError(
                f"{self._topic} begins with records that cannot become rows; waiting for one with a schema"
            )
        return self.table

    def plan(self) -> StagePlan:
        """What tasks need to stage records of the schemas known so far."""
        table, ledger, settings = self._columns.table, self._columns.ledger, self._settings
        columns = table.table.schema().fields if table else ()
        covered = table.covered() if table else {}
        known = {one: writer for one, writer in self._known.items() if one in covered}
        if self._whole is not None:
            known = {WHOLE_TOPIC: self._whole}
        framed = settings.value_format == "by_schema_id"
        return StagePlan(
            topic=self._topic,
            table=table.plan() if table else None,
            dead_letters=None,
            epoch=ledger.epoch if ledger else 1,
            schemas=known,
            refused_schemas=self._refused | self._unknown,
            unknown_schemas=frozenset(self._unknown),
            covers_tombstones=not any(column.required for column in columns),
            transform=settings.transform,
            inferred=self._inferred(),
            projection=self._projection(),
            framed=framed,
            follows_latest=self._follows_latest,
            errors=settings.errors,
            key_format=settings.key_format,
            metadata_columns=settings.metadata_columns,
            keys=self._keys.plan(),
        )

    def cover(
        self,
        needed: frozenset[SchemaKey | None],
        columns: Sequence[Schema] = (),
        key_ids: frozenset[SchemaKey] = frozenset(),
        *,
        recheck: bool = False,
    ) -> None:
        """Make the table's columns fit the schemas ``needed`` (None: tombstones), or inferred ``columns``.

        ``key_ids``: schemas of keys.
        Schemas that cannot be read, or do not fit, are noted as refused, unless the settings say stop.
        The registry may learn of an unknown one any time: with ``recheck`` only those of ``needed`` stay so.

        Raises:
            RetryableError: registry or catalog do not answer (I9).
            BadRecordError: the registry has no such schema, or it cannot be read, and errors are to stop.
            ActionNeededError: the schema does not fit the table, and that is to stop.
        """
        if recheck:
            self._unknown = {}
        if self._follows_latest and (recheck or WHOLE_TOPIC in needed):
            self._cover_latest()
        for schema_id in sorted((one for one in needed if one is not None and one != WHOLE_TOPIC), key=age):
            try:
                self._cover_id(self._find(schema_id))
            except UnknownSchemaError as error:
                self._refuse(schema_id, UNKNOWN_SCHEMA, str(error), self._unknown)
        if columns:
            self._cover_inferred(columns)
        if None in needed:
            self.needed_table()
            self._columns.fit(_NO_COLUMNS, None)
        self._keys.cover(key_ids, recheck=recheck)

    def _cover_id(self, registered: RegisteredSchema) -> None:
        """Cover the schema, or note it as refused."""
        writer = self._writer(registered)
        try:
            columns = self._columns_of(registered.id, writer)
            outcome = self._columns.fit(columns, registered)
        except tuple(_REASONS) as error:
            self._refuse(registered.id, _REASONS[type(error)], str(error), self._refused)
            return
        if outcome.refused:
            self._refuse_columns(outcome, registered)
        else:
            self._remember(registered.id, writer, columns, outcome)
            if any(change.kind == "rename" for change in outcome.changes):
                self._follow_renames()

    def _cover_latest(self) -> None:
        """The one schema is the newest of the subject that can be used; an older one goes on until then."""
        latest = self._services.registry.latest(self._subject)
        if latest is None and self._whole is None:
            raise RetryableError(
                f"{self._topic}: the subject {self._subject} has no schema yet; waiting for one"
            )
        if latest is not None and latest.id not in self._known and latest.id not in self._refused:
            self._cover_id(latest)
        if latest is not None and latest.id in self._known:
            self._whole = self._known[latest.id]
        elif self._whole is None and latest is not None:
            raise ActionNeededError(
                f"{self._topic}: the newest schema of {self._subject} cannot be used: "
                f"{self._refused[latest.id][1]}. Register another one, or enable the topic with another "
                "--table"
            )

    def _cover_inferred(self, columns: Sequence[Schema]) -> None:
        known = self._inferred()
        self._learned = inferred_columns(known, columns, self._settings.transform)
        if not has_row(self._learned, self._settings.transform):
            return  # so far: tasks refuse the records
        wanted = value_columns(self._learned, self._settings.transform)
        outcome = self._columns.fit(WriterColumns(wanted), None)
        if outcome.refused:
            told = "; ".join(f"{column} {why}" for column, why in outcome.refused.items())
            raise ActionNeededError(f"{self._topic}: the table's columns do not fit its records: {told}")

    def _inferred(self) -> Schema:
        """What JSON without a schema is decoded to now."""
        columns = self.table.table.schema() if self.table else Schema()
        if self.table is not None and self._settings.projection is not None:
            columns = batch_columns(self.table)
        return decoded_columns(columns, self._settings.transform, self._learned)

    def _projection(self) -> Projection | None:
        if self._settings.projection is None or self.table is None:
            return None
        return Projection(self._settings.projection, batch_columns(self.table))

    def _writer(self, registered: RegisteredSchema) -> WriterSchema:
        return WriterSchema(
            registered.text,
            registered.references,
            registered.kind,
            self._settings.value_message,
            framed=not self._follows_latest,
            nanos=self._settings.value_nanos,
        )

    def _columns_of(self, schema_id: SchemaKey, writer: WriterSchema) -> WriterColumns:
        columns = writer_columns(schema_id, writer, self._settings)
        if self._settings.projection is not None:
            return columns  # its outputs' names count
        if clash := clashing_names(columns.schema, self._settings):
            raise BadSchemaError(
                f"schema id {schema_id} has a field {', '.join(clash)}, which is also the name of a "
                "metadata column; enable the topic without it in metadata_columns, with another --table"
            )
        return columns

    def _refuse(
        self, schema_id: SchemaKey, reason: str, message: str, into: dict[SchemaKey, tuple[str, str]]
    ) -> None:
        if self._settings.errors == "stop":
            raise BadRecordError(f"a record of {self._topic} cannot become a row: {reason}: {message}")
        into[schema_id] = (reason, message)

    def _refuse_columns(self, outcome: Evolution, registered: RegisteredSchema) -> None:
        told = "; ".join(f"{column} {why}" for column, why in outcome.refused.items())
        which = f"version {registered.version} of {registered.subject} (id {registered.id})"
        message = f"{which} cannot be fitted to the table without loss: {told}"
        self._columns.tell_refused(outcome.refused, registered)
        if "stop" in (self._settings.on_incompatible, self._settings.errors):
            raise ActionNeededError(
                f"{self._topic}: {message}. Enable the topic with on_incompatible new_column or with another "
                "--table, or register a compatible schema"
            )
        self._refused[registered.id] = (INCOMPATIBLE_SCHEMA, message)

    def _remember(
        self, schema_id: SchemaKey, writer: WriterSchema, columns: WriterColumns, outcome: Evolution
    ) -> None:
        self._known[schema_id] = replace(writer, renames=tuple(sorted(outcome.renames.items())))
        self._wanted[schema_id] = columns

    def _follow_renames(self) -> None:
        """Columns have other names now: find those of the schemas that knew them by the old ones."""
        for schema_id, writer in list(self._known.items()):
            columns = self._wanted[schema_id]
            self._remember(schema_id, writer, columns, self._columns.outcome(columns, schema_id))
