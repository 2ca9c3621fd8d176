"""``produce-clickstream`` and ``demo``: sample events, and the whole path once."""

# Imports are deferred: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

import typer

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import INTERRUPTED, Call
from tabletopic_kernel.faces.cli.commands.servers import stop_event

if TYPE_CHECKING:
    from tabletopic_kernel._datasets.clickstream.tallies import Tallies


def produce_clickstream(
    call: Call,
    topic: str,
    count: int,
    rate: float | None,
    schema: Literal["v1", "v2"],
    switch_at: int | None,
    seed: int,
    partitions: int,
    as_json: bool,
) -> None:
    """Send click events and print their tallies."""
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


def demo(call: Call, events: int, keep: bool, as_json: bool) -> None:
    """Run the demo."""
    from tabletopic_kernel import demo as script

    raise typer.Exit(script.run(events, call.state_dir, keep, as_json))
