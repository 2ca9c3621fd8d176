"""A table's record of schemas, in its properties: those it covers, and its columns' former names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tabletopic_kernel.formats.wire import SchemaKey
from tabletopic_kernel.model.ledger import PREFIX

SCHEMAS_PROPERTY: Final = f"{PREFIX}schemas"
KEY_SCHEMAS_PROPERTY: Final = f"{PREFIX}key-schemas"
FORMER_NAMES_PROPERTY: Final = f"{PREFIX}former-names"


@dataclass(frozen=True)
class FittedSchema:
    """A registered schema that the table's columns cover.

    ``table_schema_id`` is Iceberg's id of the first table schema that did; ``renames`` has the fields whose
    column has another name in it (dotted path, name).
    """

    id: SchemaKey
    subject: str
    version: int
    table_schema_id: int
    renames: tuple[tuple[str, str], ...] = ()


def registered_schemas_of(
    properties: Mapping[str, str], name: str = SCHEMAS_PROPERTY
) -> dict[SchemaKey, FittedSchema]:
    """Registered schemas whose records fit the current table, by id."""
    by_id: dict[SchemaKey, FittedSchema] = {}
    for text, (subject, version, table_schema_id, *more) in json.loads(properties.get(name, "{}")).items():
        key = int(text) if text.isdecimal() else text
        renames = tuple(more[0].items()) if more else ()
        by_id[key] = FittedSchema(key, subject, version, table_schema_id, renames)
    return by_id


def registered_schemas_property(
    registered_schemas: Iterable[FittedSchema], name: str = SCHEMAS_PROPERTY
) -> dict[str, str]:
    """The property that ``registered_schemas_of`` reads."""
    texts = {
        str(schema.id): [
            schema.subject,
            schema.version,
            schema.table_schema_id,
            *([dict(schema.renames)] if schema.renames else []),
        ]
        for schema in registered_schemas
    }
    return {name: json.dumps(texts)}


def former_names_of(properties: Mapping[str, str]) -> dict[int, tuple[str, ...]]:
    """Former names of columns, from schemas or aliases, by field id."""
    noted = json.loads(properties.get(FORMER_NAMES_PROPERTY, "{}"))
    return {int(field_id): tuple(names) for field_id, names in noted.items()}


def former_names_property(former: Mapping[int, tuple[str, ...]]) -> dict[str, str]:
    """The property that ``former_names_of`` reads; none if no column had another name."""
    return (
        {FORMER_NAMES_PROPERTY: json.dumps({str(field_id): former[field_id] for field_id in sorted(former)})}
        if former
        else {}
    )
