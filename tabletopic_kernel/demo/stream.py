"""The main scene: events flow, the schema changes, the host is killed and replaced."""

from __future__ import annotations

import time
from collections.abc import Callable

from tabletopic_kernel._datasets.clickstream.produce import produce
from tabletopic_kernel._datasets.clickstream.tallies import Tallies
from tabletopic_kernel.demo.report import Story, short_change
from tabletopic_kernel.demo.screen import StreamView
from tabletopic_kernel.demo.script import (
    CAUGHT_UP_LIMIT_S,
    COMMITS_BEFORE_KILL,
    OWNED_LIMIT_S,
    PARTITIONS,
    RESTART_AFTER_S,
    SEED,
    TOPIC,
    Script,
)
from tabletopic_kernel.demo.servers import Monitor
from tabletopic_kernel.local.hosts import HostProcess
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError
from tabletopic_kernel.model.progress.delay import AT_WORK
from tabletopic_kernel.model.progress.events import (
    CommitFailed,
    Committed,
    ControlEvent,
    Enabled,
    Failed,
    SchemaEvolved,
)
from tabletopic_kernel.workbench.workbench import Servers

_LOOK_EVERY_S = 0.1


class StreamScene:
    """Sends the events, and causes the trouble meanwhile."""

    def __init__(
        self, script: Script, host: HostProcess, start_host: Callable[[], HostProcess], monitor: Monitor
    ) -> None:
        self.story = Story()
        self.events: list[ControlEvent] = []
        self._script = script
        self._host = host
        self._start_host = start_host
        self._monitor = monitor
        self._view: StreamView | None = None
        self._sent = 0
        self._commits = 0
        self._began_s = time.time()

    def wait_until_owned(self) -> int:
        """Wait until a host owns the table; returns its epoch.

        Raises:
            StackError: the host ended.
            ActionNeededError: the host cannot run the topic.
            RetryableError: not in time.
        """
        deadline = time.monotonic() + OWNED_LIMIT_S
        while time.monotonic() < deadline:
            self._host.check()
            for event in self._news():
                if isinstance(event, Enabled):
                    return event.epoch
            time.sleep(_LOOK_EVERY_S)
        raise RetryableError(
            f"no host took the topic within {OWNED_LIMIT_S:.0f} s; is the machine overloaded?"
            f"{self._last_trouble()}"
        )

    def play(self, servers: Servers, view: StreamView) -> Tallies:
        """Send everything and wait until the table contains it.

        Raises:
            TableTopicError: see ``wait_until_owned`` and ``produce``.
        """
        self._view = view
        self._began_s = time.time()
        tallies = produce(
            servers.kafka,
            servers.registry,
            TOPIC,
            self._script.events,
            rate=self._script.rate,
            seed=SEED,
            partitions=PARTITIONS,
            switch_at=self._script.switch_at,
            on_progress=self._advance,
            stop=self._hold,
        )
        self.story.sent_s = self._now()
        view.say("✓", f"all {tallies.events:,} events are sent and acknowledged by the broker")
        deadline = time.monotonic() + CAUGHT_UP_LIMIT_S
        while not self._caught_up():
            if time.monotonic() > deadline:
                raise RetryableError(self._too_late())
            self._advance(self._sent)
            time.sleep(_LOOK_EVERY_S)
        self.story.caught_up_s = self._now()
        view.say("✓", "commit lag 0: the table is up to date")
        return tallies

    def _hold(self) -> bool:
        """Called before each event: after the first ones, wait for the first commit; Spark starts slowly."""
        if self._sent >= self._script.hold_at and self._commits == 0:
            assert self._view is not None
            self._view.say(
                "·", "Spark is starting; the events wait in Kafka, the rest follow after the first commit"
            )
            deadline = time.monotonic() + CAUGHT_UP_LIMIT_S
            while self._commits == 0:
                if time.monotonic() > deadline:
                    raise RetryableError(self._too_late())
                self._advance(self._sent)
                time.sleep(_LOOK_EVERY_S)
        return False  # True would end the sending

    def _caught_up(self) -> bool:
        """Whether the table has caught up and the second host owns it: few events are sent before that."""
        status = self._monitor.status
        return (
            self.story.takeover_s is not None
            and status is not None
            and status.lag_records == 0
            and sum(status.end_offsets.values()) >= self._sent
        )

    def _advance(self, sent: int) -> None:
        """Execute what is due; called several times a second."""
        assert self._view is not None
        if self._sent < self._script.switch_at <= sent:
            self._view.say("·", "from here on the events have schema version 2")
        self._sent = sent
        self._host.check()
        for event in self._news():
            self._tell(event)
        if self.story.killed_s is None:
            # On a slow machine the first commits come late, and a kill proves more after them.
            if sent >= self._script.kill_at and (self._commits >= COMMITS_BEFORE_KILL or self.story.sent_s):
                self._kill()
        elif self._host.ending and self._now() - self.story.killed_s >= RESTART_AFTER_S:
            self._host = self._start_host()
            self._view.say("·", f"{self._host} replaces it")
        self._view.update(sent, self._monitor.status, self._host_words())

    def _kill(self) -> None:
        assert self._view is not None
        self._host.kill()
        self.story.killed_s, self.story.killed_after_events = self._now(), self._sent
        self._view.say("✗", f"kill -9: {self._host} is gone after {self._sent:,} events, without warning")

    def _tell(self, event: ControlEvent) -> None:
        assert self._view is not None
        story, at = self.story, round(event.at_ms / 1000 - self._began_s, 2)
        if isinstance(event, Committed):
            self._commits += 1
            if story.first_commit_s is None:
                story.first_commit_s = at
                self._view.say("✓", f"first commit: {event.rows:,} rows, ready to query")
        elif isinstance(event, SchemaEvolved):
            cause = (
                f" (because of {event.cause.subject} version {event.cause.version})" if event.cause else ""
            )
            self._view.say(
                "✓", f"the table's schema follows: {'; '.join(map(short_change, event.changes))}{cause}"
            )
        elif isinstance(event, Enabled) and self._is_takeover(event):
            story.takeover_s, story.takeover_epoch = at, event.epoch
            self._view.say(
                "✓",
                f"{self._host} took over with epoch {event.epoch}, {at - (story.killed_s or 0):.1f} s after "
                f"the kill; the table's ledger contains {sum(event.next_offsets.values()):,} records",
            )
        elif isinstance(event, Failed):
            self._view.say("!", f"error, retrying: {gist(event.reason)}")
        elif isinstance(event, CommitFailed):
            self._view.say("!", f"a commit failed, retrying: {gist(event.reason)}")

    def _is_takeover(self, event: Enabled) -> bool:
        """Whether this is the first time that the second host owns the table."""
        killed_s, restarted = self.story.killed_s, not self._host.ending
        return killed_s is not None and restarted and self.story.takeover_s is None

    def _news(self) -> list[ControlEvent]:
        news = self._monitor.news()
        self.events += news
        for event in news:
            if isinstance(event, Failed) and not event.waits:
                raise ActionNeededError(f"the topic stopped: {event.reason}")
        return news

    def _host_words(self) -> str:
        name, status = f"host {self._host.number}", self._monitor.status
        if self._host.ending:
            return f"{name} killed"
        if status is None or (self.story.killed_s is not None and self.story.takeover_s is None):
            return f"{name} starting"
        return f"{name} {'running' if status.state in AT_WORK else status.state}"

    def _too_late(self) -> str:
        status = self._monitor.status
        lag = f"{status.lag_records:,} records" if status and status.lag_records is not None else "unknown"
        state = f", state {status.state}" if status else ""
        return (
            f"the table did not catch up within {CAUGHT_UP_LIMIT_S:.0f} s: commit lag {lag}{state}"
            f"{self._last_trouble()}"
        )

    def _last_trouble(self) -> str:
        for event in reversed(self.events):
            if isinstance(event, Failed | CommitFailed):
                return f"; last error: {gist(event.reason)}"
        return ""

    def _now(self) -> float:
        return round(time.time() - self._began_s, 2)


def gist(reason: str) -> str:
    """One line for a reason that may be a whole stack trace, whose last line has the error.

    >>> gist("cannot do it"), gist("\\nTraceback (most recent call last):\\n  File x\\nValueError: no\\n")
    ('cannot do it', 'ValueError: no')
    """
    lines = [line.strip() for line in reason.splitlines() if line.strip()] or ["no reason given"]
    return lines[-1] if any(line.startswith("Traceback") for line in lines) else lines[0]
