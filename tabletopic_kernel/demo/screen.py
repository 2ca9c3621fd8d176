"""The demo's output: headings, steps, the story of the stream, and grids in colour."""

from __future__ import annotations

import io
import textwrap
import time
from typing import TextIO

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from tabletopic_kernel.render.grid import Cell, Grid

_WIDTH = 100
_LINE_EVERY_S = 4.0
_MARKS = {"✓": "green", "✗": "red", "!": "yellow"}  # other marks are news
_CELLS = {"good": "bold green", "warn": "bold yellow", "bad": "bold red"}


class Screen:
    """A console of at most 100 columns; colours only in a terminal."""

    def __init__(self, stream: TextIO) -> None:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a tick that ASCII cannot show must not end the demo
        self.stream = stream
        width = None if stream.isatty() else _WIDTH
        self.console = Console(file=stream, highlight=False, emoji=False, width=width)
        self.console.width = min(self.console.width, _WIDTH)
        self._began = self._last_line = time.monotonic()

    def section(self, title: str, text: str = "") -> None:
        """Print a heading, and a paragraph about what follows."""
        self.console.print()
        self.console.print(Rule(f"[bold]{title}[/]", align="left", style="dim"))
        self.text(text)

    def text(self, text: str) -> None:
        """Print a paragraph."""
        for line in textwrap.wrap(" ".join(text.split()), self.console.width - 1):
            self.console.print(line, style="dim", markup=False)

    def step(self, mark: str, text: str, seconds: float | None = None) -> None:
        """Print what happened as one line; ``mark`` is ✓, ✗, !, or · for news."""
        self._line(f"  {_marked(mark)} ", text if seconds is None else f"{text} ({seconds:.1f} s)")

    def begin(self) -> None:
        """Start the clock of ``moment``."""
        self._began = time.monotonic()
        self._last_line = 0.0

    def moment(self, mark: str, text: str) -> None:
        """Print one line of the stream's story, with the seconds since it began."""
        self._line(f"  [dim]{time.monotonic() - self._began:5.1f} s[/]  {_marked(mark)} ", text)

    def is_due(self) -> bool:
        """Whether ``progress`` would print."""
        return time.monotonic() - self._last_line >= _LINE_EVERY_S

    def progress(self, text: str) -> None:
        """Like ``moment``, but at most every four seconds."""
        if self.is_due():
            self._last_line = time.monotonic()
            self.moment("·", text)

    def show(self, grid: Grid) -> None:
        """Print a grid, with its title and notes."""
        table = Table(box=box.SIMPLE_HEAD if grid.headed else None, show_header=grid.headed)
        table.pad_edge, table.show_edge, table.header_style = False, False, "bold"
        for name in grid.columns:
            right = name in grid.right
            table.add_column(
                name, justify="right" if right else "left", overflow="fold", no_wrap=name in grid.unbroken
            )
        for row in grid.rows:
            table.add_row(*map(_text, row))
        with self.console.capture() as output:
            self.console.print(*([Text(grid.title, style="bold")] if grid.title else []), table, sep="\n")
            for note in grid.notes:
                self.console.print(note, style="dim", markup=False)
        # Not through the console, which pads lines with blanks: people copy them from logs.
        self.stream.write("\n" + "".join(f"{line.rstrip()}\n" for line in output.get().splitlines()))
        self.stream.flush()

    def _line(self, head: str, text: str) -> None:
        """Text with a hanging indent after ``head``, which has markup; ``text`` has none."""
        indent = Text.from_markup(head).cell_len
        lines = textwrap.wrap(text, self.console.width - indent - 1) or [""]
        for number, line in enumerate(lines):
            self.console.print((" " * indent if number else head) + escape(line))


def _marked(mark: str) -> str:
    return f"[bold {_MARKS.get(mark, 'cyan')}]{mark}[/]"


def _text(cell: str | Cell) -> Text:
    return Text(str(cell), style=_CELLS.get(cell.mark, "") if isinstance(cell, Cell) else "")
