"""Keeps a table's columns ahead of its records: finds their schemas, and plans the staging.

Longer than other modules, as what a topic's schemas do to its table is only here.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema

from tabletopic_kernel.clients.registry.registry import RegisteredSchema, UnknownSchemaError, find_schema
from tabletopic_kernel.formats.decoder import BadSchemaError
from tabletopic_kernel.formats.wire import SchemaKey, WriterSchema, age
from tabletopic_kernel.model.columns.evolution import Evolution
from tabletopic_kernel.model.columns.table_columns import clashing_names, metadata_columns
from tabletopic_kernel.model.dead_letter import (
    BAD_SCHEMA,
    NOT_AN_ENVELOPE,
    PROJECTION_FAILED,
)
from tabletopic_kernel.model.errors import (
    ActionNeededError,
    ProjectionError,
    RetryableError,
    TableTopicError,
)
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.plan import WHOLE_TOPIC, Needs, Projection, SchemaPlan, StagePlan
from tabletopic_kernel.pipeline.transform.columns import (
    NotAnEnvelopeError,
    decoded_columns,
    has_row,
    inferred_columns,
    value_columns,
)
from tabletopic_kernel.table.columns import TableColumns
from tabletopic_kernel.table.schemas.candidates import Candidates
from tabletopic_kernel.table.schemas.fitting import WriterColumns, batch_columns, writer_columns
from tabletopic_kernel.table.schemas.key_schemas import ADOPTED, KeySchemas
from tabletopic_kernel.table.schemas.lookup import SchemaServices, why_foreign
from tabletopic_kernel.table.schemas.refused import RefusedSchemas
from tabletopic_kernel.table.schemas.writer_schemas import value_writer, whole_writer
from tabletopic_kernel.table.topic_table import TopicTable

_LOG = logging.getLogger(__name__)
# Formats whose values name no schema: the kind of their one writer schema, by value_format.
WITHOUT_SCHEMA = {"json": "INFERRED", "string": "STRING", "raw": "RAW"}
# Why the records of a schema are refused.
_REASONS: dict[type[TableTopicError], str] = {
    BadSchemaError: BAD_SCHEMA,
    NotAnEnvelopeError: NOT_AN_ENVELOPE,
    ProjectionError: PROJECTION_FAILED,
}
# Errors that keep a schema from being taken over; it is looked up again when a record needs it.
_CANNOT: tuple[type[TableTopicError], ...] = (RetryableError, UnknownSchemaError, *_REASONS)
_NO_COLUMNS = WriterColumns(Schema())  # of a tombstone: it makes every column of the value optional


class SchemaKeeper:
    """One table topic's schemas. Only for the coordinator's thread."""

    def __init__(
        self,
        catalog: Catalog,
        identifier: tuple[str, ...],
        topic: str,
        settings: TopicSettings,
        services: SchemaServices,
    ) -> None:
        self._columns = TableColumns(catalog, identifier, topic, settings, services)
        self._keys = KeySchemas(self._columns, topic, settings, services)
        self._topic = topic
        self._settings = settings
        self._services = services
        self._known: dict[SchemaKey, WriterSchema] = {}
        self._wanted: dict[SchemaKey, WriterColumns] = {}  # of the known schemas
        self._refused = RefusedSchemas(
            topic, settings, f"a record of {topic} cannot become a row", services.now_ms
        )
        self._candidates = Candidates(
            find=self._find,
            writer=self._writer,
            why_foreign=lambda found: why_foreign(services.registry, found, topic, settings),
            covered=lambda: self.table.registered_schemas() if self.table else (),
            cover=self._cover_id,
            refused=self._refused,
        )
        self._learned = Schema()  # of change events in JSON: properties that the table does not have
        self._whole: WriterSchema | None = None  # of a topic whose values name none
        self._no_table = ""  # why the newest schema cannot be one

    @property
    def table(self) -> TopicTable | None:
        """The table; None while it has no columns."""
        return self._columns.table

    def create(self) -> TopicTable | None:
        """Create the table from the newest schema of its subject, or from a format without schemas.

        None while there is no schema, or if the columns depend on the first record.

        Raises:
            RetryableError: registry or catalog do not respond.
            UsageError: the schema cannot become a table with these settings.
        """
        if kind := WITHOUT_SCHEMA.get(self._settings.value_format):
            self._whole = whole_writer(kind)
            if kind == "INFERRED":
                return None
            return self._columns.create(self._columns_of(WHOLE_TOPIC, self._whole), None)
        latest = self._services.registry.latest(self._subject)
        if latest is None:
            return None
        try:
            return self._columns.create(self._columns_of(latest.id, self._writer(latest)), latest)
        except tuple(_REASONS) as error:  # records of other schemas may come
            self._no_table = f"; the newest schema of {self._subject} cannot become a table: {error}"
            self._columns.tell_refused({self._subject: f"cannot be a table: {error}"}, latest)
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
        """Apply the settings' partitions and properties to the table; raises as ``layout.lay_out``."""
        self._columns.lay_out()

    def check_writable(self) -> None:
        """Check that rows can be written, with the ``_kafka_*`` columns of the settings.

        Raises:
            ActionNeededError: see ``TopicTable.check_writable``.
        """
        if self.table is not None:
            columns = metadata_columns(self._settings, table=self.table.table.schema())
            self.table.check_writable(columns)

    def adopt(self, table: TopicTable | None, ledger: Ledger) -> None:
        """Take over table and ledger, and the covered schemas as far as the registry answers."""
        self._columns.table, self._columns.ledger = table, ledger
        self._keys.adopt()
        if kind := WITHOUT_SCHEMA.get(self._settings.value_format):
            self._whole = whole_writer(kind)
            if table is not None and kind != "INFERRED":
                self._columns.fit(self._columns_of(WHOLE_TOPIC, self._whole), None)
            return
        if self._follows_latest:
            return  # each batch asks
        for schema_id in sorted(table.registered_schemas() if table else (), key=age)[-ADOPTED:]:
            try:
                registered = self._find(schema_id)
                writer = self._writer(registered)
                columns = self._columns_of(schema_id, writer)
                outcome = self._columns.outcome(columns, schema_id)
            except _CANNOT as error:
                # Nothing is lost yet: the first record that needs it asks again, and reports the error.
                _LOG.info("%s: %s", self._topic, error)
                continue
            if not (outcome.is_needed or outcome.refused):
                self._remember(schema_id, writer, columns, outcome)

    def needed_table(self) -> TopicTable:
        """The table.

        Raises:
            RetryableError: there is none until a record with a schema arrives.
        """
        if self.table is None:
            raise RetryableError(
                f"{self._topic} starts with records that cannot become rows; waiting for one with a schema"
                f"{self._no_table}"
            )
        return self.table

    def plan(self) -> StagePlan:
        """What tasks need to stage records of the schemas known so far."""
        table, ledger = self._columns.table, self._columns.ledger
        columns = table.table.schema().fields if table else ()
        registered_schemas = table.registered_schemas() if table else {}
        known = {one: writer for one, writer in self._known.items() if one in registered_schemas}
        if self._whole is not None:
            known = {WHOLE_TOPIC: self._whole}
        return StagePlan(
            topic=self._topic,
            table=table.plan() if table else None,
            dead_letters=None,
            epoch=ledger.epoch if ledger else 1,
            values=SchemaPlan(known, self._refused.reasons, self._refused.unknown, self._candidates.writers),
            covers_tombstones=not any(column.required for column in columns),
            inferred=self._inferred(),
            projection=self._projection(),
            settings=self._settings,
            keys=self._keys.plan(),
        )

    def cover(self, needs: Needs, *, recheck: bool = False) -> None:
        """Look up the schemas that a batch needs, and make the table fit those that a record proved.

        Schemas that cannot be read, do not belong to the topic, or do not fit are recorded as refused, unless
        the settings say stop. The registry may get a schema at any time: ``recheck``, when a batch begins,
        looks up again those that are due, and no others.

        Raises:
            RetryableError: registry or catalog do not respond (I9).
            BadRecordError: the registry has no such schema, or it cannot be read, and errors stop the topic.
            ActionNeededError: the schema does not fit the table, and that stops the topic.
        """
        needed = needs.schema_ids
        if self._follows_latest and (recheck or WHOLE_TOPIC in needed):
            self._cover_latest()
        ids = frozenset(one for one in needed if one is not None and one != WHOLE_TOPIC)
        self._candidates.meet(self._refused.due(ids) if recheck else ids)
        self._candidates.prove(needs.proved)
        if needs.columns:
            self._cover_inferred(needs.columns)
        if None in needed and (self.table is not None or not ids):  # else one of ids may create the table
            self.needed_table()
            self._columns.fit(_NO_COLUMNS, None)
        self._keys.cover(needs.key_ids, needs.proved_keys, recheck=recheck)

    def forget_unknown(self) -> None:
        """Ask the registry again for unknown schemas when a record needs them, due or not."""
        self._refused.forget_unknown()
        self._keys.forget_unknown()

    def _cover_id(self, registered: RegisteredSchema) -> None:
        """Cover the schema, or record it as refused."""
        writer = self._writer(registered)
        try:
            columns = self._columns_of(registered.id, writer)
            outcome = self._columns.fit(columns, registered)
        except tuple(_REASONS) as error:
            self._refused.refuse(registered.id, _REASONS[type(error)], str(error))
            return
        if outcome.refused:
            self._refuse_columns(outcome, registered)
        else:
            self._remember(registered.id, writer, columns, outcome)
            if any(change.kind == "rename" for change in outcome.changes):
                self._follow_renames()

    def _cover_latest(self) -> None:
        """Use the subject's newest schema for all values; keep the one before if that cannot be used."""
        latest = self._services.registry.latest(self._subject)
        if latest is None and self._whole is None:
            raise RetryableError(
                f"{self._topic}: the subject {self._subject} has no schema yet; waiting for one"
            )
        if latest is not None and latest.id not in self._known and latest.id not in self._refused.for_good:
            self._cover_id(latest)
        if latest is not None and latest.id in self._known:
            self._whole = self._known[latest.id]
        elif self._whole is None and latest is not None:
            raise ActionNeededError(
                f"{self._topic}: the newest schema of {self._subject} cannot be used: "
                f"{self._refused.for_good[latest.id][1]}. Register another one, or enable the topic with "
                "another --table"
            )

    def _cover_inferred(self, columns: Sequence[Schema]) -> None:
        known = self._inferred()
        self._learned = inferred_columns(known, columns, self._settings.transform)
        if not has_row(self._learned, self._settings.transform):
            return  # so far: tasks refuse the records
        wanted = value_columns(self._learned, self._settings.transform)
        outcome = self._columns.fit(WriterColumns(wanted), None)
        if outcome.refused:
            reasons = "; ".join(f"{column} {why}" for column, why in outcome.refused.items())
            raise ActionNeededError(f"{self._topic}: the table's columns do not fit its records: {reasons}")

    def _inferred(self) -> Schema:
        """The columns that JSON without a schema is now decoded to."""
        columns = self.table.table.schema() if self.table else Schema()
        if self.table is not None and self._settings.projection is not None:
            columns = batch_columns(self.table)
        return decoded_columns(columns, self._settings.transform, self._learned)

    def _projection(self) -> Projection | None:
        if self._settings.projection is None or self.table is None:
            return None
        return Projection(self._settings.projection, batch_columns(self.table))

    def _writer(self, registered: RegisteredSchema) -> WriterSchema:
        return value_writer(registered, self._settings)

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

    def _refuse_columns(self, outcome: Evolution, registered: RegisteredSchema) -> None:
        reasons = "; ".join(f"{column} {why}" for column, why in outcome.refused.items())
        which = f"version {registered.version} of {registered.subject} (id {registered.id})"
        message = f"{which} cannot be fitted to the table without loss: {reasons}"
        self._columns.tell_refused(outcome.refused, registered)
        self._refused.refuse_incompatible(registered.id, message)

    def _remember(
        self, schema_id: SchemaKey, writer: WriterSchema, columns: WriterColumns, outcome: Evolution
    ) -> None:
        self._known[schema_id] = replace(writer, renames=tuple(sorted(outcome.renames.items())))
        self._wanted[schema_id] = columns

    def _follow_renames(self) -> None:
        """Update schemas that know columns by old names: columns were renamed."""
        for schema_id, writer in list(self._known.items()):
            columns = self._wanted[schema_id]
            self._remember(schema_id, writer, columns, self._columns.outcome(columns, schema_id))
