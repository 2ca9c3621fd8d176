"""``up`` and ``down``: the local stack."""

# Imports wait until they are needed: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import INTERRUPTED, Call
from tabletopic_kernel.model.errors import StackError, TableTopicError

if TYPE_CHECKING:
    from tabletopic_kernel.local.stack import LocalStack, StackInfo

_POLL_S = 2.0


def up(call: Call, detach: bool, kafka_port: int | None, registry_port: int | None, as_json: bool) -> None:
    """Start the local stack; without ``detach`` stay until it is to end."""
    from tabletopic_kernel.local.progress import TerminalReport

    stack = call.stack(TerminalReport(), kafka_port=kafka_port, registry_port=registry_port)
    running = stack.up(die_with_parent=not detach)
    stays = not detach and bool(running.started)
    if as_json:
        screen.show_json(_addresses(running))
    else:
        _show_stack(call, running, stays)
    if stays:
        _stay(stack)


def _addresses(running: StackInfo) -> dict[str, Any]:
    properties = {key: value for key, value in running.catalog.items() if key != "name"}
    return {
        "bootstrap_servers": running.bootstrap_servers,
        "registry_url": running.registry_url,
        "catalog": {"name": running.catalog["name"], "properties": properties},
        "state_dir": str(running.state_dir),
    }


def _show_stack(call: Call, running: StackInfo, stays: bool) -> None:
    out = screen.console()
    out.print(
        screen.facts(
            {
                "Kafka": running.bootstrap_servers,
                "Registry": running.registry_url,
                "Catalog": f"{running.catalog['name']} ({running.catalog['uri']})",
                "Warehouse": running.catalog["warehouse"],
                "State folder": str(running.state_dir),
            }
        )
    )
    end = "Ctrl-C here" if stays else call.command("down")
    steps = {
        call.command("produce-clickstream", "--topic", "clicks"): "some events to try it with",
        call.command("enable", "clicks"): "make the topic a table",
        call.command("serve"): "run it, in a terminal of its own",
        call.command("query", "SELECT count(*) FROM clicks"): "ask the table",
        end: "stop the servers; the data stay",
    }
    out.print("\nNext:")
    table = screen.steps(steps)
    out.print(table)


def _stay(stack: LocalStack) -> None:
    """Wait for Ctrl-C, SIGTERM or the end of a server; then stop them all."""
    with stop_event() as asked:
        while not asked.wait(_POLL_S):
            if stack.info() is None:
                stack.down()
                raise StackError(f"a server has ended; the logs are in {stack.state_dir / 'logs'}")
        stack.down()


@contextlib.contextmanager
def stop_event() -> Iterator[threading.Event]:
    """Set by Ctrl-C, SIGTERM, or the terminal's end; the second Ctrl-C ends the process at once."""
    asked = threading.Event()

    def ask(number: int, _: FrameType | None) -> None:
        if asked.is_set() and number == signal.SIGINT:
            os._exit(INTERRUPTED)
        asked.set()

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def down(call: Call, as_json: bool) -> None:
    """Stop the local stack and the hosts in the background."""
    from tabletopic_kernel.local.hosts import stop_detached
    from tabletopic_kernel.local.progress import TerminalReport

    hosts = stop_detached(Path(call.loaded.settings.state_dir))
    stack = call.stack(TerminalReport())
    left: list[str] = []
    if stack.info() is not None:
        with contextlib.suppress(TableTopicError):
            left = call.workbench.hosts()
    stopped = stack.down()
    if as_json:
        screen.show_json({"servers": stopped, "hosts": hosts})
    elif not stopped and not hosts:
        screen.note(f"nothing was running in {call.loaded.settings.state_dir}")
    for host in left:
        screen.note(f"host {host} still runs and waits for the servers; end it with Ctrl-C where it runs")
