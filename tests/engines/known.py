"""Faults of the engines that docs/your-servers.md names; test_engines.py notices when one ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import ListType, MapType, StringType, StructType, UUIDType

from tests.engines.dialects import dotted
from tests.engines.questions import Is, Question
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


def _parts(condition: Is) -> Iterator[tuple[str, Place]]:
    """Each name of a simple condition with a place that it is about, unless a function is called."""
    if condition.name in ("not", "and", "or"):
        for one in condition.parts:
            yield from _parts(one)
    else:
        yield from ((condition.name, one) for one in condition.parts if isinstance(one, Place))


def _renamed(question: Question, schema: Schema, table: Table) -> bool:
    new = table.schema()
    places = [one for _, one in _parts(question.condition) if dotted(one, schema)]
    return question.how != "head" and any(dotted(one, schema) != dotted(one, new) for one in places)


def _null_in(question: Question, _: Schema, table: Table) -> bool:
    sources = {field.source_id for spec in table.specs().values() for field in spec.fields}
    return any(
        name == "in" and one.steps[-1] in sources and isinstance(one.kind, StringType)
        for name, one in _parts(question.condition)
    )


def _uuid(question: Question, schema: Schema, _: Table) -> bool:
    return any(
        isinstance(one.kind, UUIDType) and dotted(one, schema) for _, one in _parts(question.condition)
    )


def _not(question: Question, _: Schema, __: Table) -> bool:
    return any(True for _ in _negated(question.condition))


def _negated(condition: Is) -> Iterator[Is]:
    if condition.name == "not":
        yield condition
    elif condition.name in ("and", "or"):
        for one in condition.parts:
            yield from _negated(one)


def _of_struct(question: Question, schema: Schema, _: Table) -> bool:
    return any(len(one.steps) > 1 and dotted(one, schema) for _, one in _parts(question.condition))


def _renamed_inside(question: Question, schema: Schema, table: Table) -> bool:
    shown = [one.kind for one in question.shown if isinstance(one, Place)]
    ids = {field_id for kind in shown for field_id in _inside(kind, below=False)}
    return any(
        one.find_field(field_id).name != schema.find_field(field_id).name
        for one in table.schemas().values()
        for field_id in ids & one.field_ids
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
    Fault("column renamed since", "spark", "Cannot find field", _renamed),
    Fault("null partition and IN", "spark", "Invalid object: null", _null_in),
    Fault("uuids in signed order", "spark", "", _uuid),
    Fault("column renamed since", "pyiceberg", "Could not find field", _renamed),
    Fault("uuids", "pyiceberg", "(extension<arrow.uuid>", _uuid),
    Fault("NOT keeps nulls", "pyiceberg", "", _not),
    Fault("filter on a field of a struct", "pyiceberg", "", _of_struct),
    Fault("filter on a field of a struct", "pyiceberg", "between instances of 'NoneType'", _of_struct),
    Fault("field renamed in a list or map", "pyiceberg", "", _renamed_inside),
    Fault("field renamed in a list or map", "pyiceberg", "struct fields don't match", _renamed_inside),
)
