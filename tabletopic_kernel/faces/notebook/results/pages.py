"""Rows of a result as texts: a page of cells, and one cell whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tabletopic_kernel.render.values import hex_dump, rows_of, text

PAGE_ROWS = 100
_MOST_CHARACTERS = 200  # of a cell in a page
_MOST_WHOLE = 1_000_000  # characters of one cell, and values within it

# A text, null, or the beginning of a long text with its length.
Cell = str | tuple[str, int] | None


def cell(value: Any) -> Cell:
    """A value in a page; null is not the text null."""
    if value is None:
        return None
    length = len(value) if isinstance(value, str | bytes) else 0
    shown = text(value[:_MOST_CHARACTERS] if length > _MOST_CHARACTERS else value)
    length = max(length, len(shown))
    return (shown[:_MOST_CHARACTERS], length) if length > _MOST_CHARACTERS else shown


def cells(rows: pa.Table) -> list[list[Cell]]:
    """The rows of a page."""
    return [list(map(cell, row)) for row in rows_of(rows)]


def whole(value: Any) -> dict[str, Any]:
    """One value, as it is looked at: ``tree``, ``hex`` or ``text``."""
    if isinstance(value, bytes):
        return {"hex": hex_dump(value[: _MOST_WHOLE // 4]), "length": len(value)}
    if isinstance(value, dict | list):
        return {"tree": _tree(value, [_MOST_WHOLE // 20])}
    shown = None if value is None else text(value)
    return {"text": shown and shown[:_MOST_WHOLE], "length": len(shown or "")}


def _tree(value: Any, left: list[int]) -> Any:
    """Nested values as [name, value] pairs, until none are left; the last pair says so."""
    if not isinstance(value, dict | list):
        return None if value is None else text(value)
    pairs: list[tuple[str, Any]] = []
    for name, inner in _pairs(value):
        if left[0] <= 0:
            pairs.append(("…", f"{len(value) - len(pairs):,} more"))
            break
        left[0] -= 1
        pairs.append((name, _tree(inner, left)))
    return pairs


def _pairs(value: Mapping[str, Any] | Sequence[Any]) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return value.items()
    if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):  # a map
        return ((text(key), inner) for key, inner in value)
    return ((str(index), inner) for index, inner in enumerate(value))
