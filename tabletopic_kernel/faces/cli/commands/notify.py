"""``notify``: who receives notices of hosts."""

# Imports are deferred: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

from typing import Annotated

import typer

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import FAILED, Call
from tabletopic_kernel.faces.cli.command import Json
from tabletopic_kernel.faces.operations.operation import Option


def notify(
    call: Call,
    test: Annotated[bool, Option("Send each a test message, and report what comes of it")] = False,
    as_json: Json = False,
) -> None:
    """Show who receives a notice when a topic fails or falls behind, or records are refused.

    Hosts send notices to a webhook and a command, set in [notify] of tabletopic.toml, once
    per cause and hour. The exit code is 1 if a test message does not arrive, or
    none is set.

    Example:  tabletopic notify --test
    """
    from tabletopic_kernel.host.metrics.notices import Notice
    from tabletopic_kernel.host.metrics.notifier import message_of, receivers
    from tabletopic_kernel.local.machine import now_ms

    words = "a test of [notify]: hosts send here what needs a person"
    message = message_of([Notice("test", "", "", now_ms(), words, "tabletopic status")])
    known = receivers(call.loaded.settings.notify)
    outcomes = {name: send(message) if test else None for name, send in known.items()}
    if as_json:
        screen.show_json([{"receiver": name, "error": error} for name, error in outcomes.items()])
    elif not known:
        screen.note("no message is sent: set webhook_url or command in [notify] of tabletopic.toml")
    else:
        for name, error in outcomes.items():
            screen.show_text(f"{name}: {error or ('the message arrived' if test else 'receives notices')}")
    if not known or any(outcomes.values()):
        raise typer.Exit(FAILED)
