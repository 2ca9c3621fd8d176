"""``sample`` and ``demo``: sample events, and the whole path once."""

# Imports are deferred: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import INTERRUPTED, Call
from tabletopic_kernel.faces.cli.commands.stopping import stop_event
from tabletopic_kernel.faces.operations import trial
from tabletopic_kernel.faces.operations.operation import Option
from tabletopic_kernel.render.words import many

if TYPE_CHECKING:
    from tabletopic_kernel._datasets.clickstream.tallies import Tallies


def sample(
    call: Call,
    topic: trial.SampleTopic = "clicks",
    to: Annotated[str | None, Option(spellings=("--topic",), hidden=True)] = None,  # `produce-clickstream`
    count: trial.Count = 10_000,
    rate: Annotated[
        float | None,
        Option("Events per second", metavar="PER_SECOND", default_text="as fast as possible"),
    ] = None,
    schema: trial.Version = "v1",
    switch_at: Annotated[int | None, Option("Switch to schema v2 after N events", metavar="N")] = None,
    seed: trial.Seed = 7,
    partitions: Annotated[int, Option("Partitions of a new topic", least=1)] = 4,
    as_json: Annotated[bool, Option("Print all tallies as JSON", ("--json",))] = False,
) -> None:
    """Send click events and print their tallies."""
    from tabletopic_kernel.local.progress import CountBar

    topic = to or topic
    options = {"rate": rate, "switch_at": switch_at, "seed": seed, "partitions": partitions}
    with (
        stop_event() as stop,
        CountBar(count, topic, "events") as bar,
    ):
        tallies = trial.send(
            call.workbench, topic, count, schema, on_progress=bar.to, stop=stop.is_set, **options
        )
    if as_json:
        screen.show_json(dataclasses.asdict(tallies))
    else:
        _show_tallies(topic, tallies)
    if stop.is_set():
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
                "revenue": f"{revenue:,.2f} in {many(hours, 'hour')}",
            }
        )
    )


def demo(
    call: Call,
    events: Annotated[
        int | None,
        Option("How many events to send", least=1, default_text="100,000; with --cdc 5,000 changes"),
    ] = None,
    cdc: Annotated[
        bool, Option("Change data: a PostgreSQL with Debezium, and a table that equals it", ("--cdc",))
    ] = False,
    keep: Annotated[bool, Option("Keep the demo's folder, for experiments", ("--keep/--no-keep",))] = False,
    as_json: Annotated[bool, Option("Print a summary as JSON", ("--json",))] = False,
) -> None:
    """Run the whole path once, and prove that no row is lost or duplicated.

    The demo starts its own servers in a temporary folder (or in that of
    --state-dir), and stops and removes everything at the end.

    Example:  tabletopic demo
    """
    from tabletopic_kernel.demo.scenario import run

    raise typer.Exit(run(events, call.state_dir, keep, as_json, cdc))
