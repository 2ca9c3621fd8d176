"""Whether a topic's table can be kept by key, as far as servers and settings show before it is enabled."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    ListType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from tabletopic_kernel.clients.catalog.engine_properties import maintains_itself
from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.clients.registry.registry import RegisteredSchema, Registry
from tabletopic_kernel.model.columns.evolution import HEADER
from tabletopic_kernel.model.columns.upsert_columns import Former, check_upsert, upsert_columns
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.schemas.registered import key_subject
from tabletopic_kernel.workbench.peek import PeekedRecord
from tabletopic_kernel.workbench.peek.change_events import sends_no_whole_rows

_RECORDS: Final = 20  # newest ones whose keys are looked at
_NOTE: Final = (
    "the table has a row for each key, and its commits replace rows: readers that follow appended snapshots "
    "alone, such as Spark streaming, refuse them"
)
_NO_PLACEHOLDER: Final = (FloatType, DoubleType, DecimalType, TimestampType, TimestamptzType, StructType)
_FULL: Final = (
    "{names}: from PostgreSQL, an update sends null for such a value of more than 2 kB that it does not "
    "touch, and the row loses it. Give the source's table REPLICA IDENTITY FULL"
)


def check_upsert_topic(
    topic: str,
    settings: TopicSettings,
    broker: Broker,
    registry: Registry,
    catalog: Catalog,
    schema: Schema | None,
    former: Former,
) -> list[str]:
    """Notes for the plan; ``schema``: of the table, None while unknown. UsageError with the way out."""
    if settings.mode == "append":
        return []
    check_upsert(settings)
    if settings.projection is not None and re.search(r"\bwhere\b", settings.projection, re.IGNORECASE):
        raise UsageError(
            "mode upsert: with a WHERE, a row would stay whose newest change it leaves out; remove it, "
            "and filter in queries"
        )
    if maintains_itself(catalog.properties) and settings.on_gap == "stop":
        raise UsageError(
            "mode upsert: this catalog removes files that no snapshot names, so those with deleted keys. "
            "Set --on-gap go_on if no older change of a deleted key can come, or choose another catalog"
        )
    if not settings.key:
        _check_keys(topic, settings, broker, registry)
    has_later_key = (
        settings.has_typed_keys and not settings.key and registry.latest(key_subject(topic)) is None
    )
    if schema is not None and not has_later_key:
        upsert_columns(settings, schema, former)
    return [_NOTE, *_sent_as_null(schema, settings)]


def _sent_as_null(schema: Schema | None, settings: TopicSettings) -> list[str]:
    """Columns for whose large values an update that does not touch them sends null, not a placeholder."""
    names = [
        field.name
        for field in (schema.fields if schema is not None else ())
        if settings.transform == "flatten_debezium" and field.name != HEADER
        if isinstance(field.field_type, ListType)
        if isinstance(field.field_type.element_type, _NO_PLACEHOLDER)
    ]
    return [_FULL.format(names=", ".join(names))] if names else []


def _check_keys(topic: str, settings: TopicSettings, broker: Broker, registry: Registry) -> None:
    """Check that the Kafka keys are there, and that equal ones have equal values in the table."""
    from tabletopic_kernel.workbench.peek import newest  # noqa: PLC0415 - DuckDB, where it is needed

    if not settings.has_typed_keys and registry.latest(key_subject(topic)) is not None:
        raise UsageError(
            f"the keys of {topic} name a schema ({key_subject(topic)}), so equal ones may differ in bytes: "
            "set --key-format by_schema_id, or name columns with --key"
        )
    records = newest.newest_records(topic, settings, broker, registry, _RECORDS)
    keys = [record.key for record in records]
    if keys and all(key is None for key in keys):
        raise UsageError(
            f"the newest records of {topic} have no keys: name columns of their values with --key"
        )
    if any(key and key.lstrip().startswith(b'{"schema"') for key in keys):  # known after the table is made
        raise UsageError(
            f"the keys of {topic} are JSON with their schema, which is part of their bytes: name columns of "
            "the values with --key"
        )
    if settings.transform == "flatten_debezium":
        _check_changes(topic, records, registry.latest(key_subject(topic)))


def _check_changes(topic: str, records: Sequence[PeekedRecord], key_schema: RegisteredSchema | None) -> None:
    """Check that changes name the row that they replace, as those by a primary key or with whole rows do."""
    if not sends_no_whole_rows(records):
        return
    keys = [record.key_value for record in records if isinstance(record.key_value, dict)]
    nulls = {name for key in keys for name, value in key.items() if value is None}
    if columns := sorted(nulls | _nullable(key_schema)):
        raise UsageError(
            f"the key of {topic} is not a primary key: {', '.join(columns)} may be null. Without "
            "whole rows, an update or delete does not name the row that it changes. Give the source's table "
            "REPLICA IDENTITY FULL, or remove message.key.columns from the connector"
        )


def _nullable(schema: RegisteredSchema | None) -> set[str]:
    """Columns of an Avro key that may be null."""
    record = json.loads(schema.text) if schema is not None and schema.kind == "AVRO" else None
    fields = record.get("fields", []) if isinstance(record, dict) else []
    return {field["name"] for field in fields if isinstance(field["type"], list) and "null" in field["type"]}
