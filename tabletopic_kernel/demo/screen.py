"""The demo's output: headings, steps, and the story of the stream."""

from __future__ import annotations

import io
import textwrap
import time
from typing import TextIO

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.rule import Rule
from rich.text import Text

from tabletopic_kernel.workbench.topics.topic_status import TopicStatus

_WIDTH = 100
_LINE_EVERY_S = 4.0


class Screen:
    """A console of at most 100 columns; colours only in a terminal."""

    def __init__(self, stream: TextIO) -> None:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a tick that ASCII cannot show must not end the demo
        self.stream = stream
        width = None if stream.isatty() else _WIDTH
        self.console = Console(file=stream, highlight=False, emoji=False, width=width)
        self.console.width = min(self.console.width, _WIDTH)

    def title(self, title: str, text: str) -> None:
        """Print the title and what this is."""
        self.console.print(f"\n[bold]{title}[/]")
        self.text(text)

    def section(self, title: str, text: str = "") -> None:
        """Print a heading, and what will appear below it and why."""
        self.console.print()
        self.console.print(Rule(f"[bold]{title}[/]", align="left", style="dim"))
        if text:
            self.text(text)

    def text(self, text: str) -> None:
        """Print a paragraph."""
        for line in textwrap.wrap(" ".join(text.split()), self.console.width - 1):
            self.console.print(line, style="dim", markup=False)

    def step(self, mark: str, text: str, seconds: float | None = None) -> None:
        """One line that says what happened; ``mark`` is ✓, ✗, !, or · for news."""
        self._line(f"  {marked(mark)} ", text if seconds is None else f"{text} ({seconds:.1f} s)")

    def moment(self, seconds: float, mark: str, text: str) -> None:
        """Print one line of the stream's story, with the time since it began."""
        self._line(f"  [dim]{seconds:5.1f} s[/]  {marked(mark)} ", text)

    def show(self, page: RenderableType) -> None:
        """Print a table or another page."""
        with self.console.capture() as made:
            self.console.print(page)
        lines = made.get().splitlines()
        if not self.console.is_terminal:
            lines = [line.rstrip() for line in lines]
        self.console.file.write("\n" + "".join(f"{line}\n" for line in lines))
        self.console.file.flush()

    def _line(self, head: str, text: str) -> None:
        """Text with a hanging indent after ``head``, which has markup; ``text`` has none."""
        indent = Text.from_markup(head).cell_len
        lines = textwrap.wrap(text, self.console.width - indent - 1) or [""]
        for number, line in enumerate(lines):
            self.console.print((" " * indent if number else head) + escape(line))


def marked(mark: str) -> str:
    """A mark in its colour."""
    colour = {"✓": "green", "✗": "red", "!": "yellow"}.get(mark, "cyan")
    return f"[bold {colour}]{mark}[/]"


class StreamView:
    """The story of the stream as lines: events, and the progress every few seconds."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._began = time.monotonic()
        self._last_line = 0.0

    @property
    def seconds(self) -> float:
        """Seconds since the stream began."""
        return time.monotonic() - self._began

    def say(self, mark: str, text: str) -> None:
        """Print one line."""
        self._screen.moment(self.seconds, mark, text)

    def update(self, sent: int, status: TopicStatus | None, host: str) -> None:
        """Print the progress, unless it was printed recently."""
        if self.seconds - self._last_line >= _LINE_EVERY_S:
            self._last_line = self.seconds
            in_table = status.rows if status else 0
            self.say("·", f"sent {sent:>8,}   in table {in_table:>8,}   lag {_lag(status)}   {host}")


def _lag(status: TopicStatus | None) -> str:
    if status is None or status.lag_records is None:
        return "-"
    return f"{status.lag_records:>6,} records, {status.lag_seconds or 0.0:4.1f} s"
