"""What the numbers of a field stand for, where Kafka Connect's converters say so beside the type.

A ``long`` of Debezium's may count milliseconds (``io.debezium.time.Timestamp``) or microseconds
(``io.debezium.time.MicroTimestamp``), and an ``ALTER TABLE`` in the source makes the one the other. Both are
longs, so the name of Connect's schema stands in the column's doc, and a field of another one is no field of
this column. That is so for numbers and bytes alone: a text says itself what it is.

Source: Confluent's AvroData (``connect.name``, ``connect.parameters``) and JsonSchemaData (``title`` beside
``connect.type``). Their ProtobufData leaves the name out; who writes it, writes it where that converter has
``connect.type``: into the ``params`` of the field's option ``confluent.field_meta``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pyiceberg.types import (
    BinaryType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
)

_NOTE: Final = re.compile(r"(?:^|; )connect\.name (\S+(?: scale -?\d+)?)")
_NUMBERS: Final = frozenset(("int", "long", "float", "double", "bytes", "fixed"))


def meaning_in(doc: str | None) -> str | None:
    """What a column's doc says that its values stand for.

    >>> meaning_in("of the order; connect.name io.debezium.time.Timestamp")
    'io.debezium.time.Timestamp'
    """
    found = _NOTE.search(doc or "")
    return found[1] if found else None


def doc_with_meaning(doc: str | None, meaning: str | None) -> str | None:
    """The doc of a field whose values stand for something.

    >>> doc_with_meaning(None, "io.debezium.time.Date")
    'connect.name io.debezium.time.Date'
    """
    if meaning is None:
        return doc
    note = f"connect.name {meaning}"
    return f"{doc}; {note}" if doc else note


def without_meaning(doc: str | None) -> str | None:
    """The doc of a field that does not say what its values stand for."""
    return _NOTE.sub("", doc) or None if doc else None


def needs_meaning(kind: IcebergType) -> bool:
    """Whether values of a type, or those in its lists and maps, need it told: numbers and bytes do."""
    while isinstance(kind, ListType | MapType):
        kind = kind.element_type if isinstance(kind, ListType) else kind.value_type
    return isinstance(kind, IntegerType | LongType | FloatType | DoubleType | BinaryType | FixedType)


def differ(one: str | None, other: str | None) -> bool:
    """Whether two columns' docs tell of different meanings; one that says nothing goes with all."""
    meanings = meaning_in(one), meaning_in(other)
    return None not in meanings and meanings[0] != meanings[1]


def short_name(meaning: str) -> str:
    """For the name of a column.

    >>> short_name("io.debezium.time.MicroTimestamp"), short_name("connect.data.Decimal scale 4")
    ('MicroTimestamp', 'Decimal_scale_4')
    """
    return meaning.rpartition(".")[2].replace(" ", "_")


def avro_meaning(kind: Any) -> str | None:
    """What the numbers or bytes of an Avro type stand for, also those in its lists and maps."""
    match kind:
        case list():
            present = [one for one in kind if one != "null"]
            return avro_meaning(present[0]) if len(present) == 1 else None
        case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
            return avro_meaning(inner)
        case {"type": str(name)} if name in _NUMBERS:
            return _named(kind, kind.get("connect.name"))
        case {"type": dict() | list() as inner}:
            return avro_meaning(inner)
    return None


def json_meaning(schema: Any) -> str | None:
    """The same of a JSON Schema of Connect's."""
    if not isinstance(schema, dict):
        return None
    for keyword in ("oneOf", "anyOf"):
        if isinstance(branches := schema.get(keyword), list):
            present = [one for one in branches if one != {"type": "null"}]
            return json_meaning(present[0]) if len(present) == 1 else None
    if schema.get("type") == "array":
        return json_meaning(schema.get("items"))
    if "connect.type" not in schema:
        return None
    if schema.get("type") in ("integer", "number"):  # a Decimal that is a number needs no scale
        return _with_scale(schema.get("title"), None)
    return _named(schema, schema.get("title")) if schema["connect.type"] == "bytes" else None


def protobuf_meaning(params: Mapping[str, str]) -> str | None:
    """The same of the texts that stand beside a Protobuf field of numbers or bytes."""
    return _with_scale(params.get("connect.name"), params.get("scale"))


def _named(schema: Mapping[str, Any], name: object) -> str | None:
    given = schema.get("connect.parameters")
    return _with_scale(name, given.get("scale") if isinstance(given, dict) else None)


def _with_scale(name: object, scale: object) -> str | None:
    if not isinstance(name, str) or not name or len(name.split()) != 1:
        return None
    return f"{name} scale {scale}" if re.fullmatch(r"-?\d+", str(scale)) else name
