"""The schemas that records name and that the table does not cover yet: candidates, or refused.

Why a candidate does not change the table yet: a damaged record may name any schema of the registry. The table
is made to cover a schema only when a record was decoded with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from tabletopic_kernel.clients.registry.registry import RegisteredSchema, UnknownSchemaError
from tabletopic_kernel.formats.decoder import BadSchemaError, make_decoder
from tabletopic_kernel.formats.wire import SchemaKey, WriterSchema, age
from tabletopic_kernel.model.dead_letter import BAD_SCHEMA, UNKNOWN_SCHEMA
from tabletopic_kernel.table.schemas.lookup import Find, check_same, look_up
from tabletopic_kernel.table.schemas.refused import RefusedSchemas


class Candidates:
    """Of one topic's values, or of its keys.

    Args:
        find: gets a schema from the registry.
        writer: a schema as tasks need it.
        why_foreign: why a schema does not belong to the topic; None: it does.
        covered: the ids of the schemas that the table covers.
        cover: makes the table cover a schema, or refuses it.
        refused: gets the schemas that cannot be used.
    """

    def __init__(
        self,
        *,
        find: Find,
        writer: Callable[[RegisteredSchema], WriterSchema],
        why_foreign: Callable[[RegisteredSchema], str | None],
        covered: Callable[[], Collection[SchemaKey]],
        cover: Callable[[RegisteredSchema], None],
        refused: RefusedSchemas,
    ) -> None:
        self._find = find
        self._writer = writer
        self._why_foreign = why_foreign
        self._covered = covered
        self._cover = cover
        self._refused = refused
        self._found: dict[SchemaKey, RegisteredSchema] = {}

    @property
    def writers(self) -> dict[SchemaKey, WriterSchema]:
        """The candidates, by id."""
        return {schema_id: self._writer(found) for schema_id, found in self._found.items()}

    def meet(self, named: Collection[SchemaKey]) -> None:
        """Look up the schemas that records name: each becomes a candidate, is covered again, or is refused.

        Raises:
            RetryableError: the registry does not respond.
            BadRecordError: a schema cannot be used, and errors stop the topic.
        """
        for schema_id, found in look_up(self._find, named):
            if isinstance(found, UnknownSchemaError):
                self._refused.refuse_for_now(schema_id, UNKNOWN_SCHEMA, str(found))
            elif schema_id in self._covered():
                self._cover(found)
                self._refused.clear(schema_id)
            elif why := self._why_foreign(found):
                self._refused.refuse_for_now(schema_id, BAD_SCHEMA, why)
            else:
                self._try(schema_id, found)

    def _try(self, schema_id: SchemaKey, found: RegisteredSchema) -> None:
        try:
            make_decoder(schema_id, self._writer(found))
        except BadSchemaError as error:
            check_same(self._find, found)
            self._refused.refuse(schema_id, BAD_SCHEMA, str(error))
        else:
            self._found[schema_id] = found
        self._refused.clear(schema_id)

    def prove(self, proved: Collection[SchemaKey]) -> None:
        """Cover the schemas that records were decoded with, older ones first; raises as ``meet``."""
        for schema_id in sorted(proved, key=age):
            found = self._found.pop(schema_id) if schema_id in self._found else self._find(schema_id)
            self._cover(found)
