"""Keeps the column of keys ahead of keys that name their schema: finds the schemas, and plans the staging."""

from __future__ import annotations

import logging
from dataclasses import replace

from tabletopic_kernel.adapters.registry import RegisteredSchema, UnknownSchemaError, find_schema
from tabletopic_kernel.commit.columns import TableColumns
from tabletopic_kernel.commit.key_types import key_subject, key_writer
from tabletopic_kernel.commit.services import Services
from tabletopic_kernel.core.dead_letter import BAD_SCHEMA, INCOMPATIBLE_SCHEMA, UNKNOWN_SCHEMA
from tabletopic_kernel.core.errors import ActionNeededError, BadRecordError, RetryableError
from tabletopic_kernel.core.evolution import Evolution
from tabletopic_kernel.core.settings import TopicSettings
from tabletopic_kernel.core.table_columns import key_type
from tabletopic_kernel.core.wire import SchemaKey, age
from tabletopic_kernel.ingest.decoders import BadSchemaError, make_decoder
from tabletopic_kernel.ingest.plan import KeyPlan, WriterSchema

_LOG = logging.getLogger(__name__)
# Schemas that a new owner asks the registry for before records need them.
_ADOPTED = 8


class KeySchemas:
    """The schemas of one table topic's keys. Used by the coordinator's thread alone."""

    def __init__(
        self, columns: TableColumns, topic: str, settings: TopicSettings, services: Services
    ) -> None:
        self._columns = columns
        self._topic = topic
        self._settings = settings
        self._services = services
        self._known: dict[SchemaKey, WriterSchema] = {}
        self._refused: dict[SchemaKey, tuple[str, str]] = {}
        self._unknown: dict[SchemaKey, tuple[str, str]] = {}

    def adopt(self) -> None:
        """Take over the schemas that the table covers, as far as the registry answers."""
        table = self._columns.table
        if table is None or not self._settings.has_typed_keys:
            return
        for schema_id in sorted(table.covered_keys(), key=age)[-_ADOPTED:]:
            try:
                writer = key_writer(self._find(schema_id), self._settings)
                kind = key_type(make_decoder(schema_id, writer).iceberg_schema)
            except (RetryableError, UnknownSchemaError, BadSchemaError) as error:
                _LOG.warning("%s: %s", self._topic, error)  # asked for again when a record needs it
                continue
            outcome = self._columns.key_outcome(kind)
            if not (outcome.is_needed or outcome.refused):
                self._remember(schema_id, writer, outcome)

    def plan(self) -> KeyPlan | None:
        """What tasks need to read keys; None where no column has them."""
        if not self._settings.has_typed_keys:
            return None
        table = self._columns.table
        covered = table.covered_keys() if table else {}
        known = {one: writer for one, writer in self._known.items() if one in covered}
        return KeyPlan(known, self._refused | self._unknown, frozenset(self._unknown))

    def cover(self, needed: frozenset[SchemaKey], *, recheck: bool) -> None:
        """Make the column fit the schemas ``needed``; raises as ``SchemaKeeper.cover``."""
        if recheck:
            self._unknown = {}
        for schema_id in sorted(needed, key=age):
            try:
                self._cover_one(schema_id)
            except UnknownSchemaError as error:
                self._refuse(schema_id, UNKNOWN_SCHEMA, str(error), self._unknown)

    def _find(self, schema_id: SchemaKey) -> RegisteredSchema:
        return find_schema(self._services.registry, schema_id, key_subject(self._topic))

    def _cover_one(self, schema_id: SchemaKey) -> None:
        registered = self._find(schema_id)
        writer = key_writer(registered, self._settings)
        try:
            kind = key_type(make_decoder(schema_id, writer).iceberg_schema)
        except BadSchemaError as error:
            self._refuse(schema_id, BAD_SCHEMA, str(error), self._refused)
            return
        outcome = self._columns.fit_key(kind, registered)
        if not outcome.refused:
            self._remember(schema_id, writer, outcome)
            return
        self._columns.tell_refused(outcome.refused, registered)
        told = "; ".join(f"{column} {why}" for column, why in outcome.refused.items())
        message = f"the key's schema {schema_id} cannot be fitted to the table without loss: {told}"
        if "stop" in (self._settings.on_incompatible, self._settings.errors):
            raise ActionNeededError(
                f"{self._topic}: {message}. Enable the topic with on_incompatible new_column or with another "
                "--table, or register a compatible schema"
            )
        self._refused[schema_id] = (INCOMPATIBLE_SCHEMA, message)

    def _refuse(
        self, schema_id: SchemaKey, reason: str, message: str, into: dict[SchemaKey, tuple[str, str]]
    ) -> None:
        if self._settings.errors == "stop":
            raise BadRecordError(f"a key of {self._topic} cannot be read: {reason}: {message}")
        into[schema_id] = (reason, message)

    def _remember(self, schema_id: SchemaKey, writer: WriterSchema, outcome: Evolution) -> None:
        self._known[schema_id] = replace(writer, renames=tuple(sorted(outcome.renames.items())))
