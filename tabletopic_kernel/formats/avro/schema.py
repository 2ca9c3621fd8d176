"""An Avro schema as a tree of frozen nodes, references resolved.

Longer than other modules, as it is the parser of one specification.

Rules: Avro specification 1.12 (names, logical types; aliases of fields, but not of types). A logical type
that does not fit its base type, or whose attributes are invalid, is ignored, as the specification demands. A
record that contains itself is a ``Recursion`` node everywhere except at the root, so every other part of the
tree is finite.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tabletopic_kernel.model.columns.types import avro_meaning, doc_with_meaning
from tabletopic_kernel.model.errors import ActionNeededError

# Deeper types would exhaust Python's stack in PyIceberg's visitors; people write fewer than ten.
MAX_DEPTH: Final = 64
# References are expanded at every use, so a short schema can mean an endless tree.
MAX_NODES: Final = 20_000
# Python prints integers of up to 4,300 digits. A decimal with more is plain bytes here.
MAX_DIGITS: Final = 4_000

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_LOGICAL_OF: Final = {
    "int": {"date", "time-millis"},
    "long": {
        "time-micros",
        "timestamp-millis",
        "timestamp-micros",
        "local-timestamp-millis",
        "local-timestamp-micros",
    },
    "string": {"uuid"},
}


class AvroSchemaError(ActionNeededError):
    """The registry's schema is not valid Avro, or beyond our limits: register a valid one."""


@dataclass(frozen=True)
class Decimal:
    """The logical type decimal; 0 <= scale <= precision, precision >= 1."""

    precision: int
    scale: int


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


def parse(schema_json: str, references: Mapping[str, str] | None = None) -> AvroSchema:
    """Parse a schema with its references (full name or subject → schema JSON, in any order).

    Raises AvroSchemaError.
    """
    definitions: dict[str, tuple[dict[str, Any], str]] = {}
    for name, text in (references or {}).items():
        _collect(_load(text, f"reference {name}"), "", definitions)
    top = _load(schema_json, "schema")
    _collect(top, "", definitions)
    builder = _Builder(definitions)
    root = builder.build(top, "", at_root=True)
    return AvroSchema(root, builder.recursive)


def _load(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        # A bare type name is legal as a schema, and some registries store it without quotes.
        if text.strip() in PRIMITIVES:
            return text.strip()
        raise AvroSchemaError(f"The Avro {what} is not JSON: {error}. Register a valid schema.") from error


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _names_of(definition: dict[str, Any], namespace: str) -> tuple[str, str]:
    """Full name and the namespace inside the definition."""
    name = definition.get("name")
    if not isinstance(name, str) or not name:
        raise AvroSchemaError(f"An Avro {definition.get('type')} has no name. Register a valid schema.")
    own = definition.get("namespace")
    full = _full_name(name, own if isinstance(own, str) else namespace)
    return full, full.rpartition(".")[0]


def _collect(node: Any, namespace: str, into: dict[str, tuple[dict[str, Any], str]], depth: int = 0) -> None:
    """Collect every named type below ``node``, with its enclosing namespace."""
    if depth > 4 * MAX_DEPTH:
        raise AvroSchemaError(f"The Avro schema nests more than {MAX_DEPTH} types. Register a flatter one.")
    if isinstance(node, list):
        for branch in node:
            _collect(branch, namespace, into, depth + 1)
    if not isinstance(node, dict):
        return
    kind = node.get("type")
    if kind in ("record", "error", "enum", "fixed"):
        full, inner = _names_of(node, namespace)
        into.setdefault(full, (node, namespace))
        for child in node.get("fields", ()) if kind in ("record", "error") else ():
            _collect(child.get("type") if isinstance(child, dict) else None, inner, into, depth + 1)
        return
    for key in ("type", "items", "values"):
        if isinstance(node.get(key), (dict, list)):
            _collect(node[key], namespace, into, depth + 1)


class _Builder:
    """One parse: the expanded tree, records on the path from the root, the number of nodes."""

    def __init__(self, definitions: Mapping[str, tuple[dict[str, Any], str]]) -> None:
        self._definitions = definitions
        self._on_path: list[str] = []
        self._nodes = 0
        self._cyclic = _cyclic_names(definitions)
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
                return Primitive(kind, _primitive_logical(kind, node))
        return self.build(kind, namespace, at_root)

    def _named(self, name: str, namespace: str, at_root: bool) -> AvroType:
        # Avro 1.12, "Names": a name without dots is looked up in the enclosing namespace; Java's and
        # Python's parsers also find it without one.
        for full in (_full_name(name, namespace), name):
            if full in self._definitions:
                definition, outer = self._definitions[full]
                return self._definition(definition, outer, at_root)
        raise AvroSchemaError(
            f"The Avro type {name!r} is not defined in the schema or its references. Register the reference."
        )

    def _definition(self, node: dict[str, Any], namespace: str, at_root: bool) -> AvroType:
        full, inner = _names_of(node, namespace)
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
                return Fixed(full, size, _fixed_logical(node, size))
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
        fields = tuple(
            RecordField(name, self.build(child.get("type"), namespace), _doc(child), _aliases(child))
            for name, child in zip(names, children, strict=True)
        )
        self._on_path.pop()
        return Record(full, fields)

    def _container(self, node: dict[str, Any], namespace: str) -> AvroType:
        self._on_path.append("")
        child = self.build(node.get("items" if node["type"] == "array" else "values"), namespace)
        self._on_path.pop()
        return Array(child) if node["type"] == "array" else Map(child)

    def _union(self, node: list[Any], namespace: str) -> AvroType:
        branches = tuple(self.build(branch, namespace) for branch in node)
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


def _doc(child: Mapping[str, Any]) -> str | None:
    doc = child.get("doc")
    return doc_with_meaning(doc if isinstance(doc, str) and doc else None, avro_meaning(child.get("type")))


def _aliases(child: Mapping[str, Any]) -> tuple[str, ...]:
    aliases = child.get("aliases")
    return tuple(one for one in aliases if isinstance(one, str)) if isinstance(aliases, list) else ()


def _cyclic_names(definitions: Mapping[str, tuple[dict[str, Any], str]]) -> frozenset[str]:
    """Full names of records that contain themselves, directly or through other types."""
    uses = {
        full: frozenset(_uses(definition, namespace, definitions))
        for full, (definition, namespace) in definitions.items()
    }
    users: dict[str, list[str]] = {name: [] for name in uses}
    for name, used in uses.items():
        for one in used:
            users[one].append(name)
    seen: set[str] = set()
    order = [name for start in uses for name in _reach(start, uses, seen)]
    cyclic, seen = set(), set()
    # Kosaraju's algorithm: against the arrows, the last name of the order reaches its own cycles and no more.
    for start in reversed(order):
        component = _reach(start, users, seen)
        if len(component) > 1 or start in uses[start]:
            cyclic.update(component)
    return frozenset(cyclic)


def _reach(start: str, arrows: Mapping[str, Iterable[str]], seen: set[str]) -> list[str]:
    """The names reached from ``start`` that are not in ``seen``, each after those that it leads to."""
    reached: list[str] = []
    todo = [(start, False)]
    while todo:
        name, is_left = todo.pop()
        if is_left:
            reached.append(name)
        elif name not in seen:
            seen.add(name)
            todo.append((name, True))
            todo.extend((one, False) for one in arrows[name])
    return reached


def _uses(
    definition: dict[str, Any], namespace: str, known: Mapping[str, tuple[dict[str, Any], str]]
) -> list[str]:
    """Full names of the named types that a definition uses directly."""
    found: list[str] = []
    if definition.get("type") not in ("record", "error"):
        return found
    _, inner = _names_of(definition, namespace)
    todo: list[Any] = [c.get("type") for c in definition.get("fields", ()) if isinstance(c, dict)]
    while todo:
        node = todo.pop()
        if isinstance(node, list):
            todo.extend(node)
        elif isinstance(node, str) and node not in PRIMITIVES:
            found.extend(full for full in (_full_name(node, inner), node) if full in known)
        elif isinstance(node, dict) and node.get("type") in ("record", "error", "enum", "fixed"):
            found.append(_names_of(node, inner)[0])
        elif isinstance(node, dict):
            todo.extend(node[key] for key in ("type", "items", "values") if key in node)
    return found


def _primitive_logical(kind: str, node: Mapping[str, Any]) -> str | Decimal | None:
    logical = node.get("logicalType")
    if kind == "bytes" and logical == "decimal":
        return _decimal(node, None)
    return logical if isinstance(logical, str) and logical in _LOGICAL_OF.get(kind, ()) else None


def _fixed_logical(node: Mapping[str, Any], size: int) -> str | Decimal | None:
    logical = node.get("logicalType")
    if logical == "decimal":
        # The largest number that fits has floor(log10(2^(8n-1) - 1)) digits (Avro 1.12, "Decimal").
        return _decimal(node, int((8 * size - 1) * math.log10(2)) if size else 0)
    if (logical, size) in (("uuid", 16), ("duration", 12)):
        return str(logical)
    return None


def _decimal(node: Mapping[str, Any], most_digits: int | None) -> Decimal | None:
    precision, scale = node.get("precision"), node.get("scale", 0)
    if type(precision) is not int or type(scale) is not int:
        return None
    most = MAX_DIGITS if most_digits is None else min(most_digits, MAX_DIGITS)
    return Decimal(precision, scale) if 1 <= precision <= most and 0 <= scale <= precision else None
