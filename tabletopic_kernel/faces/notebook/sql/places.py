"""Where an error is: the line and column that an engine's message names, shown with a caret below it."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from itertools import accumulate

_DUCKDB = re.compile(r"\n\nLINE (\d+): (.*)\n( *)\^\s*\Z")
# Spark counts columns from 0, Trino (Athena) and sqlglot from 1.
_SPARK = re.compile(r"\bline (\d+),? pos(?:ition)? (\d+)")
_OTHERS = re.compile(r"\bline (\d+)(?::|, Col: )(\d+)", re.IGNORECASE)
_WORD = re.compile(r"\w+|\S")


def place_of(message: str, sql: str) -> tuple[int, int] | None:
    """Line and column, from 0, in ``sql`` that a message names; None if it names none there."""
    if match := _DUCKDB.search(message):
        line, word, near = int(match[1]) - 1, *_marked(match)
    elif match := _SPARK.search(message):
        line, word, near = int(match[1]) - 1, "", int(match[2])
    elif match := _OTHERS.search(message):
        line, word, near = int(match[1]) - 1, "", int(match[2]) - 1
    else:
        return None
    lines = sql.split("\n")
    if not 0 <= line < len(lines):
        return None
    # DuckDB shows a part of a long line, and was given its words a few columns further right.
    starts = [match.start() for match in re.finditer(re.escape(word), lines[line])] if word else []
    return line, min(starts, key=lambda start: abs(start - near), default=min(near, len(lines[line])))


def _marked(match: re.Match[str]) -> tuple[str, int]:
    """The word above DuckDB's caret, and about its column in the whole line."""
    widths = accumulate(map(_width, match[2]), initial=0)
    column = bisect_right(list(widths), len(match[3]) - len(f"LINE {match[1]}: ")) - 1
    word = _WORD.match(match[2], column)
    return word[0] if word else "", column


def _width(character: str) -> int:
    """As DuckDB counts: tabs and accents are nothing, ideographs and emojis two."""
    if unicodedata.category(character) in ("Cc", "Mn"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def with_place(message: str, sql: str, before: str | None) -> str:
    """A message with the line of SQL that it names and a mark below; unchanged if it names none.

    ``before``: the text of the cell in front of the SQL; None if the SQL is a line of a program.
    """
    place = place_of(message, sql)
    if place is None:
        return message
    row, column = place
    line = sql.split("\n")[row]
    word = _WORD.match(line, column)
    marks = "^" * (len(word[0]) if word else 1)
    indent = re.sub(r"[^\t]", " ", line[:column])
    shown = f"{line}\n{indent}{marks}"
    if before is None:
        where = f"line {row + 1}, column {column + 1} of the SQL"
    else:
        column += len(before.rpartition("\n")[2]) if row == 0 else 0
        where = f"line {row + before.count(chr(10)) + 1}, column {column + 1} of the cell"
    return f"{_DUCKDB.sub('', message)}\n\n{where}:\n{shown}"
