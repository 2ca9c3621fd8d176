"""Iceberg types: as text, compared, with field ids; and the meaning of a field's numbers.

A ``long`` of Debezium's may count milliseconds (``io.debezium.time.Timestamp``) or microseconds
(``io.debezium.time.MicroTimestamp``), and an ``ALTER TABLE`` in the source turns one into the other. Both are
longs, so the column's doc has the name of Connect's schema, and a field with another name does not belong to
the column. This applies only to numbers and bytes: a text has its meaning in itself.

Source: Confluent's AvroData (``connect.name``, ``connect.parameters``) and JsonSchemaData (``title`` beside
``connect.type``). Their ProtobufData omits the name; writers that add it put it where that converter has
``connect.type``: in the ``params`` of the field's option ``confluent.field_meta``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

_PLAIN: Final = (
    *(BooleanType(), IntegerType(), LongType(), FloatType(), DoubleType(), StringType(), BinaryType()),
    *(DateType(), TimeType(), TimestampType(), TimestamptzType(), UUIDType()),
)
# The types without parameters by Iceberg's names, such as "timestamptz".
PRIMITIVES: Final[dict[str, IcebergType]] = {str(kind): kind for kind in _PLAIN}


def suffix(kind: IcebergType) -> str:
    """A type as part of a column's name.

    >>> suffix(ListType(1, DecimalType(9, 2))), suffix(MapType(1, StringType(), 2, StructType()))
    ('list_decimal_9_2', 'map_struct')
    """
    if isinstance(kind, StructType):
        return "struct"
    if isinstance(kind, ListType):
        return f"list_{suffix(kind.element_type)}"
    if isinstance(kind, MapType):
        return f"map_{suffix(kind.value_type)}"
    return re.sub(r"\W+", "_", str(kind)).strip("_")


def spell(kind: IcebergType) -> str:
    """A type as text for messages: without field ids or docs.

    >>> spell(StructType(NestedField(3, "width", IntegerType(), required=True)))
    'struct<width: int>'
    """
    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{field.name}: {spell(field.field_type)}' for field in kind.fields)}>"
    if isinstance(kind, ListType):
        return f"list<{spell(kind.element_type)}>"
    if isinstance(kind, MapType):
        return f"map<{spell(kind.key_type)}, {spell(kind.value_type)}>"
    return str(kind)


def widens(narrow: IcebergType, wide: IcebergType) -> bool:
    """Whether a column of ``narrow`` may become one of ``wide`` (Iceberg spec, "Schema Evolution")."""
    if isinstance(narrow, DecimalType) and isinstance(wide, DecimalType):
        return narrow.scale == wide.scale and narrow.precision < wide.precision
    return (type(narrow), type(wide)) in {(IntegerType, LongType), (FloatType, DoubleType)}


# Decimal digits that hold every value.
_DIGITS: Final[dict[type[IcebergType], int]] = {IntegerType: 10, LongType: 19}


def holds(wide: IcebergType, narrow: IcebergType) -> bool:
    """Whether a column of ``wide`` can hold every value of ``narrow`` unchanged.

    This covers more pairs than ``widens``: a column of integers cannot become one of doubles, but a double
    can hold every 32-bit integer.

    >>> holds(DoubleType(), IntegerType()), holds(DoubleType(), LongType())
    (True, False)
    >>> holds(DecimalType(12, 4), DecimalType(9, 2)), holds(DecimalType(12, 2), IntegerType())
    (True, True)
    """
    if isinstance(wide, DecimalType):
        if isinstance(narrow, DecimalType):
            whole = wide.precision - wide.scale >= narrow.precision - narrow.scale
            return whole and wide.scale >= narrow.scale
        return wide.precision - wide.scale >= _DIGITS.get(type(narrow), wide.precision + 1)
    pair = (type(narrow), type(wide))
    return widens(narrow, wide) or pair in {(IntegerType, DoubleType), (FixedType, BinaryType)}


def holds_some(kind: IcebergType, other: IcebergType) -> bool:
    """Whether a column of one type can hold the values of the other that are exact in both."""
    return {type(kind), type(other)} == {LongType, DoubleType}


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
        return ListType(next(ids), with_fresh_ids(kind.element_type, ids), kind.element_required)
    if isinstance(kind, MapType):
        return MapType(
            key_id=next(ids),
            key_type=with_fresh_ids(kind.key_type, ids),
            value_id=next(ids),
            value_type=with_fresh_ids(kind.value_type, ids),
            value_required=kind.value_required,
        )
    return kind


def numbered(columns: Iterable[NestedField]) -> Schema:
    """A schema of these columns with field ids 1…n, depth first, parents before children."""
    struct = with_fresh_ids(StructType(*columns), itertools.count(1))
    assert isinstance(struct, StructType)
    return Schema(*struct.fields)


# Levels of a table, itself included. Arrow passes at most this many between libraries; PyArrow reads 100.
MAX_LEVELS: Final = 64


def levels(kind: IcebergType) -> int:
    """The levels of a type in Parquet, where a list or map takes two.

    >>> levels(StructType()), levels(ListType(1, MapType(2, LongType(), 3, LongType())))
    (1, 5)
    """
    if isinstance(kind, StructType):
        return 1 + max((levels(column.field_type) for column in kind.fields), default=0)
    if isinstance(kind, ListType):
        return 2 + levels(kind.element_type)
    return 2 + levels(kind.value_type) if isinstance(kind, MapType) else 1


_NOTE: Final = re.compile(r"(?:^|; )connect\.name (\S+(?: scale -?\d+)?(?: precision \d+)?)")
_NUMBERS: Final = frozenset(("int", "long", "float", "double", "bytes", "fixed"))


def meaning_in(doc: str | None) -> str | None:
    """The meaning of a column's values, according to its doc.

    >>> meaning_in("of the order; connect.name io.debezium.time.Timestamp")
    'io.debezium.time.Timestamp'
    """
    match = _NOTE.search(doc or "")
    return match[1] if match else None


def doc_with_meaning(doc: str | None, meaning: str | None) -> str | None:
    """The doc of a field, with the meaning of its values.

    >>> doc_with_meaning(None, "io.debezium.time.Date")
    'connect.name io.debezium.time.Date'
    """
    if meaning is None:
        return doc
    note = f"connect.name {meaning}"
    return f"{doc}; {note}" if doc else note


def without_meaning(doc: str | None) -> str | None:
    """The doc of a field without the meaning of its values."""
    return _NOTE.sub("", doc) or None if doc else None


def needs_meaning(kind: IcebergType) -> bool:
    """Whether values of a type, or in its lists and maps, need a declared meaning: for numbers and bytes."""
    while isinstance(kind, ListType | MapType):
        kind = kind.element_type if isinstance(kind, ListType) else kind.value_type
    return isinstance(kind, IntegerType | LongType | FloatType | DoubleType | BinaryType | FixedType)


def differ(doc: str | None, other: str | None) -> bool:
    """Whether two columns' docs declare different meanings; a doc without one is compatible with any."""
    meanings = meaning_in(doc), meaning_in(other)
    return None not in meanings and meanings[0] != meanings[1]


def short_name(meaning: str) -> str:
    """The meaning as part of a column's name.

    >>> short_name("io.debezium.time.MicroTimestamp"), short_name("connect.data.Decimal scale 4")
    ('MicroTimestamp', 'Decimal_scale_4')
    """
    return meaning.rpartition(".")[2].replace(" ", "_")


def avro_meaning(kind: Any, names: Collection[str] = ()) -> str | None:
    """The meaning of the numbers or bytes of an Avro type, also in its lists and maps.

    ``names``: of texts and records whose meaning is needed, too; these may stand for a type defined before.
    """
    match kind:
        case list():
            present = [branch for branch in kind if branch != "null"]
            return avro_meaning(present[0], names) if len(present) == 1 else None
        case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
            return avro_meaning(inner, names)
        case {"type": str(name)} if name in _NUMBERS:
            return _named(kind, kind.get("connect.name"))
        case {"connect.name": str(name)} | str(name) if name in names:
            return name
        case {"type": dict() | list() as inner}:
            return avro_meaning(inner, names)
    return None


def json_meaning(schema: Any) -> str | None:
    """The same for a JSON Schema written by Connect."""
    if not isinstance(schema, dict):
        return None
    for keyword in ("oneOf", "anyOf"):
        if isinstance(branches := schema.get(keyword), list):
            present = [branch for branch in branches if branch != {"type": "null"}]
            return json_meaning(present[0]) if len(present) == 1 else None
    if schema.get("type") == "array":
        return json_meaning(schema.get("items"))
    if "connect.type" not in schema:
        return None
    if schema.get("type") in ("integer", "number"):  # a Decimal as a number needs no scale
        return _with_scale(schema.get("title"), None)
    return _named(schema, schema.get("title")) if schema["connect.type"] == "bytes" else None


def protobuf_meaning(params: Mapping[str, str]) -> str | None:
    """The same for the params of a Protobuf field of numbers or bytes."""
    return _with_scale(params.get("connect.name"), params.get("scale"))


def _named(schema: Mapping[str, Any], name: object) -> str | None:
    parameters = schema.get("connect.parameters")
    return _with_scale(name, parameters.get("scale") if isinstance(parameters, dict) else None)


def _with_scale(name: object, scale: object) -> str | None:
    if not isinstance(name, str) or not name or len(name.split()) != 1:
        return None
    return f"{name} scale {scale}" if re.fullmatch(r"-?\d+", str(scale)) else name
