"""The results of the demo: one record, printed by ``--json``, and rendered with rich."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tabletopic_kernel.demo.proof import Answer, Check, Commit, Partition, SchemaStep
from tabletopic_kernel.demo.screen import marked


@dataclass
class Story:
    """What happened. Times in seconds since the stream began; None if it did not happen."""

    first_commit_s: float | None = None
    sent_s: float | None = None
    killed_s: float | None = None
    killed_after_events: int | None = None
    takeover_s: float | None = None
    takeover_epoch: int | None = None
    caught_up_s: float | None = None


@dataclass
class Outcome:
    """Filled scene by scene. ``seconds`` has the duration of each scene.

    ``peak_memory_bytes`` covers all processes together; ``peak_rss_bytes`` counts shared pages per process.
    """

    events: int
    sent: int = 0
    story: Story = field(default_factory=Story)
    commits: list[Commit] = field(default_factory=list)
    schemas: list[SchemaStep] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    partitions: list[Partition] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    peak_memory_bytes: int = 0
    peak_rss_bytes: int = 0
    ended_by_force: list[str] = field(default_factory=list)

    @property
    def comparisons(self) -> list[Answer | Check]:
        """Everything that must match."""
        return [*self.answers, *self.checks]

    @property
    def ok(self) -> bool:
        """Whether everything was compared and matches; no comparison at all is a failure."""
        return bool(self.answers and self.checks) and all(one.ok for one in self.comparisons)

    @property
    def total_s(self) -> float:
        """Over all scenes."""
        return sum(self.seconds.values())

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary that also says whether each comparison holds."""
        plain = asdict(self)
        for name in ("answers", "partitions", "checks"):
            for made, one in zip(plain[name], getattr(self, name), strict=True):
                made["ok"] = one.ok
        for made, commit in zip(plain["commits"], self.commits, strict=True):
            made["next_offsets_sum"] = commit.next_offsets_sum
        return {"ok": self.ok, **plain, "total_s": round(self.total_s, 2)}


_MOST_ROWS = 5
_NONE = "-"


def grid(*columns: str, left: Sequence[str] = (), wraps: Sequence[str] = ()) -> Table:
    """An empty table with these headings; columns of numbers, right-aligned, except those in ``left``."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for column in columns:
        table.add_column(
            column,
            justify="left" if column in left else "right",
            overflow="fold",
            no_wrap=column not in wraps,
        )
    return table


def size(count: float) -> str:
    """Bytes as people read them.

    >>> size(900), size(131072), size(3.5 * 1024**3)
    ('900 B', '128 KiB', '3.5 GiB')
    """
    for unit, digits in (("B", 0), ("KiB", 0), ("MiB", 0)):
        if count < 1024:
            return f"{count:.{digits}f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def commit_table(commits: Sequence[Commit]) -> Table:
    """A row per snapshot; a new epoch is marked, as it means that a host took over the table."""
    # In a narrow terminal the snapshot id is cut off: it matters least.
    table = grid(
        "time", "snapshot", "epoch", "rows", "files", "size", "ledger", "sent → table", wraps=("snapshot",)
    )
    table.columns[1].overflow = "ellipsis"
    epoch = None
    for commit in commits:
        moment = datetime.fromtimestamp(commit.at_ms / 1000).strftime("%H:%M:%S")
        place = (moment, str(commit.snapshot_id), str(commit.epoch))
        read = f"{commit.next_offsets_sum:,}"
        style = "bold yellow" if commit.epoch != epoch else ""
        epoch = commit.epoch
        if commit.waited_s is None:
            table.add_row(*place, _NONE, _NONE, _NONE, read, "a host takes it", style=style)
        else:
            quickest, slowest = commit.waited_s
            figures = (f"{commit.rows:,}", str(commit.files), size(commit.bytes), read)
            table.add_row(*place, *figures, f"{quickest:.1f} … {slowest:4.1f} s", style=style)
    return table


def schema_table(steps: Sequence[SchemaStep]) -> Table:
    """A row per schema of the table."""
    texts = ("what changed", "because of")
    table = grid("schema", *texts, left=texts, wraps=texts)
    for step in steps:
        changes = "\n".join(map(short_change, step.changes)) or _NONE
        table.add_row(str(step.schema_id), Text(changes), "\n".join(step.causes) or _NONE)
    return table


def short_change(change: str) -> str:
    """A change without the field ids and remarks inside a type.

    >>> short_change("add device.viewport struct<16: width: required int (CSS pixels.), 17: height: int>")
    'add device.viewport struct<width: int, height: int>'
    """
    return re.sub(r"\b\d+: |\b(?:required|optional) (?=\w+[ ,>(])| \([^()]*\)(?=[,>])", "", change)


def answer_block(answer: Answer) -> Group:
    """The question, ✓ or ✗, and its first rows; on ✗, the expected ones too."""
    title = f"{marked('✓' if answer.ok else '✗')} [bold]{escape(answer.title)}[/]"
    table = grid(*answer.columns, left=answer.columns[:1])
    for row in answer.found[:_MOST_ROWS]:
        table.add_row(*(escape(_cell(one)) for one in row))
    wrong = [f"[red]{escape(line)}[/]" for line in answer.differences()]
    return Group(title, table, *_more(len(answer.found)), *wrong[:_MOST_ROWS], *_more(len(wrong)), "")


def _more(count: int) -> list[str]:
    return [f"[dim]and {count - _MOST_ROWS} more[/]"] if count > _MOST_ROWS else []


def partition_table(parts: Sequence[Partition]) -> Table:
    """A row per partition, and a last one with the sums."""
    table = grid("", "partition", "Kafka's end offset", "table's ledger", "rows", "distinct offsets")
    for part in parts:
        ledger = _NONE if part.ledger is None else f"{part.ledger:,}"
        table.add_row(
            marked("✓" if part.ok else "✗"),
            str(part.partition),
            f"{part.end_offset:,}",
            ledger,
            f"{part.rows:,}",
            f"{part.distinct:,}",
        )
    return table


def check_table(checks: Sequence[Check]) -> Table:
    """A row per check, with both figures, so that ✗ shows the difference."""
    table = Table.grid(padding=(0, 2))
    for wraps in (False, False, True):
        table.add_column(no_wrap=not wraps, overflow="fold")
    for check in checks:
        words = (
            _figure(check.found) if check.ok else f"{_figure(check.found)}, must be {_figure(check.expected)}"
        )
        style = "" if check.ok else "red"
        table.add_row(marked("✓" if check.ok else "✗"), escape(check.title), Text(words, style=style))
    return table


def _cell(value: Any) -> str:
    if isinstance(value, datetime):
        return value.strftime("%a %H:%M")
    if isinstance(value, Decimal):
        return f"{value:,.2f}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def _figure(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):  # one figure per partition
        return " + ".join(map(_figure, value.values()))
    return _NONE if value is None else str(value)


def summary(outcome: Outcome) -> Table:
    """The figures of the whole demo, one a line."""
    agree = sum(one.ok for one in outcome.comparisons)
    verdict = marked("✓" if outcome.ok else "✗")
    scenes = ", ".join(
        f"{name.replace('_', ' ')} {seconds:.0f} s" for name, seconds in outcome.seconds.items()
    )
    story = outcome.story
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("result", f"{verdict} {agree} of {len(outcome.comparisons)} comparisons agree")
    if story.takeover_s is not None and story.killed_s is not None:
        took_s, whole_s = story.takeover_s - story.killed_s, (story.caught_up_s or 0.0) - story.killed_s
        words = f"{took_s:.1f} s after the kill; {whole_s:.1f} s after it the table was complete"
        table.add_row("take-over", words)
    files, stored = (sum(getattr(commit, name) for commit in outcome.commits) for name in ("files", "bytes"))
    commits = sum(commit.files > 0 for commit in outcome.commits)
    rows = sum(commit.rows for commit in outcome.commits)
    table.add_row("table", f"{rows:,} rows by {commits} commits, {files} files, {size(stored)}")
    table.add_row("time", f"{outcome.total_s:.0f} s: {scenes}")
    table.add_row(
        "memory",
        f"{size(outcome.peak_memory_bytes)} at peak, all processes together "
        f"({size(outcome.peak_rss_bytes)} with shared pages counted in each)",
    )
    if outcome.ended_by_force:
        table.add_row("by force", f"[yellow]{escape(', '.join(outcome.ended_by_force))} had to be killed[/]")
    return table


def next_steps(kept: Path | None) -> Group:
    """What to do next, as commands to copy; ``kept`` is the folder where topic and table stay."""
    if kept is None:
        steps = {
            "make up": "servers that keep running; otherwise `tabletopic up --detach` in a terminal",
            "make lab": "JupyterLab with the notebooks",
            "README.md": "the first cells to run",
        }
    else:
        here = shlex.join(["tabletopic", "--state-dir", str(kept)])
        steps = {
            f"{here} up --detach": "start the servers again",
            f'{here} query "SELECT count(*) FROM clicks"': "query the table",
            f"{here} down": "stop them; then remove the folder",
        }
    table = Table.grid(padding=(0, 3))
    for command, purpose in steps.items():
        table.add_row(Text(f"  {command}", style="cyan"), Text(purpose, style="dim"))
    return Group(Text("Next", style="bold"), table)
