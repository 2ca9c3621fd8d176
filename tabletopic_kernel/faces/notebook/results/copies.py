"""Rows as text for the clipboard: with tabs, as a table of Markdown, or as INSERT of DuckDB's SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from math import isfinite
from typing import Any

from tabletopic_kernel.query.statements.sql import literal, quote
from tabletopic_kernel.render.values import text, unique_names

_Rows = Sequence[Sequence[Any]]


def tabbed(names: Sequence[str], rows: _Rows) -> str:
    """A line for each row, as spreadsheets take it; a single cell as it is."""
    if len(rows) == 1 and len(names) == 1:
        return "" if rows[0][0] is None else text(rows[0][0])
    lines = [names, *(["" if value is None else text(value) for value in row] for row in rows)]
    return "\n".join("\t".join(map(_tabless, line)) for line in lines)


def _tabless(value: str) -> str:
    if not set(value) & {"\t", "\n", "\r", '"'}:
        return value
    escaped = value.replace('"', '""')
    return f'"{escaped}"'


def markdown(names: Sequence[str], rows: _Rows) -> str:
    """A table with pipes."""
    lines = [names, ["---"] * len(names), *([text(value) for value in row] for row in rows)]
    escaped = [
        [cell.replace("\\", "\\\\").replace("|", "\\|").replace("\n", "<br>") for cell in line]
        for line in lines
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in escaped)


def insert(names: Sequence[str], rows: _Rows) -> str:
    """A statement that inserts them into a table ``result``."""
    columns = ", ".join(map(quote, unique_names(names)))
    values = ",\n  ".join(f"({', '.join(map(sql, row))})" for row in rows)
    return f"INSERT INTO result ({columns}) VALUES\n  {values};"


FORMS: dict[str, Callable[[Sequence[str], _Rows], str]] = {
    "text": tabbed,
    "markdown": markdown,
    "insert": insert,
}


def sql(value: Any) -> str:  # noqa: PLR0911 - one for each kind
    """A value as a literal of DuckDB's SQL.

    >>> sql({"raw": b"a\\xff", "n": [1, None]})
    "{'raw': '\\\\x61\\\\xFF'::BLOB, 'n': [1, NULL]}"
    """
    if value is None:
        return "NULL"
    if isinstance(value, Decimal | bool | int):
        return text(value)
    if isinstance(value, float):
        return repr(value) if isfinite(value) else f"'{value}'::DOUBLE"
    if isinstance(value, bytes):
        return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
    if value == {}:  # so rows_of hands an empty map over
        return "MAP {}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {sql(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):
            return "MAP {" + ", ".join(f"{sql(key)}: {sql(inner)}" for key, inner in value) + "}"
        return f"[{', '.join(map(sql, value))}]"
    kind = {datetime: "TIMESTAMP", date: "DATE", time: "TIME"}.get(type(value), "")
    zone = "TZ" if kind == "TIMESTAMP" and value.tzinfo is not None else ""
    return f"{kind}{zone} {literal(text(value))}".strip()
