"""Infers columns for JSON without a schema from its records; docs/reference/types.md has an example of each.

A column is added when it is first seen with a value: a null, an empty list or object implies no type.
Existing columns stay, or are widened as Iceberg allows. What does not fit, or has no column (beyond
``MAX_COLUMNS``, of unknown type, named like a ``_kafka_*`` column), is kept in ``_kafka_value_rest``, exactly
as written: no well-formed JSON is ever refused, and none is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyiceberg.schema import Schema

from tabletopic_kernel.formats.json.text import (
    EXACT_DOUBLE,
    MAX_LONG,
    Number,
    double_of,
    integer_of,
    is_integer_text,
)
from tabletopic_kernel.formats.json.types import (
    MAX_LEVELS,
    REST,
    Field,
    JsonType,
    ListOf,
    Scalar,
    Struct,
    Text,
    iceberg_schema,
    struct_of_table,
    walk,
)
from tabletopic_kernel.model.columns.evolution import HEADER, KEY, METADATA, VALUE
from tabletopic_kernel.model.columns.names import column_names

MAX_COLUMNS: Final = 1_000  # of plain values: structs and lists count by their contents
_RESERVED: Final = frozenset((KEY, HEADER, METADATA, VALUE, REST))
# Lower-case names that become no columns, by the top property whose own properties they would be.
Reserved = Mapping[str, frozenset[str]]
_NOTHING: Final[Reserved] = {}
_MAX_DECIMAL: Final = 10**38 - 1
# How Iceberg can promote a column (specification, "Schema Evolution").
_PROMOTIONS: Final = {("int", "long"), ("float", "double")}
# The type for the values of both, if there is no column yet.
_BOTH: Final = {
    frozenset(("int", "long")): Scalar("long"),
    frozenset(("int", "double")): Scalar("double"),
    frozenset(("float", "double")): Scalar("double"),
    frozenset(("long", "double")): Scalar("double"),
    frozenset(("long", "decimal")): Scalar("decimal", 38, 0),
}


@dataclass
class Shape:
    """What was seen at one place in the records."""

    kinds: set[str] = field(default_factory=set)
    numbers: set[str] = field(default_factory=set)
    fields: dict[str, Shape] = field(default_factory=dict)
    items: Shape | None = None

    def add(self, value: Any) -> None:
        """Add a value (``formats/json/text.parse``)."""
        if isinstance(value, Number):
            self.kinds.add("number")
            self.numbers.add(_number_kind(value))
        elif isinstance(value, dict):
            self.kinds.add("object")
            for name, item in value.items():
                if item is not None:
                    self.fields.setdefault(name, Shape()).add(item)
        elif isinstance(value, list):
            self.kinds.add("array")
            self.items = self.items or Shape()
            for item in value:
                self.items.add(item)
        elif value is not None:
            self.kinds.add("boolean" if isinstance(value, bool) else "string")

    def node(self, level: int = 0) -> JsonType | None:
        """The type of the values seen; None if nothing implies one."""
        if len(self.kinds) != 1 or level > MAX_LEVELS:
            return Text() if self.kinds else None
        match next(iter(self.kinds)):
            case "number":
                return _number_node(self.numbers)
            case "object":
                return self.struct(level)
            case "array":
                items = self.items.node(level + 2) if self.items else None
                return ListOf(items, True) if items and items != Text() else items
            case kind:
                return Scalar(kind)

    def struct(self, level: int = 0) -> Struct | None:
        """The object with the properties seen; None without any of a known type."""
        nodes = {name: node for name, shape in self.fields.items() if (node := shape.node(level + 1))}
        names = column_names(nodes)
        fields = tuple(Field(name, names[name], node, True) for name, node in nodes.items())
        return Struct(fields, open=True) if fields else None


def _number_kind(number: Number) -> str:
    integer = integer_of(number, _MAX_DECIMAL) if is_integer_text(number) else None
    if integer is None:
        return "fraction" if double_of(number) is not None else "inexact"
    if abs(integer) <= EXACT_DOUBLE:
        return "small"
    return "long" if -MAX_LONG - 1 <= integer <= MAX_LONG else "wide"


def _number_node(kinds: set[str]) -> JsonType:
    if kinds <= {"small", "long"}:
        return Scalar("long")
    if kinds <= {"small", "fraction"}:
        return Scalar("double")
    return Scalar("decimal", 38, 0) if kinds <= {"small", "long", "wide"} else Text()


def widened(known: Schema, needed: Struct, new: Struct | None, reserved: Reserved = _NOTHING) -> Struct:
    """``needed``, the columns needed so far, extended by ``new``; ``known`` are those of the table.

    ``reserved`` names become no columns, and neither do the names of the ``_kafka_*`` columns.
    """
    if new is None:
        return needed
    budget = _Budget(MAX_COLUMNS - sum(isinstance(node, Scalar | Text) for node in walk(needed)))
    new = replace(new, fields=_unreserved(new, reserved))
    return _merge_structs(value_struct(known), needed, new, budget)


def merged_columns(known: Schema, needs: Iterable[Schema]) -> Schema:
    """The columns that several batches need together (``JsonDecoder.needed``) in a table with ``known``."""
    columns, rest = value_struct(known), has_rest_column(known)
    for need in needs:
        columns = widened(known, columns, value_struct(need))
        rest |= has_rest_column(need)
    return iceberg_schema(columns, rest=rest)


def value_struct(schema: Schema) -> Struct:
    """The object that fills a table's columns, without its ``_kafka_*`` columns."""
    return struct_of_table(column for column in schema.fields if column.name not in _RESERVED)


def has_rest_column(schema: Schema) -> bool:
    """Whether there is a column for properties without one."""
    return any(column.name == REST for column in schema.fields)


def _unreserved(struct: Struct, reserved: Reserved) -> tuple[Field, ...]:
    fields = [member for member in struct.fields if member.name.lower() not in _RESERVED]
    for index, member in enumerate(fields):
        if isinstance(member.type, Struct) and (names := reserved.get(member.key)):
            inside = tuple(part for part in member.type.fields if part.name.lower() not in names)
            fields[index] = replace(member, type=replace(member.type, fields=inside))
    return tuple(member for member in fields if member.type != Struct((), open=True))


class _Budget:
    """The number of columns that may still be added."""

    def __init__(self, columns: int) -> None:
        self.columns = columns

    def pruned(self, node: JsonType) -> JsonType | None:
        if isinstance(node, Struct):
            fields = [replace(f, type=part) for f in node.fields if (part := self.pruned(f.type))]
            return Struct(tuple(fields), open=True) if fields else None
        if isinstance(node, ListOf):
            items = self.pruned(node.items)
            return items and ListOf(items, node.optional)
        if self.columns < 1:
            return None
        self.columns -= 1
        return node


def _merge(table: JsonType | None, needed: JsonType, seen: JsonType, budget: _Budget) -> JsonType:
    """A type for the values of both; ``table``: the table's type there, if it has one."""
    if needed == seen:
        return needed
    match needed, seen:
        case Struct(), Struct():
            return _merge_structs(table if isinstance(table, Struct) else None, needed, seen, budget)
        case ListOf(), ListOf():
            inner = table.items if isinstance(table, ListOf) else None
            items = _merge(inner, needed.items, seen.items, budget)
            if items != Text():
                return ListOf(items, needed.optional)
        case Scalar(), Scalar():
            if table is None and (both := _BOTH.get(frozenset((needed.kind, seen.kind)))):
                return both
            if (needed.kind, seen.kind) in _PROMOTIONS:
                return seen
    return Text() if table is None else needed


def _merge_structs(table: Struct | None, needed: Struct, seen: Struct, budget: _Budget) -> Struct:
    types = {known.key: known.type for known in table.fields} if table else {}
    others = {new.key: new for new in seen.fields}
    keys = {old.key for old in needed.fields}
    added = [new for new in seen.fields if new.key not in keys]
    # Plain values first: an object with ids as names must not leave its neighbors without columns.
    plain_first = sorted(added, key=lambda new: isinstance(new.type, Struct | ListOf))
    nodes = {new.key: budget.pruned(new.type) for new in plain_first}
    fields = [
        replace(old, type=_merge(types.get(old.key), old.type, others[old.key].type, budget))
        if old.key in others
        else old
        for old in needed.fields
    ]
    names = column_names((new.key for new in added), taken=(old.name for old in needed.fields))
    fields += [
        Field(new.key, names[new.key], node, True) for new in added if (node := nodes[new.key]) is not None
    ]
    return Struct(tuple(fields), open=True)
