"""What a writer's schema requires of a table: columns, their former names, and the result of fitting them.

A projection reads the ``batch``: the columns of all schemas so far, evolved by the same rules as a table's,
except for aliases: a statement names columns, so they keep their names. So it is one statement over one set
of columns, whatever a record's schema. The table keeps them as a property, as a new host must know them (I6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from pyiceberg.schema import Schema

from tabletopic_kernel.formats.avro.schema import parse
from tabletopic_kernel.formats.avro.types import aliases_of
from tabletopic_kernel.formats.decoder import BadSchemaError, make_decoder
from tabletopic_kernel.formats.rejection import is_trouble, last_line
from tabletopic_kernel.formats.wire import SchemaKey, WriterSchema
from tabletopic_kernel.model.columns.evolution import (
    HEADER,
    KEY,
    METADATA,
    VALUE,
    Evolution,
    evolve,
    known_by,
)
from tabletopic_kernel.model.columns.table_columns import clashing_names
from tabletopic_kernel.model.columns.types import MAX_LEVELS, levels
from tabletopic_kernel.model.errors import ProjectionError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.transform.columns import AFTER, BEFORE, value_columns
from tabletopic_kernel.pipeline.transform.projection.child import planned_columns
from tabletopic_kernel.table.topic_table import TopicTable


@dataclass(frozen=True)
class Fitting(Evolution):
    """The outcome for the table; ``batch``: the projection's input columns, if they change."""

    batch: Schema | None = None

    @property
    def is_needed(self) -> bool:
        """Whether the table must change."""
        return bool(self.changes) or self.batch is not None

    @property
    def new_schema(self) -> Schema | None:
        """The table's new schema, if it changes."""
        return self.schema if self.changes else None

    @classmethod
    def of(cls, outcome: Evolution, batch: Schema | None = None) -> Fitting:
        """An evolution of the table, with the change of the batch if there is one."""
        return cls(**{one.name: getattr(outcome, one.name) for one in fields(Evolution)}, batch=batch)


def batch_columns(table: TopicTable) -> Schema:
    """The columns that a projection reads; for a table's first projection, those of the table."""
    noted = table.batch_columns
    if noted is not None:
        return noted
    own = (KEY, HEADER, METADATA)
    return Schema(*(column for column in table.table.schema().fields if column.name not in own))


def first_fitting(columns: Schema, settings: TopicSettings) -> tuple[Schema, Evolution]:
    """The value's columns of a new table, and what turns the writer's columns into a batch.

    Raises:
        ProjectionError: the projection does not work with the columns.
    """
    wider = evolve(Schema(), columns, 0)
    return _projected(wider.schema, settings), wider


def fitting(
    table: TopicTable, columns: Schema, settings: TopicSettings, *, by_value: bool = False
) -> Fitting:
    """What fitting ``columns``, the value's after the transform, would do to a table.

    ``by_value``: as in ``WriterColumns``.

    Raises:
        ProjectionError: as ``first_fitting``.
    """
    metadata, batch = table.table.metadata, batch_columns(table)
    beside = settings.on_incompatible == "new_column"
    by_value = by_value and settings.on_incompatible == "dead_letter"
    wider = evolve(batch, columns, batch.highest_field_id, new_columns=beside, by_value=by_value)
    if wider.refused:
        return Fitting.of(wider)
    outcome = evolve(
        metadata.schema(),
        _projected(wider.schema, settings),
        metadata.last_column_id,
        former=table.former_names(),
        partition_names={one.name: one.source_id for spec in metadata.partition_specs for one in spec.fields},
    )
    is_new = bool(wider.changes) or table.batch_columns is None
    found = Fitting.of(outcome, wider.schema if is_new else None)
    # Rows fit the batch by the writer's names, and the table by the names of the outputs.
    return replace(found, renames=wider.renames, partly=wider.partly)


def _projected(batch: Schema, settings: TopicSettings) -> Schema:
    columns = planned_columns(settings.projection or "", batch)
    if (count := levels(columns.as_struct())) > MAX_LEVELS:
        raise ProjectionError(f"its columns have {count} levels in Parquet, and readers take {MAX_LEVELS}")
    if clash := clashing_names(columns, settings):
        raise ProjectionError(
            f"{clash[0]} is the name of a metadata column; give the output another, with AS"
        )
    return columns


@dataclass(frozen=True)
class WriterColumns:
    """Columns as from ``value_columns``; ``aliases`` of their fields by dotted path.

    ``by_value``: JSON numbers, each of which fits a column or not by itself.
    """

    schema: Schema
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    by_value: bool = False


def writer_columns(schema_id: SchemaKey, writer: WriterSchema, settings: TopicSettings) -> WriterColumns:
    """The columns that records of a writer's schema need.

    Raises:
        BadSchemaError: the schema cannot be read, or has no columns because of a bug of ours.
        NotAnEnvelopeError: change events are expected, and these are not.
        RetryableError: the program that builds its decoder cannot run now.
    """
    try:
        return _columns(schema_id, writer, settings)
    except Exception as error:
        if is_trouble(error):
            raise
        raise BadSchemaError(f"this schema cannot become columns: {last_line(error)}") from error


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
    """The value's columns of a new table, and those that its projection reads; None without one.

    Raises:
        ProjectionError: the projection does not work with the columns.
    """
    if settings.projection is None:
        return columns.schema, None
    outputs, batch = first_fitting(columns.schema, settings)
    return outputs, batch.schema


def names_of_before(
    schema: Schema, columns: WriterColumns, settings: TopicSettings
) -> Mapping[int, tuple[str, ...]]:
    """The names that aliases give to the columns of a new table's ``schema``, by field id."""
    if settings.projection is not None:  # it names its columns itself
        return {}
    return evolve(schema, columns.schema, schema.highest_field_id, aliases=columns.aliases).former


def outcome(
    table: TopicTable, columns: WriterColumns, schema_id: SchemaKey | None, settings: TopicSettings
) -> Fitting:
    """What fitting the columns would do to the table; ``schema_id``: of the registered schema, if it is one.

    Raises:
        ProjectionError: the projection does not work with the columns.
    """
    if settings.projection is not None:
        return fitting(table, columns.schema, settings, by_value=columns.by_value)
    metadata = table.table.metadata
    known = None
    if schema_id is not None and (registered := table.registered_schemas().get(schema_id)):
        schemas = {one.schema_id: one for one in metadata.schemas}
        if then := schemas.get(registered.table_schema_id):
            known = known_by(then, dict(registered.renames))
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
