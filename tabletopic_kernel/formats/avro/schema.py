"""An Avro schema as a tree of frozen nodes, references resolved.

Rules: Avro specification 1.12 (names, logical types; aliases of fields, but not of types). A logical type
that does not fit its base type, or whose attributes are invalid, is ignored, as the specification demands. A
record that contains itself is a ``Recursion`` node everywhere except at the root, so every other part of the
tree is finite.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tabletopic_kernel.formats.avro.definitions import (
    MAX_DEPTH,
    PRIMITIVES,
    AvroSchemaError,
    Definitions,
    collect,
    cyclic_names,
    full_name,
    names_of,
)
from tabletopic_kernel.formats.avro.logical import Decimal, fixed_logical, primitive_logical
from tabletopic_kernel.model.columns.connect_types import NAMES
from tabletopic_kernel.model.columns.types import avro_meaning, doc_with_meaning

# References are expanded at every use, so a short schema can mean an endless tree.
MAX_NODES: Final = 20_000


@dataclass(frozen=True)
class Primitive:
    """One of ``PRIMITIVES``; ``logical`` only if it is valid for ``kind``."""

    kind: str
    logical: str | Decimal | None = None


@dataclass(frozen=True)
class Fixed:
    """``size`` bytes; ``logical`` is a Decimal, ``uuid`` (16 bytes) or ``duration`` (12 bytes)."""

    name: str
    size: int
    logical: str | Decimal | None = None


@dataclass(frozen=True)
class Enum:
    """An index into ``symbols``."""

    name: str
    symbols: tuple[str, ...]


@dataclass(frozen=True)
class Array:
    """Items in blocks."""

    items: AvroType


@dataclass(frozen=True)
class Map:
    """String keys with values, in blocks."""

    values: AvroType


@dataclass(frozen=True)
class Union:
    """A branch index, then the branch."""

    branches: tuple[AvroType, ...]


@dataclass(frozen=True)
class RecordField:
    """One field of a record; ``doc`` is None if the schema has none. ``aliases``: its former names."""

    name: str
    type: AvroType
    doc: str | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Record:
    """Fields, in sequence."""

    name: str
    fields: tuple[RecordField, ...]


@dataclass(frozen=True)
class Recursion:
    """A record that contains itself; ``AvroSchema.recursive`` has its body under this full name."""

    name: str


AvroType = Primitive | Fixed | Enum | Array | Map | Union | Record | Recursion


@dataclass(frozen=True)
class AvroSchema:
    """A parsed schema. Bodies in ``recursive`` have ``Recursion`` nodes at every cycle."""

    root: AvroType
    recursive: Mapping[str, Record] = field(default_factory=dict)


def parse(
    schema_json: str, references: Mapping[str, str] | None = None, *, by_name: bool = False
) -> AvroSchema:
    """Parse a schema and its references (full name or subject → schema JSON); raises AvroSchemaError.

    ``by_name``: a number that has a name of Connect's is only that, and the field's doc has the name.
    """
    definitions: Definitions = {}
    for name, text in (references or {}).items():
        collect(_load(text, f"reference {name}"), "", definitions)
    top = _load(schema_json, "schema")
    collect(top, "", definitions)
    builder = _Builder(definitions, by_name)
    root = builder.build(top, "", at_root=True)
    return AvroSchema(root, builder.recursive)


def _load(text: str, source: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        # A bare type name is legal as a schema, and some registries store it without quotes.
        if text.strip() in PRIMITIVES:
            return text.strip()
        raise AvroSchemaError(f"The Avro {source} is not JSON: {error}. Register a valid schema.") from error


class _Builder:
    """One parse: the expanded tree, records on the path from the root, the number of nodes."""

    def __init__(self, definitions: Definitions, by_name: bool) -> None:
        self._definitions = definitions
        self._names = NAMES if by_name else frozenset[str]()
        self._has_doc = False  # a whole value and one of several branches have no field, so no doc for a name
        self._on_path: list[str] = []
        self._nodes = 0
        self._cyclic = cyclic_names(definitions)
        self.recursive: dict[str, Record] = {}

    def build(  # noqa: PLR0911 - a return per Avro type
        self, node: Any, namespace: str, at_root: bool = False
    ) -> AvroType:
        # As people count fields: an optional one is one node, not three.
        self._nodes += not (at_root or node == "null" or isinstance(node, list))
        if self._nodes > MAX_NODES or len(self._on_path) > MAX_DEPTH:
            raise AvroSchemaError(
                f"The Avro schema expands to more than {MAX_NODES} types or nests deeper than {MAX_DEPTH}. "
                "Register a smaller one."
            )
        if isinstance(node, list):
            return self._union(node, namespace)
        if isinstance(node, str):
            if node in PRIMITIVES:
                return Primitive(node)
            return self._named(node, namespace, at_root)
        if not isinstance(node, dict):
            raise AvroSchemaError(f"{node!r} is not an Avro type. Register a valid schema.")
        kind = node.get("type")
        match kind:
            case "record" | "error" | "enum" | "fixed":
                return self._definition(node, namespace, at_root)
            case "array" | "map":
                return self._container(node, namespace)
            case str() if kind in PRIMITIVES:
                named = self._has_doc and node.get("connect.name") in self._names
                return Primitive(kind, None if named else primitive_logical(kind, node))
        return self.build(kind, namespace, at_root)

    def _named(self, name: str, namespace: str, at_root: bool) -> AvroType:
        # Avro 1.12, "Names": a name without dots is looked up in the enclosing namespace; Java's and
        # Python's parsers also find it without one.
        for full in (full_name(name, namespace), name):
            if full in self._definitions:
                definition, outer = self._definitions[full]
                return self._definition(definition, outer, at_root)
        raise AvroSchemaError(
            f"The Avro type {name!r} is not defined in the schema or its references. Register the reference."
        )

    def _definition(self, node: dict[str, Any], namespace: str, at_root: bool) -> AvroType:
        full, inner = names_of(node, namespace)
        match node["type"]:
            case "enum":
                symbols = node.get("symbols")
                if not isinstance(symbols, list) or not all(isinstance(s, str) for s in symbols):
                    raise AvroSchemaError(f"The Avro enum {full} has no list of symbols.")
                return Enum(full, tuple(symbols))
            case "fixed":
                size = node.get("size")
                if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**31:
                    raise AvroSchemaError(f"The Avro fixed {full} has no valid size.")
                return Fixed(full, size, fixed_logical(node, size))
        if full not in self._cyclic:
            return self._record(node, full, inner)
        if full not in self.recursive:
            self.recursive[full] = Record(full, ())  # a placeholder: its own body refers to it
            self.recursive[full] = self._record(node, full, inner)
        return self.recursive[full] if at_root else Recursion(full)

    def _record(self, node: dict[str, Any], full: str, namespace: str) -> Record:
        children = node.get("fields")
        if not isinstance(children, list) or not all(isinstance(c, dict) and "name" in c for c in children):
            raise AvroSchemaError(f"The Avro record {full} has no list of named fields.")
        names = [str(child["name"]) for child in children]
        if len(set(names)) != len(names):
            raise AvroSchemaError(f"The Avro record {full} has two fields of the same name.")
        self._on_path.append(full)
        outer, self._has_doc = self._has_doc, True
        fields = tuple(
            RecordField(name, self.build(child.get("type"), namespace), self._doc(child), _aliases(child))
            for name, child in zip(names, children, strict=True)
        )
        self._has_doc = outer
        self._on_path.pop()
        return Record(full, fields)

    def _doc(self, child: Mapping[str, Any]) -> str | None:
        doc, meaning = child.get("doc"), avro_meaning(child.get("type"), self._names)
        return doc_with_meaning(doc if isinstance(doc, str) and doc else None, meaning)

    def _container(self, node: dict[str, Any], namespace: str) -> AvroType:
        self._on_path.append("")
        child = self.build(node.get("items" if node["type"] == "array" else "values"), namespace)
        self._on_path.pop()
        return Array(child) if node["type"] == "array" else Map(child)

    def _union(self, node: list[Any], namespace: str) -> AvroType:
        outer = self._has_doc
        self._has_doc = outer and sum(branch != "null" for branch in node) == 1
        branches = tuple(self.build(branch, namespace) for branch in node)
        self._has_doc = outer
        if any(isinstance(branch, Union) for branch in branches):
            raise AvroSchemaError("An Avro union may not contain another union directly.")
        keys = [branch_key(branch) for branch in branches]
        if len(set(keys)) != len(keys):
            raise AvroSchemaError(f"An Avro union has the same type twice: {', '.join(keys)}.")
        return Union(branches)


def branch_key(node: AvroType) -> str:
    """What makes a union's branch unique: the full name of named types, else the type's name."""
    match node:
        case Primitive(kind):
            return kind
        case Array():
            return "array"
        case Map():
            return "map"
        case Union():
            return "union"
    return node.name


def takes_bytes(node: AvroType) -> bool:
    """Whether a value takes at least one byte; values of other types never take any."""
    match node:
        case Primitive(kind):
            return kind != "null"
        case Fixed(_, size):
            return size > 0
        case Record(_, fields):
            return any(takes_bytes(field.type) for field in fields)
    return True


def _aliases(child: Mapping[str, Any]) -> tuple[str, ...]:
    aliases = child.get("aliases")
    return tuple(alias for alias in aliases if isinstance(alias, str)) if isinstance(aliases, list) else ()
