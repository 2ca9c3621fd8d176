"""Faults of the engines that docs/how-to/query.md names; test_engines.py notices when one ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    BinaryType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    UUIDType,
)

from tests.engines.dialects import dotted
from tests.engines.questions import Call, Is, Literal, Question
from tests.engines.values import Place


@dataclass(frozen=True)
class Fault:
    """``sign`` is in the error's text, or rows are wrong; ``may``: whether a question may meet it."""

    name: str
    engine: str
    sign: str
    may: Callable[[Question, Schema, Table], bool]


def known_fault(
    engine: str, question: Question, schema: Schema, table: Table, answer: list[str] | str
) -> str | None:
    """The name of the fault that explains a wrong answer."""
    for fault in FAULTS:
        is_error = isinstance(answer, str)
        fits = fault.sign in answer if is_error and fault.sign else is_error == bool(fault.sign)
        if fault.engine == engine and fits and fault.may(question, schema, table):
            return fault.name
    return None


def may_fail(engine: str, question: Question, schema: Schema, table: Table) -> bool:
    """Whether a known fault may make an error of the answer."""
    return any(
        fault.engine == engine and fault.sign and fault.may(question, schema, table) for fault in FAULTS
    )


def _parts(condition: Is) -> Iterator[tuple[str, Place]]:
    """Each name of a simple condition with a place that it is about, unless a function is called."""
    for name, parts in _simple(condition):
        yield from ((name, part) for part in parts if isinstance(part, Place))


def _simple(condition: Is) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The simple conditions: their names, and their parts with the items of lists."""
    if condition.name in ("not", "and", "or"):
        for inner in condition.parts:
            yield from _simple(inner)
    else:
        flat = ((part,) if not isinstance(part, list | tuple) else tuple(part) for part in condition.parts)
        yield condition.name, tuple(item for items in flat for item in items)


def _literals(question: Question, kinds: tuple[type, ...]) -> Iterator[tuple[str, Any]]:
    """Each name of a simple condition about a place of these kinds, with a constant in it."""
    for name, parts in _simple(question.condition):
        if any(isinstance(part, Place) and isinstance(part.kind, kinds) for part in parts):
            yield from ((name, part.constant) for part in parts if isinstance(part, Literal))


def _named(place: Place, schema: Schema) -> list[str]:
    """The names of a place's fields, as far as it is in no list or map."""
    names, kind = list[str](), schema.as_struct()
    for step in place.steps:
        if not isinstance(kind, StructType):
            break
        field = next((field for field in kind.fields if field.field_id == step), None)
        names.append(field.name if field else "")
        kind = field.field_type if field else None  # type: ignore[assignment]
    return names


def _renamed(question: Question, schema: Schema, table: Table) -> bool:
    parts = [part for _, parts in _simple(question.condition) for part in parts]
    places = [part.of if isinstance(part, Call) else part for part in parts if isinstance(part, Call | Place)]
    new = table.schema()
    return question.how != "head" and any(_named(place, schema) != _named(place, new) for place in places)


def _null_partition(question: Question, _: Schema, table: Table) -> bool:
    sources = {field.source_id for spec in table.specs().values() for field in spec.fields}
    return any(
        name in ("in", "like") and place.steps[-1] in sources and isinstance(place.kind, StringType)
        for name, place in _parts(question.condition)
    )


def _null_among_bytes(question: Question, _: Schema, __: Table) -> bool:
    return ("in", None) in _literals(question, (BinaryType, FixedType))


def _float_in_null_struct(question: Question, schema: Schema, _: Table) -> bool:
    return any(
        name == "null" and len(place.steps) > 1 and isinstance(place.kind, FloatType | DoubleType)
        for name, place in _parts(question.condition)
        if dotted(place, schema)
    )


def _before_1970(question: Question, _: Schema, table: Table) -> bool:
    sources = {field.source_id for spec in table.specs().values() for field in spec.fields}
    return any(
        any(isinstance(part, Place) and part.steps[-1] in sources for part in parts)
        and any(isinstance(part, Literal) and _is_before_1970(part.constant) for part in parts)
        for _, parts in _simple(question.condition)
    )


def _is_before_1970(constant: object) -> bool:
    return isinstance(constant, datetime) and constant.replace(tzinfo=None) < datetime(1970, 1, 1)


def _infinity(question: Question, _: Schema, __: Table) -> bool:
    return any(
        isinstance(constant, float) and math.isinf(constant)
        for _, constant in _literals(question, (FloatType, DoubleType))
    )


def _zeros_in_list(question: Question, _: Schema, __: Table) -> bool:
    """PyIceberg's set of constants has one zero, and PyArrow's ``is_in`` tells them apart."""
    return any(
        name == "in" and constant == 0 for name, constant in _literals(question, (FloatType, DoubleType))
    )


def _nan(question: Question, _: Schema, __: Table) -> bool:
    return any(name == "nan" for name, _ in _parts(question.condition))


def _beyond_int(question: Question, _: Schema, __: Table) -> bool:
    return any(
        isinstance(constant, int) and not -(2**31) < constant < 2**31 - 1
        for _, constant in _literals(question, (IntegerType, LongType))  # a long may have been an int
    )


def _any(question: Question, _: Schema, __: Table) -> bool:
    return True


def _uuid(question: Question, schema: Schema, _: Table) -> bool:
    return any(
        isinstance(one.kind, UUIDType) and dotted(one, schema) for _, one in _parts(question.condition)
    )


def _not(question: Question, _: Schema, __: Table) -> bool:
    unequal = any(name == "<>" for name, _ in _parts(question.condition))
    return unequal or any(True for _ in _negated(question.condition))


def _negated(condition: Is) -> Iterator[Is]:
    if condition.name == "not":
        yield condition
    elif condition.name in ("and", "or"):
        for part in condition.parts:
            yield from _negated(part)


def _of_struct(question: Question, schema: Schema, _: Table) -> bool:
    return any(len(one.steps) > 1 and dotted(one, schema) for _, one in _parts(question.condition))


def _renamed_inside(question: Question, schema: Schema, table: Table) -> bool:
    shown = [one.kind for one in question.shown if isinstance(one, Place)]
    ids = {field_id for kind in shown for field_id in _inside(kind, below=False)}
    return any(
        former.find_field(field_id).name != schema.find_field(field_id).name
        for former in table.schemas().values()
        for field_id in ids & former.field_ids
    )


def _inside(kind: Any, *, below: bool) -> Iterator[int]:
    """The ids of fields of structs in lists and maps."""
    if isinstance(kind, StructType):
        for field in kind.fields:
            if below:
                yield field.field_id
            yield from _inside(field.field_type, below=below)
    elif isinstance(kind, ListType):
        yield from _inside(kind.element_type, below=True)
    elif isinstance(kind, MapType):
        yield from _inside(kind.value_type, below=True)


FAULTS = (
    Fault("partition of a time before 1970", "duckdb", "", _before_1970),
    Fault("column renamed since", "spark", "Cannot find field", _renamed),
    Fault("column renamed since", "spark", "Invalid value for conversion", _renamed),
    # Another column, of another type, has its name now.
    Fault("column renamed since", "spark", "must produce a string", _renamed),
    Fault("null partition", "spark", "Invalid object: null", _null_partition),
    Fault("null partition", "spark", "BoundReference.eval", _null_partition),
    Fault("null among bytes", "spark", "phase optimization failed", _null_among_bytes),
    Fault("floats in null structs", "spark", "", _float_in_null_struct),
    Fault("uuids in signed order", "spark", "", _uuid),
    Fault("column renamed since", "pyiceberg", "Could not find field", _renamed),
    Fault("column renamed since", "pyiceberg", "", _renamed),
    Fault("column renamed since", "pyiceberg", "Cannot convert", _renamed),
    Fault("column renamed since", "pyiceberg", "must be ISO-8601", _renamed),
    Fault("column that had another name", "pyiceberg", "Unsupported cast", _any),
    Fault("uuids", "pyiceberg", "(extension<arrow.uuid>", _uuid),
    Fault("NOT keeps nulls", "pyiceberg", "", _not),
    Fault("infinities", "pyiceberg", "", _infinity),
    Fault("NaN", "pyiceberg", "", _nan),
    Fault("zeros of two signs in a list", "pyiceberg", "", _zeros_in_list),
    Fault("numbers beyond the column's", "pyiceberg", "", _beyond_int),
    Fault("decimals of several precisions", "pyiceberg", "Precision is not great enough", _any),
    Fault("decimals of several precisions", "pyiceberg", "Decimal type with precision", _any),
    Fault("partition that is null", "pyiceberg", "between instances of 'NoneType'", _any),
    # Values of a partition are taken by position, which shifts once the source of another field was dropped.
    Fault("partition of a dropped column", "pyiceberg", "Failed to parse string", _any),
    Fault("filter on a field of a struct", "pyiceberg", "", _of_struct),
    Fault("filter on a field of a struct", "pyiceberg", "Failed to parse value", _of_struct),
    Fault("field renamed in a list or map", "pyiceberg", "", _renamed_inside),
    Fault("field renamed in a list or map", "pyiceberg", "struct fields don't match", _renamed_inside),
)
