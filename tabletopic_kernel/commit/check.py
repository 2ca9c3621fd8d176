"""What is checked before a topic is switched on, so that a mistake leaves nothing behind."""

from __future__ import annotations

from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from tabletopic_kernel.adapters.kafka import Broker
from tabletopic_kernel.adapters.registry import Registry
from tabletopic_kernel.commit.snapshot import TopicTable
from tabletopic_kernel.core.errors import ActionNeededError, UsageError
from tabletopic_kernel.core.evolution import (
    KEY,
    VALUE,
    evolve,
    metadata_columns,
    table_schema,
    value_columns,
)
from tabletopic_kernel.core.partitions import parse_partition, partition_spec
from tabletopic_kernel.core.settings import TopicSettings, table_identifier
from tabletopic_kernel.core.types import iceberg_struct_of_avro


def check_before_enable(
    topic: str, settings: TopicSettings, broker: Broker, registry: Registry, catalog: Catalog
) -> None:
    """See whether ``topic`` can become a table with these settings; reads only.

    Raises:
        UsageError: no such topic, a bad partition expression, a schema that cannot be the table's, a table
            of that name that is not this topic's.
        RetryableError: broker, registry or catalog do not answer.
    """
    for text in settings.partition_by:
        parse_partition(text)
    broker.facts(topic)
    try:
        table = TopicTable.load(catalog, table_identifier(topic, settings), topic)
    except ActionNeededError as error:
        raise UsageError(str(error)) from error
    if table is not None and settings.partition_by:
        wanted = partition_spec(settings.partition_by, table.table.schema())
        if not wanted.compatible_with(table.table.spec()):
            raise UsageError(
                f"the table {table.identifier} is there and partitioned by [{_told(table.table)}]; a table "
                "topic does not change that. Leave --partition-by out, or choose another --table"
            )
    latest = registry.latest(f"{topic}-value")
    if latest is None:
        return  # the table is made with the first record's schema, and checked then
    if latest.kind != "AVRO":
        raise UsageError(
            f"the newest schema of {topic}-value is {latest.kind}; only Avro is understood so far"
        )
    writer = iceberg_struct_of_avro(latest.text, dict(latest.references))
    if table is None:
        partition_spec(settings.partition_by, table_schema(writer, settings))
        return
    _check_columns(table.table, writer, settings)
    metadata = table.table.metadata
    outcome = evolve(metadata.schema(), value_columns(writer, settings), metadata.last_column_id)
    if outcome.refused:
        told = "; ".join(f"{column} {why}" for column, why in outcome.refused.items())
        raise UsageError(
            f"version {latest.version} of {topic}-value does not fit the table {table.identifier}: {told}"
        )


def _check_columns(table: Table, writer: Schema, settings: TopicSettings) -> None:
    """The settings that shape the columns must be those the table was made with, or fewer columns."""
    there = {column.name: column.field_type for column in table.schema().fields}
    for column in metadata_columns(settings):
        if column.name not in there:
            raise UsageError(
                f"the table has no column {column.name}; switch it off with metadata_columns, "
                "or choose another --table"
            )
        if column.name == KEY and there[KEY] != column.field_type:
            raise UsageError(
                f"{KEY} is {there[KEY]} in the table: keep the key format, or choose another --table"
            )
    if (VALUE in there) != (VALUE in value_columns(writer, settings).column_names):
        raise UsageError("the table was made with another transform; keep it, or choose another --table")


def _told(table: Table) -> str:
    spec, schema = table.spec(), table.schema()
    return ", ".join(f"{one.transform}({schema.find_column_name(one.source_id)})" for one in spec.fields)
