"""Which tables SQL may name at a place in it, by its tokens: it is read while it is being written."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from tabletopic_kernel.query.statements.sql import Name, bare

_TOKEN = re.compile(
    r"""
    (?P<quoted>"(?:[^"]|"")*"|`[^`]*`) | (?P<opaque>'(?:[^']|'')*'?|--[^\n]*|/\*.*?(?:\*/|\Z)|["`].*)
    | (?P<word>[^\W\d][\w$]*) | (?P<variable>\$\w*) | (?P<other>\d[\w.]*|\S)
    """,
    re.VERBOSE | re.DOTALL,
)
_QUERIES = {"select", "with", "from"}
_SOURCES = {"from", "join", "into", "update", "table", "describe", "summarize"}
_ENDS = {
    *("select", "where", "group", "order", "having", "limit", "offset", "qualify", "window", "set", "values"),
    *("union", "except", "intersect", "on", "using", "returning", "sample"),
}
_NO_ALIASES = {
    *("inner", "left", "right", "full", "cross", "outer", "natural", "semi", "anti", "asof", "positional"),
    *("lateral", "pivot", "unpivot", "tablesample", "for", "at", "as"),
}


class Token(NamedTuple):
    """A piece of SQL: ``quoted``, ``opaque`` (a string, a comment), ``word``, ``variable`` or ``other``."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Span:
    """The tokens of a query: from the first up to ``end``."""

    first: int
    end: int


@dataclass
class Query:
    """What one ``SELECT`` reads and returns.

    ``tables`` by lowercase alias, or last part of the name; ``ctes`` by lowercase name; ``outputs``: the
    names of its columns, ``*`` for all of its tables.
    """

    tables: dict[str, Name | Span] = field(default_factory=dict)
    ctes: dict[str, Span] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    wants_table: bool = False  # a table's name would come next


@dataclass
class _Reading:
    """The state between two tokens: the clause, the last name in it, and a table that may get an alias."""

    query: Query
    clause: str = ""
    last: str = ""
    table: Name | Span | None = None

    def name(self, name: Name) -> None:
        if self.query.wants_table:
            self._take(name[-1], name)
        elif self.table is not None:
            if isinstance(self.table, tuple):
                self.query.tables.pop(self.table[-1].lower(), None)
            self.query.tables[name[-1].lower()], self.table = self.table, None
        self.last = name[-1]

    def group(self, below: Span | None) -> None:
        if below is not None and self.query.wants_table:
            self._take(f"({below.first}", below)
        elif below is not None and self.clause == "with":
            self.query.ctes[self.last.lower()] = below
        self.query.wants_table = False

    def keyword(self, word: str) -> None:
        self.item_end()
        if word in _SOURCES:
            self.clause, self.query.wants_table = "from", True
        else:
            self.clause, self.query.wants_table = word, False

    def item_end(self) -> None:
        """A comma, or the end of a clause."""
        if self.clause == "select" and self.last:
            self.query.outputs.append(self.last)
        self.last, self.table, self.query.wants_table = "", None, self.clause == "from"

    def _take(self, key: str, table: Name | Span) -> None:
        self.query.tables[key.lower()], self.table, self.query.wants_table = table, table, False


class Text:
    """SQL as tokens, and the queries in it."""

    def __init__(self, sql: str) -> None:
        self.tokens = [
            Token(match.lastgroup or "", match[0], match.start(), match.end())
            for match in _TOKEN.finditer(sql)
        ]

    def spans(self, at: int) -> list[Span]:
        """The queries around the token with that index, innermost first; the statement is the last."""
        opened, begin = [], 0
        for index, token in enumerate(self.tokens[:at]):
            if token.text == "(":
                opened.append(index + 1)
            elif token.text == ")" and opened:
                opened.pop()
            elif token.text == ";":
                opened, begin = [], index + 1
        ends = (index for index, token in enumerate(self.tokens) if index >= at and token.text == ";")
        inner = [Span(first, self._closing(first)) for first in opened if self._is_query(first)]
        return [*reversed(inner), Span(begin, next(ends, len(self.tokens)))]

    def read(self, span: Span) -> Query:
        """What a query reads and returns."""
        reading, index = _Reading(Query()), span.first
        while index < span.end:
            token, index = self.tokens[index], index + 1
            word = token.text.lower() if token.kind == "word" else ""
            if token.text == "(":
                close = min(self._closing(index), span.end)
                reading.group(Span(index, close) if self._is_query(index) else None)
                index = close + 1
            elif word in _SOURCES or word in _ENDS or word == "with":
                reading.keyword(word)
            elif token.text == ",":
                reading.item_end()
            elif token.text == "*" and reading.clause == "select":
                reading.last = "*"
            elif token.kind in ("word", "quoted") and word not in _NO_ALIASES:
                name, index = self._dotted(index - 1, span.end)
                reading.name(name)
        wants_table = reading.query.wants_table
        reading.item_end()
        reading.query.wants_table = wants_table
        return reading.query

    def _is_query(self, index: int) -> bool:
        return index < len(self.tokens) and self.tokens[index].text.lower() in _QUERIES

    def _closing(self, index: int) -> int:
        """The index of the parenthesis that closes what begins at ``index``, or the end."""
        depth = 1
        for place in range(index, len(self.tokens)):
            depth += (self.tokens[place].text == "(") - (self.tokens[place].text == ")")
            if depth == 0:
                return place
        return len(self.tokens)

    def _dotted(self, index: int, end: int) -> tuple[Name, int]:
        """The name that begins at a token, and the index behind it."""
        parts = [bare(self.tokens[index].text)]
        index += 1
        while index + 1 < end and self.tokens[index].text == ".":
            following = self.tokens[index + 1]
            if following.kind not in ("word", "quoted") or following.start > self.tokens[index].end:
                break  # a clause behind a name that is being typed
            parts.append(bare(self.tokens[index + 1].text))
            index += 2
        return tuple(parts), index
