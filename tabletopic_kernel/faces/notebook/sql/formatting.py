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
    import sqlglot  # noqa: PLC0415 - a fifth of a second
    from sqlglot.errors import SqlglotError  # noqa: PLC0415

    parts = parts_of_cell(cell)
    if parts is None or not parts.sql:
        raise UsageError("Format SQL needs a cell that begins with %%lake and has SQL")
    is_spark = parts.engine == "spark"  # it would print ${name}
    sql = respelled(parts.sql, (_VARIABLE + "{}").format) if is_spark else parts.sql
    try:
        statements = sqlglot.transpile(sql, read=parts.engine, write=parts.engine, pretty=True)
    except (SqlglotError, ValueError) as error:
        first_line = re.sub(r"\x1b\[[\d;]*m", "", str(error)).partition("\n")[0]
        raise UsageError(f"this SQL cannot be formatted: {first_line}") from None
    text = ";\n".join(statements)
    return cell[: parts.begin] + re.sub(rf"\b{_VARIABLE}(\w+)", r"$\1", text)
