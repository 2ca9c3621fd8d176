"""Iceberg types: told in words, compared, given field ids."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StructType,
)


def suffix(kind: IcebergType) -> str:
    """A type as part of a column's name.

    >>> from pyiceberg.types import StringType
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
    """A type in words for people: without field ids and docs.

    >>> from pyiceberg.types import NestedField
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


def widens(narrow: IcebergType, wide: IcebergType) -> bool:
    """Whether a column of ``narrow`` may become one of ``wide`` (Iceberg spec, "Schema Evolution")."""
    if isinstance(narrow, DecimalType) and isinstance(wide, DecimalType):
        return narrow.scale == wide.scale and narrow.precision < wide.precision
    return (type(narrow), type(wide)) in {(IntegerType, LongType), (FloatType, DoubleType)}


# Digits that every value has room in.
_DIGITS: Final[dict[type[IcebergType], int]] = {IntegerType: 10, LongType: 19}


def holds(wide: IcebergType, narrow: IcebergType) -> bool:
    """Whether a column of ``wide`` can have every value of ``narrow`` as it is.

    These are more pairs than ``widens`` has: a column of integers cannot become one of doubles, but a double
    has room for every 32-bit integer.

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


def holds_some(one: IcebergType, other: IcebergType) -> bool:
    """Whether a column of one type can have those values of the other that are exact in both."""
    return {type(one), type(other)} == {LongType, DoubleType}


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
