"""Terminal output: consoles, tables, events, JSON. Data on stdout, everything else on stderr.

A grid is a table if there is room for it, otherwise one value below the other.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.progress.events import ControlEvent
from tabletopic_kernel.model.redact import trace_of
from tabletopic_kernel.render.grid import COMMANDS, Cell, Grid
from tabletopic_kernel.render.words import clock_today, event_text, event_tone

# Wide enough that nothing is cut without a terminal to fit into.
_PIPE_WIDTH = 1000
_ENDLESS = 100_000
_COPIED = 60


# Removed from text; rich adds its own commands later.
_COMMANDS: Final = dict.fromkeys(COMMANDS)


class _Console(Console):
    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, emoji=False, **options)  # an address may contain ":key:"

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=segment.text.translate(_COMMANDS))

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # for our exit code, without rich's message


def console() -> Console:
    """Formatted stdout; in a pipe without colours or added line breaks."""
    if sys.stdout.isatty():
        return _Console()
    return _Console(soft_wrap=True, width=_PIPE_WIDTH)


def side() -> Console:
    """Stderr: progress, hints, errors."""
    return _Console(stderr=True, soft_wrap=True)


def error(trouble: TableTopicError) -> None:
    """Print an error on stderr."""
    with contextlib.suppress(OSError):  # stderr was closed
        side().print(f"[bold red]error:[/] {escape(trouble.advice)}")


def note(message: str) -> None:
    """Print a remark beside the data."""
    with contextlib.suppress(OSError):
        side().print(escape(message), style="dim")


def trace(error: Exception) -> None:
    """Print the traceback of an error."""
    with contextlib.suppress(OSError):
        sys.stderr.write(trace_of(error))


def show(*lines: str) -> None:
    """Print lines with rich's markup on stdout; text from outside must be escaped."""
    out = console()
    for line in lines:
        out.print(line, soft_wrap=True)


def write(text: str) -> None:
    """Write text to stdout unchanged; on a terminal without control codes."""
    sys.stdout.write(text.translate(_COMMANDS) if sys.stdout.isatty() else text)


def show_text(text: str) -> None:
    """Print text on stdout as ``write`` does."""
    write(f"{text}\n")
    sys.stdout.flush()


def show_json(value: object) -> None:
    """Print one JSON document on stdout."""
    show_text(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def show_json_line(value: object) -> None:
    """Print one JSON document on one line of stdout."""
    show_text(json.dumps(value, ensure_ascii=False, default=str))


def grid(*columns: str) -> Table:
    """An empty table with these headings."""
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0), header_style="bold"
    )
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def natural_width(out: Console, table: Table) -> int:
    """The table's width without any folding."""
    return out.measure(table, options=out.options.update(max_width=_ENDLESS)).maximum


def facts(pairs: Mapping[str, str]) -> Table:
    """Names and values, one pair per line; values are plain text."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs.items():
        table.add_row(name, Text(value))
    return table


def plain(value: Any) -> str:
    """Text that is safe inside rich's markup."""
    return escape(str(value))


def steps(commands: Mapping[str, str]) -> Table:
    """Commands to copy, each with its purpose."""
    table = Table.grid(padding=(0, 3))
    # One line each, to be copied; a line longer than a narrow terminal is folded.
    table.add_column(style="cyan", min_width=min(_COPIED, 2 + max(map(len, commands), default=0)))
    table.add_column(style="dim")
    for line, purpose in commands.items():
        table.add_row(Text(f"  {line}"), Text(purpose))
    return table


_STYLES = {"good": "green", "warn": "yellow", "bad": "bold red"}
_TONES = {**_STYLES, "note": "magenta", "quiet": "dim"}


def show_grid(content: Grid) -> None:
    """Print the grid on stdout; in a pipe each row is one line, however long."""
    if sys.stdout.isatty():
        out = console()
        out.print(laid_out(content, out))
    else:
        show_text(repr(content))


def laid_out(content: Grid, out: Console) -> RenderableType:
    """The grid, fitted into the console: folded at words, or its rows as blocks of name and value."""
    table = grid()
    table.show_header = content.headed
    for name in content.columns:
        table.add_column(
            name,
            justify="right" if name in content.right else "left",
            overflow="fold",
            no_wrap=name in content.unbroken or name in content.right,
        )
    for row in content.rows:
        table.add_row(*map(cell_text, row))
    title = [Text(content.title, style="bold")] if content.title else []
    body: list[RenderableType] = []
    if content.rows:
        # The minimum width at which no word is folded.
        least = out.measure(table, options=out.options.update(max_width=_ENDLESS)).minimum
        fits = least <= out.width
        body = [table] if fits else [_block(content, row) for row in content.rows]
    return Group(*title, *body, *map(Text, content.notes))


def _block(content: Grid, row: Sequence[str | Cell]) -> RenderableType:
    pairs = facts({})
    for name, cell in zip(content.columns, row, strict=True):
        pairs.add_row(name, cell_text(cell))
    return Group(Text("─" * 20, style="dim"), pairs)


def cell_text(cell: str | Cell) -> Text:
    """A cell in the colour of its mark."""
    return Text(str(cell), style=_STYLES.get(cell.mark, "") if isinstance(cell, Cell) else "")


def event_line(event: ControlEvent) -> Text:
    """Local time, kind, topic, and what happened."""
    return Text.assemble(
        (clock_today(event.at_ms), "dim"),
        "  ",
        (f"{event.type:<14}", _TONES[event_tone(event)]),
        "  ",
        (event.topic, "bold"),
        "  ",
        event_text(event),
    )
