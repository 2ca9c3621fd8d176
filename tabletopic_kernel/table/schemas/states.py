"""The schemas that a topic's records name, and the state of each.

A schema that a record names is unknown; then a candidate; and once a record was decoded with it, covered by
the table, or refused. Why a candidate does not change the table yet: a damaged record may name any schema of
the registry. A refused schema stays so, unless the registry may get it, or get it for the topic, at any time.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from tabletopic_kernel.clients.registry.registry import RegisteredSchema, UnknownSchemaError
from tabletopic_kernel.formats.decoder import BadSchemaError, make_decoder
from tabletopic_kernel.formats.wire import CONNECT_KEY, CONNECT_KIND, SchemaKey, WriterSchema, age
from tabletopic_kernel.model import errors
from tabletopic_kernel.model.columns.evolution import Evolution
from tabletopic_kernel.model.dead_letter import BAD_SCHEMA, INCOMPATIBLE_SCHEMA, UNKNOWN_SCHEMA
from tabletopic_kernel.model.settings.values import accepted
from tabletopic_kernel.pipeline.plan import ASK_AGAIN_MS, SchemaPlan
from tabletopic_kernel.pipeline.transform.columns import OTHER_SUBJECT
from tabletopic_kernel.table.schemas.columns import REASONS, Columns
from tabletopic_kernel.table.schemas.covered import CoveredSchema, covered_schemas
from tabletopic_kernel.table.schemas.evolve import EvolvingTable
from tabletopic_kernel.table.schemas.registered import (
    find_registered,
    is_other_event,
    look_up,
    text_of,
    why_foreign,
)
from tabletopic_kernel.table.schemas.reused import is_in_question, why_reused
from tabletopic_kernel.table.schemas.sides import Side

_LOG = logging.getLogger(__name__)
# Schemas that a new owner gets from the registry before records need them.
_ADOPTED: Final = 8
# Looked up again with the next batch, then after a second, and so on up to this; garbage names many ids.
_LONGEST_MS: Final = 60_000
# These are remembered between batches; older ones are looked up when a record names them.
_MOST: Final = 10_000
# Errors that keep a schema from being taken over; it is looked up again when a record needs it.
_CANNOT: tuple[type[errors.TableTopicError], ...] = (
    errors.RetryableError,
    UnknownSchemaError,
    errors.ReusedIdError,
    *REASONS,
)


@dataclass(frozen=True)
class Candidate:
    """The table does not cover it yet, because no record was decoded with it."""

    registered: RegisteredSchema
    writer: WriterSchema


@dataclass(frozen=True)
class Covered:
    """The table has the columns that it needs; ``writer`` knows those with another name."""

    writer: WriterSchema
    columns: Columns


@dataclass(frozen=True)
class Refused:
    """Its records are refused; ``again_ms``: when to ask the registry again, None for never."""

    reason: str
    message: str
    again_ms: int | None = None
    wait_ms: int = 0  # after that


class SchemaStates(dict[SchemaKey, "Candidate | Covered | Refused"]):
    """The state of each schema by id; a schema without a state is unknown."""

    def plan(self, noted: Collection[SchemaKey]) -> SchemaPlan:
        """What tasks need; ``noted``: the schemas that the table covers, as its properties say."""
        covered: dict[SchemaKey, WriterSchema] = {}
        refused: dict[SchemaKey, tuple[str, str]] = {}
        candidates: dict[SchemaKey, WriterSchema] = {}
        for schema_id, state in self.items():
            if isinstance(state, Covered):
                if schema_id in noted:
                    covered[schema_id] = state.writer
            elif isinstance(state, Candidate):
                candidates[schema_id] = state.writer
            else:
                refused[schema_id] = (state.reason, state.message)
        return SchemaPlan(covered, refused, frozenset(self._waiting()), candidates)

    def refuse_for_now(self, schema_id: SchemaKey, reason: str, message: str, now_ms: int) -> None:
        """Refuse a schema until its next lookup."""
        before = self.get(schema_id)
        wait = before.wait_ms if isinstance(before, Refused) else 0
        self[schema_id] = Refused(reason, message, now_ms + wait, min(_LONGEST_MS, max(1_000, 2 * wait)))

    def due(self, named: Collection[SchemaKey], now_ms: int) -> frozenset[SchemaKey]:
        """Those of ``named`` to look up now, as a batch begins. Forgets the oldest beyond the limit."""
        waiting = self._waiting()
        for schema_id in list(waiting)[: max(0, len(waiting) - _MOST)]:
            del self[schema_id]
        return frozenset(key for key in named if key not in self or waiting.get(key, 0) <= now_ms)

    def forget_unknown(self) -> None:
        """Make schemas unknown that the registry may have by now, or may have with another text."""
        candidates = (key for key, state in self.items() if isinstance(state, Candidate))
        for schema_id in (*self._waiting(), *candidates):
            del self[schema_id]

    def _waiting(self) -> dict[SchemaKey, int]:
        refused = ((key, state) for key, state in self.items() if isinstance(state, Refused))
        return {key: state.again_ms for key, state in refused if state.again_ms is not None}


class NamedSchemas:
    """The schemas that a topic's values name, or its keys."""

    def __init__(self, table: EvolvingTable, side: Side[Columns]) -> None:
        self._table = table
        self._side = side
        self._topic, self._settings = table.topic, table.settings
        self.states = SchemaStates()
        self.carried: dict[SchemaKey, str] = {}  # texts of schemas that records have in them
        self._asked_ms = table.services.now_ms()  # for all texts in use; each was looked up since

    def find(self, schema_id: SchemaKey) -> RegisteredSchema:
        """Get a schema from the registry, or from the records that have it in them."""
        if isinstance(schema_id, str) and schema_id.startswith(CONNECT_KEY):
            if (text := self.carried.get(schema_id)) is None:
                raise UnknownSchemaError(f"no record with the schema {schema_id} has been seen")
            return RegisteredSchema(schema_id, CONNECT_KIND, text, (), "", 0)
        registry, subject = self._table.services.registry, self._side.subject
        return find_registered(registry, schema_id, subject, self._settings)

    def checked(self, registered: RegisteredSchema) -> RegisteredSchema:
        """The schema; if its text is not the one known by its id, notes that and raises ReusedIdError.

        The table has both texts: after a registry was restored, records of both have the id.
        """
        text, schema_id = registered.fingerprint, registered.id
        noted, answer = self._noted().get(schema_id), accepted(self._settings.accepted_texts).get(schema_id)
        if not is_in_question(text, noted, answer):
            return registered
        if noted and text not in noted.texts:
            self._table.note_text(self._side.noted_in, schema_id, text)
        raise errors.ReusedIdError(why_reused(self._topic, registered, noted, answer))

    def ask_again(self) -> None:
        """Compare the registry's texts of the ids in use with those known, at most once a minute.

        A candidate with another text is unknown again: no record was decoded with the text before.
        """
        now_ms, registry = self._table.services.now_ms(), self._table.services.registry
        if now_ms - self._asked_ms < ASK_AGAIN_MS:
            return
        self._asked_ms = now_ms
        used: dict[SchemaKey, str] = {
            key: state.writer.fingerprint
            for key, state in self.states.items()
            if not isinstance(state, Refused) and isinstance(key, int)  # a GUID is one text's for ever
        }
        try:
            for key, schema in look_up(
                lambda key: text_of(registry, key, self._side.subject, self._settings), used
            ):
                if isinstance(schema, RegisteredSchema) and schema.fingerprint != used[key]:
                    if isinstance(self.states[key], Candidate):
                        del self.states[key]
                    else:
                        self.checked(self.find(key))
        except (errors.RetryableError, UnknownSchemaError) as error:
            _LOG.info("%s: %s", self._topic, error)

    def _noted(self) -> dict[SchemaKey, CoveredSchema]:
        table = self._table.table
        return covered_schemas(table.table.properties, self._side.noted_in) if table else {}

    def adopt(self) -> None:
        """Take over the newest schemas that the table covers, as far as the registry answers."""
        noted = self._noted()
        for schema_id in sorted(noted, key=age)[-_ADOPTED:]:
            try:
                registered = self.checked(self.find(schema_id))
                if noted[schema_id].texts != (registered.fingerprint,):
                    continue  # the first record that needs it notes the text in the table
                writer = self._side.writer(registered)
                columns = self._side.columns(schema_id, writer)
                change = self._table.evolution(columns, schema_id)
            except _CANNOT as error:
                # Nothing is lost yet: the first record that needs it asks again, and reports the error.
                _LOG.info("%s: %s", self._topic, error)
                continue
            if not (change.is_needed or change.refused):
                self._remember(schema_id, writer, columns, change)

    def plan(self) -> SchemaPlan:
        """What tasks need to decode values, or keys, of the schemas known so far."""
        return self.states.plan(self._noted())

    def resolve(self, named: Collection[SchemaKey], *, recheck: bool = False) -> None:
        """Look up the schemas that records name; with ``recheck``, as a batch begins, those that are due."""
        if recheck:
            named = self.states.due(named, self._table.services.now_ms())
        noted = self._noted() if named else {}
        for schema_id, answer in look_up(self.find, named):
            if isinstance(answer, UnknownSchemaError):
                self._refuse(schema_id, UNKNOWN_SCHEMA, str(answer), for_now=True)
            elif (known := noted.get(self.checked(answer).id)) and known.may_be(answer.fingerprint):
                self.cover(answer)
            elif why := why_foreign(
                self._table.services.registry, answer, self._topic, self._settings, of_keys=self._side.of_keys
            ):
                self._refuse(schema_id, BAD_SCHEMA, why, for_now=True)
            elif not self._side.of_keys and is_other_event(
                self._table.services.registry, answer, self._topic, self._settings
            ):
                self.states.refuse_for_now(schema_id, OTHER_SUBJECT, "", self._table.services.now_ms())
            else:
                self._try(answer)

    def confirm(self, proved: Collection[SchemaKey]) -> None:
        """Cover the schemas that records were decoded with, older ones first."""
        for schema_id in sorted(proved, key=age):
            state = self.states.get(schema_id)
            known = state.registered if isinstance(state, Candidate) else self.find(schema_id)
            self.cover(self.checked(known))

    def cover(self, registered: RegisteredSchema) -> None:
        """Make the table cover a schema, or refuse it."""
        writer = self._side.writer(registered)
        try:
            columns = self._side.columns(registered.id, writer)
            change = self._table.cover(columns, registered)
        except tuple(REASONS) as error:
            self._refuse(registered.id, REASONS[type(error)], str(error))
            return
        if change.refused:
            self._refuse_columns(change, registered)
            return
        self._remember(registered.id, writer, columns, change)
        if any(column_change.kind == "rename" for column_change in change.changes):
            self._follow_renames()

    def _try(self, registered: RegisteredSchema) -> None:
        writer = self._side.writer(registered)
        try:
            make_decoder(registered.id, writer)
        except BadSchemaError as error:
            if self.find(registered.id).text != registered.text:
                raise errors.RetryableError(
                    f"the registry gave two different schemas for {registered.id}; are there two behind "
                    "[registry] url?",
                    system=errors.REGISTRY,
                ) from error
            self._refuse(registered.id, REASONS.get(type(error), BAD_SCHEMA), str(error))
        else:
            self.states[registered.id] = Candidate(registered, writer)

    def _remember(
        self, schema_id: SchemaKey, writer: WriterSchema, columns: Columns, change: Evolution
    ) -> None:
        renames = tuple(sorted(change.renames.items()))
        self.states[schema_id] = Covered(replace(writer, renames=renames), columns)

    def _follow_renames(self) -> None:
        """Update schemas that know columns by old names: columns were renamed."""
        for schema_id, state in list(self.states.items()):
            if isinstance(state, Covered):
                change = self._table.evolution(state.columns, schema_id)
                self._remember(schema_id, state.writer, state.columns, change)

    def _refuse(self, schema_id: SchemaKey, reason: str, message: str, *, for_now: bool = False) -> None:
        if self._settings.errors == "stop":
            raise errors.BadRecordError(f"{self._side.damage}: {reason}: {message}")
        if for_now:
            self.states.refuse_for_now(schema_id, reason, message, self._table.services.now_ms())
        else:
            self.states[schema_id] = Refused(reason, message)

    def _refuse_columns(self, change: Evolution, registered: RegisteredSchema) -> None:
        self._table.report_refused(change.refused, registered)
        reasons = "; ".join(f"{column} {why}" for column, why in change.refused.items())
        schema = f"version {registered.version} of {registered.subject} (id {registered.id})"
        schema = schema if registered.subject else f"the schema {registered.id}"
        schema = f"the key's schema {registered.id}" if self._side.of_keys else schema
        message = f"{schema} cannot be fitted to the table without loss: {reasons}"
        if "stop" in (self._settings.on_incompatible, self._settings.errors):
            raise errors.ActionNeededError(
                f"{self._topic}: {message}. Enable the topic with on_incompatible new_column or with another "
                "--table, or register a compatible schema"
            )
        self.states[registered.id] = Refused(INCOMPATIBLE_SCHEMA, message)
