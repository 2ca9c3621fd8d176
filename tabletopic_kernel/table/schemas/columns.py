"""What a schema needs of a table: columns, their former names, and what covering them changes.

A projection reads the ``batch``: the columns of all schemas so far, evolved by the same rules as a table's,
except for aliases: a statement names columns, so they keep their names. So it is one statement over one set
of columns, whatever a record's schema. A property of the table has them, because a new host needs them (I6).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol, TypeVar

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType

from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.formats.avro.schema import parse
from tabletopic_kernel.formats.avro.types import aliases_of
from tabletopic_kernel.formats.decoder import BadSchemaError, EncryptedError, make_decoder
from tabletopic_kernel.formats.protobuf.schema.numbers import numbers_of
from tabletopic_kernel.formats.rejection import is_trouble, last_line
from tabletopic_kernel.formats.wire import SchemaKey, WriterSchema
from tabletopic_kernel.model.columns.connect_types import native_columns
from tabletopic_kernel.model.columns.evolution import (
    HEADER,
    KEY,
    METADATA,
    VALUE,
    Evolution,
    evolve,
    known_by,
)
from tabletopic_kernel.model.columns.names import Renumbered
from tabletopic_kernel.model.columns.table_columns import clashing_names, evolve_key, key_type, naming_of
from tabletopic_kernel.model.columns.types import MAX_LEVELS, levels
from tabletopic_kernel.model.dead_letter import BAD_SCHEMA, ENCRYPTED, NOT_AN_ENVELOPE, PROJECTION_FAILED
from tabletopic_kernel.model.errors import ProjectionError, TableTopicError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.transform.columns import AFTER, BEFORE, NotAnEnvelopeError, value_columns
from tabletopic_kernel.pipeline.transform.projection.child import planned_columns
from tabletopic_kernel.table.schemas.covered import (
    KEY_SCHEMAS_PROPERTY,
    SCHEMAS_PROPERTY,
    former_names,
    noted_batch,
)
from tabletopic_kernel.table.schemas.numbers import (
    Names,
    aliases_by_number,
    names_after,
    noted_names,
    renumbered,
)
from tabletopic_kernel.table.schemas.registered import key_subject, key_writer
from tabletopic_kernel.table.topic_table import TopicTable

T = TypeVar("T")
# The reason of dead letters, by the error that their schema raised.
REASONS: dict[type[TableTopicError], str] = {
    BadSchemaError: BAD_SCHEMA,
    EncryptedError: ENCRYPTED,
    NotAnEnvelopeError: NOT_AN_ENVELOPE,
    ProjectionError: PROJECTION_FAILED,
}


class Columns(Protocol):
    """What a schema of values or keys needs of a table; ``noted_in``: the property with those covered."""

    noted_in: ClassVar[str]

    def evolution(self, table: TopicTable, settings: TopicSettings, schema_id: SchemaKey | None) -> Evolution:
        """What covering them would do; ``schema_id``: of the registered schema, if it is one."""


@dataclass(frozen=True)
class ValueColumns:
    """Columns as from ``value_columns``; ``aliases`` and Protobuf's ``numbers`` of fields by dotted path.

    ``by_value``: each JSON number fits a column, or does not, by itself.
    """

    schema: Schema
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    by_value: bool = False
    numbers: Mapping[str, str] = field(default_factory=dict)
    noted_in: ClassVar[str] = SCHEMAS_PROPERTY

    def evolution(
        self, table: TopicTable, settings: TopicSettings, schema_id: SchemaKey | None = None
    ) -> Evolution:
        """As ``Columns``. Raises ProjectionError if the projection does not work with the columns."""
        known = None if schema_id is None else _columns_when_covered(table, schema_id)
        noted = noted_names(table.table.properties)
        others = {} if known else renumbered(self.numbers, noted)
        if settings.projection is not None:
            return self._projected(table, settings, noted, others)
        by_number = aliases_by_number(self.numbers, noted) if settings.rename == "by_number" else {}
        change = evolve(
            table.table.schema(),
            self.schema,
            table.table.metadata.last_column_id,
            new_columns=settings.on_incompatible == "new_column",
            aliases={**self.aliases, **by_number},
            former=former_names(table.table.properties),
            known=known,
            renumbered=others,
            partition_names=_partition_sources(table),
            by_value=self._judges_values(settings),
            naming=naming_of(settings),
        )
        return self._with_numbers(change, change.schema, noted)

    def _projected(
        self,
        table: TopicTable,
        settings: TopicSettings,
        noted: Names,
        others: Mapping[str, Renumbered],
    ) -> Evolution:
        batch = batch_columns(table)
        wider = evolve(
            batch,
            self.schema,
            batch.highest_field_id,
            new_columns=settings.on_incompatible == "new_column",
            renumbered=others,
            by_value=self._judges_values(settings),
        )
        if wider.refused:
            return wider
        outputs = evolve(
            table.table.schema(),
            _outputs(wider.schema, settings),
            table.table.metadata.last_column_id,
            former=former_names(table.table.properties),
            partition_names=_partition_sources(table),
        )
        is_new = bool(wider.changes) or noted_batch(table.table.properties) is None
        # Rows fit the batch by the writer's names, and the table by the names of the outputs.
        change = replace(
            outputs, renames=wider.renames, partly=wider.partly, batch=wider.schema if is_new else None
        )
        return self._with_numbers(change, wider.schema, noted)

    def _judges_values(self, settings: TopicSettings) -> bool:
        return self.by_value and settings.on_incompatible == "dead_letter"

    def _with_numbers(self, change: Evolution, columns: Schema, noted: Names) -> Evolution:
        if change.refused:
            return change
        return replace(change, numbers=names_after(self.numbers, noted, columns, change.renames))

    def first(self, settings: TopicSettings) -> tuple[Schema, Schema | None]:
        """The value's columns of a new table, and its projection's input, if any; raises ProjectionError."""
        if settings.projection is None:
            return self.schema, None
        batch = evolve(Schema(), self.schema, 0).schema
        return _outputs(batch, settings), batch

    def former_names(self, schema: Schema, settings: TopicSettings) -> Mapping[int, tuple[str, ...]]:
        """The names that aliases give to the columns of a new table's ``schema``, by field id."""
        if settings.projection is not None:  # it names its columns itself
            return {}
        return evolve(schema, self.schema, schema.highest_field_id, aliases=self.aliases).former


@dataclass(frozen=True)
class KeyColumn:
    """The type of ``_kafka_key``."""

    kind: IcebergType
    noted_in: ClassVar[str] = KEY_SCHEMAS_PROPERTY

    def evolution(
        self, table: TopicTable, settings: TopicSettings, schema_id: SchemaKey | None = None
    ) -> Evolution:
        metadata = table.table.metadata
        return evolve_key(metadata.schema(), self.kind, metadata.last_column_id, settings)


def _partition_sources(table: TopicTable) -> dict[str, int]:
    return {
        part.name: part.source_id for spec in table.table.metadata.partition_specs for part in spec.fields
    }


def _columns_when_covered(table: TopicTable, schema_id: SchemaKey) -> Callable[[str], int | None] | None:
    """The columns of a covered schema's fields by path, from the version of the table that first had them."""
    covered = table.registered_schemas().get(schema_id)
    schema = table.table.metadata.schema_by_id(covered.table_schema_id) if covered else None
    return known_by(schema, dict(covered.renames)) if covered and schema else None


def batch_columns(table: TopicTable) -> Schema:
    """The columns that a projection reads; for a table's first projection, those of the table."""
    if (noted := noted_batch(table.table.properties)) is not None:
        return noted
    own = (KEY, HEADER, METADATA)
    return Schema(*(column for column in table.table.schema().fields if column.name not in own))


def _outputs(batch: Schema, settings: TopicSettings) -> Schema:
    columns = planned_columns(settings.projection or "", batch)
    if (count := levels(columns.as_struct())) > MAX_LEVELS:
        raise ProjectionError(f"its columns have {count} levels in Parquet, and readers take {MAX_LEVELS}")
    if clash := clashing_names(columns, settings):
        raise ProjectionError(
            f"{clash[0]} is the name of a metadata column; give the output another, with AS"
        )
    return columns


def writer_columns(schema_id: SchemaKey, writer: WriterSchema, settings: TopicSettings) -> ValueColumns:
    """The columns that records need; raises BadSchemaError, NotAnEnvelopeError, or RetryableError."""
    try:
        return _columns(schema_id, writer, settings)
    except Exception as error:
        if is_trouble(error) or isinstance(error, EncryptedError):
            raise
        raise BadSchemaError(f"this schema cannot become columns: {last_line(error)}") from error


def _columns(schema_id: SchemaKey, writer: WriterSchema, settings: TopicSettings) -> ValueColumns:
    decoded = make_decoder(schema_id, writer).iceberg_schema
    columns = value_columns(decoded, settings.transform, native=settings.debezium_types == "native")

    def moved(by_path: dict[str, T]) -> dict[str, T]:
        if settings.transform == "flatten_debezium":
            parts = {path: path.partition(".") for path in by_path}
            rows = (AFTER, BEFORE)
            return {rest: by_path[path] for path, (top, _, rest) in parts.items() if rest and top in rows}
        return (
            by_path
            if settings.transform != "none"
            else {f"{VALUE}.{path}": by_path[path] for path in by_path}
        )

    if writer.kind == "PROTOBUF":
        return ValueColumns(columns, numbers=moved(numbers_of(writer)))
    if writer.kind == "AVRO":
        return ValueColumns(columns, moved(aliases_of(parse(writer.text, dict(writer.references)))))
    return ValueColumns(columns, by_value=writer.kind == "JSON")


def newest_key_type(topic: str, settings: TopicSettings, registry: Registry) -> IcebergType | None:
    """The type of ``_kafka_key`` in a new table; None: it depends on the first key, or does not matter."""
    latest = registry.latest(key_subject(topic)) if settings.has_typed_keys else None
    if latest is None:
        return None
    try:
        return registered_key_type(latest.id, key_writer(latest, settings), settings)
    except BadSchemaError:  # keys of other schemas may follow
        return None


def registered_key_type(schema_id: SchemaKey, writer: WriterSchema, settings: TopicSettings) -> IcebergType:
    """The type of ``_kafka_key`` for keys of this schema; raises BadSchemaError."""
    decoded = make_decoder(schema_id, writer).iceberg_schema
    return key_type(native_columns(decoded) if settings.debezium_types == "native" else decoded)
