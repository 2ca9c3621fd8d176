"""Iceberg types of Protobuf messages, and the limits of schemas."""

from __future__ import annotations

import pytest
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

from tabletopic_kernel.formats.protobuf.schema.protoc import compile_schema
from tabletopic_kernel.formats.protobuf.schema.tree import (
    MAX_DEPTH,
    ProtobufSchemaError,
    load,
    message_named,
    messages_of,
    parse,
)
from tabletopic_kernel.formats.protobuf.schema.types import iceberg_schema_of

IMPORTS = "".join(
    f'import "google/protobuf/{name}.proto"; '
    for name in ("timestamp", "duration", "struct", "any", "empty", "wrappers", "field_mask")
)


def schema_of(text: str, message: str | None = None) -> Schema:
    """The Iceberg schema of a message of a .proto text."""
    files, name = compile_schema(text)
    return iceberg_schema_of(parse(message_named(load(files).FindFileByName(name), message)))


def columns(fields: str, syntax: str = "proto3", more: str = "") -> dict[str, NestedField]:
    """The columns of a message with some fields."""
    found = schema_of(f'syntax = "{syntax}"; {IMPORTS} message Row {{ {fields} }} {more}')
    return {field.name: field for field in found.fields}


SCALARS: dict[str, IcebergType] = {
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


def test_scalars() -> None:
    """Every scalar has its type; without presence it is required, with presence optional."""
    plain = " ".join(f"{kind} f_{kind} = {i};" for i, kind in enumerate(SCALARS, 1))
    optional = " ".join(f"optional {kind} o_{kind} = {i};" for i, kind in enumerate(SCALARS, 50))
    found = columns(plain + optional)
    for kind, expected in SCALARS.items():
        assert (found[f"f_{kind}"].field_type, found[f"f_{kind}"].required) == (expected, True)
        assert (found[f"o_{kind}"].field_type, found[f"o_{kind}"].required) == (expected, False)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Timestamp", TimestamptzType()),
        ("Duration", LongType()),
        ("Struct", StringType()),
        ("Value", StringType()),
        ("ListValue", StringType()),
        ("Any", StringType()),
        ("Empty", StringType()),
        ("UInt64Value", DecimalType(20, 0)),
        ("UInt32Value", LongType()),
        ("BytesValue", BinaryType()),
        ("BoolValue", BooleanType()),
    ],
)
def test_well_known_types(kind: str, expected: IcebergType) -> None:
    """They are optional columns of their own types; in lists and maps they are never null."""
    name = f"google.protobuf.{kind}"
    found = columns(f"{name} one = 1; repeated {name} list = 2; map<int64, {name}> map = 3;")
    assert (found["one"].field_type, found["one"].required) == (expected, False)
    items, entries = found["list"].field_type, found["map"].field_type
    assert isinstance(items, ListType)
    assert isinstance(entries, MapType)
    assert (items.element_type, items.element_required, found["list"].required) == (expected, True, True)
    assert (entries.key_type, entries.value_type, entries.value_required) == (LongType(), expected, True)


def test_presence() -> None:
    """Members of oneofs and fields of proto2 are optional, ``required`` ones required."""
    found = columns("oneof a { int32 x = 1; Part y = 2; } Part z = 3;", more="message Part { int32 n = 1; }")
    assert [found[name].required for name in "xyz"] == [False, False, False]
    found = columns(
        "required int32 a = 1; optional int32 b = 2 [default = 5]; repeated int32 c = 3;", "proto2"
    )
    assert [found[name].required for name in "abc"] == [True, False, True]


def test_recursion_ends_in_json() -> None:
    """A message within itself is JSON wherever it stands; what points back to the root is JSON."""
    more = """
      message Tree { int32 n = 1; map<string, Tree> parts = 2; }
      message Way { Row back = 1; int32 n = 2; }
      message Twice { Leaf a = 1; Leaf b = 2; } message Leaf { int32 n = 1; }
    """
    found = columns("Tree tree = 1; Row me = 2; Way way = 3; Twice twice = 4;", more=more)
    assert found["tree"].field_type == found["me"].field_type == StringType()
    way, twice = found["way"].field_type, found["twice"].field_type
    assert isinstance(way, StructType)
    assert isinstance(twice, StructType)
    assert [field.field_type for field in way.fields] == [StringType(), IntegerType()]
    assert all(isinstance(one.field_type, StructType) for one in twice.fields)


def test_a_message_by_name() -> None:
    """The first one, or any by its name with or without the package; an unknown name says which there are."""
    text = """
      syntax = "proto3"; package a.b;
      message X { int32 x = 1; message Y { int32 y = 1; } }
      message Z { int32 z = 1; }
    """
    assert schema_of(text).column_names == ["x"]
    assert schema_of(text, "X.Y").column_names == schema_of(text, "a.b.X.Y").column_names == ["y"]
    with pytest.raises(ProtobufSchemaError, match=r"no message 'W'; it has a\.b\.X, a\.b\.X\.Y, a\.b\.Z"):
        schema_of(text, "W")
    files, name = compile_schema(text)
    assert len(dict(messages_of(load(files).FindFileByName(name)))) == 3


def test_a_file_without_messages() -> None:
    """There is nothing to make a table of."""
    with pytest.raises(ProtobufSchemaError, match="has no message"):
        schema_of('syntax = "proto3"; enum E { A = 0; }')


def test_a_message_without_fields_is_one_column() -> None:
    """JSON text."""
    assert (
        str(schema_of('syntax = "proto3"; message Nothing {}').fields[0])
        == "1: _kafka_value: required string"
    )


def test_limits() -> None:
    """Schemas that stand for a tree beyond our limits are refused, and do not run us out of memory."""
    doubling = "".join(f"message M{i} {{ M{i + 1} a = 1; M{i + 1} b = 2; }} " for i in range(40))
    with pytest.raises(ProtobufSchemaError, match="more than 20000 columns"):
        schema_of(f'syntax = "proto3"; {doubling} message M40 {{ int32 n = 1; }}')
    deep = "".join(f"message M{i} {{ M{i + 1} a = 1; }} " for i in range(MAX_DEPTH))
    with pytest.raises(ProtobufSchemaError, match="levels deep"):
        schema_of(f'syntax = "proto3"; {deep} message M{MAX_DEPTH} {{ int32 n = 1; }}')
