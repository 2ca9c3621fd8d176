"""One pane of a page as a page of its own, narrow enough to stand beside a notebook."""

from __future__ import annotations

from collections.abc import Callable

from tabletopic_kernel._dashboards import overview, topic
from tabletopic_kernel._dashboards.overview import OverviewPage
from tabletopic_kernel._dashboards.topic import TopicPage
from tabletopic_kernel.faces.live_dashboard.theme import Palette
from tabletopic_kernel.faces.live_dashboard.view import View
from tabletopic_kernel.faces.live_dashboard.widgets import Replay

Link = Callable[[str], str]  # the address of a topic's page, or (empty) of the overview

# The cards of each pane, by its name in the URL. The tabs' names are in labextension/src/panes.ts.
OVERVIEW_PANES: dict[str, tuple[str, ...]] = {"topics": ("topics",), "lag": ("lag",)}
TOPIC_PANES: dict[str, tuple[str, ...]] = {
    "lag": ("lag", "seconds", "since"),
    "rates": ("rows", "bytes"),
    "files": ("files", "sizes", "health"),
    "schemas": ("schemas",),
    "snapshots": ("snapshots",),
    "letters": ("letters",),
    "events": ("owners",),
}
_WITH_TIME_RANGE = ("lag", "rates", "files")


def opening(view: View, name: str, pane: str, link: Link) -> str:
    """The top of the page of a topic, or (empty) of the overview, as HTML."""
    if not name:
        return overview.opening(view)
    return topic.head(view, name) if pane in TOPIC_PANES else topic.opening(view, name, link)


def make_page(name: str, pane: str, colours: Palette, link: Link, replay: Replay) -> TopicPage | OverviewPage:
    """The page of a topic, or (empty) the overview; all of it unless it has this pane."""
    if not name:
        page = OverviewPage(colours, link)
        if pane in OVERVIEW_PANES:
            page.panel.objects = [page.panel[0], *(page.cards[card] for card in OVERVIEW_PANES[pane])]
        return page
    if pane not in TOPIC_PANES:
        return TopicPage(name, colours, link, replay=replay)
    # Without a link back: the page that it leads to would appear in the pane's tab.
    narrow = TopicPage(name, colours, replay=replay)
    head, _, *time_range, cards = narrow.panel
    cards.objects = [narrow.cards[card] for card in TOPIC_PANES[pane]]  # type: ignore[attr-defined]
    narrow.panel.objects = [head, *(time_range if pane in _WITH_TIME_RANGE else ()), cards]
    return narrow
