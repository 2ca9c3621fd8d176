"""``up``, ``down``, ``trust``, ``config``, ``doctor``: the local stack, settings, checks."""

# Imports are deferred: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import FAILED, Call
from tabletopic_kernel.faces.cli.command import Json
from tabletopic_kernel.faces.cli.commands.stopping import stop_event
from tabletopic_kernel.faces.operations.operation import Option, plain
from tabletopic_kernel.model.errors import StackError, TableTopicError, UsageError

if TYPE_CHECKING:
    from tabletopic_kernel.local.stack import LocalStack, StackInfo
    from tabletopic_kernel.workbench.doctor.check import Check


_POLL_S = 2.0


def _port(help_text: str) -> Option:
    text = "a free port, kept for later starts"
    return Option(help_text, metavar="PORT", least=1, most=65_535, default_text=text)


def up(
    call: Call,
    detach: Annotated[
        bool, Option("Return once the servers are ready; `down` stops them", ("--detach", "-d"))
    ] = False,
    kafka_port: Annotated[int | None, _port("Port of the broker")] = None,
    registry_port: Annotated[int | None, _port("Port of the registry")] = None,
    fork: Annotated[bool, Option("Make a copied state folder independent of its original")] = False,
    as_json: Json = False,
) -> None:
    """Start the local stack: Kafka, a schema registry and an Iceberg catalog.

    Starts the broker, registry and catalog, except those that the settings name.
    The first start downloads about 270 MB of Java libraries. Without --detach the
    servers run until Ctrl-C, or until this terminal is closed.
    A state folder that was moved gets its tables' locations adapted. A copy of one
    is refused without --fork, as its catalog names the original's tables.

    Example:  tabletopic up --detach
    """
    from tabletopic_kernel.local.progress import TerminalReport
    from tabletopic_kernel.workbench.config import check_something_to_start, local_stack, own_servers

    check_something_to_start(call.loaded.settings, fork=fork)
    own = own_servers(call.loaded.settings)
    ports = {"kafka_port": kafka_port, "registry_port": registry_port}
    stack = local_stack(call.loaded.settings, TerminalReport(), fork=fork, **ports)
    running = stack.up(die_with_parent=not detach)
    stays = not detach and bool(running.started)
    if as_json:
        screen.show_json(_addresses(running, own))
    else:
        _show_stack(call, running, own, stays)
    if stays:
        _stay(stack)


def _addresses(running: StackInfo, own: list[str]) -> dict[str, Any]:
    """Addresses to print; None for a server that the settings name: it is not the stack's."""
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
    """Commands with their purposes; no sample events into the user's own Kafka."""
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
    with stop_event() as stop:
        while not stop.wait(_POLL_S):
            if stack.info() is None:
                stack.down()
                raise StackError(f"a server has ended; see the logs in {stack.state_dir / 'logs'}")
        stack.down()


def down(call: Call, as_json: Json = False) -> None:
    """Stop the local stack and background hosts; the data stays.

    Background hosts are those of `serve --detach`, and those that a Jupyter server
    or a notebook started as processes.

    Example:  tabletopic down
    """
    from tabletopic_kernel.local.hosts import stop_detached
    from tabletopic_kernel.local.progress import TerminalReport
    from tabletopic_kernel.workbench.config import local_stack

    hosts = stop_detached(Path(call.loaded.settings.state_dir), screen.note)
    stack = local_stack(call.loaded.settings, TerminalReport())
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


def trust(call: Call, as_json: Json = False) -> None:
    """Accept the properties in tabletopic.toml that can run code.

    Properties such as spark.jars or plugin.library.paths decide which code runs.
    In a file that was found, and not named by --config or TABLETOPIC_CONFIG, they
    count only once you have accepted them, and again after each change of them.

    Example:  tabletopic trust
    """
    from tabletopic_kernel.workbench.config.profiles import profile_of
    from tabletopic_kernel.workbench.config.trust import trust_file

    file, names = trust_file(profile_of(call.environ))
    if file is None:
        raise UsageError("there is no tabletopic.toml here or above")
    if as_json:
        screen.show_json({"file": str(file), "properties": names})
        return
    for name in names:
        screen.show_text(name)
    screen.note(f"{'trusted' if names else 'nothing to trust'} in {file}")


def config(call: Call, as_json: Json = False) -> None:
    """Show the settings in force and where each comes from; secrets are hidden.

    A setting comes from tabletopic.toml, an environment variable such as
    TABLETOPIC_KAFKA__BOOTSTRAP__SERVERS, or an option. Later sources win.

    Example:  tabletopic config
    """
    from tabletopic_kernel.workbench.config import DEFAULT, describe

    rows = describe(call.loaded)
    file = call.loaded.file
    if as_json:
        screen.show_json(
            {
                "profile": call.loaded.profile,
                "file": None if file is None else str(file),
                "settings": [row._asdict() for row in rows],
            }
        )
        return
    table = screen.grid("setting", "value", "from")
    for row in rows:
        table.add_row(
            Text(row.key), Text(row.value), Text(row.origin), style="dim" if row.origin == DEFAULT else ""
        )
    screen.console().print(table)
    screen.note(f"profile {call.loaded.profile}; settings file: {file or 'none found'}")


def doctor(call: Call, as_json: Json = False) -> None:
    """Check everything this program needs, and explain what to do if a check fails.

    Works with or without servers; the exit code is 1 if a check fails.

    Example:  tabletopic doctor
    """
    from tabletopic_kernel.workbench.doctor.run import run_checks

    checks = []
    out = screen.console()
    for check in run_checks(call.loaded):
        checks.append(check)
        if not as_json:
            out.print(check_line(check))
    if as_json:
        screen.show_json(plain(checks))
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
