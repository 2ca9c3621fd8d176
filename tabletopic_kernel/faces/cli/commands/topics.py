"""``enable``, ``alter``, ``status``, ``events``: operations to which the command line adds something."""

# Imports are deferred: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

from rich.console import Console, Group, RenderableType
from rich.text import Text

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import Call, duration_ms
from tabletopic_kernel.faces.cli.command import Json, show_messages, show_result
from tabletopic_kernel.faces.operations import inspection, patterns, topics
from tabletopic_kernel.faces.operations.operation import AnyTopic, Message, Option, Timeout, Topic
from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.errors import RetryableError, UsageError
from tabletopic_kernel.model.progress.events import HEARTBEATS
from tabletopic_kernel.model.redact import mask
from tabletopic_kernel.model.settings.servers import registry_place

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.topics.topic_status import TopicStatus

_REFRESH_S = 1.0


def enable(
    call: Call,
    topic: patterns.Topics,
    settings: topics.AllSettings,
    exclude: patterns.Exclude = "",
    yes: patterns.Yes = False,
    standing: patterns.Standing = False,
    wait: Annotated[bool, Option("Wait until the table contains what the topic contains")] = False,
    timeout: Timeout = 300.0,
    as_json: Json = False,
) -> None:
    """Enable a topic, and with ``wait`` wait until the table contains what the topic contains."""
    if wait and patterns.is_pattern(topic):
        raise UsageError("--wait is for one topic; `tabletopic status --watch` shows all")
    desired = topics.enable(call.workbench, topic, settings, exclude, yes, standing)
    if isinstance(desired, patterns.Enablings):
        show_result(call, topics.enable, desired, {}, as_json=as_json)
        return
    hosts = call.hosts()
    if as_json and not wait:
        table, plain = topics.table_of(desired), desired.settings.model_dump(mode="json")
        screen.show_json({"topic": topic, "table": table, "settings": plain, "hosts": hosts})
    if not as_json:
        show_result(call, topics.enable, desired, {}, as_json=False)
        show_messages(call, [_who_runs(topic, hosts)])
    if wait:
        status = inspection.wait(call.workbench, topic, timeout)
        show_result(call, inspection.wait, status, {"topic": topic}, as_json=as_json)


def alter(call: Call, topic: Topic, settings: topics.ChangeableSettings, as_json: Json = False) -> None:
    """Change settings of a topic."""
    desired = topics.alter(call.workbench, topic, settings)
    if as_json:
        plain = desired.settings.model_dump(mode="json")
        screen.show_json({"topic": topic, "settings": plain, "hosts": call.hosts()})
    else:
        show_result(call, topics.alter, desired, {}, as_json=False)


def _who_runs(topic: str, hosts: list[str] | None) -> Message:
    if hosts:
        return Message("  a running host picks it up; see `tabletopic status {name}`", {"name": topic})
    return Message("no host is running: start one in another terminal with `tabletopic serve`")


def status(
    call: Call,
    topic: AnyTopic = None,
    watch: Annotated[bool, Option("Refresh each second until Ctrl-C", ("--watch", "-w"))] = False,
    as_json: Json = False,
) -> None:
    """Print the status of topics, once or repeatedly."""
    if watch:
        _watch(call, topic, as_json)
        return
    statuses = call.workbench.status(topic)
    if as_json:
        plain = [status.to_json() for status in statuses]
        screen.show_json(plain if topic is None else plain[0])
    else:
        out = screen.console()
        out.print(_page(call, statuses, topic, out))
        call.note_missing_servers()


def _watch(call: Call, topic: str | None, as_json: bool) -> None:
    from rich.live import Live

    out = screen.console()
    in_place = out.is_terminal and not as_json
    with Live(console=out, auto_refresh=False) if in_place else nullcontext() as live:
        while True:
            began = time.monotonic()
            if as_json:
                _print_json_lines(call, topic)
            elif live is None:
                out.print(_page_or_error(call, topic, out))
            else:
                live.update(_page_or_error(call, topic, out), refresh=True)
            time.sleep(max(0.0, _REFRESH_S - (time.monotonic() - began)))


def _print_json_lines(call: Call, topic: str | None) -> None:
    try:
        for status in call.workbench.status(topic):
            screen.show_json_line(status.to_json())
    except RetryableError as error:
        screen.note(_retrying(error))


def _page_or_error(call: Call, topic: str | None, out: Console) -> RenderableType:
    """The page, or the error while the servers do not respond."""
    try:
        return _page(call, call.workbench.status(topic), topic, out)
    except RetryableError as error:
        return Text(_retrying(error), style="yellow")


def _retrying(error: RetryableError) -> str:
    return f"{error}; retrying …"


def _page(call: Call, statuses: Sequence[TopicStatus], topic: str | None, out: Console) -> RenderableType:
    """The operation's grid above the servers' addresses."""
    from tabletopic_kernel.render.topics import status_facts, status_table
    from tabletopic_kernel.workbench.config.profiles import DEFAULT_PROFILE

    servers, profile = call.workbench.servers, call.loaded.profile
    using = "" if profile == DEFAULT_PROFILE else f"profile            {profile}\n"
    footer = Text(
        f"{using}bootstrap servers  {servers.kafka.get('bootstrap.servers', '')}\n"
        f"registry           {mask(registry_place(servers.registry))}",
        style="dim",
        overflow="fold",
    )
    if not statuses:
        hint = f"no table topics yet; enable one: {call.command('enable', 'TOPIC')}"
        return Group(Text(hint), Text(), footer)
    grid = status_table(statuses) if topic is None else status_facts(statuses[0])
    return Group(screen.laid_out(grid, out), Text(), footer)


def events(
    call: Call,
    topic: AnyTopic = None,
    follow: Annotated[bool, Option("Keep printing until Ctrl-C", ("--follow", "-f"))] = False,
    since: Annotated[str, Option("How far back to start, e.g. 10m, 2h, all", metavar="DURATION|all")] = "1h",
    everything: Annotated[bool, Option("Include heartbeats", ("--all",))] = False,
    as_json: Annotated[bool, Option("One JSON object per line", ("--json",))] = False,
) -> None:
    """Print events, oldest first; heartbeats only on request."""
    going = (lambda: True) if follow else None
    out = screen.console()
    seen = False
    if follow:
        call.workbench.check_known(topic)
    for event in call.workbench.events(topic, _since_ms(since), going):
        if event.type in HEARTBEATS and not everything:
            continue
        seen = True
        if as_json:
            screen.show_json_line(event.model_dump(mode="json"))
        else:
            out.print(screen.event_line(event))
    if not seen:
        call.workbench.check_known(topic)
    if not seen and not as_json:
        screen.note(f"no events in the last {since}" if since != "all" else "no events yet")


def _since_ms(text: str) -> int | None:
    if text.strip().lower() == "all":
        return None
    return max(0, now_ms() - duration_ms("--since", text))  # Kafka has other meanings for times below 0
