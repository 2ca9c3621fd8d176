"""Iceberg types of a Protobuf message type.

| Protobuf | Iceberg |
|---|---|
| double, float, bool, string, bytes | double, float, boolean, string, binary |
| int32, sint32, sfixed32; int64, sint64, sfixed64 | int; long |
| uint32, fixed32; uint64, fixed64 | long; decimal(20, 0) |
| enum | string: the name; a number without a name is that number as text |
| Timestamp, Duration | timestamptz; long, in microseconds |
| DoubleValue … BytesValue (wrappers) | the scalar |
| message, group, extension | struct, struct, a column like any field |
| repeated, map | list, map |
| Struct, Value, ListValue, Any | string: JSON |
| a message that contains itself, or without fields | string: JSON |

**Unset fields.** A field with presence (``optional``, member of a oneof, wrapper, message; every single field
of proto2) is optional, and null when it is not set, never the default value; defaults declared in proto2 are
for programs, and do not matter here. A field without presence (plain proto3 scalars and enums) cannot be
distinguished from one that is set to zero: it is required, and zero, false, empty or the enum's first name
when it is not on the wire. Lists and maps are required and may be empty; items, keys and values are never
null. A ``required`` field of proto2 is required, and a record without it is refused.

**JSON text** is as written by Protobuf's own libraries (ProtoJSON), with the names of the .proto file: 64-bit
numbers as text, bytes in base64, enums by name, Timestamp and Duration as text with all their digits. NaN and
infinities are the words "NaN", "Infinity" and "-Infinity", within Struct too. The content of an Any whose
type is not in the schema is ``{"@type": …, "value": base64}``. A number that a proto2 enum does not have is
an unknown field within JSON text, and text elsewhere.

The schema's top-level message has its fields as columns; without fields, it is one column ``_kafka_value``.
Fields that the schema does not have are dropped, as by every Protobuf reader; a schema's own field with
another wire type is refused. A Timestamp has the years 0001 to 9999, by its definition, and other values are
refused; a Timestamp or Duration finer than microseconds is refused or truncated, by the setting
``value_nanos``.
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

from tabletopic_kernel.formats.protobuf.schema.tree import (
    Duration,
    Enum,
    Field,
    FieldType,
    Json,
    Map,
    Message,
    Repeated,
    Scalar,
    Timestamp,
    Wrapper,
)
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


def iceberg_schema_of(root: Message | Json) -> Schema:
    """The Iceberg schema of a message; field ids 1…n, depth first, parents before children."""
    return numbered(map(_field, columns_of(root)))


def columns_of(root: Message | Json) -> tuple[Field, ...]:
    """The fields that are columns. Names are the .proto file's, unchanged."""
    if isinstance(root, Json):
        return (Field(VALUE, 0, root, "implicit", delimited=False),)
    return root.fields


def _field(field: Field) -> NestedField:
    required = field.presence != "optional"
    kind = _type(field.type)
    doc = doc_with_meaning(None, field.meaning if _needs_meaning(field.type) else None)
    return NestedField(1, field.name, kind, required=required, doc=doc)


def _needs_meaning(kind: FieldType) -> bool:
    """Whether a type, or that of its items or values, does not show its meaning by itself."""
    match kind:
        case Repeated(item=inner) | Map(value=inner):
            return _needs_meaning(inner)
        case Scalar(kind=word) | Wrapper(kind=word):
            return word not in ("bool", "string")
    return False


def _type(node: FieldType) -> IcebergType:  # noqa: PLR0911 - a return per type
    """A column's type; the ids in it are no field ids yet."""
    match node:
        case Scalar(kind) | Wrapper(kind):
            return _SCALARS[kind]
        case Enum() | Json():
            return StringType()
        case Timestamp():
            return TimestamptzType()
        case Duration():
            return LongType()
        case Repeated(item):
            return ListType(1, _type(item), element_required=True)
        case Map(key, value):
            return MapType(1, _SCALARS[key], 1, _type(value), value_required=True)
        case Message(_, fields):
            return StructType(*map(_field, fields))
