"""``up``, ``down``, ``info``, ``config``, ``doctor``: the local stack, addresses, settings, checks."""

# Imports are deferred: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table
from rich.text import Text

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import FAILED, INTERRUPTED, Call
from tabletopic_kernel.model.errors import StackError, TableTopicError, UsageError

if TYPE_CHECKING:
    from tabletopic_kernel.local.stack import LocalStack, StackInfo
    from tabletopic_kernel.workbench.doctor.check import Check


_POLL_S = 2.0


def up(
    call: Call, detach: bool, kafka_port: int | None, registry_port: int | None, fork: bool, as_json: bool
) -> None:
    """Start the servers that the settings do not name; without ``detach`` stay until stopped."""
    from tabletopic_kernel.local.progress import TerminalReport
    from tabletopic_kernel.workbench.config import check_something_to_start, own_servers

    check_something_to_start(call.loaded.settings, fork=fork)
    own = own_servers(call.loaded.settings)
    stack = call.stack(TerminalReport(), kafka_port=kafka_port, registry_port=registry_port, fork=fork)
    running = stack.up(die_with_parent=not detach)
    stays = not detach and bool(running.started)
    if as_json:
        screen.show_json(_addresses(running, own))
    else:
        _show_stack(call, running, own, stays)
    if stays:
        _stay(stack)


def _addresses(running: StackInfo, own: list[str]) -> dict[str, Any]:
    """Addresses to print; None for each server that the settings name, as it is not the stack's."""
    properties = {key: value for key, value in running.catalog.items() if key != "name"}
    catalog = {"name": running.catalog["name"], "properties": properties}
    return {
        "bootstrap_servers": None if "kafka" in own else running.bootstrap_servers,
        "registry_url": None if "registry" in own else running.registry_url,
        "catalog": None if "catalog" in own else catalog,
        "state_dir": str(running.state_dir),
    }


def _show_stack(call: Call, running: StackInfo, own: list[str], stays: bool) -> None:
    out = screen.console()
    yours = "yours, from [{}] in the settings: not started"
    catalog = f"{running.catalog['name']} ({running.catalog['uri']})"
    facts = {
        "Kafka": yours.format("kafka") if "kafka" in own else running.bootstrap_servers,
        "Registry": yours.format("registry") if "registry" in own else running.registry_url,
        "Catalog": yours.format("catalog") if "catalog" in own else catalog,
        "Warehouse": None if "catalog" in own else running.catalog["warehouse"],
        "State folder": str(running.state_dir),
    }
    out.print(screen.facts({name: fact for name, fact in facts.items() if fact is not None}))
    out.print("\nNext:")
    out.print(screen.steps(_next_steps(call, own, stays)))


def _next_steps(call: Call, own: list[str], stays: bool) -> dict[str, str]:
    """Commands and what they do. Sample events are not offered for the user's own Kafka."""
    topic = "TOPIC" if "kafka" in own else "clicks"
    steps = {
        call.command("enable", topic): "make the topic a table topic",
        call.command("serve"): "run it, in a terminal of its own",
        call.command("wait", topic): "wait until the table contains what the topic contains",
        call.command("query", f"SELECT count(*) FROM {topic}"): "query the table",
    }
    if "kafka" not in own:
        sample = call.command("sample", topic)
        steps = {sample: "some sample events", **steps}
    if not {"kafka", "registry"} <= set(own):
        end = "Ctrl-C here" if stays else call.command("down")
        steps[end] = (
            f"stop {'the server' if 'kafka' in own or 'registry' in own else 'the servers'}; the data stays"
        )
    return steps


def _stay(stack: LocalStack) -> None:
    """Wait for Ctrl-C, SIGTERM or the end of a server; then stop them all."""
    with stop_event() as asked:
        while not asked.wait(_POLL_S):
            if stack.info() is None:
                stack.down()
                raise StackError(f"a server has ended; see the logs in {stack.state_dir / 'logs'}")
        stack.down()


@contextlib.contextmanager
def stop_event() -> Iterator[threading.Event]:
    """An event set by Ctrl-C, SIGTERM, or the terminal's end; a second Ctrl-C ends the process at once."""
    asked, was_asked = threading.Event(), False

    def ask(number: int, _: FrameType | None) -> None:
        nonlocal was_asked
        if was_asked and number == signal.SIGINT:
            os._exit(INTERRUPTED)
        was_asked = True
        # In a thread that nobody waits for: the one that is interrupted here may hold the event's lock, or be
        # in this handler already, and would wait for itself. Thread.start() takes a lock, too.
        _thread.start_new_thread(asked.set, ())

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

    hosts = stop_detached(Path(call.loaded.settings.state_dir), screen.note)
    stack = call.stack(TerminalReport())
    left: list[str] = []
    with contextlib.suppress(TableTopicError):
        if stack.info() is not None:
            left = call.workbench.hosts()
    stopped = stack.down()
    if as_json:
        screen.show_json({"servers": stopped, "hosts": hosts})
    elif not stopped and not hosts:
        screen.note(f"nothing was running in {call.loaded.settings.state_dir}")
    for host in left if stopped else ():  # otherwise they have servers of their own
        screen.note(f"host {host} is still running and waits for the servers; end it with Ctrl-C there")


def trust(call: Call, as_json: bool) -> None:
    """Accept the properties of the file found here that can run code."""
    from tabletopic_kernel.workbench.config import trust_file

    file, names = trust_file()
    if file is None:
        raise UsageError("there is no tabletopic.toml here or above")
    if as_json:
        screen.show_json({"file": str(file), "properties": names})
        return
    for name in names:
        screen.show_text(name)
    screen.note(f"{'trusted' if names else 'nothing to trust'} in {file}")


def info(call: Call, as_json: bool) -> None:
    """Print addresses; as JSON all properties, passwords included."""
    from tabletopic_kernel.model.redact import HIDDEN, mask_property

    hosts = call.hosts()
    found = _info(call, hosts or [])
    if as_json:
        screen.show_json(found)
        return
    catalog: dict[str, Any] = found["catalog"]
    screen.console().print(
        screen.facts(
            {
                "bootstrap servers": found["bootstrap_servers"],
                **_more(found["kafka"], "bootstrap.servers", "metadata.broker.list"),
                "registry": found["registry_url"],
                **_more(found["registry"], "url"),
                "catalog": catalog["name"],
                **_more(catalog["properties"]),
                **_more_catalogs(found["catalogs"]),
                "state folder": found["state_dir"],
                "hosts": _host_list(call, hosts),
            }
        )
    )
    if HIDDEN in str([mask_property(*one) for part in _properties(found) for one in part.items()]):
        screen.note(f"passwords are hidden; {call.command('info', '--json')} prints them for other programs")
    call.note_missing_servers()


def _more(properties: dict[str, str], *addresses: str) -> dict[str, str]:
    """What a client needs besides the address, in printable form."""
    from tabletopic_kernel.model.redact import mask_property

    return {
        f"  {key}": mask_property(key, value) for key, value in properties.items() if key not in addresses
    }


def _more_catalogs(catalogs: list[dict[str, Any]]) -> dict[str, str]:
    """Properties of the additional catalogs, each prefixed with the catalog's name, in printable form."""
    from tabletopic_kernel.model.redact import mask_property

    return {
        f"{one['name']}: {key}": mask_property(key, value)
        for one in catalogs
        for key, value in one["properties"].items()
    }


def _properties(found: dict[str, Any]) -> list[dict[str, str]]:
    catalogs = [found["catalog"], *found["catalogs"]]
    return [found["kafka"], found["registry"], *(one["properties"] for one in catalogs)]


def _host_list(call: Call, hosts: list[str] | None) -> str:
    if hosts is None:
        return "unknown: the broker does not respond"
    return ", ".join(hosts) or f"none; start one: {call.command('serve')}"


def _info(call: Call, hosts: list[str]) -> dict[str, Any]:
    from tabletopic_kernel.model.redact import without_login
    from tabletopic_kernel.model.settings.servers import registry_place

    servers = call.workbench.servers
    kafka = servers.kafka
    catalog, *others = (
        {"name": one["name"], "properties": {key: value for key, value in one.items() if key != "name"}}
        for one in servers.all_catalogs
    )
    return {
        "bootstrap_servers": kafka.get("bootstrap.servers") or kafka.get("metadata.broker.list", ""),
        "registry_url": without_login(registry_place(servers.registry)),
        "kafka": kafka,
        "registry": servers.registry,
        "catalog": catalog,
        "catalogs": others,
        "state_dir": str(servers.state_dir),
        "hosts": hosts,
    }


def config(call: Call, as_json: bool) -> None:
    """Print every setting with its source; contacts no server."""
    from tabletopic_kernel.workbench.config import DEFAULT, describe

    rows = describe(call.loaded)
    file = call.loaded.file
    if as_json:
        screen.show_json(
            {"file": None if file is None else str(file), "settings": [row._asdict() for row in rows]}
        )
        return
    table = screen.grid("setting", "value", "from")
    for row in rows:
        table.add_row(
            Text(row.key), Text(row.value), Text(row.origin), style="dim" if row.origin == DEFAULT else ""
        )
    screen.console().print(table)
    screen.note(f"settings file: {file or 'none found'}")


def doctor(call: Call, as_json: bool) -> None:
    """Run all checks; the exit code is 1 if one fails."""
    from tabletopic_kernel.workbench.doctor.run import run_checks

    checks = []
    out = screen.console()
    for check in run_checks(call.loaded):
        checks.append(check)
        if not as_json:
            out.print(check_line(check))
    if as_json:
        screen.show_json([check.to_json() for check in checks])
    if any(check.status == "fail" for check in checks):
        raise typer.Exit(FAILED)


def check_line(check: Check) -> Table:
    """One check as text, its remedy below."""
    style = {"ok": "green", "warn": "yellow", "fail": "bold red"}[check.status]
    line = Table.grid(padding=(0, 2))
    for width in (4, 16, None):
        line.add_column(width=width)
    line.add_row(Text(check.status, style), Text(check.name, "bold"), Text(check.detail))
    if check.remedy:
        line.add_row("", "", Text(f"→ {check.remedy}", style))
    return line
