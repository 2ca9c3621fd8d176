"""One open page: its theme, topic and pane from the URL, and the callback that keeps it up to date."""

from __future__ import annotations

import contextlib
import threading
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import panel as pn

from tabletopic_kernel.faces.live_dashboard.live import Live, LoadSettings
from tabletopic_kernel.faces.live_dashboard.theme import MADE, first_look, palette
from tabletopic_kernel.workbench.config import load_settings

# A commit should be visible within 2 s of its event; showing all topics costs more than showing one.
_LOOK_AT_TOPIC_MS, _LOOK_AT_ALL_MS = 500, 1_000
# Creating the figures takes half a second, while the browser already loads scripts.
_AFTER_ANSWER_MS = 20
_live: Live | None = None
_live_lock = threading.Lock()


def live(load: LoadSettings | None = None) -> Live:
    """The process's one reader, started on first use; ``load`` reads the settings, now and after outages."""
    global _live  # noqa: PLW0603 - all sessions of the process share one record
    with _live_lock:
        if _live is None:
            _live = Live(load or (lambda: load_settings().settings)).start()
        return _live


def argument(name: str) -> str:
    """An argument of the page's URL; empty if missing."""
    value = pn.state.session_args.get(name, [b""])[0]
    return str(value.decode("utf-8", "replace"))


def open_page() -> Any:
    """This session's page: of the topic in the URL, or the overview; or one pane of it."""
    # Imported late: pages import Panel, but their content is used without it too.
    from tabletopic_kernel._dashboards import panes  # noqa: PLC0415

    name, theme, pane = argument("topic"), argument("theme"), argument("pane")
    colours = palette(theme)
    document: Any = pn.state.curdoc

    def link(topic_name: str) -> str:
        """The address of a topic's page, or (empty) of the overview."""
        arguments = {"topic": topic_name, "theme": theme if theme == colours.name else ""}
        return "?" + urlencode({key: value for key, value in arguments.items() if value})

    reader = live()
    reader.watch(name)
    pn.state.on_session_destroyed(lambda _: reader.unwatch(name))
    with reader.look() as view:
        opening = panes.opening(view, name, pane, link)
    first_look(document, f"{name} · Table Topics" if name else "Table Topics", opening, colours)
    column: Any = pn.Column(sizing_mode="stretch_width", margin=0)

    def make() -> None:
        page = panes.make_page(name, pane, colours, link, reader.replay)

        def look() -> None:
            _set_zone(page)
            with reader.look() as view:
                page.show(view)

        look()
        column.param.update(objects=[page.panel], css_classes=[MADE])
        document.add_periodic_callback(look, _LOOK_AT_TOPIC_MS if name else _LOOK_AT_ALL_MS)

    document.add_timeout_callback(make, _AFTER_ANSWER_MS)
    return column


def _set_zone(page: Any) -> None:
    """Use the browser's time zone, which arrives shortly after the page is open."""
    zone = pn.state.browser_info.timezone if pn.state.browser_info else None
    if zone and hasattr(page, "zone") and str(page.zone) != zone:
        with contextlib.suppress(ZoneInfoNotFoundError, ValueError):
            page.zone = ZoneInfo(zone)
