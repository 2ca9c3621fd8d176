"""``drill``: everything is killed, and every record compared."""

# Imports wait until they are needed: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated

import typer

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import FAILED, Call, JsonOption, command
from tabletopic_kernel.faces.cli.commands.servers import stop_event

_MINUTES = 5.0


def add_to(app: typer.Typer) -> None:
    """Add this group's commands."""
    command(app, "Something to try it with")(drill)


def drill(
    call: Call,
    topic: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            help="Copy the newest records of this topic, and run on the copies.  (topics of its own)",
        ),
    ] = None,
    records: Annotated[int, typer.Option(min=1, help="With --topic: how many, at most.")] = 1_000,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Begin no round after so many minutes.  (5, without --rounds)")
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="At most so many rounds.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="The same seed makes the same schedule.  (a new one)")
    ] = None,
    faults: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Groups or single faults, again for more: hosts, servers, catalog, disk, "
            "foreign, orders, topics.  (all)",
        ),
    ] = None,
    rate: Annotated[float, typer.Option(min=1, help="Records per second of each of the three topics.")] = 60,
    heavy: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Share of rounds after which a host, or what it needs, starts again.  (0.2)"
        ),
    ] = None,
    hand_overs: Annotated[
        bool,
        typer.Option("--hand-overs", help="Only end hosts alone, in turns by kill -9 and SIGTERM."),
    ] = False,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report page here (.html, or .md).")
    ] = None,
    keep: Annotated[bool, typer.Option(help="Leave the drill's folder in place.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Break everything on purpose, then compare every record with the tables.

    Hosts, JVMs, workers, broker and registry are killed and frozen, the catalog
    refuses, the disk is full, other programs expire, rewrite and roll back: at
    random moments and at every step of the protocol. The drill starts servers
    of its own in a temporary folder. The exit code is 1 if a record is lost,
    there twice or changed, or if a file is missing or left behind. Ctrl-C ends
    the rounds and compares; the second one ends everything at once.

    With --topic your servers are only read: the newest records go to a broker and
    a catalog of the drill, with the topic's settings and your registry, and there
    they are sent again and again while hosts die. Each copy must become what the
    first one did, before any fault. Schemas are left alone; all goes at the end.

    Example:  tabletopic drill --minutes 10 --report drill.html
              tabletopic drill --topic clicks --minutes 10
    """
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
        out = screen.console()
        out.print(page.verdict_table(outcome))
        out.print()
        out.print(page.recovery_grid(outcome))
        out.print()
        for difference in page.differences(outcome):
            out.print(f"✗  {difference}", style="bold red", markup=False)
        out.print(f"{'✓' if outcome.ok else '✗'}  {page.headline(outcome)}", markup=False)
    if not outcome.ok:
        raise typer.Exit(FAILED)
