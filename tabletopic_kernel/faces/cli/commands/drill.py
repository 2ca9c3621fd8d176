"""``drill``: everything is killed, and every record compared."""

# Imports wait until they are needed: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import FAILED, Call
from tabletopic_kernel.faces.cli.commands.up import stop_event

if TYPE_CHECKING:
    from tabletopic_kernel.drill.outcome import Outcome

_MINUTES = 5.0


def drill(
    call: Call,
    topic: str | None,
    records: int,
    minutes: float | None,
    rounds: int | None,
    seed: int | None,
    faults: list[str] | None,
    rate: float,
    heavy: float | None,
    hand_overs: bool,
    report: Path | None,
    keep: bool,
    as_json: bool,
) -> None:
    """Run the drill, and print and write its report."""
    from tabletopic_kernel import drill as drills
    from tabletopic_kernel.drill.report import kept, page

    seed = secrets.randbelow(1_000_000) if seed is None else seed
    if minutes is None and rounds is None:
        minutes = _MINUTES
    say = screen.note
    say(f"drill with seed {seed}")
    own = None
    if topic is not None:
        from tabletopic_kernel.drill.own_topic import read_own

        own = read_own(call.workbench, topic, records)
        say(f"copied {len(own.records):,} records of {topic}; its servers are only read")
    with stop_event() as asked:
        outcome = drills.run(
            seed=seed,
            faults=faults or (),
            rounds=rounds,
            minutes=minutes,
            rate=rate,
            heavy=heavy,
            hand_overs=hand_overs,
            own=own,
            state_dir=None if own is not None else call.state_dir,
            keep=keep,
            say=say,
            is_over=asked.is_set,
        )
    if report is not None:
        as_page = kept.markdown if report.suffix == ".md" else page.page
        report.write_text(as_page(outcome), "utf-8")
        say(f"report: {report}")
    if as_json:
        screen.show_json(outcome.to_json())
    else:
        _show(outcome)
    if not outcome.ok:
        raise typer.Exit(FAILED)


def _show(outcome: Outcome) -> None:
    from tabletopic_kernel.drill.report import page

    out = screen.console()
    out.print(page.verdict_table(outcome))
    out.print()
    out.print(page.recovery_grid(outcome))
    out.print()
    for difference in page.differences(outcome):
        out.print(f"✗  {difference}", style="bold red", markup=False)
    out.print(f"{'✓' if outcome.ok else '✗'}  {page.headline(outcome)}", markup=False)
