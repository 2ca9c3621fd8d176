"""All table topics: the state of each, and the commit lag of those furthest behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from html import escape
from typing import Any
from urllib.parse import quote

import panel as pn

from tabletopic_kernel.faces.live_dashboard import html, plots
from tabletopic_kernel.faces.live_dashboard.charts import OTHERS, lag_by_topic, largest_topics
from tabletopic_kernel.faces.live_dashboard.html import Part
from tabletopic_kernel.faces.live_dashboard.theme import (
    LIGHT,
    Palette,
    card_styles,
    part_css,
    table_css,
)
from tabletopic_kernel.faces.live_dashboard.view import View
from tabletopic_kernel.faces.live_dashboard.widgets import TopicTable
from tabletopic_kernel.faces.operations.next_steps import Face, for_face
from tabletopic_kernel.model.progress.progress_view import NO_HOST
from tabletopic_kernel.render import words
from tabletopic_kernel.render.states import STATES, need_of, words_of

MOST_LINES = 7
_WINDOW_MS = 600_000
_LAG_TITLE = "Commit lag by topic, last 10 minutes"
_CHOOSE_EVERY_MS = 60_000
_DRAW_EVERY_MS = 2_000  # a bucket
COLUMNS = [
    {"name": name, "title": title, "kind": kind}
    for name, title, kind in (
        ("topic", "Topic", "link"),
        ("state", "State", "state"),
        ("lag", "Lag (records)", "count"),
        ("behind", "Lag (time)", "seconds"),
        ("rate", "Rows/s", "count"),
        ("schema", "Schema", "text"),
        ("committed", "Last commit", "moment"),
        ("commits", "Commits", "count"),
        ("rows", "Rows", "count"),
        ("letters", "Dead letters", "count"),
        ("host", "Host", "text"),
        ("error", "Error", "trouble"),
    )
]


def row(view: View, name: str) -> dict[str, Any]:
    """One topic's row of the table; None is unknown."""
    topic = view.topic(name)
    progress, host = topic.progress, view.live_host(name)
    behind = topic.lag_seconds(view.now_ms)
    return {
        "topic": name,
        "need": need_of(view.standing(name)),  # no column: the order of the table at first
        "state": words_of(view.standing(name)).word,
        "lag": topic.lag_records,
        "behind": None if behind is None else round(behind, 1),
        "rate": round(progress.rows_per_second) if progress and host else None,
        "schema": ", ".join(f"v{version.version}" for version in progress.schema_versions)
        if progress
        else "",
        "committed": topic.last_commit_ms if topic.last_commit_ms > 0 else None,
        "commits": progress.commits if progress else None,
        "rows": progress.rows if progress else None,
        "letters": progress.dead_letters if progress else None,
        "host": host or "",
        "error": trouble(view, name) or "",
    }


def trouble(view: View, name: str) -> str | None:
    """Why a topic is not progressing, and what to do."""
    progress = view.topic(name).progress
    desired = (view.desired_topics or {}).get(name)
    if desired is not None and desired.refused and not (progress and progress.error):
        reason = desired.refused
    elif view.state(name) == NO_HOST:
        reason = "no host runs this topic: start one in JupyterLab's sidebar, with `tabletopic serve`"
    elif progress is None or not view.live_host(name):
        return None
    else:
        delay = view.delay(name)
        reason = progress.error or (view.topic(name).reason(delay) if delay else "")
    return for_face(reason, Face.DASHBOARD) or None


def summary(view: View) -> str:
    """The topics, their lag and the hosts in a sentence."""
    names = sorted(view.desired_topics or {})
    lags = [view.topic(name).lag_records for name in names]
    states = Counter(words_of(view.standing(name)).word for name in names)
    counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
    lag = words.number(sum(lag for lag in lags if lag is not None))
    unknown = sum(lag is None for lag in lags)
    unknown_note = f" ({unknown} unknown)" if unknown else ""
    runs = Counter(host for name in names if (host := view.live_host(name)))
    hosts = sorted({*view.hosts, *runs})
    run = "; ".join(f"{host} runs {runs[host]}{_about(view, host)}" for host in hosts) or "none"
    plural = "" if len(names) == 1 else "s"
    return f"{len(names)} table topic{plural}: {counts}. Lag {lag} records{unknown_note}. Hosts: {run}."


def _about(view: View, host: str) -> str:
    """A host's uptime, version and memory; empty for an older one, which does not report them."""
    beat = view.record.hosts.get(host)
    if beat is None:
        return ""
    memory = [] if beat.memory_bytes is None else [words.size(beat.memory_bytes)]
    up = words.seconds(max(0, view.now_ms - beat.started_ms) // 1000)
    return f" ({', '.join([f'version {beat.version}', f'up {up}', *memory])})"


def empty_note(view: View) -> str | None:
    """The first step, if there is nothing to show."""
    if view.troubles.get("servers") or view.troubles.get("broker"):
        return None
    if view.desired_topics is None:
        return "Connecting to the broker …"
    if not view.desired_topics:
        return (
            "No topic is enabled. Enable one with a click in JupyterLab's sidebar, or with "
            "`tabletopic enable NAME`."
        )
    return None


def opening(view: View) -> str:
    """The top of the page as HTML, sent before the table and the plot."""
    parts_html = ["<h1>Table topics</h1>"]
    if view.desired_topics:
        parts_html.append(f'<p class="muted">{escape(summary(view))}</p>')
    parts_html += [html.note(text, "bad") for text in view.troubles.values()]
    if (first := empty_note(view)) is not None:
        parts_html.append(html.note(first, "info"))
    return "".join(parts_html)


class OverviewPage:
    """The page; ``show`` updates it from a view and sends what changed."""

    def __init__(self, colours: Palette = LIGHT, link: Callable[[str], str] | None = None) -> None:
        self._colours = colours
        self._link = link or (lambda topic: f"?topic={quote(topic)}")
        self._head, self._about_lag = Part(colours), Part(colours)
        self._lines: list[str] = []
        self._chosen_ms = self._drawn_ms = 0
        self._plot = plots.lines_plot(
            colours,
            "records",
            MOST_LINES + 1,
            time_axis=plots.recent(_WINDOW_MS),
            title=_LAG_TITLE,
            height_px=240,
        )
        self._drawing = pn.Column(
            pn.pane.Bokeh(self._plot.figure, sizing_mode="stretch_width"),
            sizing_mode="stretch_width",
            margin=0,
        )
        self._card = pn.Column(
            self._about_lag.pane,
            self._drawing,
            styles=card_styles(colours, None),
            margin=(6, 0),
            visible=False,
        )
        self._table = TopicTable(
            columns=COLUMNS,
            marks={state_words.word: html.mark_of(state) for state, state_words in STATES.items()},
            address=self._link("TOPIC"),
            stylesheets=[part_css(colours), table_css(colours)],
            sizing_mode="stretch_width",
            margin=(8, 0),
            visible=False,
        )
        self.cards = {"topics": self._table, "lag": self._card}
        self.panel = pn.Column(self._head.pane, *self.cards.values(), sizing_mode="stretch_width", margin=0)

    def show(self, view: View) -> None:
        """Show this view."""
        self._head.show(opening(view))
        self._show_table(view)
        self._show_lag(view)

    def _show_table(self, view: View) -> None:
        rows = {name: row(view, name) for name in sorted(view.desired_topics or {})}
        self._table.bring(rows)
        self._table.visible = bool(rows)

    def _show_lag(self, view: View) -> None:
        names = sorted(view.desired_topics or {})
        self._card.visible = bool(names)
        if not names or view.now_ms - self._drawn_ms < _DRAW_EVERY_MS:
            return
        self._drawn_ms = view.now_ms
        due = view.now_ms - self._chosen_ms > _CHOOSE_EVERY_MS
        if due or len(self._lines) < min(len(names), MOST_LINES) or not set(self._lines) <= set(names):
            self._chosen_ms = view.now_ms
            self._lines = largest_topics(view.record, names, MOST_LINES)
        columns = lag_by_topic(view.record, names, self._lines, _WINDOW_MS, view.now_ms)
        lines = {name: columns[f"t{index}"] for index, name in enumerate(self._lines)}
        if len(names) > len(lines):
            lines["all others"] = columns[OTHERS]
        self._plot.show_lines(columns["at"], lines)
        self._drawing.visible = any(lag is not None for line in lines.values() for lag in line)
        worst = max(names, key=lambda name: view.topic(name).lag_records or 0)
        lag = view.topic(worst).lag_records
        about = f"furthest behind: {worst}, {words.number(lag)} records" if lag else "no topic is behind"
        if lag is None or not self._drawing.visible:
            about = "No data in this window."
        self._about_lag.show(html.heading(_LAG_TITLE, about, self._plot.key))


def page(view: View, colours: Palette = LIGHT) -> Any:
    """The page of a view, at one point in time."""
    overview = OverviewPage(colours)
    overview.show(view)
    return overview.panel


if __name__.startswith(
    "bokeh_app"
):  # `panel serve dashboards/overview.py`; ?topic=NAME and ?theme=dark choose
    from tabletopic_kernel.faces.live_dashboard.session import open_page

    open_page().servable()
