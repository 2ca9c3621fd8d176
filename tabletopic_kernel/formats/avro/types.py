"""Iceberg types of an Avro schema; docs/reference/types.md has each, with an example that a test sends.

A record that contains itself, or has no fields, is JSON text; the schema's own top-level record keeps its
columns, and only references back to it are JSON. All is required but optionals and unions with null.
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

from tabletopic_kernel.formats.avro import schema as nodes
from tabletopic_kernel.formats.avro.definitions import AvroSchemaError
from tabletopic_kernel.formats.avro.logical import Decimal
from tabletopic_kernel.model.columns.connect_types import has_native
from tabletopic_kernel.model.columns.evolution import VALUE
from tabletopic_kernel.model.columns.names import step
from tabletopic_kernel.model.columns.types import (
    PRIMITIVES,
    meaning_in,
    needs_meaning,
    numbered,
    without_meaning,
)

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


def iceberg_schema_of(schema: nodes.AvroSchema) -> Schema:
    """The Iceberg schema; ids 1…n, depth first. Raises AvroSchemaError for names that Iceberg confuses."""
    try:
        return numbered(_field(name, node, doc) for name, node, doc in columns_of(schema))
    except ValueError as error:  # a field "a.b" next to the field b of a: the same to Iceberg
        raise AvroSchemaError(f"{error}: a name contains a dot. Register names without dots.") from error


def aliases_of(schema: nodes.AvroSchema) -> dict[str, tuple[str, ...]]:
    """The aliases of fields that are columns, or within columns, by dotted path."""
    root = schema.root
    return dict(_aliases("", root)) if isinstance(root, nodes.Record) and root.fields else {}


def _aliases(path: str, node: nodes.AvroType) -> Iterator[tuple[str, tuple[str, ...]]]:
    if is_json(node):
        return
    match node:
        case nodes.Record(_, fields):
            for field in fields:
                field_path = path + step(field.name)
                if field.aliases:
                    yield field_path, field.aliases
                yield from _aliases(f"{field_path}.", field.type)
        case nodes.Array(items):
            yield from _aliases(f"{path}element.", items)
        case nodes.Map(values):
            yield from _aliases(f"{path}value.", values)
        case nodes.Union(branches):
            only = only_branch(node)
            if only is not None:
                yield from _aliases(path, only)
                return
            for index, name in branch_fields(node).items():
                yield from _aliases(f"{path}{step(name)}.", branches[index])


def columns_of(schema: nodes.AvroSchema) -> list[tuple[str, nodes.AvroType, str | None]]:
    """Name, type and doc of each column; the names are the fields', see ``model/columns/names.py``."""
    root = schema.root
    if isinstance(root, nodes.Record) and root.fields:
        return [(field.name, field.type, field.doc) for field in root.fields]
    return [(VALUE, root, None)]


def is_null(node: nodes.AvroType) -> bool:
    """Whether every value is null: Avro null, or a union of just null."""
    return node == nodes.Primitive("null") or (
        isinstance(node, nodes.Union) and node.branches == (nodes.Primitive("null"),)
    )


def is_json(node: nodes.AvroType) -> bool:
    """Whether the column has JSON text."""
    match node:
        case nodes.Recursion():
            return True
        case nodes.Record():
            return not node.fields
        case nodes.Union():
            return not node.branches
    return False


def is_nullable(node: nodes.AvroType) -> bool:
    """Whether a value may be null."""
    if isinstance(node, nodes.Union):
        return any(is_nullable(branch) for branch in node.branches)
    return is_null(node)


def only_branch(node: nodes.Union) -> nodes.AvroType | None:
    """The branch of a union of one type, with or without null; None if there are several."""
    present = [branch for branch in node.branches if not is_null(branch)]
    return present[0] if len(present) == 1 else None


def branch_fields(node: nodes.Union) -> dict[int, str]:
    """Branch index → field name in a union's struct: the type's, with its namespace only if needed."""
    keys = {i: nodes.branch_key(b) for i, b in enumerate(node.branches) if not is_null(b)}
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


def _field(name: str, node: nodes.AvroType, doc: str | None) -> NestedField:
    kind = _type(node)
    # A decimal is read here, of whatever length; only in JSON its bytes are left to the name.
    is_needed = needs_meaning(kind) or (has_native(kind, meaning_in(doc)) and not _has_decimal(node))
    kept_doc = doc if is_needed else without_meaning(doc)
    return NestedField(1, name, kind, required=not is_nullable(node), doc=kept_doc)


def _has_decimal(node: nodes.AvroType) -> bool:
    """Whether values, or those of lists, maps and unions, are decimals."""
    match node:
        case nodes.Array(inner) | nodes.Map(inner):
            return _has_decimal(inner)
        case nodes.Union(branches):
            return any(map(_has_decimal, branches))
        case nodes.Primitive() | nodes.Fixed():
            return isinstance(node.logical, Decimal)
    return False


def _type(node: nodes.AvroType) -> IcebergType:  # noqa: PLR0911 - a return per Avro type
    """A column's type; the ids in it are no field ids yet."""
    if is_json(node) or is_null(node):
        return StringType()
    match node:
        case nodes.Fixed(logical="duration"):
            return StructType(*(NestedField(1, name, LongType(), required=True) for name in DURATION_FIELDS))
        case nodes.Primitive() | nodes.Fixed() | nodes.Enum():
            return _scalar(node)
        case nodes.Array(items):
            return ListType(1, _type(items), element_required=not is_nullable(items))
        case nodes.Map(values):
            return MapType(1, StringType(), 1, _type(values), value_required=not is_nullable(values))
        case nodes.Record(_, fields):
            return StructType(*(_field(field.name, field.type, field.doc) for field in fields))
        case nodes.Union(branches):
            only = only_branch(node)
            if only is not None:
                return _type(only)
            named = ((name, _type(branches[index])) for index, name in branch_fields(node).items())
            return StructType(*(NestedField(1, name, kind, required=False) for name, kind in named))
        case nodes.Recursion():
            return StringType()


def _scalar(node: nodes.Primitive | nodes.Fixed | nodes.Enum) -> IcebergType:
    if isinstance(node, nodes.Enum):
        return StringType()
    if isinstance(node.logical, Decimal):
        if is_text_decimal(node.logical):
            return StringType()
        return DecimalType(node.logical.precision, node.logical.scale)
    if isinstance(node, nodes.Primitive):
        word = node.logical or node.kind
        return PRIMITIVES[_TYPES.get(word, word)]
    if node.logical == "uuid":
        return UUIDType()
    return FixedType(node.size) if node.size else BinaryType()
