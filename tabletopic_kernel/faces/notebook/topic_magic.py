"""``%topic``: table topics from a cell. Each subcommand is an operation; some show more than its result."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_magic, magics_class

from tabletopic_kernel.faces.notebook.arguments import make_parser, manual, parse_word
from tabletopic_kernel.faces.notebook.display import Bar, Place, report_errors
from tabletopic_kernel.faces.notebook.session import Session
from tabletopic_kernel.faces.operations import BY_NAME, Operation
from tabletopic_kernel.faces.operations.next_steps import Face, for_face
from tabletopic_kernel.model.errors import (
    ActionNeededError,
    RetryableError,
    SettingsError,
    TableTopicError,
    UsageError,
)
from tabletopic_kernel.model.redact import mask
from tabletopic_kernel.model.settings.servers import registry_place
from tabletopic_kernel.render.grid import Grid
from tabletopic_kernel.render.topics import (
    facts,
    status_facts,
    status_table,
)

if TYPE_CHECKING:
    from tabletopic_kernel.local.progress import Step
    from tabletopic_kernel.workbench.clients import Servers
    from tabletopic_kernel.workbench.status import TopicStatus

_REFRESH_S = 1.0
_MOST_NAMES = 20
_PARSER = make_parser()


@magics_class
class TopicMagics(Magics):
    """See the docstring of ``topic``."""

    def __init__(self, shell: InteractiveShell, session: Session) -> None:
        super().__init__(shell)
        self._session = session

    @line_magic
    @report_errors
    def topic(self, line: str) -> Grid | None:
        """Table topics from a cell."""
        parsed = parse_word(_PARSER, line)
        if parsed is None:
            return None
        operation, values = parsed
        if operation is None:
            return _here(self._list())
        own: Callable[..., Grid | None] | None = getattr(self, f"_{operation.name}", None)
        grid = own(**values) if own else self._perform(operation, values)
        # The texts of a record stay unchanged.
        return grid if grid is None or operation.name == "peek" else _here(grid)

    def _perform(self, operation: Operation, values: dict[str, Any]) -> Grid:
        """Run an operation to which this face adds only its own host."""
        assert operation.run is not None, operation.name
        assert operation.render is not None, operation.name
        result = operation.run(self._session.workbench, **values)
        if operation.wants_host:
            self._session.ensure_host()
        if operation.empty and not result:
            return _lines(operation.empty)
        rendered = operation.render(result, values)
        if isinstance(rendered, Grid):
            return rendered
        runs = [f"runs on {self._who_runs()}"] if operation.wants_host else []
        return _lines(*map(str, rendered), *runs)

    # -- words that do more

    def _enable(self, topic: str, settings: dict[str, Any], wait: bool, timeout: float) -> Grid:
        enabled = self._perform(BY_NAME["enable"], {"topic": topic, "settings": settings})
        if wait:
            return self._wait(topic, timeout)
        return _lines(*enabled.notes, f"follow it with `%topic status {topic} --watch`")

    def _commit(self, topic: str) -> Grid:
        asked = self._perform(BY_NAME["commit"], {"topic": topic})
        if not self._session.hosts():
            return _lines(f"no host runs {topic}; start one with `%topic host start`")
        return asked

    def _list(self) -> Grid:
        found = self._session.workbench.status()
        return status_table(found, [*self._hints(found), self._host_note()])

    def _hints(self, found: list[TopicStatus]) -> list[str]:
        enabled = {one.topic for one in found}
        others = [name for name in self._session.workbench.kafka_topics() if name not in enabled]
        if others:
            more = f" and {len(others) - _MOST_NAMES} more" if len(others) > _MOST_NAMES else ""
            names = ", ".join(others[:_MOST_NAMES]) + more
            return [f"not enabled: {names}. Enable one with `%topic enable TOPIC`"]
        if not found:
            return [
                "the broker has no topics yet; `%topic sample clicks` makes one, `%topic enable` enables it"
            ]
        return []

    def _status(self, topic: str | None, watch: bool, timeout: float | None) -> Grid | None:
        if watch:
            self._watch(topic, timeout)
            return None
        if timeout is not None:
            raise UsageError("--timeout requires --watch")
        return self._status_grid(topic)

    def _status_grid(self, name: str | None) -> Grid:
        found = self._session.workbench.status(name)
        return status_facts(found[0]) if name else status_table(found, [self._host_note()])

    def _watch(self, topic: str | None, timeout: float | None) -> None:
        """Update one display until the cell is interrupted, across broker outages."""
        ends = time.monotonic() + (timeout or float("inf"))
        place = Place(_here(self._status_grid(topic)))
        try:
            while time.monotonic() < ends:
                time.sleep(min(_REFRESH_S, max(0.0, ends - time.monotonic())))
                try:
                    grid = self._status_grid(topic)
                except RetryableError as error:
                    grid = _lines(f"{error}; retrying …")
                place.update(_here(grid))
        except KeyboardInterrupt:
            return

    def _wait(self, topic: str, timeout: float) -> Grid:
        """Show a bar of records until the table contains what the topic contains; interruptible."""
        handle = self._session.workbench.topic(topic)
        first = handle.status()
        ends = first.end_offsets

        def read(now: TopicStatus) -> int:
            """Each partition counts by itself: what another one got meanwhile makes up for nothing."""
            return sum(min(now.next_offsets.get(partition, 0), end) for partition, end in ends.items())

        begun = read(first)
        with Bar(topic, sum(ends.values()) - begun, self.shell) as bar:
            now = handle.wait(timeout, lambda now: bar.to(max(0, read(now) - begun)))
        return status_facts(now)

    # -- the host and the servers

    def _host(self, action: str | None, all: bool) -> Grid:
        kernel = self._session.kernel_host
        if action == "start":
            kernel.start(self._session.workbench)
        elif action == "stop" and all:
            self._session.stop_hosts()
        elif action == "stop":
            kernel.stop()
        mine = kernel.running
        if mine is None and kernel.error is not None:
            raise ActionNeededError(
                f"the host in this kernel has ended: {kernel.error}; start it again with `%topic host start`"
            )
        topics = ", ".join(sorted(mine.coordinators())) if mine else ""
        live = [one for one in self._session.hosts() if mine is None or one != mine.id]
        pairs = {
            "in this kernel": f"{mine.id}, runs {topics or 'no topics yet'}" if mine else "none",
            "elsewhere": ", ".join(live) or "none",
        }
        return facts("hosts", pairs)

    def _up(self) -> Grid:
        try:
            servers = self._session.workbench.servers
            if servers.away().names:
                servers = self._start_servers()
        except SettingsError:  # none are named, and none run
            servers = self._start_servers()
        return facts(
            "servers",
            {
                "Kafka": servers.kafka.get("bootstrap.servers", ""),
                "registry": mask(registry_place(servers.registry)),
                "catalog": ", ".join(one["name"] for one in servers.all_catalogs),
                "state folder": str(servers.state_dir),
            },
        )

    def _start_servers(self) -> Servers:
        place = Place(_lines("starting the local servers …"))
        over: list[str] = []

        def report(step: Step) -> None:
            if step.state in ("done", "failed"):
                over.append(str(step))
            place.update(_lines(*over, *([] if step.state in ("done", "failed") else [str(step)])))

        self._session.start_stack(report)
        return self._session.workbench.servers

    def _down(self) -> Grid:
        self._session.stop_stack()
        return _lines("the local servers are stopped; topics and tables stay on disk")

    # -- shared

    def _who_runs(self) -> str:
        mine = self._session.kernel_host.running
        if mine is not None:
            return f"this kernel (host {mine.id})"
        live = self._session.hosts()
        return f"host {', '.join(live)}" if live else "no host: start one with `%topic host start`"

    def _host_note(self) -> str:
        try:
            return f"host: {self._who_runs()}"
        except TableTopicError as error:
            return f"host: {error}"


def _lines(*lines: str) -> Grid:
    return Grid((), [], "", lines)


def _here(grid: Grid) -> Grid:
    """The grid with next steps in a notebook's words."""
    return grid.with_texts(partial(for_face, face=Face.NOTEBOOK))


TopicMagics.topic.__doc__ = manual()
