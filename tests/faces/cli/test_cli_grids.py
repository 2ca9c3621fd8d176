"""Grids in a terminal of any width."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.screen import laid_out
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.render.grid import Cell, Grid

COLUMNS = Grid(
    ("column", "type", "doc"),
    [
        ("device", "struct<type: string, os: string, browser: string>", "What the visitor browses with."),
        ("event_time", "timestamptz", "When the page was opened, by the visitor's device, in UTC."),
    ],
    "default.clicks",
    ["clicks-value v1 (id 1)"],
)


def lines(found: Grid, width: int) -> list[str]:
    """The output of a terminal of this width."""
    out = Console(file=io.StringIO(), width=width, highlight=False)
    out.print(laid_out(found, out))
    assert isinstance(out.file, io.StringIO)
    return [line.rstrip() for line in out.file.getvalue().splitlines()]


def test_texts_are_folded_below_their_headings() -> None:
    """At words and uncut, so that columns stay columns; a command to copy is in one line."""
    shown = lines(COLUMNS, 80)
    assert max(map(len, shown)) <= 80
    assert shown[0] == "default.clicks"
    assert shown[-1] == "clicks-value v1 (id 1)"
    at = shown[1].index("doc")
    docs = " ".join(line[at:] for line in shown[3:-1])
    assert docs.split() == " ".join(str(row[2]) for row in COLUMNS.rows).split()
    out = Console(file=io.StringIO(), width=80, highlight=False)
    query = "tabletopic query 'SELECT count(*) FROM clicks'"
    out.print(screen.steps({query: "ask the table, however long it takes to say so"}))
    assert isinstance(out.file, io.StringIO)
    assert query in out.file.getvalue()


@pytest.mark.parametrize("width", [40, 80])
def test_rows_with_many_values_are_told_value_by_value(width: int) -> None:
    """Where not even folded columns have room; values are whole."""
    names = [f"column_{number}" for number in range(20)]
    shown = lines(Grid(names, [["x" * 60] * 20, [Cell("bad <b>", "bad")] * 20]), width)
    assert max(map(len, shown)) <= width
    assert sum(line.startswith("column_7 ") for line in shown) == 2
    assert "".join(shown).count("x") == 20 * 60
    assert "column_0   bad <b>" in shown


def test_text_does_not_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Values, names and errors are anybody's: no escape sequence of theirs gets through."""
    evil = "\x1b]0;title\x07\x1b[31mred\x9b2J\x7f"
    rows = [[Cell(evil), Cell("two\nlines")]]
    out = screen.console()
    out.print(laid_out(Grid(columns=[f"na{evil}me", "b"], rows=rows), out))
    screen.show(screen.plain(evil))
    screen.error(TableTopicError(evil))
    told = capsys.readouterr()
    assert "na]0;title[31mred2Jme" in told.out
    assert told.out.count("]0;title[31mred2J") == 3
    assert "]0;title[31mred2J" in told.err
    assert not {"\x1b", "\x9b", "\x07", "\x7f"} & set(told.out + told.err)
