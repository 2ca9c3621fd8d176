"""Rows of the database beside those of a table, value by value."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy
import psycopg2.extensions
import psycopg2.extras

from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.workbench.workbench import Workbench
from tests.test_architecture import blocks

Rows = list[dict[str, Any]]
# Digits beyond a decimal's are text in a table, where 1.0 and 1.00 may both stand for one number.
_FRACTION = re.compile(r"-?[0-9]+\.[0-9]+")
_FLOAT4 = psycopg2.extensions.new_type(
    (700,), "FLOAT4", lambda text, _: None if text is None else float(numpy.float32(text))
)


def newest_state(table: str, key: str) -> str:
    """The query of the page about change data, for this table and the columns of its key."""
    (_, sql) = blocks("docs/how-to/change-data.md", "sql")
    replaced = re.sub(r"\bid\b", key, re.sub(r"\bshop_public_customers\b", table, sql))
    assert table in replaced
    assert f"PARTITION BY {key} " in replaced
    return replaced


def table_rows(bench: Workbench, sql: str) -> Rows:
    """The rows of a query without the columns that are ours."""
    try:
        rows = bench.query(sql).rows.to_pylist()
    except UsageError as error:  # no such table yet
        if "does not exist" in str(error) or "no table" in str(error):
            return []
        raise
    return [{name: value for name, value in row.items() if not name.startswith("_")} for row in rows]


def database_rows(connection: Any, table: str) -> Rows:
    """``SELECT *``."""
    with connection.cursor() as cursor:
        for register in (psycopg2.extras.register_default_json, psycopg2.extras.register_default_jsonb):
            register(cursor, loads=lambda text: text)
        psycopg2.extensions.register_type(_FLOAT4, cursor)
        cursor.execute(f"SELECT * FROM {table}")
        names = [column.name for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def differences(rows: Rows, wanted: Rows) -> list[str]:
    """What one has and the other has not, a line each: a column that the database lost must be null."""
    names = wanted[0].keys() if wanted else set()
    ours = Counter(_line(row, names) for row in rows)
    theirs = Counter(_line(row, names) for row in wanted)
    more, less = ours - theirs, theirs - ours
    return sorted([*(f"table only: {line}" for line in more.elements()),
                   *(f"database only: {line}" for line in less.elements())])  # fmt: skip


def _line(row: dict[str, Any], names: Any) -> str:
    return ", ".join(f"{name}={plain(row.get(name))}" for name in sorted(names))


def plain(value: Any) -> Any:
    """A value as both sides show it: equal texts are equal values.

    >>> plain(Decimal("1.10")) == plain(Decimal("1.1")), plain(b"a"), plain(memoryview(b"a"))
    (True, '61', '61')
    """
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    if isinstance(value, Decimal):
        value = format(value, "f")
    if isinstance(value, str) and _FRACTION.fullmatch(value):
        return value.rstrip("0").rstrip(".")
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat()
    return value if value is None or isinstance(value, bool | int | float) else str(value)
