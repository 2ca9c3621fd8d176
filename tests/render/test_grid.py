"""Tables for people: text in terminals, HTML in notebooks."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tabletopic_kernel.render.grid import Cell, Grid, cut
from tabletopic_kernel.render.picture import Picture


def test_numbers_stand_to_the_right() -> None:
    """Below the title; a cell says in words what its colour says."""
    grid = Grid(("name", "n"), [("a", "1"), ("bcd", "1,000")], "T", ["note"], frozenset({"n"}))
    assert repr(grid).splitlines() == ["T", "name      n", "a         1", "bcd   1,000", "note"]
    assert "failed" in repr(Grid(("state",), [(Cell("failed", "bad"),)]))


@given(st.text(), st.text())
def test_nothing_becomes_markup(value: str, note: str) -> None:
    """Whatever a value holds, the HTML has the tags of the table and no others."""
    plain = Grid(("a",), [(Cell(re.sub(".", "x", value), "bad"),)], "t", ["n"]).html()
    html = Grid(("a",), [(Cell(value, "bad"),)], value or "t", [note]).html()
    assert html.count("<") == plain.count("<")
    assert html.count('"') == plain.count('"')
    assert '<td class="bad' in html  # some texts are not broken, too


def test_a_long_text_is_cut_and_whole_at_a_click() -> None:
    """Its beginning and its length are shown, the whole is behind a click, unless no page can hold it."""
    shown = Grid(("a",), [("x" * 5_000,)]).html()
    assert (
        f"<summary><span>{'x' * 200}… </span><i>5,000 characters</i></summary>{'x' * 5_000}</details>"
        in shown
    )
    shown = Grid(("a",), [("y" * 2_000_000,)]).html()
    assert len(shown) < 110_000
    assert "… and 1,900,000 characters more" in shown
    shown = Grid(("a",), [("line\n" * 40,)]).html()
    assert shown.index("</span>") - shown.index("<summary>") < 100
    assert cut("z" * 301) == f"{'z' * 200}… (301 characters)"
    assert cut("z" * 300) == "z" * 300


def test_a_page_has_so_many_rows_at_most() -> None:
    """110,000 would take a gigabyte; long names are broken, columns of moments are not."""
    shown = Grid(("n",), [(str(n),) for n in range(110_000)]).html()
    assert shown.count("<tr>") == 1_001
    assert "the first 1,000 of 110,000 rows" in shown
    assert "the first" not in Grid(("n",), [(str(n),) for n in range(1_000)]).html()
    assert f'<td><div class="long">{"n" * 120}</div></td>' in Grid(("topic",), [("n" * 120,)]).html()
    assert "<td>short</td>" in Grid(("topic",), [("short",)]).html()
    one = "8b3ff1c6-3f0a-4c7a-9d0c-3f7f0f5d2a11"
    assert f'<td class="unbroken">{one}</td>' in Grid(("id",), [(one,)]).html()
    html = Grid(("time", "what"), [("2026-01-01 00:00:00", "a long text")]).html()
    assert '<td class="unbroken">2026' in html
    assert "<td>a long text" in html


def test_no_text_commands_a_terminal() -> None:
    """IPython prints a text as it is: codes are shown in letters, columns stay aligned, HTML has the text."""
    grid = Grid(("a\x9b", "b"), [("\x1b[2Jx", "y\tz\n"), ("long enough", "z")], "t\x1b]0;x\x07", ["n\r\x08"])
    assert repr(grid).splitlines() == [
        r"t\x1b]0;x\x07", r"a\x9b        b", "\\x1b[2Jx     y\tz", "long enough  z", r"n\x0d\x08",
    ]  # fmt: skip
    assert "\x1b[2Jx" in grid.html()
    assert repr(Picture("<svg/>", "\x1b[31mred\nline")) == "\\x1b[31mred\nline"
