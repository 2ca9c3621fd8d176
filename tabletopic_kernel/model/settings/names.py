"""Names of settings: paths, environment variables, and the closest match for a misspelt one.

A path is a tuple from the section down: ``("kafka", "bootstrap.servers")``,
``("topics", "web.clicks", "start")``. All of it is derived from the models in ``sections.py``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from tabletopic_kernel.model.settings.sections import Settings

SettingPath = tuple[str, ...]

# In the tree, and in forms of names: any property of another program, and a name that the user chooses.
PROPERTY, CATALOG, TOPIC = "<PROPERTY>", "<NAME>", "<TOPIC>"
# Iceberg's property names have hyphens; names of variables cannot, so in these sections _ means -.
_HYPHENATED = frozenset({"catalog", "catalogs", "table_properties"})

# The settings below a name; None for a value.
Tree = Mapping[str, Any]


def _tree(hint: Any) -> Tree | None:
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        hints = get_type_hints(hint)
        return {name: _tree(hints[name]) for name in hint.model_fields}
    if get_origin(hint) is not dict:
        return None
    below = _tree(get_args(hint)[1])
    return {PROPERTY if below is None else CATALOG if PROPERTY in below else TOPIC: below}


TREE: Tree = _tree(Settings) or {}


def _forms(tree: Tree | None, path: SettingPath = ()) -> Iterator[SettingPath]:
    if tree is None:
        yield path
    else:
        for name, below in tree.items():
            yield from _forms(below, (*path, name))


# All possible paths, with placeholders.
FORMS = tuple(_forms(TREE))


def dotted(path: SettingPath) -> str:
    """The path as a TOML key: ``topics."web.clicks".start``; only a topic's name is quoted."""
    return ".".join(f'"{part}"' if "." in part and part is not path[-1] else part for part in path)


# --- nested tables ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leaf:
    """A value and its path. A named section is also a leaf, with value None, because it may be empty."""

    path: SettingPath
    value: object


@dataclass(frozen=True)
class Misplaced:
    """A misplaced key. The reason never contains the value."""

    path: SettingPath
    reason: str


def leaves(table: object, tree: Tree | None = TREE, path: SettingPath = ()) -> Iterator[Leaf | Misplaced]:
    """Flatten a nested table from TOML, with misplaced keys; None is an option that was not given."""
    if table is None:
        return
    if tree is None:
        yield Leaf(path, table)
    elif not isinstance(table, Mapping):
        yield Misplaced(path, f"{dotted(path)} is a section, not a value: write [{dotted(path)}]")
    elif PROPERTY in tree:
        yield from _property_leaves(table, path)
    else:
        for key, inner in table.items():
            if TOPIC in tree:
                yield from _topic_leaves(inner, tree[TOPIC], path, key)
            elif CATALOG in tree:  # their names contain the dots
                yield from [Leaf((*path, key), None)] if isinstance(inner, Mapping) else []
                yield from leaves(inner, tree[CATALOG], (*path, key))
            elif key in tree:
                yield from leaves(inner, tree[key], (*path, key))
            else:
                reason = f"unknown setting {dotted((*path, key))}{nearest(key, tree)}"
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


def _topic_leaves(table: object, fields: Tree, path: SettingPath, name: str) -> Iterator[Leaf | Misplaced]:
    """``[topics.web.clicks]`` is the topic web.clicks: TOML nests, we mean a dot."""
    if not isinstance(table, Mapping):
        yield from leaves(table, fields, (*path, name))
        return
    deeper = {key: inner for key, inner in table.items() if key not in fields and isinstance(inner, Mapping)}
    settings = {key: inner for key, inner in table.items() if key not in deeper}
    if settings or not deeper:
        yield Leaf((*path, name), None)
        yield from leaves(settings, fields, (*path, name))
    for key, inner in deeper.items():
        yield from _topic_leaves(inner, fields, path, f"{name}.{key}")


def flatten_properties(nested: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Turn nested tables back into dotted keys: TOML nests ``bootstrap.servers = "x"``.

    Raises ValueError for a value that has no text form.

    >>> flatten_properties({"bootstrap": {"servers": ["a:9092", "b:9092"]}, "enable.idempotence": True})
    {'bootstrap.servers': 'a:9092,b:9092', 'enable.idempotence': 'true'}
    """
    flat: dict[str, str] = {}
    for key, value in nested.items():
        if isinstance(value, Mapping):
            flat.update(flatten_properties(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = _property_text(f"{prefix}{key}", value)
    return flat


def _property_text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list | tuple):
        return ",".join(_property_text(name, item) for item in value)
    raise ValueError(f"{name} must be text, a number, true, false or a list of these")


# --- environment names ------------------------------------------------------------------------------------


def _pattern(form: SettingPath) -> re.Pattern[str]:
    groups = {PROPERTY: "(?P<property>.+)", CATALOG: "(?P<name>.+?)", TOPIC: "(?P<name>.+?)"}
    return re.compile("__".join(groups.get(part, part) for part in form))


_PATTERNS = {form: _pattern(form) for form in FORMS}


def variable_path(name: str) -> SettingPath | None:
    """The path for a variable, without the common prefix; None if there is none.

    Parts in capitals are lower-cased, others kept as written, to support a topic named ``Orders``.

    >>> variable_path("CATALOG__S3__ACCESS_KEY_ID")
    ('catalog', 's3.access-key-id')
    >>> variable_path("TOPICS__WEB__CLICKS__COMMIT_INTERVAL_MS")
    ('topics', 'web.clicks', 'commit_interval_ms')
    """
    words = name.split("__")
    text = "__".join(word.lower() if word.isupper() else word for word in words)
    matches = [(form, match) for form in FORMS if (match := _PATTERNS[form].fullmatch(text))]
    if not all(words) or not matches:
        return None
    # The shortest topic name: what follows table_properties belongs to the property's.
    form, match = min(matches, key=lambda candidate: len(candidate[1].groupdict().get("name", "")))
    parts = {key: value.replace("__", ".") for key, value in match.groupdict().items()}
    if _HYPHENATED.intersection(form) and PROPERTY in form:
        parts["property"] = parts["property"].replace("_", "-")
    placed = {PROPERTY: parts.get("property"), CATALOG: parts.get("name"), TOPIC: parts.get("name")}
    return tuple(placed.get(part) or part for part in form)


def variable_name(section: str, key: str) -> str:
    """The variable for a property, without the common prefix; ``variable_path`` reads it.

    >>> variable_name("catalog", "s3.secret-access-key")
    'CATALOG__S3__SECRET_ACCESS_KEY'
    >>> variable_name("catalogs.prod", "credential")
    'CATALOGS__PROD__CREDENTIAL'
    """
    return "__".join([*section.split("."), *key.split(".")]).replace("-", "_").upper()


def variable_forms() -> list[str]:
    """All possible names of variables, with the placeholders <PROPERTY>, <NAME>, <TOPIC> and <SETTING>."""
    forms = (form if TOPIC not in form else ("topics", TOPIC, "<SETTING>") for form in FORMS)
    return list(dict.fromkeys("__".join(form).upper() for form in forms))


def nearest_variables(name: str) -> list[str]:
    """Names of variables that a misspelt one may mean, best first.

    >>> nearest_variables("KAFKA_BOOTSTRAP_SERVERS"), nearest_variables("TOPICS__CLICKS__STRAT")
    (['KAFKA__BOOTSTRAP__SERVERS'], ['TOPICS__CLICKS__START'])
    """
    section, *words = name.split("__")
    if section == "TOPICS" and words:
        close = difflib.get_close_matches(words[-1].lower(), TREE["topics"][TOPIC]) if words[1:] else []
        topic, settings = (words[:-1], close) if close else (words, ["<SETTING>"])
        return ["__".join((section, *topic, setting.upper())) for setting in settings]
    for form in FORMS:
        head = "__".join(takewhile(lambda part: part != PROPERTY, form)).upper()
        if form[-1] == PROPERTY and re.match(rf"{head}(_|$)", name):  # often one _ instead of two
            tail = name.removeprefix(head).strip("_")
            if not _HYPHENATED.intersection(form):
                tail = re.sub("_+", "__", tail)
            return [f"{head}__{tail or PROPERTY}"]
    return difflib.get_close_matches(name, variable_forms(), cutoff=0.75)


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known ones, else all of them.

    >>> nearest("strat", ["start", "table"]), nearest("x", ["start", "table"])
    ('; did you mean start?', '; known here: start, table')
    """
    known = list(known)
    if close := difflib.get_close_matches(name.lower(), known):
        return f"; did you mean {' or '.join(close)}?"
    return f"; known here: {', '.join(known)}"
