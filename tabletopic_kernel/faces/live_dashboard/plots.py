"""Figures in the page's colours; their data follows the record by sending only changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from typing import Any

from bokeh.models import (
    AdaptiveTicker,
    ColumnDataSource,
    CustomJSHover,
    CustomJSTickFormatter,
    DataRange1d,
    HoverTool,
    NoOverlap,
    Range1d,
)
from bokeh.plotting import figure

from tabletopic_kernel.faces.live_dashboard.charts import Columns, Numbers
from tabletopic_kernel.faces.live_dashboard.theme import DASHES, Palette

# Bokeh's own formatters only support UTC; people read their own clock.
_CLOCK = """
const moment = new Date(%s), day = 86400000, pad = (n) => String(n).padStart(2, '0');
const minutes = pad(moment.getHours()) + ':' + pad(moment.getMinutes());
const seconds = minutes + ':' + pad(moment.getSeconds());
const date = moment.toLocaleDateString([], {month: 'short', day: 'numeric'});
"""
_TICK = (
    _CLOCK % "tick"
    + """
const step = ticks.length > 1 ? ticks[1] - ticks[0] : 60000;
return step >= day / 2 ? date : step >= 60000 ? minutes : seconds;
"""
)
_HOVER = _CLOCK % "value" + "return date + ' ' + seconds;"
_BYTES = """
const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']; let at = 0, value = Math.abs(tick);
while (value >= 1024 && at < 4) { value /= 1024; at += 1; }
return (at && value < 10 ? value.toFixed(1) : value.toFixed(0)) + ' ' + units[at];
"""
_COUNT = """
const value = Math.abs(tick);
if (value >= 1e9) return (tick / 1e9).toLocaleString() + ' G';
if (value >= 1e6) return (tick / 1e6).toLocaleString() + ' M';
if (value >= 1e4) return (tick / 1e3).toLocaleString() + ' k';
return tick.toLocaleString();
"""
HEIGHT_PX = 220


@dataclass(frozen=True)
class Change:
    """How one state of a source's columns becomes the next: patches first, then rows appended.

    ``rows`` is the number of rows afterwards; older rows roll over. ``replace``: no row is kept.
    """

    patches: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    appended: dict[str, Any] = field(default_factory=dict)  # column → list[float]
    rows: int = 0
    replace: bool = False


def change(old: Mapping[str, list[float]], new: Mapping[str, list[float]]) -> Change:
    """What must be sent to turn ``old`` into ``new``; rows are identified by their column ``at``."""
    before, after = old["at"], new["at"]
    rows = len(after)
    dropped = before.index(after[0]) if after and after[0] in before else len(before)
    kept = len(before) - dropped
    appended = rows - kept
    fits = appended >= 0 and before[dropped:] == after[:kept] and (appended > 0 or dropped == 0)
    if old.keys() != new.keys() or kept == 0 or not fits:
        return Change(rows=rows, replace=True)
    patches = {
        name: [
            (index + dropped, value)
            for index, (was, value) in enumerate(zip(old[name][dropped:], values[:kept], strict=True))
            if was != value and not (isnan(was) and isnan(value))
        ]
        for name, values in new.items()
    }
    return Change(
        {name: patch for name, patch in patches.items() if patch},
        {name: values[kept:] for name, values in new.items()} if appended else {},
        rows,
    )


def follow(source: ColumnDataSource, columns: Columns) -> None:
    """Update a source to its columns; sends nothing if nothing changed."""
    new = {name: [nan if y is None else float(y) for y in values] for name, values in columns.items()}
    difference = change({name: list(values) for name, values in source.data.items()}, new)
    if difference.replace:
        if len(source.data["at"]) or difference.rows:
            source.data = new
        return
    if difference.patches:
        source.patch(difference.patches)
    if difference.appended:
        source.stream(difference.appended, rollover=difference.rows)


@dataclass
class Plot:
    """A figure over time, the source behind it, and (name, colour, dash or marker) of each line.

    A page creates its figures once, with places for lines that get their names later: models created while it
    is open can reach the browser after the models that refer to them.
    """

    figure: Any
    source: ColumnDataSource
    hover: HoverTool
    key: list[tuple[str, str, str]]
    _colours: Palette

    def show(self, columns: Columns) -> None:
        """Draw these columns."""
        follow(self.source, columns)

    def show_lines(self, at: Numbers, lines: Mapping[str, Numbers]) -> None:
        """Draw these lines by name, one per place; extra places stay empty."""
        places = [name for name in self.source.data if name != "at"]
        unknown: Numbers = [None] * len(at)
        values = [*lines.values(), *([unknown] * (len(places) - len(lines)))]
        if [name for name, *_ in self.key] != list(lines):
            self.key = [(name, *_line(index, self._colours, "line")) for index, name in enumerate(lines)]
            rows = [(name, f"@{place}{{0,0}}") for place, name in zip(places, lines, strict=False)]
            self.hover.tooltips = [("time", "@at{custom}"), *rows]
        follow(self.source, {"at": at, **dict(zip(places, values, strict=True))})


def recent(window_ms: int) -> DataRange1d:
    """A time axis for the last ``window_ms`` of the plotted data; plots that share it move together."""
    return DataRange1d(follow="end", follow_interval=window_ms, range_padding=0.01)


def fixed(first_ms: int, last_ms: int) -> Range1d:
    """A time axis between two times."""
    return Range1d(start=first_ms, end=last_ms)


def time_plot(
    colours: Palette,
    y_title: str,
    columns: Sequence[tuple[str, str]],
    *,
    time_axis: DataRange1d | Range1d,
    title: str,
    kind: str = "line",
    unit: str = "count",
    height_px: int = HEIGHT_PX,
) -> Plot:
    """An empty plot over time.

    ``y_title`` has the unit; ``columns``: (column, label) of each line; ``time_axis``: from ``recent`` or
    ``fixed``; ``title``: for screen readers, the visible title is above the plot; ``kind``: ``line`` or
    ``dots``; ``unit``: ``count`` or ``bytes``, for the ticks.
    """
    fig = figure(
        height=height_px,
        sizing_mode="stretch_width",
        x_range=time_axis,
        y_range=DataRange1d(start=0, range_padding=0.1, min_interval=1),
        x_axis_type="datetime",
        tools="xpan,xwheel_zoom,reset",
        toolbar_location="above",
        x_axis_label="local time",
        y_axis_label=y_title,
        min_border_left=56,
        html_attributes={
            "role": "figure",
            "aria-label": f"Plot: {title}. The text before it has the same content.",
        },
    )
    fig.toolbar.autohide = True
    fig.toolbar.logo = None
    source = ColumnDataSource({"at": [], **{name: [] for name, _ in columns}})
    drawn = [_draw(fig, source, name, index, colours, kind) for index, (name, _) in enumerate(columns)]
    fig.xaxis.formatter = CustomJSTickFormatter(code=_TICK)
    fig.xaxis.major_label_policy = NoOverlap(min_distance=8)
    formatter, shown, steps = _COUNT, "0,0.[0]", dict[str, Any]()
    if unit == "bytes":
        formatter, shown = _BYTES, "0.0 ib"
        steps = {"base": 1024, "mantissas": [2**power for power in range(10)]}
    fig.yaxis.formatter = CustomJSTickFormatter(code=formatter)
    fig.yaxis.ticker = AdaptiveTicker(desired_num_ticks=4, min_interval=1, **steps)
    hover = HoverTool(
        renderers=[drawn[0]],
        mode="vline",
        tooltips=[("time", "@at{custom}"), *((label, f"@{name}{{{shown}}}") for name, label in columns)],
        formatters={"@at": CustomJSHover(code=_HOVER)},
    )
    fig.add_tools(hover)
    _colour(fig, colours)
    key = [
        (label, *_line(index, colours, kind)) for index, (_, label) in enumerate(columns) if len(columns) > 1
    ]
    return Plot(fig, source, hover, key, colours)


def _line(index: int, colours: Palette, kind: str) -> tuple[str, str]:
    """Colour of a line, and its dash or marker: lines differ in both."""
    colour = colours.series[index % len(colours.series)]
    return colour, ("circle", "x")[index % 2] if kind == "dots" else DASHES[index % len(DASHES)]


def _draw(fig: Any, source: ColumnDataSource, name: str, index: int, colours: Palette, kind: str) -> Any:
    colour, shape = _line(index, colours, kind)
    if kind == "dots":
        return fig.scatter("at", name, source=source, size=7, color=colour, line_width=2, marker=shape)
    return fig.line("at", name, source=source, line_width=2, color=colour, line_dash=shape)


def _colour(fig: Any, colours: Palette) -> None:
    fig.background_fill_color = fig.border_fill_color = colours.card
    fig.outline_line_color = None
    fig.grid.grid_line_color = colours.grid
    for axis in fig.axis:
        axis.axis_line_color = axis.major_tick_line_color = colours.grid
        axis.minor_tick_line_color = None
        axis.major_label_text_color = axis.axis_label_text_color = colours.muted
        axis.axis_label_text_font_style = "normal"
        axis.axis_label_text_font_size = axis.major_label_text_font_size = "11px"


def lines_plot(colours: Palette, y_title: str, places: int, **options: Any) -> Plot:
    """A plot with places for this many lines; see ``Plot.show_lines`` and ``time_plot``."""
    plot = time_plot(colours, y_title, [(f"line{index}", "") for index in range(places)], **options)
    plot.key = []
    return plot
