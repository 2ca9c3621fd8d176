"""Schema evolution: what a writer's schema changes in a table's, and what it may not.

Columns are found by name. Allowed: add (as optional), relax (required to optional) and widen
(Iceberg spec, "Schema Evolution"), at every depth. A column that a writer lacks stays and becomes
optional. Everything else is refused, never coerced; or, where that is wished, the field gets a column of
its own beside the one it does not fit: ``price`` as text beside a number is ``price_string``. Inside a
list or map, whose elements cannot have a second name, it is the list or map that gets the column.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from tabletopic_kernel.core.errors import UsageError
from tabletopic_kernel.core.settings import TopicSettings

KEY, HEADER, METADATA, VALUE = "_kafka_key", "_kafka_header", "_kafka_metadata", "_kafka_value"


@dataclass(frozen=True)
class Change:
    """One difference between two versions of a table's schema; ``column`` is the dotted path."""

    kind: Literal["add", "relax", "widen"]
    column: str
    before: str | None
    after: str

    def __str__(self) -> str:
        return {
            "add": f"add {self.column} {self.after}",
            "relax": f"relax {self.column} to optional",
            "widen": f"widen {self.column} {self.before} → {self.after}",
        }[self.kind]


@dataclass(frozen=True)
class Evolution:
    """The outcome: the new schema, the changes that lead to it, and what was refused (column: why).

    ``renames`` maps the writer's fields that have a column of their own (dotted path) to its name.
    """

    schema: Schema
    changes: tuple[Change, ...]
    refused: dict[str, str]
    renames: dict[str, str] = field(default_factory=dict)


@dataclass
class _Merge:
    ids: Iterator[int]
    new_columns: bool = False
    changes: list[Change] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    renames: dict[str, str] = field(default_factory=dict)

    def struct(self, path: str, table: StructType, writer: StructType) -> StructType:
        wanted = {column.name: column for column in writer.fields}
        if self.new_columns:
            wanted = self._beside(path, {column.name: column for column in table.fields}, wanted)
        merged = [self._known(path, column, wanted.pop(column.name, None)) for column in table.fields]
        return StructType(*merged, *(self._added(path, column) for column in wanted.values()))

    def _beside(
        self, path: str, table: dict[str, NestedField], writer: dict[str, NestedField]
    ) -> dict[str, NestedField]:
        """The writer's fields under the names of the columns that can hold them."""
        named = {}
        for name, column in writer.items():
            other = f"{name}_{_suffix(column.field_type)}"
            fits = name not in table or self._fits(table[name].field_type, column.field_type)
            if fits or other in writer:  # the name is taken by another field: then it stays refused
                named[name] = column
            else:
                named[other] = column.model_copy(update={"name": other})
                self.renames[path + name] = other
        return named

    def _fits(self, table: IcebergType, writer: IcebergType) -> bool:
        trial = _Merge(itertools.count(1), new_columns=True)
        trial._type("trial", table, writer)
        return not trial.refused

    def _known(self, path: str, table: NestedField, writer: NestedField | None) -> NestedField:
        name = path + table.name
        required = self._required(name, table.required, writer is not None and writer.required)
        merged = table.field_type if writer is None else self._type(name, table.field_type, writer.field_type)
        return table.model_copy(update={"required": required, "field_type": merged})

    def _added(self, path: str, column: NestedField) -> NestedField:
        fresh = NestedField(next(self.ids), column.name, column.field_type, required=False, doc=column.doc)
        added = fresh.model_copy(update={"field_type": with_fresh_ids(column.field_type, self.ids)})
        self.changes.append(Change("add", path + column.name, None, spell(column.field_type)))
        return added

    def _required(self, name: str, table: bool, writer: bool) -> bool:
        if table and not writer:
            self.changes.append(Change("relax", name, "required", "optional"))
        return table and writer

    def _type(self, name: str, table: IcebergType, writer: IcebergType) -> IcebergType:
        if isinstance(table, StructType) and isinstance(writer, StructType):
            return self.struct(f"{name}.", table, writer)
        if isinstance(table, ListType) and isinstance(writer, ListType):
            element = f"{name}.element"
            return ListType(
                element_id=table.element_id,
                element_type=self._type(element, table.element_type, writer.element_type),
                element_required=self._required(element, table.element_required, writer.element_required),
            )
        if isinstance(table, MapType) and isinstance(writer, MapType):
            return self._map(name, table, writer)
        if table == writer or _widens(writer, table):
            return table
        if _widens(table, writer):
            self.changes.append(Change("widen", name, str(table), str(writer)))
            return writer
        self.refused[name] = f"is {spell(table)} in the table and {spell(writer)} in the new schema"
        return table

    def _map(self, name: str, table: MapType, writer: MapType) -> MapType:
        if table.key_type != writer.key_type and not _same_shape(table.key_type, writer.key_type):
            self.refused[f"{name}.key"] = (
                f"is {spell(table.key_type)} in the table and {spell(writer.key_type)} in the new"
            )
        value = f"{name}.value"
        return MapType(
            key_id=table.key_id,
            key_type=table.key_type,
            value_id=table.value_id,
            value_type=self._type(value, table.value_type, writer.value_type),
            value_required=self._required(value, table.value_required, writer.value_required),
        )


def _suffix(kind: IcebergType) -> str:
    """A type as part of a column's name.

    >>> _suffix(ListType(1, DecimalType(9, 2))), _suffix(MapType(1, StringType(), 2, StructType()))
    ('list_decimal_9_2', 'map_struct')
    """
    if isinstance(kind, StructType):
        return "struct"
    if isinstance(kind, ListType):
        return f"list_{_suffix(kind.element_type)}"
    if isinstance(kind, MapType):
        return f"map_{_suffix(kind.value_type)}"
    return re.sub(r"\W+", "_", str(kind)).strip("_")


def spell(kind: IcebergType) -> str:
    """A type in words for people: without field ids and docs.

    >>> spell(StructType(NestedField(3, "width", IntegerType(), required=True)))
    'struct<width: int>'
    """
    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{one.name}: {spell(one.field_type)}' for one in kind.fields)}>"
    if isinstance(kind, ListType):
        return f"list<{spell(kind.element_type)}>"
    if isinstance(kind, MapType):
        return f"map<{spell(kind.key_type)}, {spell(kind.value_type)}>"
    return str(kind)


def _widens(narrow: IcebergType, wide: IcebergType) -> bool:
    if isinstance(narrow, DecimalType) and isinstance(wide, DecimalType):
        return narrow.scale == wide.scale and narrow.precision < wide.precision
    return (type(narrow), type(wide)) in {(IntegerType, LongType), (FloatType, DoubleType)}


def _same_shape(one: IcebergType, other: IcebergType) -> bool:
    merge = _Merge(itertools.count(1))
    merge._type("key", one, other)
    return not merge.changes and not merge.refused


def with_fresh_ids(kind: IcebergType, ids: Iterator[int]) -> IcebergType:
    """The same type with new field ids from ``ids``, depth first."""
    if isinstance(kind, StructType):
        return StructType(
            *(
                column.model_copy(
                    update={"field_id": next(ids), "field_type": with_fresh_ids(column.field_type, ids)}
                )
                for column in kind.fields
            )
        )
    if isinstance(kind, ListType):
        return ListType(
            element_id=next(ids),
            element_type=with_fresh_ids(kind.element_type, ids),
            element_required=kind.element_required,
        )
    if isinstance(kind, MapType):
        return MapType(
            key_id=next(ids),
            key_type=with_fresh_ids(kind.key_type, ids),
            value_id=next(ids),
            value_type=with_fresh_ids(kind.value_type, ids),
            value_required=kind.value_required,
        )
    return kind


def evolve(table: Schema, writer: Schema, last_column_id: int, *, new_columns: bool = False) -> Evolution:
    """Merge the columns of ``writer`` (see ``table_columns``) into the schema of a table.

    Args:
        table: the table's current schema; its field ids stay.
        writer: columns the new records need.
        last_column_id: the table metadata's ``last-column-id``; new fields count on from it.
        new_columns: a field that does not fit its column gets another one instead of being refused.
    """
    merge = _Merge(itertools.count(last_column_id + 1), new_columns)
    struct = merge.struct("", table.as_struct(), _with_kafka_columns(table, writer))
    return Evolution(Schema(*struct.fields), tuple(merge.changes), merge.refused, merge.renames)


def _with_kafka_columns(table: Schema, writer: Schema) -> StructType:
    """The writer's columns plus the table's own metadata columns, which no writer schema has."""
    names = {column.name for column in writer.fields}
    own = (c for c in table.fields if c.name in (KEY, HEADER, METADATA) and c.name not in names)
    return StructType(*writer.fields, *own)


def key_type(decoded: Schema) -> IcebergType:
    """The type of the ``_kafka_key`` column for keys that are decoded to ``decoded``."""
    alone = [column.name for column in decoded.fields] == [VALUE]  # a key that is no record
    return decoded.fields[0].field_type if alone else decoded.as_struct()


def evolve_key(
    table: Schema, key: IcebergType, last_column_id: int, *, new_columns: bool = False
) -> Evolution:
    """As ``evolve``, for keys of type ``key``: the column ``_kafka_key``, and those beside it."""
    ours = [
        one
        for one in table.fields
        if one.name == KEY or (one.name.startswith(f"{KEY}_") and not one.required)
    ]
    found = evolve(Schema(*ours), Schema(_key_column(key)), last_column_id, new_columns=new_columns)
    evolved = {column.field_id: column for column in found.schema.fields}
    kept = [evolved.pop(column.field_id, column) for column in table.fields]
    return replace(found, schema=Schema(*kept, *evolved.values()))


def table_schema(value: Schema, settings: TopicSettings, key: IcebergType | None = None) -> Schema:
    """The schema of a new table: the columns ``value``, then the ``_kafka_*`` columns that are switched on.

    ``key``: the type of keys that name their schema, None as long as it is not known.

    Raises:
        UsageError: a value field has the name of a metadata column that is switched on.
    """
    ids = itertools.count(1)
    columns = [*value.fields, *metadata_columns(settings, key)]
    names = [column.name for column in columns]
    if clash := {name for name in names if names.count(name) > 1}:
        raise UsageError(
            f"the value has a field {', '.join(sorted(clash))}, which is also the name of a metadata column; "
            "switch it off with metadata_columns"
        )
    struct = with_fresh_ids(StructType(*columns), ids)
    assert isinstance(struct, StructType)
    return Schema(*struct.fields)


def metadata_columns(settings: TopicSettings, key: IcebergType | None = None) -> list[NestedField]:
    """The ``_kafka_*`` columns of a table, placeholders for ids; ``key`` as for ``table_schema``."""
    columns = []
    if "key" in settings.metadata_columns:
        kinds = {"raw": BinaryType(), "string": StringType(), "by_schema_id": key, "none": None}
        if (kind := kinds[settings.key_format]) is not None:
            columns.append(_key_column(kind))
    if "header" in settings.metadata_columns:
        headers = MapType(key_id=1, key_type=StringType(), value_id=2, value_type=BinaryType())
        columns.append(
            NestedField(1, HEADER, headers, required=False, doc="headers; of a repeated key the last one")
        )
    if "metadata" in settings.metadata_columns:
        place = StructType(
            NestedField(1, "partition", IntegerType(), required=False),
            NestedField(2, "offset", LongType(), required=False),
            NestedField(3, "timestamp", TimestamptzType(), required=False, doc="of the Kafka record"),
        )
        columns.append(NestedField(1, METADATA, place, required=False, doc="where the record came from"))
    return columns


def _key_column(kind: IcebergType) -> NestedField:
    return NestedField(1, KEY, kind, required=False, doc="key of the Kafka record")
