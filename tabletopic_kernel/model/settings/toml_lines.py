"""Line numbers of a TOML document, which tomllib does not provide."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

_POSITION = re.compile(r" \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$")


def toml_lines(text: str) -> dict[str, int]:
    """First line of every table and key of a valid document, by its parts joined with dots.

    >>> toml_lines('[kafka]\\nbootstrap.servers = "a:9092"')
    {'kafka': 1, 'kafka.bootstrap': 2, 'kafka.bootstrap.servers': 2}
    """
    lines: dict[str, int] = {}
    table: tuple[str, ...] = ()
    statement, first = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        if not statement:
            first = number
        statement += line + "\n"
        try:
            parsed = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            continue  # continues in the next line
        header = statement.lstrip().startswith("[")
        statement = ""
        for path in _key_paths(parsed) if parsed else ():  # comments and blank lines are not statements
            start = () if header else table
            for end in range(1, len(path) + 1):
                lines.setdefault(".".join((*start, *path[:end])), first)
            table = path if header else table
            lines[".".join((*start, *path))] = first
    return lines


def _key_paths(parsed: object) -> Iterator[tuple[str, ...]]:
    inner = parsed[0] if isinstance(parsed, list) and parsed else parsed
    if isinstance(inner, dict) and inner:
        for key, value in inner.items():
            yield from ((key, *path) for path in _key_paths(value))
    else:
        yield ()


def toml_syntax_error(name: str, message: str, text: str) -> str:
    """One line about a document that ``tomllib`` rejected with ``message``: file, line, what."""
    position = _POSITION.search(message)
    problem = _POSITION.sub("", message)
    if position and position["line"]:
        return f"{name}:{position['line']}: not valid TOML: {problem} (column {position['column']})"
    return f"{name}:{len(text.splitlines())}: not valid TOML: {problem} at the end of the file"
