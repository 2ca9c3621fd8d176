"""HTML helpers for the pages; everything from outside is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from html import escape
from typing import Any

from tabletopic_kernel.faces.live_dashboard.theme import Palette, part_css
from tabletopic_kernel.faces.operations.next_steps import Face, for_face
from tabletopic_kernel.render import words
from tabletopic_kernel.render.states import Tone, words_of

# The classes of the page's style sheet.
_MARKS: Mapping[Tone, str] = {
    "good": "good",
    "busy": "warn",
    "note": "muted",
    "quiet": "muted",
    "warn": "warn",
    "bad": "bad",
}
# What a line or a mark looks like, in characters, for the key above a plot.
_SAMPLES = {
    "solid": "━━",
    "dashed": "╍╍",
    "dotted": "┅┅",
    "dotdash": "┅━",
    "dashdot": "━┅",
    "circle": "●",
    "x": "✕",
}


def mark_of(state: str) -> str:
    """``good``, ``warn``, ``bad`` or ``muted``."""
    return _MARKS[words_of(state).tone]


def state_html(state: str) -> str:
    """A state in words, coloured."""
    return f'<span class="{mark_of(state)}">{escape(words_of(state).word)}</span>'


@dataclass(frozen=True)
class Html:
    """HTML that is already escaped."""

    text: str


Cell = str | Html


def cell(value: Cell) -> str:
    """The HTML of a cell."""
    return value.text if isinstance(value, Html) else escape(value)


def table(
    name: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    right: Iterable[str] = (),
    long: Iterable[str] = (),
) -> str:
    """A table that scrolls if it does not fit, ``name`` its label; columns of numbers, and of long texts."""
    kinds = {**dict.fromkeys(right, "right"), **dict.fromkeys(long, "long")}

    def side(name: str) -> str:
        return f' class="{kinds[name]}"' if name in kinds else ""

    head = "".join(f'<th scope="col"{side(name)}>{escape(name)}</th>' for name in columns)
    body = "".join(
        "<tr>"
        + "".join(f"<td{side(name)}>{cell(value)}</td>" for name, value in zip(columns, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def figures(
    pairs: Iterable[tuple[str, Cell, str]], *, wide: Iterable[str] = (), ids: Iterable[str] = ()
) -> str:
    """Name, value and remark of each figure, as tiles; ``wide`` have room for words, ``ids`` are small."""
    tiles = "".join(
        ('<div class="wide">' if name in wide else "<div>")
        + f'<dt>{escape(name)}</dt><dd class="{"id" if name in ids else "figure"}"><span>{cell(value)}</span>'
        + (f"<small>{escape(remark)}</small>" if remark else "")
        + "</dd></div>"
        for name, value, remark in pairs
    )
    return f"<dl>{tiles}</dl>"


def message_html(text: str) -> str:
    """A message with next steps in the dashboard's words; text in backquotes is code."""
    pieces = for_face(text, Face.DASHBOARD).split("`")
    return "".join(
        f"<code>{escape(piece)}</code>" if index % 2 else escape(piece) for index, piece in enumerate(pieces)
    )


def note(text: Cell, kind: str = "") -> str:
    """A highlighted message; ``kind`` is ``info``, ``bad`` or nothing."""
    extra = f" is-{kind}" if kind else ""
    content = text.text if isinstance(text, Html) else message_html(text)
    return f'<div class="note{extra}" role="note">{content}</div>'


def heading(title: str, summary: Cell, key: Sequence[tuple[str, str, str]] = ()) -> str:
    """A card's title, the text alternative of its plot, and its lines: (name, colour, dash or marker)."""
    return f'<h2>{escape(title)}</h2><p class="muted">{cell(summary)}</p>{key_of(key)}'


def key_of(lines: Sequence[tuple[str, str, str]]) -> str:
    """Which line of a plot is which; empty if there is nothing to distinguish."""
    key = "".join(
        f'<span aria-hidden="true" style="color:{colour}">{_SAMPLES.get(shape, "━━")}</span> '
        f'<span class="name">{escape(name)}</span> '
        for name, colour, shape in lines
    )
    return f'<p class="keys">{key}</p>' if key else ""


def moment(at_ms: int, zone: tzinfo) -> Html:
    """A time as shown by a clock in ``zone``."""
    local = datetime.fromtimestamp(at_ms / 1000, zone)
    return Html(f'<time datetime="{local.isoformat(timespec="seconds")}">{local:%Y-%m-%d %H:%M:%S}</time>')


class Part:
    """A pane of our HTML; ``show`` sends it only if it changed."""

    def __init__(self, colours: Palette, **options: Any) -> None:
        import panel as pn  # noqa: PLC0415 - two seconds, and callers of the functions above do not need it

        self.pane = pn.pane.HTML(
            "", sizing_mode="stretch_width", margin=0, stylesheets=[part_css(colours)], **options
        )

    def show(self, html: str) -> None:
        """Show this HTML."""
        if self.pane.object != html:
            self.pane.object = html


def changes(counts: Mapping[str, int]) -> str:
    """What became of rows of a table with one row per key; empty for other tables."""
    return "".join(f"; {words.number(count)} {change}s" for change, count in sorted(counts.items()))


def passed_over(counts: Mapping[str, int], failing: Mapping[str, int]) -> str:
    """Sentences on records that became no row, by reason, and on rows that fail expectations, by rule."""
    sentences = []
    for subject, by_cause in (("No row", counts), ("Rows that fail expectations", failing)):
        if by_cause:
            causes = (f"{words.number(count)} {cause}" for cause, count in sorted(by_cause.items()))
            sentences.append(f" {subject}: {', '.join(causes)}.")
    return "".join(sentences)
