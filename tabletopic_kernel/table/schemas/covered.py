"""A table's record of schemas, in its properties: those covered, and columns' former names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyiceberg.schema import Schema

from tabletopic_kernel.formats.wire import SchemaKey, comparable
from tabletopic_kernel.model.ledger import PREFIX

SCHEMAS_PROPERTY: Final = f"{PREFIX}schemas"
KEY_SCHEMAS_PROPERTY: Final = f"{PREFIX}key-schemas"
FORMER_NAMES_PROPERTY: Final = f"{PREFIX}former-names"
BATCH_PROPERTY: Final = f"{PREFIX}batch-columns"


@dataclass(frozen=True)
class CoveredSchema:
    """A registered schema whose records fit the table's columns.

    ``table_schema_id`` is Iceberg's id of the first table schema that covered it; ``renames`` has the fields
    whose column has another name in it (dotted path, name). ``texts``: the fingerprint of its text, then
    those of other texts that the registry had for the id since; empty if the table is older than these.
    """

    id: SchemaKey
    subject: str
    version: int
    table_schema_id: int
    renames: tuple[tuple[str, str], ...] = ()
    texts: tuple[str, ...] = ()

    def may_be(self, text: str) -> bool:
        """Whether this is the fingerprint that the id is known by, as far as the table says."""
        known = comparable(text, self.texts)
        return not known or known[0] == text


def covered_schemas(
    properties: Mapping[str, str], name: str = SCHEMAS_PROPERTY
) -> dict[SchemaKey, CoveredSchema]:
    """The schemas that the table's columns cover, by id."""
    by_id: dict[SchemaKey, CoveredSchema] = {}
    for text, (subject, version, table_schema_id, *rest) in json.loads(properties.get(name, "{}")).items():
        key = int(text) if text.isdecimal() else text
        renames = tuple(rest[0].items()) if rest else ()
        by_id[key] = CoveredSchema(key, subject, version, table_schema_id, renames, tuple(rest[1:]))
    return by_id


def covered_schemas_property(
    schemas: Iterable[CoveredSchema], name: str = SCHEMAS_PROPERTY
) -> dict[str, str]:
    """The property that ``covered_schemas`` reads."""
    texts = {
        str(schema.id): [
            schema.subject,
            schema.version,
            schema.table_schema_id,
            *([dict(schema.renames), *schema.texts] if schema.renames or schema.texts else []),
        ]
        for schema in schemas
    }
    return {name: json.dumps(texts)}


def former_names(properties: Mapping[str, str]) -> dict[int, tuple[str, ...]]:
    """Former names of columns, from schemas or aliases, by field id."""
    noted = json.loads(properties.get(FORMER_NAMES_PROPERTY, "{}"))
    return {int(field_id): tuple(names) for field_id, names in noted.items()}


def former_names_property(former: Mapping[int, tuple[str, ...]]) -> dict[str, str]:
    """The property that ``former_names`` reads; none if no column had another name."""
    texts = {str(field_id): former[field_id] for field_id in sorted(former)}
    return {FORMER_NAMES_PROPERTY: json.dumps(texts)} if former else {}


def noted_batch(properties: Mapping[str, str]) -> Schema | None:
    """The columns that a projection reads; None if there was no projection."""
    text = properties.get(BATCH_PROPERTY)
    return Schema.model_validate_json(text) if text is not None else None


def batch_property(batch: Schema | None) -> dict[str, str]:
    """The property that ``noted_batch`` reads; none for None."""
    return {} if batch is None else {BATCH_PROPERTY: batch.model_dump_json()}
