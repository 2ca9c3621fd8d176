"""Keeps the key column ahead of keys that name their schema: finds the schemas, and plans the staging."""

from __future__ import annotations

import logging
from dataclasses import replace

from tabletopic_kernel.clients.registry.registry import RegisteredSchema, UnknownSchemaError, find_schema
from tabletopic_kernel.formats.decoder import BadSchemaError, make_decoder
from tabletopic_kernel.formats.wire import SchemaKey, WriterSchema, age
from tabletopic_kernel.model.columns.evolution import Evolution
from tabletopic_kernel.model.columns.table_columns import key_type
from tabletopic_kernel.model.dead_letter import BAD_SCHEMA
from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.plan import SchemaPlan
from tabletopic_kernel.table.columns import TableColumns
from tabletopic_kernel.table.schemas.candidates import Candidates
from tabletopic_kernel.table.schemas.lookup import SchemaServices, why_foreign
from tabletopic_kernel.table.schemas.refused import RefusedSchemas
from tabletopic_kernel.table.schemas.writer_schemas import key_subject, key_writer

_LOG = logging.getLogger(__name__)
# Schemas that a new owner gets from the registry before records need them.
ADOPTED = 8


class KeySchemas:
    """The schemas of one table topic's keys. Only for the coordinator's thread."""

    def __init__(
        self, columns: TableColumns, topic: str, settings: TopicSettings, services: SchemaServices
    ) -> None:
        self._columns = columns
        self._topic = topic
        self._settings = settings
        self._services = services
        self._known: dict[SchemaKey, WriterSchema] = {}
        self._refused = RefusedSchemas(topic, settings, f"a key of {topic} cannot be read", services.now_ms)
        self._candidates = Candidates(
            find=self._find,
            writer=lambda found: key_writer(found, settings),
            why_foreign=lambda found: why_foreign(services.registry, found, topic, settings, of_keys=True),
            covered=lambda: columns.table.registered_key_schemas() if columns.table else (),
            cover=self._cover_one,
            refused=self._refused,
        )

    def adopt(self) -> None:
        """Take over the schemas that the table covers, as far as the registry answers."""
        table = self._columns.table
        if table is None or not self._settings.has_typed_keys:
            return
        for schema_id in sorted(table.registered_key_schemas(), key=age)[-ADOPTED:]:
            try:
                writer = key_writer(self._find(schema_id), self._settings)
                kind = key_type(make_decoder(schema_id, writer).iceberg_schema)
            except (RetryableError, UnknownSchemaError, BadSchemaError) as error:
                _LOG.info("%s: %s", self._topic, error)  # looked up again when a record needs it
                continue
            outcome = self._columns.key_outcome(kind)
            if not (outcome.is_needed or outcome.refused):
                self._remember(schema_id, writer, outcome)

    def plan(self) -> SchemaPlan | None:
        """What tasks need to read keys; None without a key column."""
        if not self._settings.has_typed_keys:
            return None
        table = self._columns.table
        registered_schemas = table.registered_key_schemas() if table else {}
        known = {one: writer for one, writer in self._known.items() if one in registered_schemas}
        return SchemaPlan(known, self._refused.reasons, self._refused.unknown, self._candidates.writers)

    def cover(self, needed: frozenset[SchemaKey], proved: frozenset[SchemaKey], *, recheck: bool) -> None:
        """Look up ``needed`` schemas, fit the column to ``proved`` ones; as ``SchemaKeeper.cover``."""
        self._candidates.meet(self._refused.due(needed) if recheck else needed)
        self._candidates.prove(proved)

    def forget_unknown(self) -> None:
        """Ask the registry again for unknown schemas."""
        self._refused.forget_unknown()

    def _find(self, schema_id: SchemaKey) -> RegisteredSchema:
        return find_schema(self._services.registry, schema_id, key_subject(self._topic))

    def _cover_one(self, registered: RegisteredSchema) -> None:
        schema_id = registered.id
        writer = key_writer(registered, self._settings)
        try:
            kind = key_type(make_decoder(schema_id, writer).iceberg_schema)
        except BadSchemaError as error:
            self._refused.refuse(schema_id, BAD_SCHEMA, str(error))
            return
        outcome = self._columns.fit_key(kind, registered)
        if not outcome.refused:
            self._remember(schema_id, writer, outcome)
            return
        self._columns.tell_refused(outcome.refused, registered)
        reasons = "; ".join(f"{column} {why}" for column, why in outcome.refused.items())
        message = f"the key's schema {schema_id} cannot be fitted to the table without loss: {reasons}"
        self._refused.refuse_incompatible(schema_id, message)

    def _remember(self, schema_id: SchemaKey, writer: WriterSchema, outcome: Evolution) -> None:
        self._known[schema_id] = replace(writer, renames=tuple(sorted(outcome.renames.items())))
