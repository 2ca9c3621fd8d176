"""Bind variables: ``$name`` in SQL, passed to each engine in its own way; values never become SQL text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tabletopic_kernel.model.errors import UsageError

# First all that may contain a literal $: strings, quoted names, comments, $$…$$ strings.
_TOKEN = re.compile(
    r"""
    '(?:[^']|'')*' | "(?:[^"]|"")*" | `[^`]*` | --[^\n]* | /\*.*?\*/
    | (?<!\w)\$(?P<tag>\w*)\$ .*? \$(?P=tag)\$
    | (?<!\w)\$(?P<name>[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)


def names_in(sql: str) -> list[str]:
    """The variables that a query names, each once, in order.

    >>> names_in("SELECT '$a', $b, $c FROM t -- $d" + chr(10) + "WHERE x = $b")
    ['b', 'c']
    >>> names_in("FROM clicks$live WHERE a = $b")
    ['b']
    """
    names = (match["name"] for match in _TOKEN.finditer(sql))
    return list(dict.fromkeys(name for name in names if name))


def respelled(sql: str, spelling: Callable[[str], str]) -> str:
    """The query with each variable in an engine's syntax.

    >>> respelled("SELECT '$a', $b", ":{}".format)
    "SELECT '$a', :b"
    """
    return _TOKEN.sub(lambda match: spelling(match["name"]) if match["name"] else match[0], sql)


def bound(sql: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a query's variables, NumPy's and pandas' scalars as Python's; raises UsageError."""
    names = names_in(sql)
    if missing := [name for name in names if name not in values]:
        unknown = ", ".join(f"${name}" for name in missing)
        raise UsageError(f"the query names {unknown}, but there is no such variable; assign it first")
    return {name: _plain(values[name]) for name in names}


def _plain(value: Any) -> Any:
    to_python = getattr(value, "to_pydatetime", None) or getattr(value, "item", None)
    if callable(to_python) and getattr(value, "ndim", 0) == 0:
        return to_python()
    return value.tolist() if hasattr(value, "tolist") else value
