"""What a writer's schema asks of a table: columns, and the names that they had before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyiceberg.schema import Schema

from tabletopic_kernel.formats.avro.schema import parse
from tabletopic_kernel.formats.decoder import BadSchemaError, make_decoder
from tabletopic_kernel.formats.rejection import is_trouble, last_line
from tabletopic_kernel.formats.types import aliases_of
from tabletopic_kernel.formats.wire import SchemaKey
from tabletopic_kernel.formats.writer_schema import WriterSchema
from tabletopic_kernel.model.columns.evolution import VALUE, evolve, known_by
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.transform_columns import AFTER, BEFORE, value_columns
from tabletopic_kernel.table.schemas.projection_columns import Fitting, first_fitting, fitting
from tabletopic_kernel.table.snapshot import TopicTable


@dataclass(frozen=True)
class WriterColumns:
    """Columns as ``table_columns.value_columns``; ``aliases`` of their fields by dotted path.

    ``by_value``: numbers of JSON, which fit a column or not each by itself.
    """

    schema: Schema
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    by_value: bool = False


def writer_columns(schema_id: SchemaKey, writer: WriterSchema, settings: TopicSettings) -> WriterColumns:
    """What the records of a writer's schema need.

    Raises:
        BadSchemaError: the schema cannot be read, or has no columns by a fault of ours.
        NotAnEnvelopeError: change events are expected, and these are none.
        RetryableError: what builds its decoder cannot be run now.
    """
    try:
        return _columns(schema_id, writer, settings)
    except Exception as error:
        if is_trouble(error):
            raise
        raise BadSchemaError(f"no columns can be made of this schema: {last_line(error)}") from error


def _columns(schema_id: SchemaKey, writer: WriterSchema, settings: TopicSettings) -> WriterColumns:
    decoded = make_decoder(schema_id, writer).iceberg_schema
    columns = value_columns(decoded, settings.transform)
    if writer.kind != "AVRO":
        return WriterColumns(columns, by_value=writer.kind == "JSON")
    aliases = aliases_of(parse(writer.text, dict(writer.references)))
    if settings.transform == "flatten_debezium":
        rows = (AFTER, BEFORE)
        parts = {path: path.partition(".") for path in aliases}
        aliases = {rest: aliases[path] for path, (top, _, rest) in parts.items() if rest and top in rows}
    elif columns is not decoded:
        aliases = {f"{VALUE}.{path}": names for path, names in aliases.items()}
    return WriterColumns(columns, aliases)


def first_columns(columns: WriterColumns, settings: TopicSettings) -> tuple[Schema, Schema | None]:
    """The value's columns of a new table, and those that its projection reads; None: it has none.

    Raises:
        ProjectionError: the projection and the columns do not go together.
    """
    if settings.projection is None:
        return columns.schema, None
    outputs, batch = first_fitting(columns.schema, settings)
    return outputs, batch.schema


def names_of_before(
    schema: Schema, columns: WriterColumns, settings: TopicSettings
) -> Mapping[int, tuple[str, ...]]:
    """By field id, the names that aliases tell of the columns of a new table's ``schema``."""
    if settings.projection is not None:  # it names its columns itself
        return {}
    return evolve(schema, columns.schema, schema.highest_field_id, aliases=columns.aliases).former


def outcome(
    table: TopicTable, columns: WriterColumns, schema_id: SchemaKey | None, settings: TopicSettings
) -> Fitting:
    """What fitting the columns would do to the table; ``schema_id`` of a registered schema, if it is one.

    Raises:
        ProjectionError: the projection and the columns do not go together.
    """
    if settings.projection is not None:
        return fitting(table, columns.schema, settings, by_value=columns.by_value)
    metadata = table.table.metadata
    known = None
    if schema_id is not None and (registered_schemas := table.registered_schemas().get(schema_id)):
        schemas = {one.schema_id: one for one in metadata.schemas}
        if then := schemas.get(registered_schemas.table_schema_id):
            known = known_by(then, dict(registered_schemas.renames))
    found = evolve(
        metadata.schema(),
        columns.schema,
        metadata.last_column_id,
        new_columns=settings.on_incompatible == "new_column",
        aliases=columns.aliases,
        former=table.former_names(),
        known=known,
        partition_names={one.name: one.source_id for spec in metadata.partition_specs for one in spec.fields},
        by_value=columns.by_value and settings.on_incompatible == "dead_letter",
    )
    return Fitting.of(found)
