"""A small table, as HTML in notebooks and as text in terminals."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

# Jupyter's own variables, readable in light and dark; elsewhere the page's colours.
_RULES = {
    "caption": "caption-side:top;text-align:left;font-weight:600;padding:0 0 4px 0;overflow-wrap:anywhere",
    "td": "text-align:left;white-space:pre-wrap;vertical-align:top",
    "th": "text-align:left;vertical-align:top",
    "td.unbroken": "white-space:nowrap",
    ".right": "text-align:right;font-variant-numeric:tabular-nums",
    "td.bad": "color:var(--jp-error-color1,#b00020);font-weight:600",
    "td.warn": "color:var(--jp-warn-color0,#8a5a00)",
    "div.long": "max-width:48ch;min-width:16ch;overflow-wrap:anywhere",
    "details[open]": "max-height:24em;overflow:auto",  # what follows stays within reach
    "details[open]>summary>span": "display:none",
    "summary": "cursor:pointer",
    "summary i": "color:var(--jp-ui-font-color2,inherit)",
    "td.good": "color:var(--jp-success-color0,#1b6e20)",
    # Through rows that are not opaque, one sees the shadow at the edge.
    "tbody tr": "background:none",
    "tbody tr:nth-child(even)": "background:rgba(128,128,128,.08)",
}
# Columns out of sight have a shadow at their edge, where the page has Jupyter's colours.
_EDGES = ",".join(
    f"linear-gradient(to {to},var(--jp-{ink},transparent) {full},transparent) {side}/{size} no-repeat {how}"
    for ink, full, size, how in (
        ("layout-color0", "50%", "28px 100%", "local"),
        ("border-color0", "0", "12px 100%", "scroll"),
    )
    for side, to in (("left", "right"), ("right", "left"))
)
_SCROLL = f".tabletopic-scroll{{overflow-x:auto;background:{_EDGES}}}"
_NOTE = (
    ".tabletopic-note{color:var(--jp-ui-font-color2,inherit);font-size:90%;"
    "white-space:pre-wrap;overflow-wrap:anywhere}"
)
# The class twice, to outweigh Jupyter's own rules for tables in outputs.
_TABLE = "".join(f"table.tabletopic.tabletopic {element}{{{rule}}}" for element, rule in _RULES.items())
# Characters from which a text breaks, and from which a click shows more than its beginning; the most shown.
_BROKEN_FROM, _CUT_FROM, _MOST_CHARACTERS = 40, 300, 100_000
_CUT_LINES = 12
MOST_ROWS = 1_000  # per page: a browser takes up to 15 KB for each
_STYLE = f"<style>{_TABLE}{_NOTE}{_SCROLL}</style>"


# They could colour, retitle or command the terminal: records, names and errors come from outside.
COMMANDS = frozenset({*range(32), *range(0x7F, 0xA0)} - {ord("\t"), ord("\n")})
_ESCAPES = {code: f"\\x{code:02x}" for code in COMMANDS}


def escape_commands(text: str) -> str:
    """Text for a terminal, with the codes of ``COMMANDS`` in letters; HTML does not need it.

    >>> print(escape_commands("\x1b[31mred"))
    \\x1b[31mred
    """
    return text.translate(_ESCAPES)


@dataclass(frozen=True)
class Cell:
    """A text, and a mark for its colour: ``good``, ``warn`` or ``bad``; the text says the same."""

    text: str
    mark: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Grid:
    """Rows below headings, a title above and notes below; any of them may be missing.

    ``right``: names of columns of numbers; ``unbroken``: of columns whose texts stay on one line. Everything
    is escaped in HTML.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    title: str = ""
    notes: Sequence[str] = field(default_factory=tuple)
    right: frozenset[str] = frozenset()
    headed: bool = True
    unbroken: frozenset[str] = frozenset({"time"})

    def __repr__(self) -> str:
        lines = [*([self.title] if self.title else []), *self._lines(), *self.notes]
        return escape_commands("\n".join(lines))

    def with_texts(self, change: Callable[[str], str]) -> Grid:
        """The grid with every text except the headings changed."""
        rows = [
            [Cell(change(cell.text), cell.mark) if isinstance(cell, Cell) else change(cell) for cell in row]
            for row in self.rows
        ]
        return replace(self, rows=rows, title=change(self.title), notes=[change(note) for note in self.notes])

    def html(self) -> str:
        """The table as HTML, including its style."""
        parts = [_STYLE]
        if self.rows or self.title:
            caption = f"<caption>{html.escape(self.title)}</caption>" if self.title else ""
            table = f'<table class="tabletopic">{caption}{self._head()}{self._body()}</table>'
            parts.append(
                f'<div class="tabletopic-scroll" tabindex="0" role="region" aria-label="Table">{table}</div>'
            )
        rows = len(self.rows)
        left_out = [f"the first {MOST_ROWS:,} of {rows:,} rows"] if rows > MOST_ROWS else []
        notes = [*left_out, *self.notes]
        parts += [f'<div class="tabletopic-note">{html.escape(note)}</div>' for note in notes]
        return "".join(parts)

    def _repr_html_(self) -> str:
        return self.html()

    def _head(self) -> str:
        if not self.headed:
            return ""
        cells = "".join(
            f'<th scope="col"{self._class(name)}>{html.escape(name)}</th>' for name in self.columns
        )
        return f"<thead><tr>{cells}</tr></thead>"

    def _body(self) -> str:
        rows = (
            "".join(self._cell(name, cell) for name, cell in zip(self.columns, row, strict=True))
            for row in self.rows[:MOST_ROWS]
        )
        return f"<tbody>{''.join(f'<tr>{row}</tr>' for row in rows)}</tbody>"

    def _cell(self, name: str, cell: str | Cell) -> str:
        marks = [cell.mark] if isinstance(cell, Cell) and cell.mark else []
        text = str(cell)
        whole = "-" in text[1:] and len(text) < _BROKEN_FROM and " " not in text  # such as a UUID
        marks += ["unbroken"] if whole or name in self.unbroken else []
        return f"<td{self._class(name, *marks)}>{_cell_html(text)}</td>"

    def _class(self, name: str, *classes: str) -> str:
        chosen = [*classes, *(["right"] if name in self.right else [])]
        return f' class="{" ".join(chosen)}"' if chosen else ""

    def _lines(self) -> list[str]:
        head = [list(self.columns)] if self.headed and self.rows else []
        rows = head + [[str(cell).replace("\n", " ") for cell in row] for row in self.rows]
        lines = [[escape_commands(text) for text in row] for row in rows]
        if not lines:
            return []
        widths = [max(len(line[index]) for line in lines) for index in range(len(self.columns))]
        sides = [str.rjust if name in self.right else str.ljust for name in self.columns]
        return [
            "  ".join(
                side(text, width) for side, text, width in zip(sides, line, widths, strict=True)
            ).rstrip()
            for line in lines
        ]


def cut(text: str) -> str:
    """The beginning of a long text, and its length; a short text is unchanged."""
    beginning = _beginning(text)
    return text if beginning == text else f"{beginning}… ({len(text):,} characters)"


def _beginning(text: str) -> str:
    if len(text) > _CUT_FROM:
        text = text[: _CUT_FROM * 2 // 3]
    lines = text.split("\n", _CUT_LINES)
    return "\n".join(lines[:_CUT_LINES]) if len(lines) > _CUT_LINES else text


def _cell_html(text: str) -> str:
    if len(text) < _BROKEN_FROM and "\n" not in text:
        return html.escape(text)
    beginning = _beginning(text)
    if beginning == text:
        return f'<div class="long">{html.escape(text)}</div>'
    shown, hidden = text[:_MOST_CHARACTERS], len(text) - _MOST_CHARACTERS
    rest = f"… and {hidden:,} characters more" if hidden > 0 else ""
    return (
        f'<div class="long"><details><summary><span>{html.escape(beginning)}… </span>'
        f"<i>{len(text):,} characters</i></summary>{html.escape(shown)}{rest}</details></div>"
    )
