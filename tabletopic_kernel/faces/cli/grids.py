"""Grids in a terminal: a table where there is room for it, else one value below the other."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.render.grid import Cell, Grid

_STYLES = {"good": "green", "warn": "yellow", "bad": "bold red"}


def show_grid(found: Grid) -> None:
    """The grid on stdout; in a pipe each row is one line, however long."""
    if sys.stdout.isatty():
        out = screen.console()
        out.print(laid_out(found, out))
    else:
        screen.show_text(repr(found))


def laid_out(found: Grid, out: Console) -> RenderableType:
    """The grid as it fits into the console: folded at words, or its rows as blocks of name and value."""
    table = screen.grid()
    table.show_header = found.headed
    for name in found.columns:
        table.add_column(
            name,
            justify="right" if name in found.right else "left",
            overflow="fold",
            no_wrap=name in found.unbroken or name in found.right,
        )
    for row in found.rows:
        table.add_row(*map(cell_text, row))
    title = [Text(found.title, style="bold")] if found.title else []
    body: list[RenderableType] = []
    if found.rows:
        fits = screen.least_width(out, table) <= out.width
        body = [table] if fits else [_block(found, row) for row in found.rows]
    return Group(*title, *body, *map(Text, found.notes))


def _block(found: Grid, row: Sequence[str | Cell]) -> RenderableType:
    pairs = screen.facts({})
    for name, cell in zip(found.columns, row, strict=True):
        pairs.add_row(name, cell_text(cell))
    return Group(Text("─" * 20, style="dim"), pairs)


def cell_text(cell: str | Cell) -> Text:
    """A cell in the colour of its mark."""
    return Text(str(cell), style=_STYLES.get(cell.mark, "") if isinstance(cell, Cell) else "")
