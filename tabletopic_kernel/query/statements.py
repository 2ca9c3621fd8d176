"""What DuckDB may be asked: one query, which only reads; settings may stand before it."""

from __future__ import annotations

from itertools import pairwise

import duckdb

from tabletopic_kernel.model.errors import UsageError

_READS = frozenset({"SELECT", "EXPLAIN", "COPY", "CALL"})
_WRITES = frozenset(
    (
        *("ALTER", "ATTACH", "COPY", "CREATE", "DELETE", "DROP", "EXPORT", "IMPORT", "INSERT", "INSTALL"),
        *("LOAD", "MERGE", "TRUNCATE", "UPDATE", "VACUUM"),
    )
)


def check_reads(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """See that a text is one query, and that it changes nothing.

    What DuckDB would make or change is not in the catalog: it would be gone with the connection.

    Raises:
        UsageError: it writes, or there is more than one query.
        duckdb.ParserException: it is no SQL.
    """
    queries = 0
    for statement in connection.extract_statements(sql):
        kind = str(statement.type).rpartition(".")[2]
        if kind == "SET":  # also USE: it yields nothing, and what it sets is for the query behind it
            continue
        if kind == "CREATE" and not statement.query:
            continue  # the first half of a PIVOT: a type for its columns; neither half has a text
        queries += 1
        words = _outer_words(statement.query)
        if kind not in _READS or not _only_reads(kind, words):
            raise UsageError(
                f"{words[0] if words else kind} is refused: queries by DuckDB only read; "
                "write with Spark, `tabletopic query --engine spark`"
            )
    if queries > 1:
        raise UsageError(f"these are {queries} queries; ask them one at a time")


def _only_reads(kind: str, words: list[str]) -> bool:
    if kind == "CALL":
        return words[0] == "CALL"  # for DuckDB CHECKPOINT is one, too
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
