"""One table topic: commit lag, throughput, files, schema versions, dead letters, hosts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, tzinfo
from html import escape
from typing import Any

import panel as pn

from tabletopic_kernel.faces.live_dashboard import cards, charts, html
from tabletopic_kernel.faces.live_dashboard.charts import OTHERS, Columns
from tabletopic_kernel.faces.live_dashboard.html import Part
from tabletopic_kernel.faces.live_dashboard.plots import Plot, fixed, lines_plot, recent, time_plot
from tabletopic_kernel.faces.live_dashboard.polls import WINDOWS_MS
from tabletopic_kernel.faces.live_dashboard.theme import LIGHT, Palette, card_styles
from tabletopic_kernel.faces.live_dashboard.view import View
from tabletopic_kernel.faces.live_dashboard.widgets import Replay, ReplayBox
from tabletopic_kernel.model.progress.time_buckets import History
from tabletopic_kernel.render import words

MOST_LINES = 7
_AXIS_EVERY_MS = 60_000
_CARD_PX = 440  # one width for all, so that they line up in columns
_TEXTS = ("health", "schemas", "snapshots", "letters", "owners")
_WIDE = ("schemas", "snapshots", "letters", "owners")  # tables with many columns or long texts
DEFAULT_WINDOW = next(iter(WINDOWS_MS))


class TopicPage:
    """The page; ``show`` updates it from a view and sends what changed."""

    def __init__(
        self,
        topic: str,
        colours: Palette = LIGHT,
        link: Callable[[str], str] | None = None,
        window: str = DEFAULT_WINDOW,
        replay: Replay | None = None,
    ) -> None:
        self.topic = topic
        self.zone: tzinfo = UTC
        self._colours = colours
        self._link = link
        self._head, self._tiles = Part(colours), Part(colours)
        self.window = pn.widgets.RadioButtonGroup(
            label="time range",
            options=list(WINDOWS_MS),
            value=window,
            margin=(4, 0),
            stylesheets=[_button_css(colours)],
        )
        self.window.param.watch(self._window_changed, "value")
        self._partitions: list[int] = []
        self._time_axis = recent(self.window_ms)
        self._plots = self._make_plots()
        self._schemas_end_ms = 0
        self._schemas_axis = fixed(0, 1)
        self._schemas = time_plot(
            colours,
            "schema version",
            [("changed", "applied to the table"), ("refused", "refused")],
            time_axis=self._schemas_axis,
            title="Schema versions",
            kind="dots",
            height_px=150,
        )
        self._about = {name: Part(colours) for name in ("lag", *self._plots)}
        self._lag = lines_plot(
            colours, "records", MOST_LINES + 1, time_axis=self._time_axis, title=_LAG_TITLE
        )
        self._lag_drawing = self._drawing(self._lag)
        lag_card = self._card([self._about["lag"].pane, self._lag_drawing])
        self._texts = {name: Part(colours) for name in _TEXTS}
        self._drawings = {name: self._drawing(plot) for name, plot in self._plots.items()}
        self._cards = {
            name: self._card([self._about[name].pane, drawing]) for name, drawing in self._drawings.items()
        }
        self._missing = Part(colours)
        key = Part(colours)
        key.show(html.key_of(self._schemas.key))
        self._schemas_pane = self._drawing(self._schemas, key.pane)
        text_cards = {
            name: self._card([part.pane], None if name in _WIDE else _CARD_PX)
            for name, part in self._texts.items()
        }
        text_cards["schemas"].append(self._schemas_pane)
        self._replay = ReplayBox(topic, colours, replay, _button_css(colours))
        text_cards["letters"].append(self._replay.panel)
        self.cards = {"lag": lag_card, **self._cards, **text_cards}
        self.panel = pn.Column(
            self._head.pane,
            self._tiles.pane,
            self.window,
            self._missing.pane,
            pn.FlexBox(
                *self.cards.values(),
                gap="12px",
                margin=0,
                sizing_mode="stretch_width",
                styles={"width": "100%"},
            ),
            sizing_mode="stretch_width",
            margin=0,
        )

    @property
    def window_ms(self) -> int:
        """How much time the plots show."""
        return WINDOWS_MS[self.window.value]

    def show(self, view: View) -> None:
        """Show this view."""
        self._head.show(head(view, self.topic, self._link))
        progress = view.topic(self.topic).progress
        # A topic that was never enabled has nothing else to show.
        for part in self.panel.objects[1:]:
            part.visible = (
                view.desired_topics is None
                or view.desired_topic(self.topic) is not None
                or progress is not None
            )
        self._tiles.show(cards.tiles(view, self.topic, self.zone))
        self._show_lag(view)
        self._show_plots(view)
        for name, text in (
            ("schemas", cards.schema_changes),
            ("health", cards.health),
            ("snapshots", cards.snapshots),
            ("letters", cards.dead_letters),
            ("owners", cards.owners),
        ):
            self._texts[name].show(text(view, self.topic, self.zone))
        self._replay.show(progress.dead_letters if progress else 0)
        self._show_schemas(view)

    def _show_plots(self, view: View) -> None:
        """Show the plots with data; a line explains why others are missing."""
        columns = self._columns(view)
        for name, data in columns.items():
            self._plots[name].show(data)
            self._about[name].show(html.heading(*_about(name, data)))
            self._cards[name].visible = bool(data["at"])
            self._drawings[name].visible = _has_data(data)
        progress = view.topic(self.topic).progress
        missing = _NO_COMMIT_NOW if progress and progress.commits else _NO_COMMIT_YET
        self._missing.show("" if columns["files"]["at"] else f'<p class="muted after">{missing}</p>')

    def _show_schemas(self, view: View) -> None:
        week_ms = max(WINDOWS_MS.values())
        first_ms = view.now_ms - week_ms
        columns = charts.schema_versions(view.topic(self.topic).changes, first_ms)
        self._schemas.show(columns)
        self._schemas_pane.visible = bool(columns["at"])
        if view.now_ms - self._schemas_end_ms > _AXIS_EVERY_MS:
            self._schemas_end_ms = view.now_ms
            self._schemas_axis.update(start=first_ms, end=view.now_ms + week_ms // 50)

    def _columns(self, view: View) -> dict[str, Columns]:
        record = view.topic(self.topic)
        interval_ms = record.progress.commit_interval_ms if record.progress else 0
        history, window_ms, now_ms = record.history, self.window_ms, view.now_ms
        lag = charts.commit_lag(history, window_ms, now_ms, ())
        commits = charts.commits(history, window_ms, now_ms)
        # Without a commit, rates would be a line at 0.
        rates = charts.throughput(history if commits["at"] else History(), window_ms, now_ms, interval_ms)
        return {
            "seconds": {"at": lag["at"], "seconds": lag["seconds"]},
            "since": charts.since_commit(history, window_ms, now_ms),
            "rows": {"at": rates["at"], "rows": rates["rows"]},
            "bytes": {"at": rates["at"], "bytes": rates["bytes"]},
            "files": {"at": commits["at"], "files": commits["files"]},
            "sizes": {"at": commits["at"], "file_bytes": commits["file_bytes"]},
        }

    def _show_lag(self, view: View) -> None:
        """A line per partition; if there are many, only those with the highest lag when the page opened."""
        record = view.topic(self.topic)
        lags = record.lag_by_partition
        if not self._partitions:
            self._partitions = charts.largest(lags, MOST_LINES)
        columns = charts.commit_lag(record.history, self.window_ms, view.now_ms, self._partitions)
        lines = {
            str(p) if index else f"partition {p}": columns[f"p{p}"]
            for index, p in enumerate(self._partitions)
        }
        if len(lags) > len(lines):
            lines["others"] = columns[OTHERS]
        self._lag.show_lines(columns["at"], lines)
        worst = max(lags, key=lambda p: lags[p], default=None)
        now = f"now {words.number(record.lag_records)} records over {words.many(len(lags), 'partition')}"
        if worst is not None and lags[worst]:
            now += f"; most in partition {worst}: {words.number(lags[worst])}"
        self._lag_drawing.visible = _has_data(columns)
        now += "" if self._lag_drawing.visible else f". {NO_DATA}"
        self._about["lag"].show(html.heading(_LAG_TITLE, now, self._lag.key))

    def _make_plots(self) -> dict[str, Plot]:
        return {
            name: time_plot(
                self._colours,
                y_title,
                [(column, y_title)],
                time_axis=self._time_axis,
                title=_TITLES[name][0],
                kind=kind,
                unit=unit,
            )
            for name, y_title, column, kind, unit in _PLOTS
        }

    def _drawing(self, plot: Plot, *above: Any) -> Any:
        """A figure that is hidden while it has no data."""
        drawn = pn.pane.Bokeh(plot.figure, sizing_mode="stretch_width")
        return pn.Column(*above, drawn, sizing_mode="stretch_width", margin=0, visible=False)

    def _card(self, inside: list[Any], width_px: int | None = _CARD_PX) -> Any:
        return pn.Column(*inside, styles=card_styles(self._colours, width_px), margin=0)

    def _window_changed(self, _: object) -> None:
        self._time_axis.follow_interval = self.window_ms


def _has_data(columns: Columns) -> bool:
    return any(value is not None for name, values in columns.items() if name != "at" for value in values)


def _about(name: str, columns: Columns) -> tuple[str, str]:
    """A plot's title, and its text alternative."""
    column = next(key for key in columns if key != "at")
    values = [value for value in columns[column] if value is not None]
    if not values:
        return _TITLES[name][0], f"{_TITLES[name][1]}. {NO_DATA}"
    spell = (
        words.size
        if name in ("bytes", "sizes")
        else words.seconds
        if name in ("seconds", "since")
        else words.number
    )
    unit = {"rows": " rows/s", "bytes": "/s"}.get(name, "")
    last = "last" if name in ("files", "sizes") else "now"
    return _TITLES[name][0], f"{last} {spell(values[-1])}{unit}; max {spell(max(values))}{unit}"


# Name, axis title, column, kind and unit of each plot with one line.
_PLOTS = (
    ("seconds", "seconds", "seconds", "line", "count"),
    ("since", "seconds", "seconds", "line", "count"),
    ("rows", "rows per second", "rows", "line", "count"),
    ("bytes", "bytes per second", "bytes", "line", "bytes"),
    ("files", "files", "files", "dots", "count"),
    ("sizes", "bytes per file", "file_bytes", "dots", "bytes"),
)
_LAG_TITLE = "Commit lag by partition"
NO_DATA = "No data in this window."
_NO_COMMIT_YET = "Rates, files and file sizes appear after the first commit."
_NO_COMMIT_NOW = "No commit in this time range: no rates, files or file sizes to show."
_TITLES = {
    "seconds": ("Commit lag in seconds: age of the oldest record not yet in the table", "unknown"),
    "since": ("Seconds since the last commit", "no commit yet"),
    "rows": ("Rows committed per second", "no commit yet"),
    "bytes": ("Bytes committed per second", "no commit yet"),
    "files": ("Data files per commit", "no commit in this time range"),
    "sizes": ("Data file size, mean per commit", "no commit in this time range"),
}


def _button_css(colours: Palette) -> str:
    return f"""
.bk-btn, .bk-btn-default {{ background: {colours.card} !important; color: {colours.text} !important;
  border-color: {colours.grid} !important; }}
.bk-btn.bk-active {{ background: {colours.link} !important; color: {colours.card} !important; }}
"""


def head(view: View, topic: str, link: Callable[[str], str] | None = None) -> str:
    """The topic's name, the link back (if any), and errors."""
    back = f'<p><a href="{escape(link(""))}">All table topics</a></p>' if link else ""
    return f"{back}<h1>{escape(topic)}</h1>{cards.notes(view, topic)}"


def opening(view: View, topic: str, link: Callable[[str], str] | None = None) -> str:
    """The top of the page as HTML, sent before the plots."""
    return head(view, topic, link) + cards.tiles(view, topic, UTC)


def page(view: View, topic: str, colours: Palette = LIGHT, window: str = DEFAULT_WINDOW) -> Any:
    """The page of a view, at one point in time."""
    topic_page = TopicPage(topic, colours, window=window)
    topic_page.show(view)
    return topic_page.panel


if __name__.startswith("bokeh_app"):  # `panel serve dashboards/topic.py`; ?topic=NAME and ?theme=dark choose
    from tabletopic_kernel.faces.live_dashboard.session import open_page

    open_page().servable()
