"""Pictures for notebooks."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from tabletopic_kernel.render.picture import bars, lines

NAMES = st.text(st.characters(blacklist_categories=("Cc", "Cs")), max_size=20)
VALUES = st.floats(0, 1e12)


@given(st.dictionaries(NAMES, VALUES, max_size=6), NAMES)
def test_bars_are_as_long_as_their_values(values: dict[str, float], title: str) -> None:
    """The SVG can be read as XML, whatever the names hold; lengths have the ratios of the values."""
    picture = bars(values, title)
    root = ElementTree.fromstring(picture._repr_html_())
    lengths = [float(one.attrib["width"]) for one in root.iter("{http://www.w3.org/2000/svg}rect")]
    most = max(values.values(), default=0) or 1
    assert all(
        abs(length / 380 - value / most) < 0.001
        for length, value in zip(lengths, values.values(), strict=True)
    )


@given(st.lists(st.tuples(VALUES, VALUES), max_size=10))
def test_lines_stay_within_the_picture(points: list[tuple[float, float]]) -> None:
    """Every point of a line is inside, also where there is one point or none."""
    picture = lines({"a": sorted(points)}, "t", "s", "rows")
    for x, y in re.findall(r"([\d.-]+),([\d.-]+)", re.search('points="([^"]*)"', picture.svg)[1]):  # type: ignore[index]
        assert 70 <= float(x) <= 620
        assert 34 <= float(y) <= 274


def test_the_figures_are_told_in_words() -> None:
    """Terminals and screen readers get the numbers; a line of one point is marked."""
    assert lines({"a": [(1, 2)]}, "t", "x", "y").svg.count("<circle") == 1
    assert repr(bars({"a": 1234, "b": 0.5}, "T", "rows")) == "T\n  a: 1,234 rows\n  b: 0.5 rows"
    assert "aria-label" in bars({"a": 1}, "T")._repr_html_()
