"""Types of JSON values as table columns, from JSON Schemas and from samples of JSON.

| node | column |
|---|---|
| Scalar | boolean, int, long, float, double, decimal, string, date, time, timestamp(tz), uuid |
| Text | string: any JSON value, as its JSON text |
| ListOf, MapOf | list, map<string, …> |
| Struct | struct |

**Nothing is silently lost.** A property without a column, if the schema allows it, is kept in the column
``_kafka_value_rest``: a JSON object in which it has the same place as in the record. Elements of lists keep
their position there (null for those that fit). A null counts as an absent property.

**Names.** See ``model/columns/names.py``; if the name in JSON differs, it is in the column's doc.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, IcebergType, ListType, MapType, NestedField, StringType, StructType

from tabletopic_kernel.model.columns.names import doc_with_original, original_name
from tabletopic_kernel.model.columns.types import PRIMITIVES, numbered

REST: Final = "_kafka_value_rest"
# Levels in Parquet, where a list or map takes two; deeper values are JSON text. DuckDB reads a column of 15
# lists at once, of 20 in a second, and takes twice as long for each further one.
MAX_LEVELS: Final = 30
TEXT_DOC: Final = "any JSON, as text"
_REST_DOC: Final = "JSON: what of the value has no column that fits, where it stood"
# The column for everything without a column.
REST_COLUMN: Final = NestedField(1, REST, StringType(), required=False, doc=_REST_DOC)

# Not binary: JSON has no bytes.
SCALARS: Final = {name: kind for name, kind in PRIMITIVES.items() if name != "binary"}


@dataclass(frozen=True)
class Scalar:
    """A value of one Iceberg primitive type; ``kind`` is a key of ``SCALARS``, "decimal" or "unscaled".

    The last one is a decimal as Connect sends it: a number, or the base64 of its bytes, as the column has it.
    """

    kind: str
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True)
class Text:
    """Any JSON value, kept as its JSON text."""


@dataclass(frozen=True)
class ListOf:
    """An array; ``optional``: elements may be null."""

    items: JsonType
    optional: bool


@dataclass(frozen=True)
class MapOf:
    """An object with names of any kind; ``optional``: values may be null."""

    values: JsonType
    optional: bool


@dataclass(frozen=True)
class Struct:
    """An object with known names; ``open``: others are allowed and go to the rest."""

    fields: tuple[Field, ...]
    open: bool


JsonType = Scalar | Text | ListOf | MapOf | Struct


@dataclass(frozen=True)
class Field:
    """A property ``key`` and its column ``name``; ``optional``: it may be null or absent."""

    key: str
    name: str
    type: JsonType
    optional: bool
    doc: str | None = None


def doc_of(field: Field) -> str | None:
    """The doc of the field's column: its own, and what a reader of the table needs to know."""
    parts = [field.doc] if field.doc else []
    if isinstance(field.type, Text):
        parts.append(TEXT_DOC)
    return doc_with_original("; ".join(parts), field.name, field.key, "property")


def iceberg_schema(root: Struct, *, rest: bool) -> Schema:
    """The columns of a record, with the rest's at the end if requested; field ids 1…n."""
    return numbered([*_fields(root), *([REST_COLUMN] if rest else ())])


def _fields(root: Struct) -> list[NestedField]:
    return [
        NestedField(1, field.name, _type(field.type), required=not field.optional, doc=doc_of(field))
        for field in root.fields
    ]


def _type(node: JsonType) -> IcebergType:
    """A column's type; the ids in it are no field ids yet."""
    match node:
        case Scalar("decimal", precision, scale):
            return DecimalType(precision, scale)
        case Scalar(kind):
            return StringType() if kind == "unscaled" else SCALARS[kind]
        case Text():
            return StringType()
        case ListOf(items, optional):
            return ListType(1, _type(items), element_required=not optional)
        case MapOf(values, optional):
            return MapType(1, StringType(), 1, _type(values), value_required=not optional)
        case Struct():
            return StructType(*_fields(node))


def walk(node: JsonType) -> Iterator[JsonType]:
    """The type and all types in it."""
    yield node
    match node:
        case Struct(fields):
            for field in fields:
                yield from walk(field.type)
        case ListOf(inner, _) | MapOf(inner, _):
            yield from walk(inner)


def has_rest(root: JsonType) -> bool:
    """Whether a value may have parts without a column."""
    return any(isinstance(node, Struct) and node.open for node in walk(root))


def struct_of_table(fields: Iterable[NestedField]) -> Struct:
    """The object that fills the columns of a table, without columns that JSON cannot fill.

    The columns' docs have the names and say which are JSON text, so the table alone determines its filling.
    """
    members = []
    for field in fields:
        node = _node(field.field_type, field.doc)
        if node is not None:
            key = original_name(field.name, field.doc)
            members.append(Field(key, field.name, node, not field.required))
    return Struct(tuple(members), open=True)


_SCALAR_OF: Final = {kind: name for name, kind in SCALARS.items()}


def _node(kind: IcebergType, doc: str | None) -> JsonType | None:
    if isinstance(kind, StringType) and doc is not None and TEXT_DOC in doc:
        return Text()
    if isinstance(kind, DecimalType):
        return Scalar("decimal", kind.precision, kind.scale)
    if isinstance(kind, StructType):
        return struct_of_table(kind.fields)
    if isinstance(kind, ListType):
        items = _node(kind.element_type, None)
        return items and ListOf(items, not kind.element_required)
    if isinstance(kind, MapType) and isinstance(kind.key_type, StringType):
        values = _node(kind.value_type, None)
        return values and MapOf(values, not kind.value_required)
    name = _SCALAR_OF.get(kind)
    return Scalar(name) if name else None
