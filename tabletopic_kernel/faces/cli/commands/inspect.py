"""``peek``, ``schema``, ``history``, ``logs``: a topic and its table from near by."""

# Imports wait until they are needed: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import Call, JsonOption, command
from tabletopic_kernel.faces.cli.commands.topics import TopicArgument
from tabletopic_kernel.faces.cli.grids import show_grid
from tabletopic_kernel.model.errors import UsageError


def add_to(app: typer.Typer) -> None:
    """Add this group's commands."""
    for function in (peek, schema, history, logs):
        command(app, "Watching")(function)


def peek(
    call: Call,
    topic: TopicArgument,
    number: Annotated[int, typer.Option("-n", metavar="N", min=1, help="How many records.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Show the newest records of a topic, decoded, before they are in the table.

    The topic need not be switched on. A record that cannot become a row is
    shown with the reason.

    Example:  tabletopic peek clicks -n 5
    """
    from tabletopic_kernel.faces.render.topics import records_table
    from tabletopic_kernel.faces.render.values import json_text

    found = call.workbench.topic(topic).peek(number)
    if as_json:
        screen.show_text("[" + ",\n ".join(json_text(asdict(one)) for one in found) + "]")
    else:
        show_grid(records_table(f"{topic}, newest first", found))


def schema(
    call: Call,
    topic: TopicArgument,
    version: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="The columns of this registered version.")
    ] = None,
    diff: Annotated[
        tuple[int, int] | None,
        typer.Option(metavar="V1 V2", help="What version V2 changes in the columns of V1."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the table's columns and the versions of the topic's schema.

    Example:  tabletopic schema clicks --diff 1 2
    """
    from tabletopic_kernel.faces.render.topics import schema_table

    if diff is not None and version is not None:
        raise UsageError("--version and --diff exclude each other")
    handle = call.workbench.topic(topic)
    if diff is not None:
        changes = handle.schema_diff(*diff)
        if as_json:
            screen.show_json({"topic": topic, "from": diff[0], "to": diff[1], "changes": changes})
        else:
            screen.show_text("\n".join(changes or ["no change"]))
        return
    found = handle.schema(version)
    if as_json:
        screen.show_json(found.to_json())
    else:
        show_grid(schema_table(found))


def history(
    call: Call,
    topic: TopicArgument,
    number: Annotated[int, typer.Option("-n", metavar="N", min=1, help="How many snapshots.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Show the table's snapshots, newest first, each with the ledger it carries.

    Example:  tabletopic history clicks
    """
    from tabletopic_kernel.faces.render.topics import history_table

    found = call.workbench.topic(topic).history(number)
    if as_json:
        screen.show_json([one.to_json() for one in found])
    else:
        show_grid(history_table(topic, found))


def logs(
    call: Call,
    topic: Annotated[
        str | None, typer.Argument(metavar="[TOPIC]", help="One topic only.", show_default=False)
    ] = None,
    number: Annotated[int, typer.Option("-n", metavar="N", min=1, help="How many lines.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """Show the last lines that hosts on this machine logged.

    Example:  tabletopic logs clicks
    """
    found = call.workbench.logs(number, topic)
    if as_json:
        screen.show_json(found)
    elif found:
        screen.show_text("\n".join(found))
    else:
        screen.note(f"nothing was logged; the logs are in {call.workbench.servers.state_dir / 'logs'}")
