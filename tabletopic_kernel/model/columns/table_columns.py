"""The columns of a table topic's table: the value's, and the ``_kafka_*`` columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    IcebergType,
    IntegerType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from tabletopic_kernel.model.columns.evolution import HEADER, KEY, METADATA, VALUE, Evolution, evolve
from tabletopic_kernel.model.columns.names import (
    Naming,
    as_written,
    colliding_fields,
    in_lowercase,
    sanitize_names,
)
from tabletopic_kernel.model.columns.types import numbered
from tabletopic_kernel.model.dead_letter import SCHEMA
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.sections import TopicSettings

_NO_COLUMNS = Schema()


def table_schema(value: Schema, settings: TopicSettings, key: IcebergType | None = None) -> Schema:
    """The schema of a new table: the columns ``value``, then the enabled ``_kafka_*`` columns.

    ``key``: the type of keys that name their schema; None while unknown.

    Raises:
        UsageError: a value field has the name of an enabled metadata column, or, in lowercase, of another.
    """
    if clash := clashing_names(value, settings):
        raise UsageError(
            f"the value has a field {', '.join(clash)}, which is also the name of a metadata column; "
            "switch it off with metadata_columns"
        )
    columns = StructType(*value.fields, *metadata_columns(settings, key))
    naming = naming_of(settings)
    if naming is in_lowercase and (collisions := colliding_fields(columns)):
        raise UsageError(
            f"column_names = lower: {'; '.join(collisions)} would have the same name; name the columns in a "
            "projection, or keep the names as written"
        )
    struct = sanitize_names(columns, naming=naming)
    assert isinstance(struct, StructType)
    return numbered(struct.fields)


def naming_of(settings: TopicSettings) -> Naming:
    """The rule for a topic's new columns; a projection names them itself."""
    return in_lowercase if settings.column_names == "lower" and settings.projection is None else as_written


def clashing_names(value: Schema, settings: TopicSettings) -> list[str]:
    """Value columns with the name of a metadata column, in any case: engines cannot distinguish them."""
    metadata_names = {column.name.lower() for column in metadata_columns(settings, BinaryType())}
    return sorted(column.name for column in value.fields if column.name.lower() in metadata_names)


def metadata_columns(
    settings: TopicSettings, key: IcebergType | None = None, table: Schema = _NO_COLUMNS
) -> list[NestedField]:
    """The ``_kafka_*`` columns of a table, with placeholder ids; ``key`` as for ``table_schema``.

    ``table``: the existing table. In older tables, headers are a map without repeated keys, and remain a map.
    """
    columns = []
    if "key" in settings.metadata_columns:
        kinds = {"raw": BinaryType(), "string": StringType(), "by_schema_id": key, "none": None}
        if (kind := kinds[settings.key_format]) is not None:
            columns.append(_key_column(kind))
    if "header" in settings.metadata_columns:
        existing = {column.name: column.field_type for column in table.fields}.get(HEADER)
        kind = existing if isinstance(existing, MapType) else SCHEMA.find_type("headers")
        columns.append(NestedField(1, HEADER, kind, required=False, doc="headers, in order"))
    if "metadata" in settings.metadata_columns:
        place = StructType(
            NestedField(1, "partition", IntegerType(), required=False),
            NestedField(2, "offset", LongType(), required=False),
            NestedField(3, "timestamp", TimestamptzType(), required=False, doc="of the Kafka record"),
        )
        columns.append(NestedField(1, METADATA, place, required=False, doc="where the record came from"))
    return columns


def missing_columns(table: Schema, wanted: Iterable[NestedField]) -> list[str]:
    """The dotted names of ``wanted`` columns that a table lacks, at any depth; ids do not matter."""
    present, missing = set(table.column_names), list[str]()
    for name in sorted(numbered(wanted).column_names):
        if name not in present and name.rpartition(".")[0] not in missing:
            missing.append(name)
    return missing


def key_type(decoded: Schema) -> IcebergType:
    """The type of the ``_kafka_key`` column for keys decoded to ``decoded``."""
    alone = [column.name for column in decoded.fields] == [VALUE]  # the key is not a record
    return decoded.fields[0].field_type if alone else decoded.as_struct()


def evolve_key(table: Schema, key: IcebergType, last_column_id: int, settings: TopicSettings) -> Evolution:
    """Like ``evolve``, for keys of type ``key``: the column ``_kafka_key``, and its siblings."""
    ours = [
        column
        for column in table.fields
        if column.name == KEY or (column.name.startswith(f"{KEY}_") and not column.required)
    ]
    evolution = evolve(
        Schema(*ours),
        Schema(_key_column(key)),
        last_column_id,
        new_columns=settings.on_incompatible == "new_column",
        naming=naming_of(settings),
    )
    evolved = {column.field_id: column for column in evolution.schema.fields}
    kept = [evolved.pop(column.field_id, column) for column in table.fields]
    return replace(evolution, schema=Schema(*kept, *evolved.values()))


def _key_column(kind: IcebergType) -> NestedField:
    return NestedField(1, KEY, kind, required=False, doc="key of the Kafka record")
