"""What differs between schemas of values and of keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tabletopic_kernel.clients.registry.registry import RegisteredSchema
from tabletopic_kernel.formats.decoder import BadSchemaError
from tabletopic_kernel.formats.wire import SchemaKey, WriterSchema
from tabletopic_kernel.model.columns.table_columns import clashing_names
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.schemas.columns import (
    Columns,
    KeyColumn,
    ValueColumns,
    registered_key_type,
    writer_columns,
)
from tabletopic_kernel.table.schemas.covered import KEY_SCHEMAS_PROPERTY, SCHEMAS_PROPERTY
from tabletopic_kernel.table.schemas.registered import key_subject, key_writer, value_writer

ColumnsT_co = TypeVar("ColumnsT_co", bound=Columns, covariant=True)


@dataclass(frozen=True)
class Side(Generic[ColumnsT_co]):
    """What differs between schemas of values and of keys.

    ``damage`` begins the message when a refused schema stops the topic; ``noted_in``: the table's property
    with the covered schemas. ``columns`` raises an error of ``REASONS`` if there can be none.
    """

    damage: str
    subject: str
    noted_in: str
    writer: Callable[[RegisteredSchema], WriterSchema]
    columns: Callable[[SchemaKey, WriterSchema], ColumnsT_co]
    of_keys: bool = False


def of_values(topic: str, settings: TopicSettings) -> Side[ValueColumns]:
    def columns(schema_id: SchemaKey, writer: WriterSchema) -> ValueColumns:
        columns = writer_columns(schema_id, writer, settings)
        # A projection's outputs have names of their own.
        if settings.projection is None and (clash := clashing_names(columns.schema, settings)):
            raise BadSchemaError(
                f"schema id {schema_id} has a field {', '.join(clash)}, which is also the name of a "
                "metadata column; enable the topic without it in metadata_columns, with another --table"
            )
        return columns

    damage = f"a record of {topic} cannot become a row"
    subject = settings.subject_of(topic)
    return Side(damage, subject, SCHEMAS_PROPERTY, lambda schema: value_writer(schema, settings), columns)


def of_keys(topic: str, settings: TopicSettings) -> Side[KeyColumn]:
    return Side(
        f"a key of {topic} cannot be read",
        key_subject(topic),
        KEY_SCHEMAS_PROPERTY,
        lambda schema: key_writer(schema, settings),
        lambda schema_id, writer: KeyColumn(registered_key_type(schema_id, writer, settings)),
        of_keys=True,
    )
