"""Tables for people: text in terminals, HTML in notebooks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tabletopic_kernel.shown.grid import Cell, Grid


def test_numbers_stand_to_the_right() -> None:
    """Columns line up; the title is above, notes are below."""
    grid = Grid(("name", "n"), [("a", "1"), ("bcd", "1,000")], "T", ["note"], frozenset({"n"}))
    assert repr(grid).splitlines() == ["T", "name      n", "a         1", "bcd   1,000", "note"]


@given(st.text(), st.text())
def test_nothing_becomes_markup(value: str, note: str) -> None:
    """Whatever a value holds, the HTML has the tags of the table and no others."""
    plain = Grid(("a",), [("x",)], "t", ["n"]).html()
    html = Grid(("a",), [(Cell(value, "bad"),)], value or "t", [note]).html()
    assert html.count("<") == plain.count("<")
    assert html.count('"') == plain.count('"') + 2
    assert '<td class="bad">' in html


def test_a_cell_says_in_words_what_its_colour_says() -> None:
    """The text is there without the colour, too."""
    assert "failed" in repr(Grid(("state",), [(Cell("failed", "bad"),)]))


def test_a_moment_stays_in_one_line() -> None:
    """Columns of moments are not broken, however narrow the page; other texts are."""
    html = Grid(("time", "what"), [("2026-01-01 00:00:00", "a long text")]).html()
    assert '<td class="unbroken">2026' in html
    assert "<td>a long text" in html
