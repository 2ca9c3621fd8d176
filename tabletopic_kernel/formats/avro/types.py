"""Iceberg types of an Avro schema.

| Avro | Iceberg |
|---|---|
| boolean, int, long, float, double, bytes, string | boolean, int, long, float, double, binary, string |
| enum, uuid (string or fixed(16)), fixed(n), date | string, uuid, fixed(n), date |
| decimal (bytes or fixed), up to 38 digits; more | decimal(p, s); string (its exact digits) |
| time-millis, time-micros | time |
| timestamp-millis, -micros; local-timestamp-millis, -micros | timestamptz; timestamp |
| timestamp-nanos, local-timestamp-nanos | long (format v2 has no nanoseconds, and nothing is rounded) |
| duration | struct<months long, days long, millis long> (Avro's are unsigned 32 bit) |
| array, map, record | list, map<string, …>, struct |
| [null, T] | optional T |
| other unions | struct with one optional field per branch, named by its type; null for null |
| null | string, always null |
| a record that contains itself, or without fields; a union without branches | string: JSON |

JSON text is the plain value: no names of union branches, bytes and fixed in base64, decimals as text with all
their digits, NaN and infinities as the words "NaN", "Infinity" and "-Infinity", dates and times as Avro's
numbers. A recursive or empty record is JSON everywhere; the schema's own top-level record keeps its columns,
and only references back to it are JSON. A top level that is not a record (or an empty one) is one column
``_kafka_value``. Anything that is not an optional or a union with null is required.

Dates and timestamps have the years 0001 to 9999, times the 24 hours of a day; other values are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    FixedType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)

from tabletopic_kernel.formats.avro.definitions import AvroSchemaError
from tabletopic_kernel.formats.avro.logical import Decimal
from tabletopic_kernel.formats.avro.schema import (
    Array,
    AvroSchema,
    AvroType,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    Recursion,
    Union,
    branch_key,
)
from tabletopic_kernel.model.columns.evolution import VALUE
from tabletopic_kernel.model.columns.names import step
from tabletopic_kernel.model.columns.types import PRIMITIVES, needs_meaning, numbered, without_meaning

# Iceberg spec, "Primitive Types": decimal(P, S), precision at most 38.
MAX_DECIMAL_DIGITS: Final = 38
DURATION_FIELDS: Final = ("months", "days", "millis")

_TYPES: Final = {
    "null": "string",
    "bytes": "binary",
    **dict.fromkeys(("time-millis", "time-micros"), "time"),
    **dict.fromkeys(("timestamp-millis", "timestamp-micros"), "timestamptz"),
    **dict.fromkeys(("local-timestamp-millis", "local-timestamp-micros"), "timestamp"),
}


def iceberg_schema_of(schema: AvroSchema) -> Schema:
    """The Iceberg schema of an Avro schema; field ids 1…n, depth first, parents before children.

    Raises:
        AvroSchemaError: names that Iceberg cannot distinguish.
    """
    try:
        return numbered(_field(name, node, doc) for name, node, doc in columns_of(schema))
    except ValueError as error:  # a field "a.b" next to the field b of a: the same to Iceberg
        raise AvroSchemaError(f"{error}: a name contains a dot. Register names without dots.") from error


def aliases_of(schema: AvroSchema) -> dict[str, tuple[str, ...]]:
    """The aliases of fields that are columns, or within columns, by dotted path."""
    root = schema.root
    return dict(_aliases("", root)) if isinstance(root, Record) and root.fields else {}


def _aliases(path: str, node: AvroType) -> Iterator[tuple[str, tuple[str, ...]]]:
    if is_json(node):
        return
    match node:
        case Record(_, fields):
            for field in fields:
                field_path = path + step(field.name)
                if field.aliases:
                    yield field_path, field.aliases
                yield from _aliases(f"{field_path}.", field.type)
        case Array(items):
            yield from _aliases(f"{path}element.", items)
        case Map(values):
            yield from _aliases(f"{path}value.", values)
        case Union(branches):
            only = only_branch(node)
            if only is not None:
                yield from _aliases(path, only)
                return
            for index, name in branch_fields(node).items():
                yield from _aliases(f"{path}{step(name)}.", branches[index])


def columns_of(schema: AvroSchema) -> list[tuple[str, AvroType, str | None]]:
    """Name, type and doc of each column; the names are the fields', see ``model/columns/names.py``."""
    root = schema.root
    if isinstance(root, Record) and root.fields:
        return [(field.name, field.type, field.doc) for field in root.fields]
    return [(VALUE, root, None)]


def is_null(node: AvroType) -> bool:
    """Whether every value is null: Avro null, or a union of just null."""
    return node == Primitive("null") or (isinstance(node, Union) and node.branches == (Primitive("null"),))


def is_json(node: AvroType) -> bool:
    """Whether the column has JSON text."""
    match node:
        case Recursion():
            return True
        case Record():
            return not node.fields
        case Union():
            return not node.branches
    return False


def is_nullable(node: AvroType) -> bool:
    """Whether a value may be null."""
    if isinstance(node, Union):
        return any(is_nullable(branch) for branch in node.branches)
    return is_null(node)


def only_branch(node: Union) -> AvroType | None:
    """The branch of a union of one type, with or without null; None if there are several."""
    present = [branch for branch in node.branches if not is_null(branch)]
    return present[0] if len(present) == 1 else None


def branch_fields(node: Union) -> dict[int, str]:
    """Branch index → field name in the struct for a union.

    A named type has its name without namespace if that is unique in the union, else the full name with ``_``
    for dots.
    """
    keys = {i: branch_key(b) for i, b in enumerate(node.branches) if not is_null(b)}
    short = [key.rpartition(".")[2] for key in keys.values()]
    names: dict[int, str] = {}
    for (i, key), short_name in zip(keys.items(), short, strict=True):
        name = short_name if short.count(short_name) == 1 else key.replace(".", "_")
        while name in names.values():  # a.b_c and a_b.c, in different namespaces
            name += "_"
        names[i] = name
    return names


def is_text_decimal(decimal: Decimal) -> bool:
    """Whether a decimal has more digits than Iceberg's, and so is kept as text."""
    return decimal.precision > MAX_DECIMAL_DIGITS


def _field(name: str, node: AvroType, doc: str | None) -> NestedField:
    kind = _type(node)
    kept_doc = doc if needs_meaning(kind) else without_meaning(doc)
    return NestedField(1, name, kind, required=not is_nullable(node), doc=kept_doc)


def _type(node: AvroType) -> IcebergType:  # noqa: PLR0911 - a return per Avro type
    """A column's type; the ids in it are no field ids yet."""
    if is_json(node) or is_null(node):
        return StringType()
    match node:
        case Fixed(logical="duration"):
            return StructType(*(NestedField(1, name, LongType(), required=True) for name in DURATION_FIELDS))
        case Primitive() | Fixed() | Enum():
            return _scalar(node)
        case Array(items):
            return ListType(1, _type(items), element_required=not is_nullable(items))
        case Map(values):
            return MapType(1, StringType(), 1, _type(values), value_required=not is_nullable(values))
        case Record(_, fields):
            return StructType(*(_field(field.name, field.type, field.doc) for field in fields))
        case Union(branches):
            only = only_branch(node)
            if only is not None:
                return _type(only)
            named = ((name, _type(branches[index])) for index, name in branch_fields(node).items())
            return StructType(*(NestedField(1, name, kind, required=False) for name, kind in named))
        case Recursion():
            return StringType()


def _scalar(node: Primitive | Fixed | Enum) -> IcebergType:
    if isinstance(node, Enum):
        return StringType()
    if isinstance(node.logical, Decimal):
        if is_text_decimal(node.logical):
            return StringType()
        return DecimalType(node.logical.precision, node.logical.scale)
    if isinstance(node, Primitive):
        word = node.logical or node.kind
        return PRIMITIVES[_TYPES.get(word, word)]
    if node.logical == "uuid":
        return UUIDType()
    return FixedType(node.size) if node.size else BinaryType()
