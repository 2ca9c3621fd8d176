"""Analyses SQL with DuckDB's parser: which tables it names, and whether it only reads.

A name is a tuple of its parts: ``lake."default".clicks`` is ``("lake", "default", "clicks")``. DuckDB gets
one query at a time, possibly after settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise, takewhile
from typing import Any

import duckdb

from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.query.parameters import respelled

Name = tuple[str, ...]

_IDENTIFIER = re.compile(r'"(?:[^"]|"")*"|[^\W\d][\w$]*')
# The name of our main namespace, which is a reserved word in SQL.
_RESERVED_NAMESPACE = "default"
MOST_PARTS = 3  # catalog, namespace, table: DuckDB's parser knows no more, and files or functions have fewer


def quote(name: str) -> str:
    """The name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """The text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def quote_default(sql: str) -> str:
    """``default.clicks`` with its first word in quotes: otherwise SQL takes it for a keyword."""
    raw = sql.encode()
    pieces, done = [], 0
    tokens = _tokens(sql)
    for (start, word), (_, following) in pairwise(tokens):
        if word.lower() == _RESERVED_NAMESPACE and following == ".":
            end = start + len(word.encode())
            pieces += [raw[done:start], b'"', raw[start:end], b'"']
            done = end
    return b"".join([*pieces, raw[done:]]).decode()


def with_catalogs(sql: str, names: Mapping[str, str | None]) -> tuple[str, list[str]]:
    """The text with catalogs renamed, and which it names; ``names``: by lowercase name, None keeps it."""
    raw, done = sql.encode(), 0
    pieces: list[bytes] = []
    named: dict[str, None] = {}
    tokens = _tokens(sql)
    for index, (start, word) in enumerate(tokens):
        name = bare(word).lower()
        dots = [text for _, text in tokens[index + 1 : index + 5 : 2]]
        is_inside = index > 0 and tokens[index - 1][1] == "."
        if name not in names or is_inside or dots != [".", "."]:
            continue
        named[name] = None
        if (other := names[name]) is not None:
            pieces += [raw[done:start], quote(other).encode()]
            done = start + len(word.encode())
    return b"".join([*pieces, raw[done:]]).decode(), list(named)


def tables_in(connection: duckdb.DuckDBPyConnection, sql: str) -> list[Name]:
    """All tables that the statements refer to, without CTEs; raises duckdb's ParserException.

    If neither the parser's tree nor its list of names is available (PIVOT, INSERT), every name in the text
    counts: a name too many only costs a catalog lookup.
    """
    tables: dict[Name, None] = {}
    for statement in connection.extract_statements(sql):
        names = _names_in_tree(connection, statement.query)
        if names is None:
            names = _names_by_binding(connection, statement.query)
        if names is None:
            return _names_in_text(sql)
        tables.update(dict.fromkeys(names))
    return list(tables)


def names_without_catalog(sql: str) -> list[Name]:
    """Tables of one or two parts in a text for any engine, without CTEs if DuckDB can parse it.

    >>> names_without_catalog("WITH a AS (SELECT 1) SELECT * FROM a, b, prod.c.d")
    [('b',)]
    >>> names_without_catalog("SELECT * FROM prod.c.d JOIN default.e FOR VERSION AS OF 7 USING (id)")
    [('default', 'e')]
    """
    with duckdb.connect() as parser:
        try:
            names = tables_in(parser, quote_default(sql))
        except duckdb.Error:  # time travel, for example
            names = _names_after(sql, ("from", "join"))
    return [name for name in names if len(name) < MOST_PARTS]


def names_written(sql: str) -> list[Name]:
    """The names that a text for Spark may write rows to; for CALL, all of them, also those in strings.

    >>> names_written("INSERT INTO `lake`.a SELECT * FROM b WHERE c = 'd'"), names_written("SELECT * FROM a")
    ([('lake', 'a'), ('b',)], [])
    """
    text = sql.replace("`", '"')
    words = {word.lower() for _, word in _tokens(text)}
    if "call" in words:
        return _names_in_text(text.replace("'", " "))
    return _names_after(text, _TARGETS) if words & _WRITES_ROWS else []


def _names_after(sql: str, keywords: Collection[str]) -> list[Name]:
    tokens = [word for _, word in _tokens(sql)]
    dotted_names = []
    for index, word in enumerate(tokens):
        if word.lower() in keywords:
            parts = list(takewhile(lambda part: part != "", tokens[index + 1 :]))
            dotted = 1 + 2 * sum(1 for _ in takewhile(lambda dot: dot == ".", parts[1::2]))
            dotted_names.append(tuple(map(bare, parts[:dotted:2])))
    return [name for name in dotted_names if name]


def _names_in_tree(connection: duckdb.DuckDBPyConnection, query: str) -> list[Name] | None:
    """Names from the syntax tree; None without one: DuckDB has it for queries, not for EXPLAIN or COPY."""
    if not query:  # DuckDB has no text for PIVOT
        return None
    row = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchone()
    tree = json.loads(row[0]) if row else {"error": True}
    return None if tree["error"] else sorted(set(_tables_below(tree["statements"], frozenset())))


def _tables_below(node: Any, ctes: frozenset[str]) -> Iterator[Name]:
    """The tables of a subtree, with these common table expressions in scope."""
    if isinstance(node, list):
        for child in node:
            yield from _tables_below(child, ctes)
    elif isinstance(node, dict):
        for cte in (node.get("cte_map") or {}).get("map", ()):
            yield from _tables_below(cte["value"], ctes)
            ctes |= {cte["key"].lower()}  # visible to later ones, and to the query
        if node.get("type") == "RECURSIVE_CTE_NODE":
            ctes |= {node["cte_name"].lower()}
        if node.get("type") == "BASE_TABLE":
            parts = (node["catalog_name"], node["schema_name"], node["table_name"])
            name = tuple(part for part in parts if part)
            if len(name) > 1 or name[0].lower() not in ctes:
                yield name
        for key, inner in node.items():
            if key != "cte_map":
                yield from _tables_below(inner, ctes)


def _names_by_binding(connection: duckdb.DuckDBPyConnection, query: str) -> list[Name] | None:
    """Names from a statement that is not a query; None if DuckDB needs the tables' columns for it."""
    if not query:
        return None
    try:
        # With variables, it returns no names; variables are never table names.
        names = connection.get_table_names(respelled(query, lambda _: "NULL"), qualified=True)
    except duckdb.Error:
        return None
    return sorted(map(_parts, names))


def wants_table_list(sql: str) -> bool:
    """Whether the text is SHOW TABLES, which no view can answer."""
    words = sql.strip().rstrip(";").lower().split()
    return words in (["show", "tables"], ["show", "all", "tables"])


def _parts(qualified: str) -> Name:
    """The name in ``lake."default".y AS z``, DuckDB's notation: it ends where the alias begins."""
    parts: list[str] = []
    position = 0
    while match := _IDENTIFIER.match(qualified, position):
        parts.append(bare(match[0]))
        position = match.end()
        if not qualified.startswith(".", position):
            break
        position += 1
    return tuple(parts)


def _names_in_text(sql: str) -> list[Name]:
    names: dict[Name, None] = {}
    current: Name = ()
    before = ""
    for _, word in _tokens(sql):
        if _IDENTIFIER.fullmatch(word):
            current = (*current, bare(word)) if before == "." else (bare(word),)
            if len(current) <= MOST_PARTS:
                names[current] = None
        elif word != ".":
            current = ()
        before = word
    return list(names)


def bare(identifier: str) -> str:
    """An identifier without quotation marks."""
    return identifier[1:-1].replace('""', '"') if identifier[:1] in ('"', "`") else identifier


def _tokens(sql: str) -> list[tuple[int, str]]:
    """Byte offset and text of identifiers, keywords and dots; other tokens have an empty text."""
    raw = sql.encode()
    starts = [start for start, _ in duckdb.tokenize(sql)]
    tokens = []
    for start, end in pairwise([*starts, len(raw)]):
        text = raw[start:end].decode(errors="replace")
        match = _IDENTIFIER.match(text)
        tokens.append((start, match[0] if match else text[:1] if text[:1] == "." else ""))
    return tokens


_WRITES_ROWS = frozenset({"insert", "merge", "update", "delete"})
_TARGETS = ("into", "overwrite", "table", "update", "from")  # Spark writes to what follows one of these
_READS = frozenset({"SELECT", "EXPLAIN", "COPY", "CALL"})
_WRITES = frozenset(
    (
        *("ALTER", "ATTACH", "COPY", "CREATE", "DELETE", "DROP", "EXPORT", "IMPORT", "INSERT", "INSTALL"),
        *("LOAD", "MERGE", "TRUNCATE", "UPDATE", "VACUUM"),
    )
)


def check_reads(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Check that a text is one query, and that it changes no table; COPY TO and read_csv use files.

    Anything that DuckDB created or changed would not be in the catalog, and would vanish with the connection.
    Raises UsageError, or duckdb.ParserException if it is not SQL.
    """
    queries = 0
    for statement in connection.extract_statements(sql):
        kind = str(statement.type).rpartition(".")[2]
        if kind == "SET":  # also USE: it returns nothing, and its effect is for the query after it
            continue
        if kind == "CREATE" and not statement.query:
            continue  # the first half of a PIVOT, a type for its columns; neither half has a text
        queries += 1
        words = _outer_words(statement.query)
        if kind not in _READS or not _only_reads(kind, words):
            raise UsageError(
                f"{words[0] if words else kind} is refused: DuckDB queries change no table; "
                "write with Spark, `tabletopic query --engine spark`"
            )
    if queries > 1:
        raise UsageError(f"the SQL contains {queries} queries; run them one at a time")


def _only_reads(kind: str, words: list[str]) -> bool:
    if kind == "CALL":
        return words[0] == "CALL"  # for DuckDB, CHECKPOINT is one, too
    if kind == "COPY":  # to a file, not from one
        return next((word for word in words if word in ("FROM", "TO")), "TO") == "TO"
    # EXPLAIN ANALYZE runs what it explains.
    return kind != "EXPLAIN" or _WRITES.isdisjoint(words)


def _outer_words(sql: str) -> list[str]:
    """SQL's own words outside of parentheses, in capitals."""
    raw = sql.encode()
    tokens = duckdb.tokenize(sql)
    words, depth = [], 0
    for (start, kind), (end, _) in pairwise([*tokens, (len(raw), None)]):
        text = raw[start:end].decode(errors="replace")
        if kind == duckdb.token_type.operator:
            depth += text.count("(") - text.count(")")
        elif kind == duckdb.token_type.keyword and depth == 0:
            words.append(text.split()[0].upper())
    return words
