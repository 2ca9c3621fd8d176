"""Seeded questions: what to show and which rows, with SQL's logic for rows that are plain Python values."""

from __future__ import annotations

import math
import operator
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pyiceberg import expressions as ice
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DateType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from tests.engines.dialects import DuckDb, dotted
from tests.engines.values import Place, Row, is_float, near, places, pool


class Either(Enum):
    """The truth of what engines, and files' statistics, may see differently (docs/how-to/query.md)."""

    EITHER = "NaN in a comparison, or 0.0 and -0.0"


Truth = bool | None | Either
EITHER = Either.EITHER


@dataclass(frozen=True)
class Literal:
    """A constant; None is null."""

    constant: Any
    kind: IcebergType


@dataclass(frozen=True)
class Call:
    """A function of what is at a place; ``other`` is the second argument of coalesce and nullif."""

    name: str
    of: Place
    kind: IcebergType
    other: Literal | None = None


Operand = Literal | Place | Call


@dataclass(frozen=True)
class Is:
    """A condition: a comparison, ``in``, ``between``, ``null``, ``nan``, ``like``, ``any``, ``not``…"""

    name: str
    parts: tuple[Any, ...]


@dataclass(frozen=True)
class Question:
    """``SELECT shown … WHERE condition``; ``version`` is the place in the table's history."""

    table: int
    version: int
    how: str  # "head", "snapshot" or "time"
    shown: tuple[Operand, ...]
    condition: Is


_CALLS: dict[str, Callable[..., Any]] = {
    "length": len,
    "upper": str.upper,
    "lower": str.lower,
    "substring": lambda text: text[:2],
    "concat": lambda text: text + "z",
    "remainder": lambda number: int(math.copysign(abs(number) % 7, number)),
    "year": lambda at: at.year,
    "size": len,
    "entries": len,
}
_CALLS_OF: dict[tuple[type[IcebergType], ...], tuple[str, ...]] = {
    (StringType,): ("length", "upper", "lower", "substring", "concat"),
    (IntegerType, LongType): ("remainder",),
    (DateType, TimestampType, TimestamptzType): ("year",),
    (ListType,): ("size",),
    (MapType,): ("entries",),
}
_COUNTS = ("length", "year", "size", "entries")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip
_ICE: dict[str, Any] = {
    "=": ice.EqualTo, "<>": ice.NotEqualTo, "<": ice.LessThan, "<=": ice.LessThanOrEqual,
    ">": ice.GreaterThan, ">=": ice.GreaterThanOrEqual,
}  # fmt: skip
_PATTERNS = ("a%", "%b", "_b", "z%", "ab%", "%", "x%z", "\U0001f600%", "", "%n%")


# -- of the rows themselves


def value_of(operand: Operand, row: Row) -> Any:
    """What an operand is for a row."""
    if isinstance(operand, Literal):
        return operand.constant
    if isinstance(operand, Place):
        return operand.value(row)
    value = operand.of.value(row)
    if operand.other is None:
        return None if value is None else _CALLS[operand.name](value)
    other = operand.other.constant
    if operand.name == "coalesce":
        return other if value is None else value
    return None if value == other else value


def truth_of(condition: Is, row: Row) -> Truth:  # noqa: PLR0911 - a table of kinds
    """SQL's truth of a condition for a row."""
    name, parts = condition.name, condition.parts
    if name in ("not", "and", "or"):
        truths = [truth_of(part, row) for part in parts]
        if name == "or":
            return _or(truths)
        return _not(truths[0] if name == "not" else _or([_not(one) for one in truths]))
    value = value_of(parts[0], row)
    match name:
        case "null":
            return value is None
        case "nan":
            return value is not None and math.isnan(value)
        case "like":
            regex = "".join({"%": ".*", "_": "."}.get(one, re.escape(one)) for one in parts[1])
            return None if value is None else re.fullmatch(regex, value, re.DOTALL) is not None
        case "in":
            return _or([_compare("=", value, one.constant) for one in parts[1]])
        case "between":
            outside = [_compare("<", value, parts[1].constant), _compare(">", value, parts[2].constant)]
            return _not(_or(outside))
        case "any":
            inside = [one and one.get(parts[1]) for one in value or ()]
            truths = [_compare(parts[2], one, parts[3].constant) for one in inside]
            return _or([truth or False for truth in truths])
    other = value_of(parts[1], row)
    if name == "same" and (value is None or other is None):
        return value is other
    return _compare("=" if name == "same" else name, value, other)


def _compare(name: str, left: Any, right: Any) -> Truth:
    if left is None or right is None:
        return None
    if isinstance(left, float) and isinstance(right, float):
        signs = math.copysign(1, left) != math.copysign(1, right)
        if math.isnan(left) or math.isnan(right) or (left == right == 0 and signs):
            return EITHER
    return _COMPARE[name](left, right)


def _not(truth: Truth) -> Truth:
    return not truth if isinstance(truth, bool) else truth


def _or(truths: list[Truth]) -> Truth:
    return next((one for one in (True, EITHER, None) if one in truths), False)


# -- in SQL, and as PyIceberg's filters


def operand_sql(operand: Operand, dialect: DuckDb, schema: Schema) -> str:
    """An operand as an expression."""
    if isinstance(operand, Literal):
        return "NULL" if operand.constant is None else dialect.literal(operand.constant, operand.kind)
    if isinstance(operand, Place):
        return dialect.place(operand, schema)
    others = [operand_sql(operand.other, dialect, schema)] if operand.other else []
    return dialect.functions[operand.name].format(dialect.place(operand.of, schema), *others)


def condition_sql(condition: Is, dialect: DuckDb, schema: Schema) -> str:  # noqa: PLR0911 - as above
    """A condition for WHERE."""
    name, parts = condition.name, condition.parts
    if name in ("not", "and", "or"):
        texts = [condition_sql(part, dialect, schema) for part in parts]
        return f"NOT ({texts[0]})" if name == "not" else f"({texts[0]} {name.upper()} {texts[1]})"

    def said(one: Operand) -> str:
        return operand_sql(one, dialect, schema)

    value = said(parts[0])
    match name:
        case "null":
            return f"{value} IS NULL"
        case "nan":  # of null, DuckDB's is null
            return f"coalesce(isnan({value}), false)"
        case "like":
            return f"{value} LIKE {dialect.text(parts[1])}"
        case "in":
            return f"{value} IN ({', '.join(map(said, parts[1]))})"
        case "between":
            return f"{value} BETWEEN {said(parts[1])} AND {said(parts[2])}"
        case "any":
            field = f"e.{dialect.quoted(schema.find_field(parts[1]).name)}"
            return dialect.any_of(value, f"{field} {parts[2]} {said(parts[3])}")
        case "same":
            return dialect.same(value, said(parts[1]))
    return f"{value} {name} {said(parts[1])}"


def condition_filter(condition: Is, schema: Schema) -> ice.BooleanExpression | None:  # noqa: PLR0911
    """A condition as a filter of PyIceberg; None if it has none for it."""
    name, parts = condition.name, condition.parts
    if name in ("not", "and", "or"):
        filters = [condition_filter(part, schema) for part in parts]
        made: Any = {"not": ice.Not, "and": ice.And, "or": ice.Or}[name]
        return None if None in filters else made(*filters)
    is_column = isinstance(parts[0], Place) and isinstance(parts[0].kind, PrimitiveType)
    column = dotted(parts[0], schema) if is_column else None
    start = parts[1].removesuffix("%") if name == "like" else ""
    if column is None or name in ("any", "same") or (name == "like" and not _is_start(start, parts[1])):
        return None
    given = parts[1] if name == "in" else parts[1:]
    if name != "like" and any(not isinstance(one, Literal) or one.constant is None for one in given):
        return None
    values = [] if name == "like" else list(map(_plain, given))
    if any(isinstance(value, float) and math.isnan(value) for value in values):  # NaN is no literal
        return None
    match name:
        case "null":
            return ice.IsNull(column)
        case "nan":
            return ice.IsNaN(column)
        case "like":
            return ice.StartsWith(column, start)
        case "in":
            return ice.In(column, values)
        case "between":
            return ice.And(ice.GreaterThanOrEqual(column, values[0]), ice.LessThanOrEqual(column, values[1]))
    filtered: ice.BooleanExpression = _ICE[name](column, values[0])
    return filtered


def _is_start(start: str, pattern: str) -> bool:
    return bool(start) and start != pattern and "%" not in start and "_" not in start


def _plain(literal: Literal) -> Any:
    return literal.constant.bytes if isinstance(literal.kind, UUIDType) else literal.constant


# -- by chance


def ask(schema: Schema, chance: random.Random) -> tuple[tuple[Operand, ...], Is]:
    """What to show, and the condition, of columns and leaves of a schema."""
    known = places(schema)
    # Half of all are about what PyIceberg can answer: columns, and fields of structs.
    simple = [one for one in known if dotted(one, schema) and isinstance(one.kind, PrimitiveType)]
    if chance.random() < 0.5:
        columns = [one for one in known if len(one.steps) == 1]
        shown = [chance.choice(columns) for _ in range(chance.choice((0, 1, 2)))]
        return tuple(shown), _condition(simple, chance, chance.choice((0, 1, 2)), calls=0)
    operands = [_operand(chance.choice(known), chance) for _ in range(chance.choice((0, 1, 2)))]
    return tuple(operands), _condition(simple + known, chance, chance.choice((0, 0, 1, 2)))


def _operand(place: Place, chance: random.Random, calls: float = 1) -> Operand:
    names = [name for kinds, names in _CALLS_OF.items() if isinstance(place.kind, kinds) for name in names]
    how = chance.random()
    if names and how < 0.15 * calls:
        name = chance.choice(names)
        return Call(name, place, LongType() if name in _COUNTS else place.kind)
    if isinstance(place.kind, PrimitiveType) and not is_float(place.kind) and how > 1 - 0.05 * calls:
        return Call(chance.choice(("coalesce", "nullif")), place, place.kind, _literal(place.kind, chance))
    return place


def _literal(kind: IcebergType, chance: random.Random) -> Literal:
    return Literal(near(chance.choice(pool(kind)), chance), kind)


def _is_ordered(kind: IcebergType) -> bool:
    return isinstance(kind, PrimitiveType) and not isinstance(kind, BooleanType | UUIDType)


def _condition(known: list[Place], chance: random.Random, depth: int, calls: float = 1) -> Is:  # noqa: PLR0911
    if depth:
        parts = tuple(_condition(known, chance, depth - 1, calls) for _ in range(2))
        name = chance.choice(("not", "and", "or"))
        return Is(name, parts[:1] if name == "not" else parts)
    place = chance.choice(known)
    operand, kind, how = _operand(place, chance, calls), place.kind, chance.random()
    if isinstance(kind, ListType) and isinstance(kind.element_type, StructType) and how < 0.7:  # noqa: SIM102
        if fields := [one for one in kind.element_type.fields if _is_ordered(one.field_type)]:
            field = chance.choice(fields)
            name = chance.choice(tuple(_COMPARE))
            return Is("any", (place, field.field_id, name, _literal(field.field_type, chance)))
    kind = operand.kind
    if how > 0.9 or not isinstance(kind, PrimitiveType):
        return Is("null", (operand,))
    if isinstance(kind, StringType) and how < 0.3:
        return Is("like", (operand, chance.choice(_PATTERNS)))
    if is_float(kind) and how < 0.2:
        return Is("nan", (operand,))
    if 0.3 < how < 0.5:
        nulls = (Literal(None, kind),) if chance.random() < 0.1 else ()
        return Is(
            "in", (operand, (*(_literal(kind, chance) for _ in range(chance.choice((1, 2, 3)))), *nulls))
        )
    if 0.5 < how < 0.6 and _is_ordered(kind):
        return Is("between", (operand, _literal(kind, chance), _literal(kind, chance)))
    peers = [one for one in known if one.kind == kind]
    right = chance.choice(peers) if peers and how > 0.87 else _literal(kind, chance)
    names = [*_COMPARE, "same"] if _is_ordered(kind) else ["=", "<>", "same"]
    return Is(chance.choice(names), (operand, right))
