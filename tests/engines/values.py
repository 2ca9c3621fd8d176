"""Values of all types, and rows whose fields are known by their ids, as a table's schema changes names."""

from __future__ import annotations

import json
import math
import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

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
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

Row = dict[int, Any]
KEYS = ("p", "q", "x'y")
_NULL_SHARE = 0.2
_INTS = (0, 1, -1, 7, 42, 2**31 - 1, -(2**31))
_LONGS = (*_INTS, 2**31, 2**53 + 1, 2**63 - 1, -(2**63))
_FLOATS = (0.0, -0.0, 1.5, -2.25, 7.0, math.nan, math.inf, -math.inf, 2.0**127, 2.0**-149)
_TEXTS = (
    *("", "a", "ab", "abc", "Ab", "cd", "é", "ab%", "x_y", "x'y\\z", " a", "null", "z" * 20, "z" * 16),
    *("z" * 20 + "1", "\U0001f600" * 17, "\uffff" * 3, "y" * 15 + "\U0010ffff" * 2, "line\nab"),
)
_TIMES = (
    *(datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2026, 1, 31, 12, 30)),
    *(datetime(2024, 2, 29, 1, 2, 3, 4), datetime(1582, 10, 10), datetime(1900, 1, 1), datetime(2262, 4, 12)),
)
_POOLS: dict[type[IcebergType], tuple[Any, ...]] = {
    BooleanType: (True, False),
    IntegerType: _INTS,
    LongType: _LONGS,
    FloatType: _FLOATS,
    DoubleType: (*_FLOATS, 0.1, 1e308),
    DateType: tuple(at.date() for at in _TIMES),
    TimestampType: _TIMES,
    TimestamptzType: tuple(at.replace(tzinfo=UTC) for at in _TIMES),
    StringType: _TEXTS,
    UUIDType: tuple(uuid.UUID(int=one) for one in (0, 1, 2**127, 2**128 - 1)),
    BinaryType: (b"", b"\x00", b"ab", b"\xff" * 17, b"\xff" * 18, b"z" * 20),
    FixedType: (b"abcd", b"\x00" * 4, b"\xff" * 4),
    DecimalType: tuple(map(Decimal, ("0.00", "1.25", "-1.25", "7.00", "9999999.99", "-9999999.99"))),
}


def pool(kind: IcebergType) -> tuple[Any, ...]:
    """The values that a primitive type's columns have."""
    return _POOLS[type(kind)]


def is_float(kind: IcebergType) -> bool:
    """Whether values may be NaN."""
    return isinstance(kind, FloatType | DoubleType)


def some_value(kind: IcebergType, chance: random.Random, *, required: bool = False) -> Any:
    """A value, null in places: structs as dictionaries by field id, maps by key."""
    if not required and chance.random() < _NULL_SHARE:
        return None
    if isinstance(kind, StructType):
        return {
            field.field_id: some_value(field.field_type, chance, required=field.required)
            for field in kind.fields
        }
    if isinstance(kind, ListType):
        return [some_value(kind.element_type, chance) for _ in range(chance.choice((0, 1, 1, 2, 3)))]
    if isinstance(kind, MapType):
        keys = chance.sample(KEYS, chance.choice((0, 1, 2)))
        return {key: some_value(kind.value_type, chance) for key in keys}
    return chance.choice(pool(kind))


def named(value: Any, kind: IcebergType) -> Any:
    """A value with the names that its fields have in ``kind``, as Arrow takes it."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        return {field.name: named(value.get(field.field_id), field.field_type) for field in kind.fields}
    if isinstance(kind, ListType):
        return [named(one, kind.element_type) for one in value]
    if isinstance(kind, MapType):
        return [(key, named(one, kind.value_type)) for key, one in value.items()]
    return value.bytes if isinstance(value, uuid.UUID) else value


def canonical(value: Any, kind: IcebergType) -> Any:  # noqa: PLR0911 - one for each type
    """An engine's value, or one of ``named``, in a form that can be compared and sorted as text."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        return {f.name: canonical(value.get(f.name), f.field_type) for f in kind.fields}
    if isinstance(kind, ListType):
        return [canonical(one, kind.element_type) for one in value]
    if isinstance(kind, MapType):
        pairs = value.items() if isinstance(value, dict) else value
        return sorted([key, canonical(one, kind.value_type)] for key, one in pairs)
    if isinstance(kind, UUIDType):
        return str(uuid.UUID(bytes=value) if isinstance(value, bytes) else value)
    if is_float(kind):
        return repr(float(value))
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat() if value.tzinfo else value.isoformat()
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    return str(value) if isinstance(value, Decimal | date) else value


def text(value: Any) -> str:
    """A canonical value as text."""
    return json.dumps(value)


@dataclass(frozen=True)
class Place:
    """Where a value is: a column, then fields (an int), places in lists (``(n,)``) and keys of maps."""

    steps: tuple[int | tuple[int] | str, ...]
    kind: IcebergType

    def value(self, row: Row) -> Any:
        """The value there; null if anything on the way is."""
        found: Any = row
        for step in self.steps:
            if found is None:
                return None
            if isinstance(step, tuple):
                found = found[step[0]] if step[0] < len(found) else None
            else:
                found = found.get(step)
        return found


def places(schema: Schema) -> list[Place]:
    """Every column and leaf of a schema."""
    return list(_below((), schema.as_struct()))


def _below(steps: tuple[Any, ...], kind: IcebergType) -> Iterator[Place]:
    if steps:
        yield Place(steps, kind)
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from _below((*steps, field.field_id), field.field_type)
    elif isinstance(kind, ListType):
        for at in (0, 1):
            yield from _below((*steps, (at,)), kind.element_type)
    elif isinstance(kind, MapType):
        for key in KEYS[:2]:
            yield from _below((*steps, key), kind.value_type)


def near(value: Any, chance: random.Random) -> Any:
    """The value, or one beside it."""
    if isinstance(value, bool) or chance.random() < 0.7:
        return value
    if isinstance(value, int) and abs(value) < 2**31 - 1:
        return value + chance.choice((-1, 1))
    if isinstance(value, Decimal):
        return value + chance.choice((Decimal("0.01"), Decimal("-0.01")))
    if isinstance(value, date):
        return value + timedelta(days=chance.choice((-1, 1)))
    if isinstance(value, str):
        return value + chance.choice(("a", "é"))
    return value
