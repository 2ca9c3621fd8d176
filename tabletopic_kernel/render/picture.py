"""Small plots for notebooks: bars and lines as SVG, in the page's colours, with the figures as text.

No JavaScript or external fonts, so a saved notebook shows them everywhere.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tabletopic_kernel.render.grid import escape_commands

# Okabe and Ito's palette, distinguishable for colour-blind people too.
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9")
_WIDTH, _LABEL, _FIGURE, _ROW = 640, 170, 90, 24
_PLOT_HEIGHT, _MARGIN = 240, 48
# Values in a shorter span are indistinguishable: absolutely, and relative to the span's ends.
_LEAST_SPAN, _LEAST_SHARE = 1e-300, 1e-9
_MOST_TICKS = 6
_MOST_MARKS = 60


@dataclass(frozen=True)
class Picture:
    """An SVG and the same in words."""

    svg: str
    words: str

    def __repr__(self) -> str:
        return escape_commands(self.words)

    def _repr_html_(self) -> str:
        return self.svg


def bars(values: Mapping[str, float], title: str, unit: str = "") -> Picture:
    """One bar per name, in the given order; values are 0 or more."""
    most = max(values.values(), default=0) or 1
    room = _WIDTH - _LABEL - _FIGURE
    parts = []
    for index, (name, value) in enumerate(values.items()):
        top = 30 + index * _ROW
        length = room * value / most
        parts += [
            _text(_LABEL - 8, top + 15, name, "end"),
            f'<rect x="{_LABEL}" y="{top + 3}" width="{length:.1f}" height="{_ROW - 8}" '
            f'fill="{_COLOURS[0]}"/>',
            _text(_LABEL + length + 6, top + 15, _figure(value, unit)),
        ]
    words = [title, *(f"  {name}: {_figure(value, unit)}" for name, value in values.items())]
    return _picture(title, parts, 36 + len(values) * _ROW, "\n".join(words))


def lines(
    series: Mapping[str, Sequence[tuple[float, float]]], title: str, x_label: str, y_label: str
) -> Picture:
    """One line per name: points (x, y) by ascending x; the y axis begins at 0."""
    points = [point for line in series.values() for point in line]
    first, last = min((x for x, _ in points), default=0.0), max((x for x, _ in points), default=1.0)
    heights = ticks(0, max((y for _, y in points), default=0) or 1, covers=True)
    most = heights[-1]
    left, right, top, bottom = 70, _WIDTH - 20, 34, 34 + _PLOT_HEIGHT

    def place(x: float, y: float) -> tuple[float, float]:
        span = (last - first) or 1
        return left + (x - first) / span * (right - left), bottom - y / most * (bottom - top)

    parts = []
    for value in heights:
        _, y = place(first, value)
        parts += [
            f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="currentColor" '
            f'opacity="0.15"/>',
            _text(left - 6, y + 4, _figure(value), "end"),
        ]
    for value in ticks(first, last):
        parts.append(_text(place(value, 0)[0], bottom + 16, _figure(value), "middle"))
    for index, (name, line) in enumerate(series.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        places = [place(*point) for point in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        if len(places) <= _MOST_MARKS:  # a single point has no line
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places]
        parts.append(
            f'<rect x="{left + index * 150}" y="{bottom + 40}" width="12" height="12" fill="{colour}"/>'
        )
        parts.append(_text(left + index * 150 + 18, bottom + 50, name))
    parts.append(_text((left + right) / 2, bottom + 32, x_label, "middle"))
    parts.append(_text(left, top - 6, y_label))
    words = [f"{title} ({x_label}; {y_label})"]
    words += [
        f"  {name}: {_figure(line[0][1])} to {_figure(line[-1][1])}" for name, line in series.items() if line
    ]
    return _picture(title, parts, bottom + 2 * _MARGIN - 36, "\n".join(words))


def ticks(first: float, last: float, *, covers: bool = False) -> list[float]:
    """Some round figures from ``first`` to ``last``; with ``covers`` the last one is at least ``last``.

    >>> ticks(0, 251, covers=True)
    [0.0, 50.0, 100.0, 150.0, 200.0, 250.0, 300.0]
    >>> ticks(0, 65)
    [0.0, 20.0, 40.0, 60.0]
    """
    span = last - first
    if span < max(_LEAST_SPAN, _LEAST_SHARE * max(abs(first), abs(last))):
        return [first, last] if covers else [first]
    power = 10.0 ** math.floor(math.log10(span / _MOST_TICKS))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if span / (power * factor) < _MOST_TICKS)
    figures = [step * number for number in range(math.ceil(first / step), math.floor(last / step) + 1)]
    return [*figures, figures[-1] + step] if covers and figures[-1] < last else figures


def _picture(title: str, parts: Sequence[str], height: int, words: str) -> Picture:
    label = html.escape(words, quote=True)
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
        f'style="max-width:100%;height:auto;color:var(--jp-content-font-color1,currentColor)" '
        f'font-family="sans-serif" font-size="12" role="img" aria-label="{label}">'
        f"{_text(0, 14, title, weight='bold')}{''.join(parts)}</svg>"
    )
    return Picture(svg, words)


def _text(x: float, y: float, text: str, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" fill="currentColor">'
        f"{html.escape(text)}</text>"
    )


def _figure(value: float, unit: str = "") -> str:
    about = (
        f"{value:,.0f}"
        if float(value).is_integer() or abs(value) >= 100
        else f"{value:,.2f}".rstrip("0").rstrip(".")
    )
    return f"{about} {unit}".strip()
