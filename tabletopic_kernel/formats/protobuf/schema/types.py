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

import itertools
from collections.abc import Iterator
from typing import Final

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
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
from tabletopic_kernel.model.columns.types import doc_with_meaning

_SCALARS: Final[dict[str, IcebergType]] = {
    "double": DoubleType(),
    "float": FloatType(),
    "int32": IntegerType(),
    "sint32": IntegerType(),
    "sfixed32": IntegerType(),
    "int64": LongType(),
    "sint64": LongType(),
    "sfixed64": LongType(),
    "uint32": LongType(),
    "fixed32": LongType(),
    "uint64": DecimalType(20, 0),
    "fixed64": DecimalType(20, 0),
    "bool": BooleanType(),
    "string": StringType(),
    "bytes": BinaryType(),
}


def iceberg_schema_of(root: Message | Json) -> Schema:
    """The Iceberg schema of a message; field ids 1…n, depth first, parents before children."""
    ids = itertools.count(1)
    return Schema(*(_field(field, ids) for field in columns_of(root)))


def columns_of(root: Message | Json) -> tuple[Field, ...]:
    """The fields that are columns. Names are the .proto file's, unchanged."""
    if isinstance(root, Json):
        return (Field(VALUE, 0, root, "implicit", delimited=False),)
    return root.fields


def _field(field: Field, ids: Iterator[int]) -> NestedField:
    field_id = next(ids)
    required = field.presence != "optional"
    kind = _type(field.type, ids)
    doc = doc_with_meaning(None, field.meaning if _needs_meaning(field.type) else None)
    return NestedField(field_id, field.name, kind, required=required, doc=doc)


def _needs_meaning(kind: FieldType) -> bool:
    """Whether a type, or that of its items or values, does not show its meaning by itself."""
    match kind:
        case Repeated(item=inner) | Map(value=inner):
            return _needs_meaning(inner)
        case Scalar(kind=word) | Wrapper(kind=word):
            return word not in ("bool", "string")
    return False


def _type(node: FieldType, ids: Iterator[int]) -> IcebergType:  # noqa: PLR0911 - a return per type
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
            element_id = next(ids)
            return ListType(element_id, _type(item, ids), element_required=True)
        case Map(key, value):
            key_id, value_id = next(ids), next(ids)
            return MapType(key_id, _SCALARS[key], value_id, _type(value, ids), value_required=True)
        case Message(_, fields):
            return StructType(*(_field(field, ids) for field in fields))
