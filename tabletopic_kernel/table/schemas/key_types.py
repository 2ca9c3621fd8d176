"""The column of keys that name their schema: its type, as a registered schema has it."""

from __future__ import annotations

from pyiceberg.types import IcebergType

from tabletopic_kernel.clients.registry import Registry
from tabletopic_kernel.formats.decoder import BadSchemaError, make_decoder
from tabletopic_kernel.model.columns.table_columns import key_type
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.schemas.writers import key_writer


def key_subject(topic: str) -> str:
    """Where the schema of a topic's keys is looked for before there is one (TopicNameStrategy)."""
    return f"{topic}-key"


def newest_key_type(topic: str, settings: TopicSettings, registry: Registry) -> IcebergType | None:
    """The type that ``_kafka_key`` has in a new table; None: it comes with the first key, or is no matter.

    Raises:
        RetryableError: the registry does not answer.
    """
    latest = registry.latest(key_subject(topic)) if settings.has_typed_keys else None
    if latest is None:
        return None
    try:
        return key_type(make_decoder(latest.id, key_writer(latest, settings)).iceberg_schema)
    except BadSchemaError:  # keys of other schemas may come
        return None
