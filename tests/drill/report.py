"""The report of a drill: what it found, in Markdown, for the terminal and for docs/evidence/drill.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.drill.outcome import Outcome
from tests.drill.verdict import TopicVerdict

_HEADING = "## Results of the last run\n"
_VERDICT = (
    "topic", "acknowledged", "rows", "dead letters", "skipped", "lost", "twice", "changed", "files",
    "orphans",
)  # fmt: skip
_ENDED = ("host that ended alone", "times", "median s until the next owner's first commit", "longest s")
_RECOVERED = ("fault among others", "times", "median s until every topic had committed", "longest s")
_ENDS = {"kill_host": "killed", "stop_host": "asked to stop"}


def _verdict_row(one: TopicVerdict) -> tuple[object, ...]:
    records = (one.topic, one.acknowledged, one.rows, one.letters, one.skipped)
    return (*records, one.lost, one.twice, one.changed, one.files, one.orphans)


def differences(outcome: Outcome) -> list[str]:
    """Everything that is wrong, in words."""
    wrong = [f"{verdict.topic}: {what}" for verdict in outcome.verdicts for what in verdict.differences]
    return wrong + outcome.problems


def headline(outcome: Outcome) -> str:
    """The verdict in a sentence."""
    records = sum(verdict.acknowledged for verdict in outcome.verdicts)
    if outcome.ok:
        return (
            f"{records:,} acknowledged records, each once a row or a dead letter with its value or replaced, "
            f"after {len(outcome.faults):,} faults in {outcome.rounds:,} rounds"
        )
    return f"{len(differences(outcome))} differences after {len(outcome.faults):,} faults"


def findings(outcome: Outcome) -> str:
    """What the drill found."""
    at = datetime.fromtimestamp(outcome.began_s, UTC).strftime("%Y-%m-%d %H:%M")
    lines = [
        f"{'✓' if outcome.ok else '✗'} {headline(outcome)}.",
        "",
        f"`{outcome.command}`, {at} UTC, {outcome.ended_s - outcome.began_s:,.0f} s.",
        "",
        *(f"- **{difference}**" for difference in differences(outcome)),
        *_table(_VERDICT, [_verdict_row(verdict) for verdict in outcome.verdicts]),
        *_table(_ENDED, [(_ENDS.get(name, name), *figures) for name, *figures in outcome.hand_over_table()]),
        *_table(("step", "times", "not reached in time"), outcome.step_table()),
        *_table(_RECOVERED, outcome.recovery_table()),
        f"All faults by kind: {_kinds(outcome)}.",
        "",
    ]
    return "\n".join(lines)


def write(outcome: Outcome, page: Path) -> None:
    """Put it in the place of what the page says."""
    text = page.read_text("utf-8")
    page.write_text(f"{text.partition(_HEADING)[0]}{_HEADING}\n{findings(outcome)}", "utf-8")


def _kinds(outcome: Outcome) -> str:
    kinds = Counter(fault.what for fault in outcome.faults)
    return ", ".join(f"{name} {count:,}" for name, count in kinds.most_common())


def _table(head: tuple[str, ...], rows: Sequence[Sequence[object]]) -> list[str]:
    def cell(one: object) -> str:
        return f"{one:,.1f}" if isinstance(one, float) else f"{one:,}" if isinstance(one, int) else str(one)

    def line(cells: Sequence[object]) -> str:
        return f"| {' | '.join(map(cell, cells))} |"

    return [line(head), f"|{' --- |' * len(head)}", *map(line, rows), ""]
