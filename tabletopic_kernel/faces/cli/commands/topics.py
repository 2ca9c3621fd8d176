"""``enable``, ``alter``, ``status``, ``events``: topics, their hosts, lag and events."""

# Imports are deferred: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import Call, duration_ms
from tabletopic_kernel.faces.cli.command import show_messages, show_result
from tabletopic_kernel.faces.operations import BY_NAME
from tabletopic_kernel.faces.operations.operation import Message
from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.model.progress.events import HEARTBEATS
from tabletopic_kernel.render.states import words_of

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.status import TopicStatus


_STYLES = {"good": "green", "bad": "bold red", "quiet": "dim"}  # of tones


def enable(
    call: Call, topic: str, settings: dict[str, Any], wait: bool, timeout: float, as_json: bool
) -> None:
    """Enable a topic, and with ``wait`` wait until the table contains what the topic contains."""
    operation = BY_NAME["enable"]
    assert operation.run is not None
    assert operation.render is not None
    result = operation.run(call.workbench, topic=topic, settings=settings)
    hosts = call.hosts()
    if as_json and not wait:
        screen.show_json({**operation.to_json(result), "hosts": hosts})
    if not as_json:
        show_messages(call, [*operation.render(result, {}), _who_runs(topic, hosts)])
    if wait:
        status = call.workbench.topic(topic).wait(timeout)
        show_result(call, BY_NAME["wait"], status, {"topic": topic}, as_json=as_json)


def alter(call: Call, topic: str, settings: dict[str, Any], as_json: bool) -> None:
    """Change settings of a topic."""
    operation = BY_NAME["alter"]
    assert operation.run is not None
    assert operation.render is not None
    result = operation.run(call.workbench, topic=topic, settings=settings)
    if as_json:
        screen.show_json({**operation.to_json(result), "hosts": call.hosts()})
    else:
        show_messages(call, operation.render(result, {}))


def _who_runs(topic: str, hosts: list[str] | None) -> Message:
    if hosts:
        return Message("  a running host picks it up; see `tabletopic status {name}`", {"name": topic})
    return Message("no host is running: start one in another terminal with `tabletopic serve`")


_NUMBERS = ("lag", "behind", "rows", "files", "commits", "rows/s")
_DISPENSABLE = ("files", "commits", "schema", "rows/s")
_REFRESH_S = 1.0


def status(call: Call, topic: str | None, watch: bool, as_json: bool) -> None:
    """Print the status of topics, once or repeatedly."""
    if watch:
        _watch(call, topic, as_json)
        return
    statuses = call.workbench.status(topic)
    if as_json:
        _show_json(statuses, topic)
    else:
        out = screen.console()
        out.print(_page(call, statuses, topic, out))
        call.note_missing_servers()


def _show_json(statuses: Sequence[TopicStatus], topic: str | None) -> None:
    plain = [status.to_json() for status in statuses]
    screen.show_json(plain if topic is None else plain[0])


def _watch(call: Call, topic: str | None, as_json: bool) -> None:
    from rich.live import Live

    if as_json:
        while True:
            try:
                for status in call.workbench.status(topic):
                    screen.show_json_line(status.to_json())
            except RetryableError as error:
                screen.note(_retrying(error))
            time.sleep(_REFRESH_S)
    out = screen.console()
    if not out.is_terminal:
        while True:
            out.print(_page_or_error(call, topic, out))
            time.sleep(_REFRESH_S)
    with Live(console=out, auto_refresh=False) as live:
        while True:
            began = time.monotonic()
            live.update(_page_or_error(call, topic, out), refresh=True)
            time.sleep(max(0.0, _REFRESH_S - (time.monotonic() - began)))


def _page_or_error(call: Call, topic: str | None, out: Console) -> RenderableType:
    """With --watch, errors are shown until the servers are back."""
    try:
        return _page(call, call.workbench.status(topic), topic, out)
    except RetryableError as error:
        return Text(_retrying(error), style="yellow")


def _retrying(error: RetryableError) -> str:
    return f"{error}; retrying …"


def _page(call: Call, statuses: Sequence[TopicStatus], topic: str | None, out: Console) -> RenderableType:
    from tabletopic_kernel.model.redact import mask
    from tabletopic_kernel.model.settings.servers import registry_place

    servers = call.workbench.servers
    footer = Text(
        f"bootstrap servers  {servers.kafka.get('bootstrap.servers', '')}\n"
        f"registry           {mask(registry_place(servers.registry))}",
        style="dim",
        overflow="fold",
    )
    if not statuses:
        hint = f"no table topics yet; enable one: {call.command('enable', 'TOPIC')}"
        return Group(Text(hint), Text(), footer)
    if topic is not None:
        return Group(detail(statuses[0]), Text(), footer)
    return Group(_overview(statuses, out), *_errors(statuses), Text(), footer)


def _overview(statuses: Sequence[TopicStatus], out: Console) -> RenderableType:
    """One line per topic; in a narrow terminal without the least important columns."""
    columns = list(_COLUMNS)
    for dispensable in (*_DISPENSABLE, None):
        table = screen.grid(*columns, right=_NUMBERS)
        for status in statuses:
            table.add_row(*(_COLUMNS[name](status) for name in columns))
        if dispensable is None or screen.natural_width(out, table) <= out.width:
            return table
        columns.remove(dispensable)
    raise AssertionError("the loop ends with None")


def _errors(statuses: Sequence[TopicStatus]) -> list[RenderableType]:
    """Errors, each with its topic; a common cause is shown once."""
    from tabletopic_kernel.render.topics import delays

    errors: list[RenderableType] = [
        Text.assemble((f"{status.topic}: ", "bold"), (status.error, _error_style(status)))
        for status in statuses
        if status.error
    ]
    late = [Text.assemble((f"{names}: ", "bold"), (reason, "yellow")) for names, reason in delays(statuses)]
    return [*errors, *late]


def _error_style(status: TopicStatus) -> str:
    return "bold red" if status.state == "failed" else "yellow"


def _state(status: TopicStatus) -> Text:
    words = words_of(status.state, status.delay)
    return Text(words.word, style=_STYLES.get(words.tone, "yellow"))


def _versions(status: TopicStatus) -> str:
    return ", ".join(f"v{version['version']}" for version in status.schema_versions) or "-"


def detail(status: TopicStatus) -> RenderableType:
    """Everything about one topic, including the offsets of each partition."""
    from tabletopic_kernel.render.topics import not_rows

    table = screen.facts({})
    for name, value in (
        ("topic", Text(status.topic)),
        ("table", Text(status.table)),
        ("state", _state(status)),
        ("host", Text(status.host or "none")),
        ("lag", Text(f"{screen.number(status.lag_records)} records, {screen.seconds(status.lag_seconds)}")),
        ("rate", Text(f"{screen.number(status.rows_per_second)} rows/s")),
        ("rows", Text(f"{screen.number(status.rows)} in {screen.number(status.files)} files")),
        ("staged", Text(f"{screen.number(status.staged_rows)} rows")),
        (
            "commits",
            Text(f"{screen.number(status.commits)}, every {screen.interval(status.commit_interval_ms)}"),
        ),
        ("last commit", Text(_last_commit(status))),
        ("schemas", Text(_schemas(status))),
        ("epoch", Text(str(status.epoch))),
        *((name, screen.cell_text(cell)) for name, cell in not_rows(status).items()),
    ):
        table.add_row(name, value)
    offsets = screen.grid(
        "partition",
        "next offset",
        "end offset",
        "lag",
        right=("partition", "next offset", "end offset", "lag"),
    )
    for partition in sorted(status.end_offsets.keys() | status.next_offsets.keys()):
        at, end = status.next_offsets.get(partition), status.end_offsets.get(partition)
        behind = None if end is None or status.lag_records is None else max(0, end - (at or 0))
        offsets.add_row(str(partition), screen.number(at), screen.number(end), screen.number(behind))
    reason = status.error or status.delay_reason
    why = [Text(reason, style=_error_style(status)), Text()] if reason else []
    return Group(*why, table, Text(), offsets)


def _last_commit(status: TopicStatus) -> str:
    if status.last_commit_ms is None:
        return "none yet"
    at_ms = status.last_commit_ms
    return f"{screen.clock(at_ms)} ({screen.age(at_ms)}), snapshot {status.snapshot_id}"


def _schemas(status: TopicStatus) -> str:
    versions = [f"{each['subject']} v{each['version']} (id {each['id']})" for each in status.schema_versions]
    return ", ".join(versions) or "none yet"


_COLUMNS: dict[str, Callable[[TopicStatus], Text]] = {
    "topic": lambda status: Text(status.topic, style="bold"),
    "table": lambda status: Text(status.table),
    "state": _state,
    "lag": lambda status: Text(screen.number(status.lag_records)),
    "behind": lambda status: Text(screen.seconds(status.lag_seconds)),
    "rows": lambda status: Text(screen.number(status.rows)),
    "files": lambda status: Text(screen.number(status.files)),
    "commits": lambda status: Text(screen.number(status.commits)),
    "rows/s": lambda status: Text(screen.number(status.rows_per_second)),
    "schema": lambda status: Text(_versions(status)),
    "committed": lambda status: Text(screen.age(status.last_commit_ms)),
}


def events(call: Call, topic: str | None, follow: bool, since: str, everything: bool, as_json: bool) -> None:
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
