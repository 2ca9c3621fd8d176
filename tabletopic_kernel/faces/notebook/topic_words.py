"""The words of ``%topic``: the operations, and functions of their own where a notebook does more."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from IPython.core.getipython import get_ipython
from IPython.display import Markdown, display

from tabletopic_kernel.faces import pages
from tabletopic_kernel.faces.notebook.display import Bar, Place
from tabletopic_kernel.faces.notebook.profile_word import profile
from tabletopic_kernel.faces.notebook.session import Session
from tabletopic_kernel.faces.operations import OPERATIONS, Operation, patterns, topics
from tabletopic_kernel.faces.operations.next_steps import Face, for_face
from tabletopic_kernel.faces.operations.operation import AnyTopic, Option, Timeout, Topic
from tabletopic_kernel.model.errors import (
    ActionNeededError,
    RetryableError,
    SettingsError,
    TableTopicError,
    UsageError,
)
from tabletopic_kernel.model.redact import mask
from tabletopic_kernel.model.settings.servers import registry_place
from tabletopic_kernel.render.grid import Grid, escape_commands
from tabletopic_kernel.render.topics import facts, status_facts, status_table
from tabletopic_kernel.workbench.config.profiles import DEFAULT_PROFILE, PROFILE_VARIABLE

if TYPE_CHECKING:
    from tabletopic_kernel.local.progress import Step
    from tabletopic_kernel.workbench.config.servers import Servers
    from tabletopic_kernel.workbench.topics.topic_status import TopicStatus

_REFRESH_S = 1.0
_MOST_NAMES = 20


@dataclass(frozen=True)
class Word:
    """A word: what it runs with the session, and the functions with its arguments and its help."""

    panel: str
    run: Callable[..., Grid | None]
    arguments: Callable[..., Any]
    documented: Callable[..., Any]
    aliases: tuple[str, ...] = ()


def perform(operation: Operation[..., Any], session: Session, /, **values: Any) -> Grid:
    """Run an operation to which a notebook adds only its own host."""
    result = operation(session.workbench, **values)
    if operation.starts_host:
        session.ensure_host()
    if operation.empty and not result:
        return lines(operation.empty)
    text = operation.text(result, values)
    if isinstance(text, Grid):
        return text
    if isinstance(result, Iterator):
        with suppress(KeyboardInterrupt):
            for message in text:
                sys.stdout.write(f"{escape_commands(str(message))}\n")
        return lines("stopped following")
    runs = [f"runs on {_who_runs(session)}"] if operation.starts_host else []
    return lines(*map(str, text), *runs)


def topic_list(session: Session) -> Grid:
    """All table topics, and what could be enabled."""
    statuses = session.workbench.status()
    name = os.environ.get(PROFILE_VARIABLE, DEFAULT_PROFILE)
    using = [] if name == DEFAULT_PROFILE else [f"profile {name}"]
    return status_table(statuses, [*using, *_hints(session, statuses), _host_note(session)])


def _hints(session: Session, statuses: list[TopicStatus]) -> list[str]:
    enabled = {status.topic for status in statuses}
    others = [name for name in session.workbench.kafka_topics() if name not in enabled]
    if others:
        ending = f" and {len(others) - _MOST_NAMES} more" if len(others) > _MOST_NAMES else ""
        names = ", ".join(others[:_MOST_NAMES]) + ending
        return [f"not enabled: {names}. Enable one with `%topic enable TOPIC`"]
    if not statuses:
        return ["the broker has no topics yet; `%topic sample clicks` makes one, `%topic enable` enables it"]
    return []


# --- words that do more than their operation ----------------------------------------------------------------


def enable(
    session: Session,
    topic: patterns.Topics,
    settings: topics.AllSettings,
    exclude: patterns.Exclude = "",
    yes: patterns.Yes = False,
    standing: patterns.Standing = False,
    wait: Annotated[bool, Option("Wait until the table contains what the topic contains")] = False,
    timeout: Timeout = 300.0,
) -> Grid:
    """Enable a topic, or those of a pattern, and ensure that a host runs."""
    if wait and patterns.is_pattern(topic):
        raise UsageError("--wait is for one topic; `%topic status --watch` shows all")
    if patterns.is_pattern(topic) and not yes:  # a plan needs no host
        plan = patterns.enable_each(session.workbench, topic, settings, exclude, yes=False, standing=standing)
        return lines(*map(str, patterns.enabled_each(plan)))
    given = {"settings": settings, "exclude": exclude, "yes": yes, "standing": standing}
    enabled = perform(topics.enable, session, topic=topic, **given)
    if patterns.is_pattern(topic):
        return enabled
    if wait:
        return wait_for(session, topic, timeout)
    return lines(*enabled.notes, f"follow it with `%topic status {topic} --watch`")


def commit(session: Session, topic: Topic) -> Grid:
    """Request a commit; say so if no host would make it."""
    requested = perform(topics.commit, session, topic=topic)
    if not session.hosts():
        return lines(f"no host runs {topic}; start one with `%topic host start`")
    return requested


def status(
    session: Session,
    topic: AnyTopic = None,
    watch: Annotated[bool, Option("Update in place until the cell is interrupted")] = False,
    timeout: Annotated[
        float | None, Option("Stop watching after this long", metavar="DURATION", is_duration=True)
    ] = None,
) -> Grid | None:
    """The status once, or in a display that is updated across broker outages."""
    if not watch and timeout is not None:
        raise UsageError("--timeout requires --watch")
    if not watch:
        return _status_grid(session, topic)
    ends = time.monotonic() + (timeout or float("inf"))
    place = Place(here(_status_grid(session, topic)))
    try:
        while time.monotonic() < ends:
            time.sleep(min(_REFRESH_S, max(0.0, ends - time.monotonic())))
            try:
                grid = _status_grid(session, topic)
            except RetryableError as error:
                grid = lines(f"{error}; retrying …")
            place.update(here(grid))
    except KeyboardInterrupt:
        pass
    return None


def _status_grid(session: Session, name: str | None) -> Grid:
    statuses = session.workbench.status(name)
    return status_facts(statuses[0]) if name else status_table(statuses, [_host_note(session)])


def wait_for(session: Session, topic: Topic, timeout: Timeout = 300.0) -> Grid:
    """Show a bar of records until the table contains what the topic contains; interruptible."""
    handle = session.workbench.topic(topic)
    first = handle.status()
    ends = first.end_offsets

    def read(now: TopicStatus) -> int:
        """Records read up to ``ends``; later records of one partition do not make up for another's."""
        return sum(min(now.next_offsets.get(partition, 0), end) for partition, end in ends.items())

    begin = read(first)
    with Bar(topic, sum(ends.values()) - begin, get_ipython()) as bar:
        now = handle.wait(timeout, lambda now: bar.to(max(0, read(now) - begin)))
        bar.to(max(0, read(now) - begin))  # the first status may be the last
    return status_facts(now)


# --- the host and the servers -------------------------------------------------------------------------------


def host(
    session: Session,
    action: Annotated[
        Literal["start", "stop"] | None, Option("Without it, show the host", positional=True)
    ] = None,
    all: Annotated[bool, Option("Also stop background hosts of this machine, as `%topic down` does")] = False,
) -> Grid:
    """Show, start or stop the host in this kernel."""
    kernel = session.kernel_host
    if action == "start":
        kernel.start(session.workbench)
    elif action == "stop" and all:
        session.stop_hosts()
    elif action == "stop":
        kernel.stop()
    mine = kernel.running
    if mine is None and kernel.error is not None:
        raise ActionNeededError(
            f"the host in this kernel has ended: {kernel.error}; start it again with `%topic host start`"
        )
    running = ", ".join(sorted(mine.coordinators())) if mine else ""
    live = [host_id for host_id in session.hosts() if mine is None or host_id != mine.id]
    pairs = {
        "in this kernel": f"{mine.id}, runs {running or 'no topics yet'}" if mine else "none",
        "elsewhere": ", ".join(live) or "none",
    }
    return facts("hosts", pairs)


def up(session: Session) -> Grid:
    """Start the local stack: Kafka, a schema registry and an Iceberg catalog."""
    try:
        servers = session.workbench.servers
        if servers.away().names:
            servers = _start_servers(session)
    except SettingsError:  # none are named, and none run
        servers = _start_servers(session)
    return facts(
        "servers",
        {
            "Kafka": servers.kafka.get("bootstrap.servers", ""),
            "registry": mask(registry_place(servers.registry)),
            "catalog": ", ".join(catalog["name"] for catalog in servers.all_catalogs),
            "state folder": str(servers.state_dir),
        },
    )


def _start_servers(session: Session) -> Servers:
    place = Place(lines("starting the local stack …"))
    over: list[str] = []

    def report(step: Step) -> None:
        is_over = step.state in ("done", "failed")
        if is_over:
            over.append(str(step))
        place.update(lines(*over, *([] if is_over else [str(step)])))

    session.start_stack(report)
    return session.workbench.servers


def down(session: Session) -> Grid:
    """Stop the local stack and background hosts; the data stays."""
    session.stop_stack()
    return lines("the local stack is stopped; topics and tables stay on disk")


def docs(
    session: Session,
    page: Annotated[
        str | None, Option("Its name; without it the index", metavar="PAGE", positional=True)
    ] = None,
    word: Annotated[str | None, Option("Word of a heading on it", metavar="WORD", positional=True)] = None,
) -> None:
    """Show a page of the manual, or its section with a word in the heading."""
    display(Markdown(pages.page(page, word or "")))  # type: ignore[no-untyped-call]


# --- all words ----------------------------------------------------------------------------------------------

_OWN: dict[str, Callable[..., Grid | None]] = {
    "enable": enable,
    "commit": commit,
    "status": status,
    "wait": wait_for,
}


def _word(operation: Operation[..., Any]) -> Word:
    own, aliases = _OWN.get(operation.name), operation.aliases
    run: Callable[..., Grid | None] = own or partial(perform, operation)
    return Word(operation.panel, run, own or operation.run, operation.run, aliases)


# In the order of the help.
WORDS = (
    {run.__name__: Word("Servers and settings", run, run, run) for run in (up, down, docs, profile)}
    | {operation.name: _word(operation) for operation in OPERATIONS}
    | {"host": Word("Servers and settings", host, host, host)}
)


# --- shared -------------------------------------------------------------------------------------------------


def _who_runs(session: Session) -> str:
    mine = session.kernel_host.running
    if mine is not None:
        return f"this kernel (host {mine.id})"
    live = session.hosts()
    return f"host {', '.join(live)}" if live else "no host: start one with `%topic host start`"


def _host_note(session: Session) -> str:
    try:
        return f"runs on {_who_runs(session)}"
    except TableTopicError as error:
        return f"host: {error}"


def lines(*texts: str) -> Grid:
    """Lines of text, as a grid."""
    return Grid((), [], "", texts)


def here(grid: Grid) -> Grid:
    """The grid with next steps in a notebook's words."""
    return grid.with_texts(partial(for_face, face=Face.NOTEBOOK))
