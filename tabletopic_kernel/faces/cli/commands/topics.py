"""``enable``, ``alter``, ``disable``, ``pause``, ``resume``: what should run."""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import FAILED, Call, JsonOption, command, duration_ms, not_in_time
from tabletopic_kernel.faces.cli.grids import show_grid
from tabletopic_kernel.model.errors import ActionNeededError
from tabletopic_kernel.model.settings.alter import FIXED_SETTINGS
from tabletopic_kernel.model.settings.options import SettingOption, given_settings, setting_options
from tabletopic_kernel.model.settings.sections import table_identifier

if TYPE_CHECKING:
    from tabletopic_kernel.model.settings.sections import TopicWish
    from tabletopic_kernel.workbench.status import TopicStatus

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the Kafka topic.")]

_RUNNING = frozenset({"running", "staged", "committing", "settling"})
_LOOK_EVERY_S = 0.5


def add_to(app: typer.Typer) -> None:
    """Add this group's commands."""
    settings = [_parameter(one) for one in setting_options()]
    command(app, "Table topics", more=settings)(plan)
    command(app, "Table topics", more=settings)(enable)
    changeable = [_parameter(one, hidden=one.field in FIXED_SETTINGS) for one in setting_options()]
    command(app, "Table topics", more=changeable)(alter)
    for function in (disable, pause, resume, commit):
        command(app, "Table topics")(function)


def _parameter(setting: SettingOption, *, hidden: bool = False) -> inspect.Parameter:
    option = typer.Option(
        setting.name,
        metavar=setting.metavar,
        help=setting.help,
        rich_help_panel="Settings of the table topic",
        hidden=hidden or not setting.offered,
        show_default=False,
    )
    kind: Any = list[str] if setting.several else str
    return inspect.Parameter(
        setting.field,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, option],
    )


def plan(
    call: Call,
    topic: TopicArgument,
    given: Mapping[str, Any],
    schema: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A schema to try: .avsc, .proto or .json. What would it change?"),
    ] = None,
    schema_type: Annotated[
        str | None, typer.Option(metavar="avro|protobuf|json", help="The type of a file of another name.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what enable, or a new schema, would do; nothing is changed.

    With --schema: the columns that a schema which is not registered yet would
    add, relax, widen or rename, and what would not fit; with the settings that
    the topic runs with, if it is switched on. The exit code is 1 if enable
    would refuse, or the schema does not fit.

    Example:  tabletopic plan clicks --schema clicks-v2.avsc
    """
    from tabletopic_kernel.faces.render.topics import plan_table  # noqa: PLC0415

    found = call.workbench.plan(topic, given_settings(given), schema=schema, schema_type=schema_type)
    if as_json:
        screen.show_json(found.to_json())
    else:
        show_grid(plan_table(found))
    if found.refused or (schema is not None and found.incompatible):
        raise typer.Exit(FAILED)


def enable(
    call: Call,
    topic: TopicArgument,
    given: Mapping[str, Any],
    wait: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Wait until a host runs the topic, e.g. 30s.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a Kafka topic a table topic: an Iceberg table that follows it.

    Everything is checked first (topic, settings, schema, table); nothing is
    left half-made. A host that runs, here or elsewhere, takes the topic at once.
    Settings that are not given come from tabletopic.toml.

    Example:  tabletopic enable clicks --commit-interval 5s --partition-by 'hour(event_time)'
    """
    wait_s = None if wait is None else duration_ms("--wait", wait) / 1000
    wish = call.workbench.enable(topic, given_settings(given))
    table = ".".join(table_identifier(topic, wish.settings))
    hosts = call.hosts()
    if as_json and wait_s is None:
        screen.show_json({"topic": topic, "table": table, "settings": _plain_settings(wish), "hosts": hosts})
    if not as_json:
        _say_enabled(call, wish, table, hosts)
    if wait_s is None:
        return
    status = _wait_until_running(call, topic, wait_s)
    if as_json:
        screen.show_json(status.to_json())
    else:
        screen.show(f"[green]{status.state}[/] on {screen.plain(status.host)}")


def alter(
    call: Call,
    topic: TopicArgument,
    given: Mapping[str, Any],
    as_json: JsonOption = False,
) -> None:
    """Change settings of a table topic while it runs; the others stay as they are.

    Its host commits what is staged and goes on with the new settings within
    seconds. New partitions are for new rows; those that are there stay.

    Example:  tabletopic alter clicks --partition-by 'day(event_time)' --commit-interval 1s
    """
    wish = call.workbench.alter(topic, given_settings(given))
    if as_json:
        screen.show_json({"topic": topic, "settings": _plain_settings(wish), "hosts": call.hosts()})
        return
    line = screen.plain(call.command("events", topic))
    screen.show(f"[bold]{screen.plain(topic)}[/] has new settings; see [cyan]{line}[/]")


def _plain_settings(wish: TopicWish) -> dict[str, Any]:
    return wish.settings.model_dump(mode="json")


def _say_enabled(call: Call, wish: TopicWish, table: str, hosts: list[str] | None) -> None:
    settings = wish.settings
    where = f"[bold]{screen.plain(wish.topic)}[/] is switched on: its table is [bold]{screen.plain(table)}[/]"
    begin = settings.start if isinstance(settings.start, str) else screen.clock(settings.start)
    screen.show(where)
    every = screen.interval(settings.commit_interval_ms)
    by = f", partitioned by {', '.join(settings.partition_by)}" if settings.partition_by else ""
    screen.show(
        f"  a commit every {every} while records come; a new table begins at {begin}{screen.plain(by)}"
    )
    if hosts:
        screen.show(
            f"  a host runs and takes it; see [cyan]{screen.plain(call.command('status', wish.topic))}[/]"
        )
    else:
        screen.show(
            "[yellow]no host runs yet[/]: start one, in a terminal of its own, with "
            f"[cyan]{screen.plain(call.command('serve'))}[/]"
        )


def _wait_until_running(call: Call, topic: str, seconds: float) -> TopicStatus:
    deadline = time.monotonic() + seconds
    while True:
        status = call.workbench.status(topic)[0]
        if status.state in _RUNNING:
            return status
        if status.state == "failed":
            raise ActionNeededError(f"{topic} failed: {status.error}")
        if time.monotonic() >= deadline:
            told = f": {status.error}" if status.error else ""
            raise not_in_time(f"{topic} is {status.state}{told}", seconds)
        time.sleep(_LOOK_EVERY_S)


def disable(call: Call, topic: TopicArgument, as_json: JsonOption = False) -> None:
    """Switch a table topic off; its table stays, and so does its ledger.

    The host commits what is staged and lets go. Switched on again, the topic
    goes on where the table ends.

    Example:  tabletopic disable clicks
    """
    table = call.workbench.table_of(topic)
    call.workbench.disable(topic)
    if as_json:
        screen.show_json({"topic": topic, "table": table, "run": "off"})
    else:
        screen.show(f"[bold]{screen.plain(topic)}[/] is switched off; the table {screen.plain(table)} stays")


def pause(call: Call, topic: TopicArgument, as_json: JsonOption = False) -> None:
    """Stop reading a table topic for a while; what is staged is committed first.

    Example:  tabletopic pause clicks
    """
    wish = call.workbench.pause(topic)
    if as_json:
        screen.show_json({"topic": topic, "run": wish.run})
    else:
        line = screen.plain(call.command("resume", topic))
        screen.show(f"[bold]{screen.plain(topic)}[/] pauses; go on with [cyan]{line}[/]")


def resume(call: Call, topic: TopicArgument, as_json: JsonOption = False) -> None:
    """Go on after a pause, or after a failure whose cause is gone.

    Example:  tabletopic resume clicks
    """
    wish = call.workbench.resume(topic)
    if as_json:
        screen.show_json({"topic": topic, "run": wish.run})
    else:
        screen.show(f"[bold]{screen.plain(topic)}[/] goes on")


def commit(call: Call, topic: TopicArgument, as_json: JsonOption = False) -> None:
    """Commit what is in the topic now, before it is due.

    Example:  tabletopic commit clicks
    """
    call.workbench.commit(topic)
    if as_json:
        screen.show_json({"topic": topic, "commit": "asked"})
    else:
        line = screen.plain(call.command("history", topic))
        screen.show(f"the host of [bold]{screen.plain(topic)}[/] is asked to commit now; see [cyan]{line}[/]")
