"""The text of ``%lake`` and ``%%lake``: options, the variable in front of ``<<``, the SQL and its place."""

from __future__ import annotations

import re
from dataclasses import dataclass

_OPTION = re.compile(
    r"\s*(?:(?:--engine|-e|--at|--as|--limit|--every)(?:\s+|=)(?:'[^']*'|\"[^\"]*\"|\S+)|--live|--history|--help|-h)"
    r"(?=\s|$)"
)
_ASSIGNMENT = re.compile(r"\A\s*([^\W\d]\w*)\s*<<\s*")
_SPACE = re.compile(r"\s*")
_MAGIC = re.compile(r"\A\s*%%lake(?=\s|\Z)")
_ENGINE = re.compile(r"(?:--engine|-e)(?:\s+|=)(\w+)")


@dataclass(frozen=True)
class SqlText:
    """The parts of a cell. ``begin``: where its SQL starts, in the text behind the magic's name."""

    options: str
    target: str | None
    sql: str
    begin: int

    @property
    def engine(self) -> str:
        """The engine as the options name it, wrong names too."""
        named = _ENGINE.search(self.options)
        return named[1] if named else "duckdb"


def parts_of(text: str) -> SqlText:
    """The parts of what follows ``%%lake``: the rest of its line, and the lines below it.

    >>> parts_of(" --limit 5" + chr(10) + "busy << SELECT 1 ")
    SqlText(options=' --limit 5', target='busy', sql='SELECT 1', begin=19)
    """
    line = text.partition("\n")[0]
    end = 0
    while match := _OPTION.match(line, end):
        end = match.end()
    rest = line[end:].lstrip()
    if rest.startswith("-") and not rest.startswith("-- "):
        end = len(line)  # not an option: the parser reports it
    assignment = _ASSIGNMENT.match(text[end:])
    begin = end + (assignment.end() if assignment else 0)
    begin += len(_SPACE.match(text, begin)[0])  # type: ignore[index]  # it always matches
    return SqlText(text[:end], assignment[1] if assignment else None, text[begin:].rstrip(), begin)


def parts_of_cell(cell: str) -> SqlText | None:
    """The parts of a cell that begins with ``%%lake``, ``begin`` counted in the cell; None for others."""
    magic = _MAGIC.match(cell)
    if magic is None:
        return None
    parts = parts_of(cell[magic.end() :])
    return SqlText(parts.options, parts.target, parts.sql, parts.begin + magic.end())
