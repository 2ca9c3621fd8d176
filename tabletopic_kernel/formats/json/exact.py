"""The exact JSON engine: one record at a time.

Types become a tree of readers (``values``). If a schema judges the record, a value of another type is a
``Refusal`` with the path to the error. Without a schema (``lenient``), a value that does not fit its column
leaves it null and is left over, like every property without a column: ``leftovers`` has them in their places.
Neither time nor memory can outgrow the record's own bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from tabletopic_kernel.formats.arrays import BatchMaker
from tabletopic_kernel.formats.json.text import JsonTextError, json_text, parse, shortened
from tabletopic_kernel.formats.json.types import REST, JsonType, ListOf, MapOf, Scalar, Struct, Text, has_rest
from tabletopic_kernel.formats.json.values import Read, Rules, mismatch, scalar_reader
from tabletopic_kernel.formats.rejection import Refusal
from tabletopic_kernel.model.columns.evolution import VALUE

NOTHING: Final = object()  # the leftover of a value that fits
_Row = dict[str, Any]


class ExactEngine:
    """Reads records of one type, one at a time."""

    def __init__(self, root: Struct, arrow_schema: pa.Schema, rules: Rules) -> None:
        self._rules = rules
        self._maker = BatchMaker(arrow_schema)
        compiler = _Compiler(rules)
        self._compiler = compiler
        self._read = compiler.reader(root)
        self._left = compiler.left_inside(root)
        self.leftovers: list[Any] = []  # parts without a column, of the records that have any

    def row(self, body: bytes) -> _Row:
        """The columns' values of one record; raises Refusal."""
        try:
            value = parse(body)
        except JsonTextError as error:
            raise Refusal(error.reason, str(error)) from None
        if self._rules.whole:
            value = {VALUE: value}
        elif self._rules.lenient and type(value) is not dict:
            return {} if value is None else self._rest_of(value)
        elif self._rules.nullable and value is None:
            return {}
        self._compiler.has_left = False
        row: _Row = self._read(value)
        if self._compiler.has_left and (leftover := self._left(value)) is not NOTHING:
            row |= self._rest_of(leftover[VALUE] if self._rules.whole else leftover)
        return row

    def _rest_of(self, left: Any) -> _Row:
        if self._rules.lenient:
            self.leftovers.append(left)
        return {REST: json_text(left)}

    def leaves_over(self, value: Any) -> bool:
        """Whether a parsed value, or what was left of one, has parts without a column."""
        return type(value) is not dict or self._left(value) is not NOTHING

    def batch(self, rows: Sequence[_Row]) -> pa.RecordBatch:
        names = self._maker.schema.names
        if not names:  # a table always has columns, a sample may have none
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
        return self._maker.batch([row.get(name) for row in rows] for name in names)


class _Compiler:
    """Readers of types, and their leftovers; ``has_left``: the last record may have left some."""

    def __init__(self, rules: Rules) -> None:
        self.has_left = False
        self._floor, self._words = rules.floor, rules.words
        self._lenient = rules.lenient

    def reader(self, node: JsonType) -> Read:
        match node:
            case Scalar():
                return scalar_reader(node, floor=self._floor, words=self._words)
            case Text():
                return json_text
            case ListOf(items, optional):
                return self._list(self.reader(items), optional)
            case MapOf(values, optional):
                return self._map(self.reader(values), optional)
            case Struct():
                return self._struct(node)

    def _struct(self, node: Struct) -> Read:
        fields = [(f.key, f.name, self.reader(f.type), _as_parsed(f.type), f.optional) for f in node.fields]
        known = frozenset(field.key for field in node.fields)
        lenient = self._lenient

        def read(value: Any) -> _Row:
            if type(value) is not dict:
                raise mismatch("an object", value)
            if not known.issuperset(value):
                self._unknown(node, value, known)
            row: _Row = {}
            for key, name, read_field, as_parsed, optional in fields:
                cell = value.get(key)
                if type(cell) is as_parsed:
                    row[name] = cell
                    continue
                if cell is None:
                    if not optional:
                        raise _missing(key, key in value)
                    row[name] = None
                    continue
                try:
                    row[name] = read_field(cell)
                except Refusal as refusal:
                    if not (lenient and optional):
                        refusal.path.append(key)
                        raise
                    self.has_left = True
                    row[name] = None
            return row

        return read

    def _unknown(self, node: Struct, value: dict[str, Any], known: frozenset[str]) -> None:
        present = [key for key in value if key not in known and value[key] is not None]
        if present and not node.open:
            raise Refusal("json_unknown_field", f"the schema has no property {shortened(present[0])}")
        self.has_left |= bool(present)

    def _list(self, read_item: Read, optional: bool) -> Read:
        read_element = self._element(read_item, optional)

        def read(value: Any) -> list[Any]:
            if type(value) is not list:
                raise mismatch("an array", value)
            return [read_element(item, index) for index, item in enumerate(value)]

        return read

    def _map(self, read_value: Read, optional: bool) -> Read:
        read_element = self._element(read_value, optional)

        def read(value: Any) -> list[tuple[str, Any]]:
            if type(value) is not dict:
                raise mismatch("an object", value)
            return [(name, read_element(item, name)) for name, item in value.items()]

        return read

    def _element(self, read: Read, optional: bool) -> Callable[[Any, Any], Any]:
        """Reads a value of a list or map, which may be null if ``optional``."""
        lenient = self._lenient

        def element(value: Any, index: Any) -> Any:
            if value is None:
                if optional:
                    return None
                raise _missing(str(index), True)
            try:
                return read(value)
            except Refusal as refusal:
                if lenient and optional:
                    self.has_left = True
                    return None
                refusal.path.append(str(index))
                raise

        return element

    def left(self, node: JsonType) -> Read:
        """Reads the part of a value that has no column, or ``NOTHING``."""
        if isinstance(node, Text) or not (self._lenient or has_rest(node)):
            return lambda value: NOTHING
        read, as_parsed = self.reader(node), _as_parsed(node)
        inside = self.left_inside(node)

        def left(value: Any) -> Any:
            if value is None or type(value) is as_parsed:
                return NOTHING
            if self._lenient:
                try:
                    read(value)
                except Refusal:
                    return value
            return inside(value)

        return left

    def left_inside(self, node: JsonType) -> Read:
        """Like ``left``, for a value that fits as a whole."""
        match node:
            case Struct(fields):
                return _left_of_object({field.key: self.left(field.type) for field in fields}, None)
            case MapOf(values):
                return _left_of_object({}, self.left(values))
            case ListOf(items):
                return _left_of_list(self.left(items))
        return lambda value: NOTHING


def _as_parsed(node: JsonType) -> type | None:
    """The type of parsed values that the column stores unchanged, without a reader."""
    return {"string": str, "boolean": bool}.get(node.kind) if isinstance(node, Scalar) else None


def _left_of_object(known: dict[str, Read], others: Read | None) -> Read:
    def left(value: dict[str, Any]) -> Any:
        leftover = {}
        for key, item in value.items():
            left_of = known.get(key, others)
            rest = (NOTHING if item is None else item) if left_of is None else left_of(item)
            if rest is not NOTHING:
                leftover[key] = rest
        return leftover or NOTHING

    return left


def _left_of_list(left_of: Read) -> Read:
    def left(value: list[Any]) -> Any:
        leftovers = [left_of(item) for item in value]
        while leftovers and leftovers[-1] is NOTHING:
            leftovers.pop()
        return [None if rest is NOTHING else rest for rest in leftovers] or NOTHING

    return left


def _missing(key: str, is_null: bool) -> Refusal:
    return Refusal("json_missing", f"is required but {'null' if is_null else 'missing'}", key)
