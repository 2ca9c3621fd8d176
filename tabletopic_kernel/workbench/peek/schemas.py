"""The registered schemas that records name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.formats.wire import SchemaKey
from tabletopic_kernel.model.columns.types import spell
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.schemas.columns import writer_columns
from tabletopic_kernel.table.schemas.registered import find_registered, value_writer
from tabletopic_kernel.workbench.peek import PeekedRecord, WrittenBy


def with_schemas(
    records: Sequence[PeekedRecord], topic: str, settings: TopicSettings, registry: Registry
) -> list[PeekedRecord]:
    """The records with the registered schemas that they name."""
    schemas: dict[SchemaKey | None, WrittenBy | None] = {None: None}
    for schema_id in {record.schema_id for record in records} - {None}:
        assert schema_id is not None
        try:
            registered = find_registered(registry, schema_id, settings.subject_of(topic), settings)
            columns = writer_columns(schema_id, value_writer(registered, settings), settings).schema.fields
        except TableTopicError:  # the record's error says so
            schemas[schema_id] = None
            continue
        texts = [f"{column.name}: {spell(column.field_type)}" for column in columns]
        schemas[schema_id] = WrittenBy(registered.subject, registered.version, texts)
    return [replace(record, schema=schemas[record.schema_id]) for record in records]
