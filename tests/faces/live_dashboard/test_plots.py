"""Only changes are sent, and they turn the old data into the new."""

from __future__ import annotations

from math import isnan, nan

from bokeh.models import ColumnDataSource
from hypothesis import given
from hypothesis import strategies as st

from tabletopic_kernel.faces.live_dashboard.plots import change, follow

MOMENTS = st.lists(st.integers(0, 40), unique=True, max_size=20).map(sorted)
VALUES = st.one_of(st.none(), st.integers(0, 3))


@st.composite
def columns(draw: st.DrawFn) -> dict[str, list]:
    """A column of times and one of values."""
    at = draw(MOMENTS)
    return {"at": at, "y": draw(st.lists(VALUES, min_size=len(at), max_size=len(at)))}


@given(columns(), columns())
def test_a_source_becomes_its_columns(old: dict[str, list], new: dict[str, list]) -> None:
    """Whatever was drawn before, patches and rows at the end give what is to be drawn."""
    source = ColumnDataSource({"at": [], "y": []})
    follow(source, old)
    follow(source, new)
    assert [float(one) for one in new["at"]] == list(source.data["at"])
    assert [None if isnan(one) else one for one in source.data["y"]] == new["y"]


def test_a_window_that_moves_on_sends_its_end() -> None:
    """Of 300 points one is patched and one appended; unknown values are equal to themselves."""
    old = {"at": [float(n) for n in range(300)], "y": [0.0] * 299 + [nan]}
    new = {"at": [float(n) for n in range(1, 301)], "y": [0.0] * 298 + [5.0, 7.0]}
    found = change(old, new)
    assert found.patches == {"y": [(299, 5.0)]}
    assert found.appended == {"at": [300.0], "y": [7.0]}
    assert (found.rows, found.replace) == (300, False)
    same = {"at": [1.0, 2.0], "y": [nan, 3.0]}
    found = change(same, {name: list(values) for name, values in same.items()})
    assert (found.patches, found.appended, found.replace) == ({}, {}, False)
