"""The exact Avro engine: one record at a time.

A schema becomes a tree of readers (``values``). A record that does not match its schema raises ``Refusal``
with the path to the error. Neither time nor memory can outgrow the record's own bytes: counts are checked
against the remaining bytes, items that take no bytes are counted, recursion is limited.

Why not fastavro: it is not faster, and it accepts negative branch and symbol indexes, integers beyond 32 and
64 bits and any byte as a boolean; arrays whose items take no bytes never end; deep recursion ends the
process. The exact engine has to be the judge.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from tabletopic_kernel.formats.arrays import BatchMaker
from tabletopic_kernel.formats.avro import schema as nodes
from tabletopic_kernel.formats.avro.logical import Decimal
from tabletopic_kernel.formats.avro.types import branch_fields, columns_of, is_json, is_null, only_branch
from tabletopic_kernel.formats.avro.values import (
    LOGICAL_CONVERSIONS,
    PRIMITIVE_READERS,
    Reader,
    converted,
    decimal_reader,
    duration_of,
    enum_reader,
    fixed_reader,
    json_bytes,
    json_number,
    read_bytes,
    read_long,
    read_null,
    read_string,
)
from tabletopic_kernel.formats.rejection import Refusal

# Levels of a record inside itself. Each costs up to a few Python frames per type on the cycle.
MAX_RECURSION: Final = 100
_TOO_DEEP: Final = f"records nest more than {MAX_RECURSION} levels deep"
# Array items that take no bytes (nulls), per record: without a limit, 9 bytes could be 2^60 items, in every
# record of a group.
MAX_EMPTY_ITEMS: Final = 1_000


class ExactEngine:
    """Reads records of one schema, one at a time."""

    def __init__(self, schema: nodes.AvroSchema, arrow_schema: pa.Schema) -> None:
        self._maker = BatchMaker(arrow_schema)
        compiler = _Compiler(schema)
        self._budget = compiler.budget
        self._read = _record([(name, compiler.column(node)) for name, node, _ in columns_of(schema)])

    def row(self, body: bytes) -> dict[str, Any]:
        """The columns' values of one record; raises Refusal."""
        self._budget.reset()
        row: dict[str, Any]
        try:
            row, position = self._read(body, 0)
        except RecursionError:
            raise Refusal("avro_too_deep", _TOO_DEEP) from None
        if position != len(body):
            raise Refusal(
                "avro_trailing_bytes",
                f"{len(body) - position} bytes follow the record's end; "
                "the value was written with a schema other than its id says",
            )
        return row

    def batch(self, rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
        return self._maker.batch([row[name] for row in rows] for name in self._maker.schema.names)


class _Budget:
    """What one record may still use."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.empty_items = MAX_EMPTY_ITEMS
        self.levels = MAX_RECURSION

    def take_empty_items(self, count: int) -> None:
        self.empty_items -= count
        if self.empty_items < 0:
            raise Refusal("avro_too_many_items", f"more than {MAX_EMPTY_ITEMS} items that take no bytes")


class _Compiler:
    """Readers of one schema. ``column`` is for values of Arrow columns, ``_json`` for JSON."""

    def __init__(self, schema: nodes.AvroSchema) -> None:
        self.budget = _Budget()
        self._schema = schema
        self._recursive: dict[str, Reader] = {}

    def column(self, node: nodes.AvroType) -> Reader:  # noqa: PLR0911 - a return per Avro type
        if is_json(node):
            return converted(self._json(node), _json_text)
        match node:
            case nodes.Primitive(kind, logical):
                return self._logical(PRIMITIVE_READERS[kind], logical)
            case nodes.Fixed(_, size, "duration"):
                return converted(fixed_reader(size), duration_of)
            case nodes.Fixed(_, size, logical):
                return self._logical(fixed_reader(size), None if logical == "uuid" else logical)
            case nodes.Map(values):
                return converted(self._pairs(self.column(values)), _last_of_each_key)
            case nodes.Union(branches) if only_branch(node) is None and not is_null(node):
                names, readers = branch_fields(node), map(self.column, branches)
                return _union([_named(names[i], r) if i in names else r for i, r in enumerate(readers)])
        return self._parts(node, self.column)

    def _parts(self, node: nodes.AvroType, inner: Callable[[nodes.AvroType], Reader]) -> Reader:
        """Reads alike in a column and in JSON, but for what is in it."""
        match node:
            case nodes.Enum(_, symbols):
                return enum_reader(symbols)
            case nodes.Array(items):
                return self._blocks(inner(items), not nodes.takes_bytes(items))
            case nodes.Record(_, fields):
                return _record([(field.name, inner(field.type)) for field in fields])
        assert isinstance(node, nodes.Union)
        return _union(list(map(inner, node.branches)))

    def _logical(self, read: Reader, logical: str | Decimal | None) -> Reader:
        if isinstance(logical, Decimal):
            return converted(read, decimal_reader(logical))
        convert = LOGICAL_CONVERSIONS.get(logical or "")
        return read if convert is None else converted(read, convert)

    def _json(self, node: nodes.AvroType) -> Reader:
        match node:
            case nodes.Primitive("bytes") | nodes.Fixed():
                read = read_bytes if isinstance(node, nodes.Primitive) else fixed_reader(node.size)
                return converted(read, json_bytes(node.logical))
            case nodes.Primitive("float" | "double" as kind):
                return converted(PRIMITIVE_READERS[kind], json_number)
            case nodes.Primitive(kind):
                return PRIMITIVE_READERS[kind]
            case nodes.Map(values):
                return converted(self._pairs(self._json(values)), dict)
            case nodes.Recursion(name):
                return self._recursion(name)
        return self._parts(node, self._json)

    def _recursion(self, name: str) -> Reader:
        budget, readers = self.budget, self._recursive
        if name not in readers:
            readers[name] = read_null  # a placeholder: its own body refers to it
            readers[name] = self._json(self._schema.recursive[name])

        def read(buffer: bytes, position: int) -> tuple[Any, int]:
            budget.levels -= 1
            if budget.levels < 0:
                raise Refusal("avro_too_deep", _TOO_DEEP)
            value, position = readers[name](buffer, position)
            budget.levels += 1
            return value, position

        return read

    def _blocks(self, read_item: Reader, empty: bool) -> Reader:
        budget = self.budget

        def read(buffer: bytes, position: int) -> tuple[list[Any], int]:
            items: list[Any] = []
            while True:
                count, position = read_long(buffer, position)
                if count == 0:
                    return items, position
                if count < 0:
                    # The block's size in bytes follows. It is for skipping, and the items imply it.
                    count = -count
                    size, position = read_long(buffer, position)
                    if size < 0:
                        raise Refusal("avro_length", f"a block of negative size, {size}")
                if empty:
                    budget.take_empty_items(count)
                    items += [read_item(buffer, position)[0]] * count
                    continue
                if count > len(buffer) - position:
                    raise Refusal(
                        "avro_truncated", f"{count} items, but only {len(buffer) - position} bytes are left"
                    )
                for _ in range(count):
                    item, position = read_item(buffer, position)
                    items.append(item)

        return read

    def _pairs(self, read_value: Reader) -> Reader:
        def read_pair(buffer: bytes, position: int) -> tuple[tuple[str, Any], int]:
            key, position = read_string(buffer, position)
            value, position = read_value(buffer, position)
            return (key, value), position

        return self._blocks(read_pair, empty=False)


def _record(fields: list[tuple[str, Reader]]) -> Reader:
    def read(buffer: bytes, position: int) -> tuple[dict[str, Any], int]:
        row = {}
        name = ""
        try:
            for name, read_field in fields:
                row[name], position = read_field(buffer, position)
        except Refusal as refusal:
            refusal.path.append(name)
            raise
        except IndexError:
            raise Refusal("avro_truncated", "the record ends in the middle of this field", name) from None
        return row, position

    return read


def _union(readers: list[Reader]) -> Reader:
    def read(buffer: bytes, position: int) -> tuple[Any, int]:
        branch, position = read_long(buffer, position)
        if not 0 <= branch < len(readers):
            raise Refusal("avro_union", f"branch {branch} of a union with {len(readers)} branches")
        return readers[branch](buffer, position)

    return read


def _named(name: str, read_branch: Reader) -> Reader:
    def read(buffer: bytes, position: int) -> tuple[dict[str, Any], int]:
        value, position = read_branch(buffer, position)
        return {name: value}, position

    return read


def _last_of_each_key(pairs: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    # Avro's map keys are unordered and unique; its libraries keep the last of two.
    return list(dict(pairs).items())


def _json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
