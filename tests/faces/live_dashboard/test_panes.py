"""A pane of the dashboard in a tab of its own has its cards, and nothing else but the heading."""

from __future__ import annotations

import re
from pathlib import Path

import panel as pn
import pytest
from bokeh.models import Plot

from tabletopic_kernel._dashboards import overview, panes, topic
from tabletopic_kernel.faces.live_dashboard.theme import DARK
from tabletopic_kernel.faces.live_dashboard.view import View

_NAMES = Path(__file__).parents[3] / "labextension/src/panes.ts"


def _link(name: str) -> str:
    return f"?topic={name}"


def _shown(view: View, name: str, pane: str) -> tuple[list[str], int]:
    """The headings of a page, and the number of its plots."""
    page = panes.make_page(name, pane, DARK, _link, lambda _: None)
    page.show(view)
    html = "".join(part.object for part in page.panel.select(pn.pane.HTML))
    return re.findall("<h[12]>(.*?)</h[12]>", html), len(list(page.panel.get_root().select({"type": Plot})))


@pytest.mark.parametrize(
    ("name", "pane", "first", "plots"),
    [
        ("clicks", "lag", "Commit lag by partition", 3),
        ("clicks", "rates", "Rows committed per second", 2),
        ("clicks", "files", "Data files per commit", 2),
        ("clicks", "schemas", "Schema versions", 1),
        ("clicks", "snapshots", "Snapshots", 0),
        ("clicks", "letters", "Dead letters", 0),
        ("clicks", "events", "Hosts and events", 0),
        ("", "lag", "Commit lag by topic, last 10 minutes", 1),
        ("", "topics", "", 0),
    ],
)
def test_a_pane_has_its_cards_alone(view: View, name: str, pane: str, first: str, plots: int) -> None:
    """Below the heading come the pane's cards, with the same text as on the whole page."""
    (title, *headings), count = _shown(view, name, pane)
    assert (title, headings[:1], count) == (name or "Table topics", [first] if first else [], plots)
    whole, _ = _shown(view, name, "")
    assert [heading for heading in whole if heading in headings] == headings
    assert len(headings) < len(whole)


def test_an_unknown_pane_is_the_whole_page(view: View) -> None:
    """A name that a newer sidebar may know removes nothing."""
    assert _shown(view, "clicks", "") == _shown(view, "clicks", "other")
    assert panes.opening(view, "clicks", "other", _link) == topic.opening(view, "clicks", _link)
    assert panes.opening(view, "clicks", "lag", _link) == topic.head(view, "clicks")
    assert panes.opening(view, "", "lag", _link) == overview.opening(view)


def test_each_pane_has_a_name_in_the_sidebar() -> None:
    """The menus of JupyterLab list the same panes."""
    names = re.findall(r"^ +\['(\w+)', trans", _NAMES.read_text("utf-8"), flags=re.MULTILINE)
    assert names == [*panes.OVERVIEW_PANES, *panes.TOPIC_PANES]
