"""``produce-clickstream`` and ``demo``: something to try it with."""

# Imports wait until they are needed: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import INTERRUPTED, Call, command
from tabletopic_kernel.faces.cli.commands.servers import stop_event

if TYPE_CHECKING:
    from tabletopic_kernel._datasets.clickstream.tallies import Tallies


def add_to(app: typer.Typer) -> None:
    """Add this group's commands."""
    command(app, "Something to try it with", "produce-clickstream")(produce_clickstream)
    command(app, "Something to try it with")(demo)


def produce_clickstream(
    call: Call,
    topic: Annotated[str, typer.Option(help="Topic to send to; created unless it is there.")] = "clicks",
    count: Annotated[int, typer.Option(min=0, help="How many events.")] = 10_000,
    rate: Annotated[
        float | None, typer.Option(metavar="PER_SECOND", help="Events per second.  (as fast as it goes)")
    ] = None,
    schema: Annotated[Literal["v1", "v2"], typer.Option(help="Version of the events' schema.")] = "v1",
    switch_at: Annotated[
        int | None, typer.Option(metavar="N", help="Go over to schema v2 after N events.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides the events: the same seed, the same events.")] = 7,
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of a new topic.")] = 4,
    as_json: Annotated[bool, typer.Option("--json", help="All tallies as JSON on standard output.")] = False,
) -> None:
    """Send the clicks of an invented shop to a topic, as Avro, and count them.

    The same seed gives the same events, so the tallies are what queries must find.

    Example:  tabletopic produce-clickstream --topic clicks --count 100000 --rate 500
    """
    from tabletopic_kernel._datasets.clickstream.produce import produce
    from tabletopic_kernel.local.progress import CountBar

    servers = call.workbench.servers
    with (
        stop_event() as asked,
        CountBar(count, topic, "events") as bar,
    ):
        tallies = produce(
            servers.kafka,
            servers.registry,
            topic,
            count,
            rate=rate,
            seed=seed,
            schema_version=schema,
            partitions=partitions,
            switch_at=switch_at,
            on_progress=bar.to,
            stop=asked.is_set,
        )
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


def demo(
    call: Call,
    events: Annotated[int, typer.Option(min=1, help="How many events to send.")] = 100_000,
    keep: Annotated[bool, typer.Option(help="Leave the demo's folder in place, to play on.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A summary as JSON on standard output.")] = False,
) -> None:
    """See all of it once, and a proof at the end that nothing was lost or doubled.

    The demo starts servers of its own in a temporary folder (or in that of
    --state-dir), and stops and removes everything at the end.

    Example:  tabletopic demo
    """
    from tabletopic_kernel import demo as script

    raise typer.Exit(script.run(events, call.state_dir, keep, as_json))
