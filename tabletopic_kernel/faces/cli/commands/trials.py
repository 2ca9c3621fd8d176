"""``sample``, ``demo``, ``drill``: sample events, the demo, and fault injection."""

# Imports are deferred: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

import dataclasses
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import FAILED, INTERRUPTED, Call
from tabletopic_kernel.faces.cli.commands.servers import stop_event
from tabletopic_kernel.faces.operations import BY_NAME
from tabletopic_kernel.model.errors import UsageError

if TYPE_CHECKING:
    from tabletopic_kernel._datasets.clickstream.tallies import Tallies
    from tabletopic_kernel.drill.outcome import Outcome


def sample(
    call: Call, topic: str, to: str | None, count: int, as_json: bool, **options: str | float | None
) -> None:
    """Send click events and print their tallies."""
    from tabletopic_kernel.local.progress import CountBar

    run = BY_NAME["sample"].run
    assert run is not None
    topic = to or topic
    with (
        stop_event() as asked,
        CountBar(count, topic, "events") as bar,
    ):
        tallies = run(call.workbench, topic, count, on_progress=bar.to, stop=asked.is_set, **options)
    if as_json:
        screen.show_json(dataclasses.asdict(tallies))
    else:
        _show_tallies(topic, tallies)
    if asked.is_set():
        raise typer.Exit(INTERRUPTED)


def _show_tallies(topic: str, tallies: Tallies) -> None:
    versions = ", ".join(f"{version} {count:,}" for version, count in tallies.events_by_version.items())
    devices = ", ".join(f"{kind} {tally.events:,}" for kind, tally in tallies.devices.items())
    steps = ", ".join(f"{step} {count:,}" for step, count in tallies.sessions_by_step.items())
    revenue, hours = sum(tallies.revenue_cents_by_hour.values()) / 100, len(tallies.revenue_cents_by_hour)
    screen.console().print(
        screen.facts(
            {
                "events": f"{tallies.events:,} in {topic}",
                "by schema": versions,
                "by device": devices,
                "sessions": steps,
                "revenue": f"{revenue:,.2f} in {hours} hour{'' if hours == 1 else 's'}",
            }
        )
    )


def demo(call: Call, events: int, keep: bool, as_json: bool) -> None:
    """Run the demo."""
    from tabletopic_kernel import demo as script

    raise typer.Exit(script.run(events, call.state_dir, keep, as_json))


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
    short: bool,
    each: bool,
    report: Path | None,
    keep: bool,
    as_json: bool,
) -> None:
    """Run the drill, and print and write its report."""
    from tabletopic_kernel import drill as drills

    seed = secrets.randbelow(1_000_000) if seed is None else seed
    minutes = _MINUTES if minutes is None and rounds is None and not each else minutes
    if report is not None and not report.parent.is_dir():
        raise UsageError(f"--report: there is no folder {report.parent}")
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
            short=short,
            each=each,
            own=own,
            state_dir=None if own is not None else call.state_dir,
            keep=keep,
            say=say,
            is_over=asked.is_set,
        )
    if as_json:
        screen.show_json(outcome.to_json())
    else:
        _show(outcome)
    if report is not None:
        _write(outcome, report)
    if not outcome.ok:
        raise typer.Exit(FAILED)


def _write(outcome: Outcome, report: Path) -> None:
    from tabletopic_kernel.drill.report import docs_page, html_page

    as_page = docs_page if report.suffix == ".md" else html_page
    report.write_text(as_page(outcome), "utf-8")
    screen.note(f"report: {report}")


def _show(outcome: Outcome) -> None:
    from tabletopic_kernel.drill.report import differences, headline, recovery_grid, seen_grid, verdict_table

    out = screen.console()
    out.print(verdict_table(outcome))
    out.print()
    out.print(recovery_grid(outcome))
    out.print()
    if outcome.sightings:
        out.print(seen_grid(outcome))
        out.print()
    for difference in differences(outcome):
        out.print(f"✗  {difference}", style="bold red", markup=False)
    out.print(f"{'✓' if outcome.ok else '✗'}  {headline(outcome)}", markup=False)
