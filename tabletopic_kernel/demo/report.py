"""The results of the demo: one record, printed by ``--json``, and shown as grids."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from tabletopic_kernel.demo.proof import Answer, Check, Commit, Partition, SchemaStep
from tabletopic_kernel.render.grid import Cell, Grid
from tabletopic_kernel.render.topics import facts
from tabletopic_kernel.render.words import number, size


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
    """Filled scene by scene, with their ``seconds``; ``peak_rss_bytes`` counts shared pages per process."""

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
        return bool(self.answers and self.checks) and all(compared.ok for compared in self.comparisons)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary that also says whether each comparison holds."""
        plain = asdict(self)
        for name in ("answers", "partitions", "checks"):
            for entry, compared in zip(plain[name], getattr(self, name), strict=True):
                entry["ok"] = compared.ok
        for entry, commit in zip(plain["commits"], self.commits, strict=True):
            entry["next_offsets_sum"] = commit.next_offsets_sum
        return {"ok": self.ok, **plain, "total_s": round(sum(self.seconds.values()), 2)}


_MOST_ROWS = 5


def commit_table(commits: Sequence[Commit]) -> Grid:
    """A row per snapshot; a new epoch is marked: a host took over the table."""
    columns = ("time", "snapshot", "epoch", "rows", "files", "size", "ledger", "sent → table")
    rows: list[list[str | Cell]] = []
    epoch = None
    for commit in commits:
        figures = ["-", "-", "-", number(commit.next_offsets_sum), "a host takes it"]
        if commit.waited_s is not None:
            quickest, slowest = commit.waited_s
            figures[:3] = number(commit.rows), number(commit.files), size(commit.bytes)
            figures[4] = f"{quickest:.1f} … {slowest:4.1f} s"
        moment = datetime.fromtimestamp(commit.at_ms / 1000).strftime("%H:%M:%S")
        mark = "warn" if commit.epoch != epoch else ""
        epoch = commit.epoch
        texts = [moment, str(commit.snapshot_id), str(commit.epoch), *figures]
        rows.append([Cell(text, mark) for text in texts])
    return Grid(columns, rows, right=frozenset(columns), unbroken=frozenset(columns) - {"snapshot"})


def schema_table(steps: Sequence[SchemaStep]) -> Grid:
    """A row per schema of the table."""
    rows = [
        (
            str(step.schema_id),
            "\n".join(map(short_change, step.changes)) or "-",
            "\n".join(step.causes) or "-",
        )
        for step in steps
    ]
    return Grid(("schema", "what changed", "because of"), rows, right=frozenset({"schema"}))


def short_change(change: str) -> str:
    """A change without the field ids and remarks inside a type.

    >>> short_change("add device.viewport struct<16: width: required int (CSS pixels.), 17: height: int>")
    'add device.viewport struct<width: int, height: int>'
    """
    return re.sub(r"\b\d+: |\b(?:required|optional) (?=\w+[ ,>(])| \([^()]*\)(?=[,>])", "", change)


def answer_table(answer: Answer) -> Grid:
    """The question, ✓ or ✗, and its first rows; on ✗, the differences below."""
    rows = [tuple(map(_figure, row)) for row in answer.found[:_MOST_ROWS]]
    wrong = answer.differences()
    notes = [*_more(len(answer.found)), *wrong[:_MOST_ROWS], *_more(len(wrong))]
    title = f"{'✓' if answer.ok else '✗'} {answer.title}"
    return Grid(answer.columns, rows, title, notes, frozenset(answer.columns[1:]))


def _more(count: int) -> list[str]:
    return [f"and {count - _MOST_ROWS} more"] if count > _MOST_ROWS else []


def partition_table(parts: Sequence[Partition]) -> Grid:
    """A row per partition."""
    columns = ("", "partition", "Kafka's end offset", "table's ledger", "rows", "distinct offsets")
    rows: list[list[str | Cell]] = []
    for part in parts:
        figures = (part.partition, part.end_offset, part.ledger, part.rows, part.distinct)
        rows.append([_tick(part.ok), *map(number, figures)])
    return Grid(columns, rows, right=frozenset(columns[1:]))


def check_table(checks: Sequence[Check]) -> Grid:
    """A row per check, with both figures on ✗."""
    rows: list[list[str | Cell]] = []
    for check in checks:
        text = _figure(check.found)
        figure = text if check.ok else Cell(f"{text}, must be {_figure(check.expected)}", "bad")
        rows.append([_tick(check.ok), check.title, figure])
    return Grid(("", "check", "figure"), rows, headed=False, unbroken=frozenset({"check"}))


def _tick(ok: bool) -> Cell:
    return Cell("✓", "good") if ok else Cell("✗", "bad")


def _figure(value: Any) -> str:
    if isinstance(value, datetime):
        return value.strftime("%a %H:%M")
    if isinstance(value, Decimal):
        return f"{value:,.2f}"
    if isinstance(value, dict):  # one figure per partition
        return " + ".join(map(_figure, value.values()))
    return number(value) if isinstance(value, int) else "-" if value is None else str(value)


def summary(outcome: Outcome) -> Grid:
    """The figures of the whole demo, one a line."""
    matches, story = sum(compared.ok for compared in outcome.comparisons), outcome.story
    verdict = f"{'✓' if outcome.ok else '✗'} {matches} of {len(outcome.comparisons)} comparisons agree"
    pairs: dict[str, str | Cell] = {"result": Cell(verdict, "good" if outcome.ok else "bad")}
    if story.takeover_s is not None and story.killed_s is not None:
        took_s, whole_s = story.takeover_s - story.killed_s, (story.caught_up_s or 0.0) - story.killed_s
        pairs["take-over"] = f"{took_s:.1f} s after the kill; {whole_s:.1f} s after it the table was complete"
    rows, files, stored = (
        sum(getattr(commit, name) for commit in outcome.commits) for name in ("rows", "files", "bytes")
    )
    commits = sum(commit.files > 0 for commit in outcome.commits)
    pairs["table"] = f"{number(rows)} rows by {commits} commits, {files} files, {size(stored)}"
    scenes = ", ".join(f"{name.replace('_', ' ')} {time_s:.0f} s" for name, time_s in outcome.seconds.items())
    pairs["time"] = f"{sum(outcome.seconds.values()):.0f} s: {scenes}"
    pairs["memory"] = (
        f"{size(outcome.peak_memory_bytes)} at peak, all processes together "
        f"({size(outcome.peak_rss_bytes)} with shared pages counted in each)"
    )
    if outcome.ended_by_force:
        pairs["by force"] = Cell(f"{', '.join(outcome.ended_by_force)} had to be killed", "warn")
    return facts("", pairs)


def next_steps(kept: Path | None) -> Grid:
    """What to do next, as commands to copy; ``kept`` is the folder where topic and table stay."""
    command = shlex.join(["tabletopic", "--state-dir", str(kept)])
    return facts(
        "Next",
        {
            "make up": "servers that keep running; otherwise `tabletopic up --detach` in a terminal",
            "make lab": "JupyterLab with the notebooks",
            "README.md": "the first cells to run",
        }
        if kept is None
        else {
            f"{command} up --detach": "start the servers again",
            f'{command} query "SELECT count(*) FROM clicks"': "query the table",
            f"{command} down": "stop them; then remove the folder",
        },
    )
