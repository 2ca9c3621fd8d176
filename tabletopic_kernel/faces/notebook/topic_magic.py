"""``%topic``: table topics from a cell. A face: parse, call one method of the workbench, show."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_magic, magics_class

from tabletopic_kernel.faces.notebook.display.errors import told
from tabletopic_kernel.faces.notebook.display.progress import Bar
from tabletopic_kernel.faces.notebook.display.slot import Place
from tabletopic_kernel.faces.notebook.session import Session
from tabletopic_kernel.faces.notebook.topic_words import make_parser, manual, parse_topic, settings_of
from tabletopic_kernel.faces.render.events import event_text
from tabletopic_kernel.faces.render.grid import Grid
from tabletopic_kernel.faces.render.topics import (
    events_table,
    facts,
    history_table,
    plan_table,
    records_table,
    schema_table,
    status_facts,
    status_table,
)
from tabletopic_kernel.model.errors import (
    ActionNeededError,
    RetryableError,
    SettingsError,
    TableTopicError,
    UsageError,
)
from tabletopic_kernel.model.next_steps import Face, for_face
from tabletopic_kernel.model.redact import mask
from tabletopic_kernel.workbench.topic import TableTopic, not_coming

if TYPE_CHECKING:
    from tabletopic_kernel.local.progress import Step
    from tabletopic_kernel.workbench.servers import Servers
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
    @told
    def topic(self, line: str) -> Grid | None:
        """Table topics from a cell."""
        arguments = parse_topic(_PARSER, line)
        if arguments is None:
            return None
        word = arguments.command
        run: Callable[[argparse.Namespace], Grid | None] = getattr(self, f"_{word}") if word else self._list
        grid = run(arguments)
        return grid if grid is None or word == "peek" else _here(grid)  # a record's texts stay as they are

    # -- orders

    def _enable(self, given: argparse.Namespace) -> Grid:
        topic = self._topic(given)
        wish = topic.enable(**settings_of(given))
        self._session.ensure_host()
        if given.wait:
            return self._wait(given)
        every = wish.settings.commit_interval_ms / 1000
        return facts(
            topic.name,
            {
                "table": self._session.workbench.table_of(topic.name),
                "commits": f"every {every:g} s while records come",
                "runs on": self._who_runs(),
            },
            [f"see it go: `%topic status {topic.name} --watch`"],
        )

    def _plan(self, given: argparse.Namespace) -> Grid:
        topic = self._topic(given)
        return plan_table(
            topic.plan(schema=given.schema, schema_type=given.schema_type, **settings_of(given))
        )

    def _alter(self, given: argparse.Namespace) -> Grid:
        self._topic(given).alter(**settings_of(given))
        return _said(f"{given.name} has new settings; see `%topic events {given.name}`")

    def _disable(self, given: argparse.Namespace) -> Grid:
        table = self._session.workbench.table_of(given.name)
        self._topic(given).disable()
        return _said(f"{given.name} is switched off; the table {table} stays, and so does its ledger")

    def _pause(self, given: argparse.Namespace) -> Grid:
        self._topic(given).pause()
        return _said(f"{given.name} pauses; go on with `%topic resume {given.name}`")

    def _resume(self, given: argparse.Namespace) -> Grid:
        self._topic(given).resume()
        self._session.ensure_host()
        return _said(f"{given.name} goes on, on {self._who_runs()}")

    def _commit(self, given: argparse.Namespace) -> Grid:
        self._topic(given).commit()
        if not self._session.hosts():
            return _said(f"nobody runs {given.name}; start a host with `%topic host start`")
        return _said(f"{given.name}: what is staged is committed now; see `%topic history {given.name}`")

    def _replay(self, given: argparse.Namespace) -> Grid:
        if given.dry_run:
            plan = self._session.workbench.plan_replay(given.name, given.where)
            stayed = [f"{count:,} would stay: {reason}" for reason, count in plan.stayed.items()]
            changes = [f"the table would change: {change}" for change in plan.changes]
            return _said(f"{plan.rows:,} of {plan.letters:,} letters would become rows", *stayed, *changes)
        outcome = self._topic(given).replay(given.where, given.timeout)
        if outcome is None:
            return _said(f"the replay goes on; see `%topic events {given.name}`")
        if outcome.error is not None:
            raise ActionNeededError(f"{outcome.error} ({outcome.rows:,} letters are rows now)")
        return _said(event_text(outcome))

    # -- questions

    def _list(self, _: argparse.Namespace) -> Grid:
        found = self._session.workbench.status()
        return status_table(found, [*self._hints(found), self._host_note()])

    def _hints(self, found: list[TopicStatus]) -> list[str]:
        enabled = {one.topic for one in found}
        others = [name for name in self._session.workbench.kafka_topics() if name not in enabled]
        if others:
            more = f" and {len(others) - _MOST_NAMES} more" if len(others) > _MOST_NAMES else ""
            names = ", ".join(others[:_MOST_NAMES]) + more
            return [f"not switched on: {names}. Switch one on with `%topic enable NAME`"]
        if not found:
            return ["the broker has no topics yet; send some records, then `%topic enable NAME`"]
        return []

    def _status(self, given: argparse.Namespace) -> Grid | None:
        if given.watch:
            self._watch(given)
            return None
        if given.timeout is not None:
            raise UsageError("--timeout goes with --watch")
        return self._status_grid(given.name)

    def _status_grid(self, name: str | None) -> Grid:
        found = self._session.workbench.status(name)
        return status_facts(found[0]) if name else status_table(found, [self._host_note()])

    def _watch(self, given: argparse.Namespace) -> None:
        """Update one display until the cell is interrupted, also over outages of the broker."""
        ends = time.monotonic() + (given.timeout or float("inf"))
        place = Place(_here(self._status_grid(given.name)))
        try:
            while time.monotonic() < ends:
                time.sleep(min(_REFRESH_S, max(0.0, ends - time.monotonic())))
                try:
                    grid = self._status_grid(given.name)
                except RetryableError as error:
                    grid = _said(f"{error}; trying again …")
                place.update(_here(grid))
        except KeyboardInterrupt:
            return

    def _wait(self, given: argparse.Namespace) -> Grid:
        """Show a bar of records until the table has what the topic has; interruptible."""
        topic = self._topic(given)
        now = topic.status()
        goal = sum(now.end_offsets.values())
        begun = min(goal, sum(now.next_offsets.values()))
        deadline = time.monotonic() + given.timeout
        with Bar(topic.name, goal - begun, self.shell) as bar:
            while sum(now.next_offsets.values()) < goal or not now.end_offsets:
                if why_not := not_coming(now):
                    raise ActionNeededError(why_not)
                if time.monotonic() > deadline:
                    why = now.error or "still reading"
                    raise RetryableError(f"{topic.name} is {now.state} after {given.timeout:g} s: {why}")
                time.sleep(_REFRESH_S / 2)
                now = topic.status()
                goal = goal or sum(now.end_offsets.values())
                bar.to(max(0, min(goal, sum(now.next_offsets.values())) - begun))
        return status_facts(now)

    def _events(self, given: argparse.Namespace) -> Grid:
        found = self._session.workbench.newest_events(given.name, given.number)
        return events_table(given.name or "all topics", found)

    def _logs(self, given: argparse.Namespace) -> Grid:
        lines = self._session.workbench.logs(given.number, given.name)
        folder = self._session.workbench.servers.state_dir / "logs"
        return _said(*(lines or [f"nothing was logged; the logs are in {folder}"]))

    def _peek(self, given: argparse.Namespace) -> Grid:
        return records_table(f"{given.name}, newest first", self._topic(given).peek(given.number))

    def _schema(self, given: argparse.Namespace) -> Grid:
        topic = self._topic(given)
        if given.diff is None:
            return schema_table(topic.schema(given.version))
        before, after = given.diff
        changes = topic.schema_diff(before, after)
        title = f"{given.name}-value, version {before} to {after}"
        return Grid(("change",), [(change,) for change in changes], title, () if changes else ("no change",))

    def _history(self, given: argparse.Namespace) -> Grid:
        return history_table(given.name, self._topic(given).history(given.number))

    # -- the host and the servers

    def _host(self, given: argparse.Namespace) -> Grid:
        kernel = self._session.kernel_host
        if given.action == "start":
            kernel.start(self._session.workbench)
        elif given.action == "stop" and given.all:
            self._session.stop_hosts()
        elif given.action == "stop":
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

    def _up(self, _: argparse.Namespace) -> Grid:
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
                "registry": mask(servers.registry["url"]),
                "catalog": servers.catalog["name"],
                "state folder": str(servers.state_dir),
            },
        )

    def _start_servers(self) -> Servers:
        place = Place(_said("starting the local servers …"))
        over: list[str] = []

        def report(step: Step) -> None:
            if step.state in ("done", "failed"):
                over.append(str(step))
            place.update(_said(*over, *([] if step.state in ("done", "failed") else [str(step)])))

        self._session.start_stack(report)
        return self._session.workbench.servers

    def _down(self, _: argparse.Namespace) -> Grid:
        self._session.stop_stack()
        return _said("the local servers are stopped; topics and tables stay on disk")

    # -- shared

    def _topic(self, given: argparse.Namespace) -> TableTopic:
        return self._session.workbench.topic(given.name)

    def _who_runs(self) -> str:
        mine = self._session.kernel_host.running
        if mine is not None:
            return f"this kernel (host {mine.id})"
        live = self._session.hosts()
        return f"host {', '.join(live)}" if live else "nobody: start a host with `%topic host start`"

    def _host_note(self) -> str:
        try:
            return f"host: {self._who_runs()}"
        except TableTopicError as error:
            return f"host: {error}"


def _said(*lines: str) -> Grid:
    return Grid((), [], "", lines)


def _here(grid: Grid) -> Grid:
    """What to do next in a notebook's words."""
    return grid.with_texts(partial(for_face, face=Face.NOTEBOOK))


TopicMagics.topic.__doc__ = manual(_PARSER)
