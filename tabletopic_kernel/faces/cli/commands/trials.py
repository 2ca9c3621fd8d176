"""``sample`` and ``demo``: sample events, and the whole path once."""

# Imports are deferred: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import typer

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import INTERRUPTED, Call
from tabletopic_kernel.faces.cli.commands.servers import stop_event
from tabletopic_kernel.faces.operations import BY_NAME

if TYPE_CHECKING:
    from tabletopic_kernel._datasets.clickstream.tallies import Tallies


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
    from tabletopic_kernel.demo.scenario import run

    raise typer.Exit(run(events, call.state_dir, keep, as_json))
