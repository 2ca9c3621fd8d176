"""The named types of an Avro schema's JSON: where each is defined, and which records contain themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tabletopic_kernel.model.errors import ActionNeededError

# Deeper types would exhaust Python's stack in PyIceberg's visitors; people write fewer than ten.
MAX_DEPTH: Final = 64
PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
# By full name: the definition, and the namespace around it.
Definitions = dict[str, tuple[dict[str, Any], str]]


class AvroSchemaError(ActionNeededError):
    """The registry's schema is not valid Avro, or beyond our limits: register a valid one."""


def full_name(name: str, namespace: str) -> str:
    """A name within a namespace, unless it has its own."""
    return name if "." in name or not namespace else f"{namespace}.{name}"


def names_of(definition: dict[str, Any], namespace: str) -> tuple[str, str]:
    """Full name and the namespace inside the definition."""
    name = definition.get("name")
    if not isinstance(name, str) or not name:
        raise AvroSchemaError(f"An Avro {definition.get('type')} has no name. Register a valid schema.")
    own = definition.get("namespace")
    full = full_name(name, own if isinstance(own, str) else namespace)
    return full, full.rpartition(".")[0]


def collect(node: Any, namespace: str, into: Definitions, depth: int = 0) -> None:
    """Collect every named type below ``node``, with its enclosing namespace."""
    if depth > 4 * MAX_DEPTH:
        raise AvroSchemaError(f"The Avro schema nests more than {MAX_DEPTH} types. Register a flatter one.")
    if isinstance(node, list):
        for branch in node:
            collect(branch, namespace, into, depth + 1)
    if not isinstance(node, dict):
        return
    kind = node.get("type")
    if kind in ("record", "error", "enum", "fixed"):
        full, inner = names_of(node, namespace)
        into.setdefault(full, (node, namespace))
        for child in node.get("fields", ()) if kind in ("record", "error") else ():
            collect(child.get("type") if isinstance(child, dict) else None, inner, into, depth + 1)
        return
    for key in ("type", "items", "values"):
        if isinstance(node.get(key), (dict, list)):
            collect(node[key], namespace, into, depth + 1)


def cyclic_names(definitions: Definitions) -> frozenset[str]:
    """Full names of records that contain themselves, directly or through other types."""
    uses = {
        full: frozenset(_uses(definition, namespace, definitions))
        for full, (definition, namespace) in definitions.items()
    }
    users: dict[str, list[str]] = {name: [] for name in uses}
    for name, used in uses.items():
        for used_name in used:
            users[used_name].append(name)
    seen: set[str] = set()
    order = [name for start in uses for name in reach(start, uses, seen)]
    cyclic, seen = set(), set()
    # Kosaraju's algorithm: against the arrows, the last unseen name reaches its own cycles and no others.
    for start in reversed(order):
        component = reach(start, users, seen)
        if len(component) > 1 or start in uses[start]:
            cyclic.update(component)
    return frozenset(cyclic)


def reach(start: str, arrows: Mapping[str, Iterable[str]], seen: set[str]) -> list[str]:
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
            todo.extend((target, False) for target in arrows[name])
    return reached


def _uses(definition: dict[str, Any], namespace: str, known: Definitions) -> list[str]:
    used: list[str] = []
    if definition.get("type") not in ("record", "error"):
        return used
    _, inner = names_of(definition, namespace)
    todo: list[Any] = [c.get("type") for c in definition.get("fields", ()) if isinstance(c, dict)]
    while todo:
        node = todo.pop()
        if isinstance(node, list):
            todo.extend(node)
        elif isinstance(node, str) and node not in PRIMITIVES:
            used.extend(full for full in (full_name(node, inner), node) if full in known)
        elif isinstance(node, dict) and node.get("type") in ("record", "error", "enum", "fixed"):
            used.append(names_of(node, inner)[0])
        elif isinstance(node, dict):
            todo.extend(node[key] for key in ("type", "items", "values") if key in node)
    return used
