"""Names of settings: paths, environment variables, and the closest match for a misspelt one.

A path is a tuple from the section down: ``("kafka", "bootstrap.servers")``,
``("topics", "web.clicks", "start")``. All of it is derived from the models in ``sections.py``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from tabletopic_kernel.model.settings.sections import Settings, flatten_properties

SettingPath = tuple[str, ...]

# Iceberg's property names have hyphens; names of variables cannot, so in these sections _ means -.
_HYPHENATED = frozenset({"catalog", "catalogs", "table_properties"})


@dataclass(frozen=True)
class Value:
    """One setting of our own."""


@dataclass(frozen=True)
class Properties:
    """Properties of another program: any dotted key."""

    underscore: str  # the meaning of _ in the name of an environment variable


@dataclass(frozen=True)
class Section:
    """The fields of a model."""

    fields: dict[str, Node]


@dataclass(frozen=True)
class Named:
    """Sections with user-chosen names: topics, catalogs."""

    item: Section | Properties


Node = Value | Properties | Section | Named


def _section(model: type[BaseModel]) -> Section:
    hints = get_type_hints(model)
    return Section({name: _node(name, hints[name]) for name in model.model_fields})


def _node(name: str, hint: Any) -> Node:
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return _section(hint)
    if get_origin(hint) is dict:
        item = get_args(hint)[1]
        if isinstance(item, type) and issubclass(item, BaseModel):
            return Named(_section(item))
        if get_origin(item) is dict:
            return Named(Properties("-" if name in _HYPHENATED else "_"))
        return Properties("-" if name in _HYPHENATED else "_")
    return Value()


TREE = _section(Settings)


def node_at(path: SettingPath) -> Node | None:
    """The node at a path; None if there is none."""
    node: Node | None = TREE
    for part in path:
        match node:
            case Section(fields):
                node = fields.get(part)
            case Named(item):
                node = item
            case Properties():
                node = Value()
            case _:
                return None
    return node


def dotted(path: SettingPath) -> str:
    """The path as a TOML key: ``topics."web.clicks".start``; only a topic's name is quoted."""
    return ".".join(f'"{part}"' if "." in part and part is not path[-1] else part for part in path)


# --- nested tables ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leaf:
    """A value and its path. A named section is also a leaf, with value None, as it may be empty."""

    path: SettingPath
    value: object


@dataclass(frozen=True)
class Misplaced:
    """A misplaced key. The reason never contains the value."""

    path: SettingPath
    reason: str


def leaves(table: object, node: Node = TREE, path: SettingPath = ()) -> Iterator[Leaf | Misplaced]:
    """Flatten a nested table from TOML; misplaced keys are returned as values too.

    None, which TOML does not have, is an option that was not given.
    """
    if table is None:
        return
    if isinstance(node, Value):
        yield Leaf(path, table)
    elif not isinstance(table, Mapping):
        yield Misplaced(path, f"{dotted(path)} is a section, not a value: write [{dotted(path)}]")
    elif isinstance(node, Properties):
        yield from _property_leaves(table, path)
    elif isinstance(node, Named):
        for name, inner in table.items():
            yield from _named_leaves(inner, node.item, path, name)
    else:
        for key, inner in table.items():
            if key in node.fields:
                yield from leaves(inner, node.fields[key], (*path, key))
            else:
                reason = f"unknown setting {dotted((*path, key))}{nearest(key, node.fields)}"
                yield Misplaced((*path, key), reason)


def _property_leaves(table: Mapping[str, Any], path: SettingPath) -> Iterator[Leaf | Misplaced]:
    for key, inner in table.items():
        if inner is None:
            continue
        try:
            flat = flatten_properties({key: inner})
        except ValueError as error:
            yield Misplaced((*path, key), f"{dotted(path)}.{error}")
        else:
            yield from (Leaf((*path, name), text) for name, text in flat.items())


def _named_leaves(
    table: object, item: Section | Properties, path: SettingPath, name: str
) -> Iterator[Leaf | Misplaced]:
    """Flatten a named section. ``[topics.web.clicks]`` is topic web.clicks: TOML nests, we mean a dot."""
    if not isinstance(table, Mapping):
        yield from leaves(table, item, (*path, name))
        return
    if isinstance(item, Properties):  # their names contain the dots
        yield Leaf((*path, name), None)
        yield from _property_leaves(table, (*path, name))
        return
    deeper = {k: v for k, v in table.items() if k not in item.fields and isinstance(v, Mapping)}
    own = {k: v for k, v in table.items() if k not in deeper}
    if own or not deeper:
        yield Leaf((*path, name), None)
        yield from leaves(own, item, (*path, name))
    for key, inner in deeper.items():
        yield from _named_leaves(inner, item, path, f"{name}.{key}")


# --- environment names ------------------------------------------------------------------------------------


def variable_path(words: Sequence[str], node: Node = TREE) -> SettingPath | None:
    """The path for the parts between ``__`` in a variable's name; None if there is none.

    Parts in capitals are lower-cased, others kept as written, to support a topic named ``Orders``.

    >>> variable_path("CATALOG__S3__ACCESS_KEY_ID".split("__"))
    ('catalog', 's3.access-key-id')
    >>> variable_path("TOPICS__WEB__CLICKS__COMMIT_INTERVAL_MS".split("__"))
    ('topics', 'web.clicks', 'commit_interval_ms')
    """
    if not all(words):
        return None
    parts = [word.lower() if word.isupper() else word for word in words]
    match node:
        case Value():
            return None if parts else ()
        case Properties(underscore):
            return (".".join(parts).replace("_", underscore),) if parts else None
        case Section(fields):
            head = parts[0] if parts else ""
            rest = variable_path(words[1:], fields[head]) if head in fields else None
            return None if rest is None else (head, *rest)
        case Named(item):
            # The shortest name that leaves a setting: everything after table_properties belongs to it.
            for n in range(1, len(parts)):
                if (rest := variable_path(words[n:], item)) is not None:
                    return (".".join(parts[:n]), *rest)
    return None


def variable_name(section: str, key: str) -> str:
    """The variable for a property, without the common prefix; ``variable_path`` reads it.

    >>> variable_name("catalog", "s3.secret-access-key")
    'CATALOG__S3__SECRET_ACCESS_KEY'
    >>> variable_name("catalogs.prod", "credential")
    'CATALOGS__PROD__CREDENTIAL'
    """
    return "__".join([*section.split("."), *key.split(".")]).replace("-", "_").upper()


def variable_forms(node: Node = TREE) -> list[str]:
    """All possible names of variables, with the placeholders <PROPERTY>, <TOPIC> and <SETTING>."""
    match node:
        case Section(fields):
            return [
                f"{name.upper()}__{form}" if form else name.upper()
                for name, inner in fields.items()
                for form in variable_forms(inner)
            ]
        case Named(Properties()):
            return ["<NAME>__<PROPERTY>"]
        case Named():
            return ["<TOPIC>__<SETTING>"]
        case Properties():
            return ["<PROPERTY>"]
    return [""]


def nearest_variables(words: Sequence[str], node: Node = TREE) -> list[str]:
    """Names of variables that a misspelt one may mean, best first.

    >>> nearest_variables(["KAFKA_BOOTSTRAP_SERVERS"])
    ['KAFKA__BOOTSTRAP__SERVERS']
    >>> nearest_variables(["TOPICS", "CLICKS", "STRAT"])
    ['TOPICS__CLICKS__START']
    """
    words = [word for word in words if word]
    match node:
        case Section(fields):
            return _nearest_in_section(words, fields)
        case Named(Properties() as item):
            return ["__".join([*(words[:1] or ["<NAME>"]), *nearest_variables(words[1:], item)])]
        case Named(item):
            found = nearest_variables(words[-1:], item)
            names = "__".join(words[:-1] if found else words) or "<TOPIC>"
            return [f"{names}__{setting}" for setting in found or ["<SETTING>"]]
        case Properties(underscore) if words:
            text = "__".join(words)
            return [text.replace("_", "__").replace("____", "__") if underscore == "_" else text]
        case Properties():
            return ["<PROPERTY>"]
    return [""]


def _nearest_in_section(words: Sequence[str], fields: Mapping[str, Node]) -> list[str]:
    head = words[0].lower() if words else ""
    # One _ instead of two: KAFKA_SASL_USERNAME.
    guesses: list[tuple[str, Sequence[str]]] = [
        (name, [words[0][len(name) + 1 :], *words[1:]])
        for name, inner in fields.items()
        if head.startswith(f"{name}_") and not isinstance(inner, Value)
    ] or [(name, words[1:]) for name in difflib.get_close_matches(head, fields)]
    found = [
        f"{name.upper()}__{deeper}" if deeper else name.upper()
        for name, rest in guesses
        for deeper in nearest_variables(rest, fields[name])
    ]
    return list(dict.fromkeys(found))


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known ones, else all of them.

    >>> nearest("strat", ["start", "table"]), nearest("x", ["start", "table"])
    ('; did you mean start?', '; known here: start, table')
    """
    known = list(known)
    if close := difflib.get_close_matches(name.lower(), known):
        return f"; did you mean {' or '.join(close)}?"
    return f"; known here: {', '.join(known)}"
