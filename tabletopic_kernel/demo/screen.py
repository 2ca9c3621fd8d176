"""Where the demo speaks: headings, steps, and a live view of the stream; plain lines in a log."""

from __future__ import annotations

import contextlib
import io
import textwrap
import time
from collections.abc import Iterator
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.status import Status
from rich.table import Table
from rich.text import Text

from tabletopic_kernel.local.progress import Step
from tabletopic_kernel.workbench.status import TopicStatus

_WIDTH = 100
_LOG_EVERY_S = 4.0
_MIB = 1024**2


class Screen:
    """A console of at most 100 columns; colours and moving parts only in a terminal."""

    def __init__(self, stream: TextIO) -> None:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a tick that ASCII cannot show must not end the demo
        self.console = Console(file=stream, highlight=False, width=None if stream.isatty() else _WIDTH)
        self.console.width = min(self.console.width, _WIDTH)
        self._status: Status | None = None

    def title(self, title: str, text: str) -> None:
        """What this is."""
        self.console.print(f"\n[bold]{title}[/]")
        self.text(text)

    def section(self, title: str, text: str = "") -> None:
        """A heading, and what is to be seen below it and why."""
        self.console.print()
        self.console.print(Rule(f"[bold]{title}[/]", align="left", style="dim"))
        if text:
            self.text(text)

    def text(self, text: str) -> None:
        """A paragraph."""
        for line in textwrap.wrap(" ".join(text.split()), self.console.width - 1):
            self.console.print(line, style="dim", markup=False)

    def step(self, mark: str, text: str, seconds: float | None = None) -> None:
        """One line that says what happened; ``mark`` is ✓, ✗, !, or · for news."""
        self._line(f"  {marked(mark)} ", text if seconds is None else f"{text} ({seconds:.1f} s)")

    def moment(self, seconds: float, mark: str, text: str) -> None:
        """One line of the stream's story, with the time since it began."""
        self._line(f"  [dim]{seconds:5.1f} s[/]  {marked(mark)} ", text)

    def show(self, page: RenderableType) -> None:
        """A table or another page."""
        with self.console.capture() as made:
            self.console.print(page)
        lines = made.get().splitlines()
        if not self.console.is_terminal:
            lines = [line.rstrip() for line in lines]
        self.console.file.write("\n" + "".join(f"{line}\n" for line in lines))
        self.console.file.flush()

    def stack_step(self, step: Step) -> None:
        """Render a step of the embedded stack; bytes move in a status line (see ``busy``)."""
        if step.state == "done":
            self.step("✓", f"{step.name}{': ' if step.detail else ''}{step.detail}", step.seconds)
        elif step.state == "failed":
            self.step("✗", f"{step.name}: {step.detail}", step.seconds)
        elif step.state == "running" and self._status is not None:
            size = f"{step.done_bytes // _MIB} of {step.total_bytes // _MIB} MiB"
            self._status.update(f"{step.name}: {size}" if step.total_bytes else step.name)

    @contextlib.contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """A spinner while something takes its time; nothing in a log."""
        if not self.console.is_terminal:
            yield
            return
        with self.console.status(escape(what)) as status:
            self._status = status
            try:
                yield
            finally:
                self._status = None

    def _line(self, head: str, text: str) -> None:
        """Text whose further lines stand under the first one's; ``head`` has markup, ``text`` has none."""
        indent = Text.from_markup(head).cell_len
        lines = textwrap.wrap(text, self.console.width - indent - 1) or [""]
        for number, line in enumerate(lines):
            self.console.print((" " * indent if number else head) + escape(line))


def marked(mark: str) -> str:
    """A mark in its colour."""
    colour = {"✓": "green", "✗": "red", "!": "yellow"}.get(mark, "cyan")
    return f"[bold {colour}]{mark}[/]"


class StreamView:
    """The live view of the stream, from ``with`` to its end: two bars, the lag, the host."""

    def __init__(self, screen: Screen, events: int) -> None:
        self._screen = screen
        self._events = events
        self._began = time.monotonic()
        self._last_line = 0.0
        self._live = Live(console=screen.console, refresh_per_second=8, transient=True)
        self._moving = screen.console.is_terminal
        self._bar_width = max(10, screen.console.width - 58)

    def __enter__(self) -> StreamView:
        if self._moving:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._moving:
            self._live.stop()

    @property
    def seconds(self) -> float:
        """Since the stream began."""
        return time.monotonic() - self._began

    def say(self, mark: str, text: str) -> None:
        """A line above the moving part."""
        self._screen.moment(self.seconds, mark, text)

    def update(self, sent: int, status: TopicStatus | None, host: str) -> None:
        """Show where things stand; in a log every few seconds."""
        if self._moving:
            self._live.update(self._picture(sent, status, host))
        elif self.seconds - self._last_line >= _LOG_EVERY_S:
            self._last_line = self.seconds
            in_table = status.rows if status else 0
            self.say("·", f"sent {sent:>8,}   in table {in_table:>8,}   lag {_lag(status)}   {host}")

    def _picture(self, sent: int, status: TopicStatus | None, host: str) -> Group:
        rows = status.rows if status else 0
        bars = Table.grid(padding=(0, 2))
        bars.add_column(width=14)
        bars.add_column(width=self._bar_width)
        bars.add_column(justify="right", width=10)
        bars.add_column()
        commits = f"{status.commits} commits, {status.files} files" if status else "no commit yet"
        bars.add_row("sent to Kafka", self._bar(sent), f"{sent:,}", f"of {self._events:,} events")
        bars.add_row("in the table", self._bar(rows), f"{rows:,}", commits)
        facts = Table.grid(padding=(0, 2))
        facts.add_column(width=14)
        facts.add_column()
        versions = ", ".join(f"v{one['version']}" for one in status.schema_versions) if status else ""
        facts.add_row("commit lag", Text(_lag(status), style="bold"))
        facts.add_row("schema", versions or "-")
        facts.add_row("host", host)
        return Group(Text(), bars, facts)

    def _bar(self, done: int) -> ProgressBar:
        return ProgressBar(total=self._events, completed=done, width=self._bar_width)


def _lag(status: TopicStatus | None) -> str:
    if status is None or status.lag_records is None:
        return "-"
    return f"{status.lag_records:>6,} records, {status.lag_seconds or 0.0:4.1f} s"
