"""Iceberg types of a Protobuf message; docs/reference/types.md has each, with an example that a test sends.

A field with presence is optional, and null when it is not set, never its default. One without is required:
zero cannot be told from unset. Lists and maps are required and may be empty; items, keys and values are
never null. A record without a ``required`` field of proto2 is refused. JSON text is ProtoJSON
(``formats/protobuf/json``); a number that a proto2 enum lacks is an unknown field there, and text elsewhere.
"""

from __future__ import annotations

from typing import Final

from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from tabletopic_kernel.formats.protobuf.schema import tree
from tabletopic_kernel.model.columns.evolution import VALUE
from tabletopic_kernel.model.columns.types import PRIMITIVES, doc_with_meaning, numbered

_SCALARS: Final[dict[str, IcebergType]] = {
    "bool": PRIMITIVES["boolean"],
    "bytes": PRIMITIVES["binary"],
    **{kind: PRIMITIVES[kind] for kind in ("double", "float", "string")},
    **dict.fromkeys(("int32", "sint32", "sfixed32"), PRIMITIVES["int"]),
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint32", "fixed32"), PRIMITIVES["long"]),
    **dict.fromkeys(("uint64", "fixed64"), DecimalType(20, 0)),
}


def iceberg_schema_of(root: tree.Message | tree.Json) -> Schema:
    """The Iceberg schema of a message; field ids 1…n, depth first, parents before children."""
    whole = tree.Field(VALUE, 0, root, "implicit", delimited=False)
    return numbered(map(_field, [whole] if isinstance(root, tree.Json) else root.fields))


def _field(field: tree.Field) -> NestedField:
    required = field.presence != "optional"
    kind = _type(field.type)
    doc = doc_with_meaning(None, field.meaning if _needs_meaning(field.type) else None)
    return NestedField(1, field.name, kind, required=required, doc=doc)


def _needs_meaning(kind: tree.FieldType) -> bool:
    """Whether a type, or that of its items or values, does not show its meaning by itself."""
    match kind:
        case tree.Repeated(item=inner) | tree.Map(value=inner):
            return _needs_meaning(inner)
        case tree.Scalar(kind=word) | tree.Wrapper(kind=word):
            return word not in ("bool", "string")
    return False


def _type(node: tree.FieldType) -> IcebergType:  # noqa: PLR0911 - a return per type
    """A column's type; the ids in it are no field ids yet."""
    match node:
        case tree.Scalar(kind) | tree.Wrapper(kind):
            return _SCALARS[kind]
        case tree.Enum() | tree.Json():
            return StringType()
        case tree.Timestamp():
            return TimestamptzType()
        case tree.Duration():
            return LongType()
        case tree.Repeated(item):
            return ListType(1, _type(item), element_required=True)
        case tree.Map(key, value):
            return MapType(1, _SCALARS[key], 1, _type(value), value_required=True)
        case tree.Message(_, fields):
            return StructType(*map(_field, fields))
