"""The format of SQL in a cell: indented, keywords in capitals; first line, ``$name`` and comments stay."""

from __future__ import annotations

import re

from IPython.display import JSON

from tabletopic_kernel.faces.notebook.sql.text import parts_of_cell
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.query.parameters import respelled

_VARIABLE = "tabletopic_variable_"


def formatted(cell: str) -> JSON:
    """The cell for JupyterLab, as ``text``; raises UsageError if its SQL cannot be parsed."""
    return JSON({"text": format_cell(cell)})  # type: ignore[no-untyped-call]


def format_cell(cell: str) -> str:
    """The text of a ``%%lake`` cell with its SQL formatted.

    >>> print(format_cell("%%lake --limit 5" + chr(10) + "busy << select url from clicks where n > $least"))
    %%lake --limit 5
    busy << SELECT
      url
    FROM clicks
    WHERE
      n > $least
    """
    from sqlglot.errors import SqlglotError  # noqa: PLC0415 - a fifth of a second

    parts = parts_of_cell(cell)
    if parts is None or not parts.sql:
        raise UsageError("Format SQL needs a cell that begins with %%lake and has SQL")
    is_spark = parts.engine == "spark"  # it would print ${name}
    sql = respelled(parts.sql, (_VARIABLE + "{}").format) if is_spark else parts.sql
    try:
        text = _pretty(sql, parts.engine)
    except (SqlglotError, ValueError) as error:
        first_line = re.sub(r"\x1b\[[\d;]*m", "", str(error)).partition("\n")[0]
        raise UsageError(f"this SQL cannot be formatted: {first_line}") from None
    return cell[: parts.begin] + re.sub(rf"\b{_VARIABLE}(\w+)", r"$\1", text)


def _pretty(sql: str, engine: str) -> str:
    import duckdb  # noqa: PLC0415 - loaded with the first query
    import sqlglot  # noqa: PLC0415 - as above

    # What ~ means depends on the version of DuckDB.
    name = f"duckdb, version={duckdb.__version__}" if engine == "duckdb" else engine
    dialect = sqlglot.Dialect.get_or_raise(name)
    vars(dialect)["to_json_path"] = lambda path: path  # it would take the key 'a.b' for a path
    text = ";\n".join(sqlglot.transpile(sql, read=dialect, write=dialect, pretty=True))
    for comment in (comment.strip() for token in dialect.tokenize(sql) for comment in token.comments):
        if _plain(comment) not in _plain(text):
            raise UsageError(f"this SQL cannot be formatted: the comment “{comment}” would be lost")
    return text


def _plain(comment: str) -> str:
    return " ".join(comment.replace("*/", "* /").split())
