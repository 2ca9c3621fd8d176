"""What may stand at a place in SQL: names in scope, functions, keywords, and variables of the notebook."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tabletopic_kernel.faces.notebook.sql.names import Column, Names
from tabletopic_kernel.faces.notebook.sql.scope import Query, Span, Text, Token
from tabletopic_kernel.query.statements.sql import Name, bare

_PLAIN = re.compile(r"[^\W\d]\w*")
_MOST_NESTED = 5  # queries below queries; one may name itself
_ABOUT_LENGTH = 70


class Suggestion(NamedTuple):
    """A text to insert, and what it is, in a few words."""

    text: str
    about: str


@dataclass(frozen=True)
class Scope:
    """Where names come from. ``variables``: what each is; ``results``: columns of those with rows."""

    names: Names
    engine: str
    variables: Mapping[str, str]
    results: Mapping[str, Callable[[], tuple[Column, ...]]]


def suggest(sql: str, cursor: int, scope: Scope) -> tuple[str, list[Suggestion]]:
    """The text in front of the cursor that a suggestion replaces, and the suggestions, best first."""
    place = _place(sql, cursor)
    if place is None:
        return "", []
    matching = [suggestion for suggestion in _all(place, scope) if _begins(suggestion.text, place.typed)]
    short = [Suggestion(text, _cut(about)) for text, about in matching]
    return place.typed, list({suggestion.text: suggestion for suggestion in reversed(short)}.values())[::-1]


class _Place(NamedTuple):
    text: Text
    typed: str
    qualifiers: tuple[str, ...]
    queries: list[Query]  # those around the cursor, innermost first
    wants_table: bool


def _place(sql: str, cursor: int) -> _Place | None:
    """None in a string or a comment."""
    text = Text(sql)
    at = next((i for i, token in enumerate(text.tokens) if token.end >= cursor), len(text.tokens))
    typed = ""
    if at < len(text.tokens) and text.tokens[at].start < cursor:
        token = text.tokens[at]
        if _is_opaque(token, cursor):
            return None
        if token.kind == "other" and not token.text[0].isdigit():
            at += 1
        else:
            typed = sql[token.start : cursor]
    first = at
    while first >= 2 and text.tokens[first - 1].text == "." and text.tokens[first - 2].kind in _NAMES:
        first -= 2
    qualifiers = tuple(bare(token.text) for token in text.tokens[first:at:2])
    spans = text.spans(at)
    before = text.read(Span(spans[0].first, first))
    return _Place(text, typed, qualifiers, [text.read(span) for span in spans], before.wants_table)


_NAMES = ("word", "quoted")


def _is_opaque(token: Token, cursor: int) -> bool:
    if token.kind != "opaque" or token.text[0] in '"`':
        return False
    is_open = token.text[0] != "'" or len(token.text) == 1 or not token.text.endswith("'")
    return cursor < token.end or is_open


def _all(place: _Place, scope: Scope) -> Iterator[Suggestion]:
    if place.typed.startswith("$"):
        yield from (Suggestion(f"${name}", f"variable {kind}") for name, kind in scope.variables.items())
    elif place.qualifiers:
        yield from _qualified(place, scope)
    elif place.wants_table:
        yield from _tables(place, scope)
    elif not place.typed[:1].isdigit():
        for query in place.queries:
            for key, table in query.tables.items():
                yield from _columns(_columns_of(table, place, scope), place, scope)
                if _PLAIN.fullmatch(key) and key != place.typed.lower():
                    yield Suggestion(
                        key, f"table {'of a query' if isinstance(table, Span) else '.'.join(table)}"
                    )
        for name, about in scope.names.functions(scope.engine).items():
            yield Suggestion(name, f"function {about}")
        if place.typed:
            for word in scope.names.keywords():
                yield Suggestion(word if place.typed.islower() else word.upper(), "keyword")


def _tables(place: _Place, scope: Scope) -> Iterator[Suggestion]:
    for query in place.queries:
        yield from (Suggestion(name, "table of this query") for name in query.ctes)
    for name in scope.names.tables():
        yield Suggestion(name, "table")
    for name in scope.results:
        yield Suggestion(name, f"result {scope.variables.get(name, '')}")


def _qualified(place: _Place, scope: Scope) -> Iterator[Suggestion]:
    """What follows a dot: columns of a table, fields of a structure, tables of a namespace."""
    first, *rest = place.qualifiers
    if not place.wants_table:
        tables = [query.tables[first.lower()] for query in place.queries if first.lower() in query.tables]
        if tables:
            columns = _columns_of(tables[0], place, scope)
        else:
            rest = [first, *rest]
            every = [table for query in place.queries for table in query.tables.values()]
            columns = tuple(column for table in every for column in _columns_of(table, place, scope))
        for part in rest:
            columns = next((column.fields for column in columns if column.name.lower() == part.lower()), ())
        yield from _columns(columns, place, scope)
    prefix = ".".join(place.qualifiers) + "."
    for name in scope.names.tables():
        if name.startswith(prefix):
            yield Suggestion(name.removeprefix(prefix), "table")


def _columns_of(table: Name | Span, place: _Place, scope: Scope, nested: int = 0) -> tuple[Column, ...]:
    if nested > _MOST_NESTED:
        return ()
    if isinstance(table, Span):
        query = place.text.read(table)
        below = [
            column
            for source in query.tables.values()
            for column in _columns_of(source, place, scope, nested + 1)
        ]
        types = {column.name: column for column in below}
        outputs = [types.get(name, Column(name)) for name in query.outputs if name != "*"]
        return (*outputs, *(below if "*" in query.outputs or not query.outputs else ()))
    if len(table) == 1:
        ctes = [query.ctes[table[0].lower()] for query in place.queries if table[0].lower() in query.ctes]
        if ctes:
            return _columns_of(ctes[0], place, scope, nested + 1)
    columns = scope.names.columns(table)
    if not columns and len(table) == 1 and table[0] in scope.results:
        return scope.results[table[0]]()
    return columns


def _columns(columns: tuple[Column, ...], place: _Place, scope: Scope) -> Iterator[Suggestion]:
    mark = "`" if scope.engine == "spark" else '"'
    for column in columns:
        plain = _PLAIN.fullmatch(column.name) and not scope.names.keywords().get(column.name.lower())
        name = column.name if plain and place.typed[:1] not in ('"', "`") else f"{mark}{column.name}{mark}"
        yield Suggestion(name, f"column {column.type}" + (f": {column.doc}" if column.doc else ""))


def _begins(text: str, typed: str) -> bool:
    return text.lower().startswith(typed.lower()) or text.strip('"`').lower().startswith(typed.lower())


def _cut(about: str) -> str:
    short = about if len(about) <= _ABOUT_LENGTH else about[: _ABOUT_LENGTH - 1] + "…"
    return short.replace(" ", "\xa0")  # JupyterLab would break the line, and show its first part alone
