"""The main scene: events flow, the schema changes, the host is killed and replaced."""

from __future__ import annotations

import time
from collections.abc import Callable

from tabletopic_kernel._datasets.clickstream.produce import produce
from tabletopic_kernel._datasets.clickstream.tallies import Tallies
from tabletopic_kernel.demo import script
from tabletopic_kernel.demo.report import Story, short_change
from tabletopic_kernel.demo.screen import Screen
from tabletopic_kernel.demo.script import TOPIC, Script
from tabletopic_kernel.demo.servers import Monitor
from tabletopic_kernel.local.hosts import HostProcess
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError
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
    """Sends the events, and causes the trouble; it knows the table's state from control events alone."""

    def __init__(
        self, plan: Script, start_host: Callable[[], HostProcess], monitor: Monitor, screen: Screen
    ) -> None:
        self.story = Story()
        self.events: list[ControlEvent] = []
        self.host = start_host()
        self._script = plan
        self._start_host = start_host
        self._monitor = monitor
        self._screen = screen
        self._sent = self._in_table = self._commits = self._owned = 0
        self._began_s = time.time()

    def wait_until_owned(self) -> int:
        """Wait until a host owns the table, and return its epoch; raises an error if host or topic failed."""
        self._wait(
            lambda: self._owned > 0,
            script.OWNED_LIMIT_S,
            f"no host took the topic within {script.OWNED_LIMIT_S:.0f} s; is the machine overloaded?",
        )
        return self._owned

    def play(self, servers: Servers) -> Tallies:
        """Send everything and wait until the table contains it; raises like ``wait_until_owned``."""
        self._began_s = time.time()
        self._screen.begin()
        tallies = produce(
            servers.kafka,
            servers.registry,
            TOPIC,
            self._script.events,
            rate=self._script.rate,
            seed=script.SEED,
            partitions=script.PARTITIONS,
            switch_at=self._script.switch_at,
            on_progress=self._advance,
            stop=self._hold,
        )
        self.story.sent_s = self._now()
        self._screen.moment("✓", f"all {tallies.events:,} events are sent and acknowledged by the broker")
        # Few events may be in the table before the second host owns it.
        self._wait(lambda: self.story.takeover_s is not None and self._in_table >= self._sent)
        self.story.caught_up_s = self._now()
        self._screen.moment("✓", "commit lag 0: the table is up to date")
        return tallies

    def _hold(self) -> bool:
        """Wait for the first commit after the first events: Spark starts slowly. Called before each event."""
        if self._sent >= self._script.hold_at and not self._commits:
            self._screen.moment(
                "·", "Spark is starting; the events wait in Kafka, the rest follow after the first commit"
            )
            self._wait(lambda: self._commits > 0)
        return False  # True would end the sending

    def _wait(
        self, condition: Callable[[], bool], limit_s: float = script.CAUGHT_UP_LIMIT_S, too_late: str = ""
    ) -> None:
        deadline = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > deadline:
                lag = f"commit lag {self._sent - self._in_table:,} records"
                too_late = too_late or f"the table did not catch up within {limit_s:.0f} s: {lag}"
                troubles = [event for event in self.events if isinstance(event, Failed | CommitFailed)]
                last = f"; last error: {gist(troubles[-1].reason)}" if troubles else ""
                raise RetryableError(too_late + last)
            self._advance(self._sent)
            time.sleep(_LOOK_EVERY_S)

    def _advance(self, sent: int) -> None:
        """Do what is due: take events, kill and restart the host, print progress."""
        if self._sent < self._script.switch_at <= sent:
            self._screen.moment("·", "from here on the events have schema version 2")
        self._sent = sent
        self.host.check()
        for event in self._monitor.news():
            self.events.append(event)
            self._take(event)
        if self.story.killed_s is None:
            # On a slow machine the first commits come late, and a kill proves more after them.
            if sent >= self._script.kill_at and (
                self._commits >= script.COMMITS_BEFORE_KILL or self.story.sent_s
            ):
                self._kill()
        elif self.host.ending and self._now() - self.story.killed_s >= script.RESTART_AFTER_S:
            self.host = self._start_host()
            self._screen.moment("·", f"{self.host} replaces it")
        if self._sent:
            self._screen.progress(
                f"sent {sent:>8,}   in table {self._in_table:>8,}   lag {sent - self._in_table:>6,} records"
                f"   host {self.host.number} {self._host_state()}"
            )

    def _kill(self) -> None:
        self.host.kill()
        self.story.killed_s, self.story.killed_after_events = self._now(), self._sent
        self._screen.moment("✗", f"kill -9: {self.host} is gone after {self._sent:,} events, without warning")

    def _take(self, event: ControlEvent) -> None:
        story, event_s, say = self.story, round(event.at_ms / 1000 - self._began_s, 2), self._screen.moment
        match event:
            case Committed():
                self._commits += 1
                self._in_table = sum(event.progress.next_offsets.values())
                if story.first_commit_s is None:
                    story.first_commit_s = event_s
                    say("✓", f"first commit: {event.rows:,} rows, ready to query")
            case SchemaEvolved():
                cause = event.cause and f" (because of {event.cause.subject} version {event.cause.version})"
                changes = "; ".join(map(short_change, event.changes))
                say("✓", f"the table's schema follows: {changes}{cause or ''}")
            case Enabled():
                self._owned, self._in_table = event.epoch, sum(event.next_offsets.values())
                if story.killed_s is not None and not self.host.ending and story.takeover_s is None:
                    story.takeover_s, story.takeover_epoch = event_s, event.epoch
                    say(
                        "✓",
                        f"{self.host} took over with epoch {event.epoch}, {event_s - story.killed_s:.1f} s "
                        f"after the kill; the table's ledger contains {self._in_table:,} records",
                    )
            case Failed() if not event.waits:
                raise ActionNeededError(f"the topic stopped: {event.reason}")
            case Failed():
                say("!", f"error, retrying: {gist(event.reason)}")
            case CommitFailed():
                say("!", f"a commit failed, retrying: {gist(event.reason)}")

    def _host_state(self) -> str:
        if self.host.ending:
            return "killed"
        is_taking_over = self.story.killed_s is not None and self.story.takeover_s is None
        return "starting" if is_taking_over else "running"

    def _now(self) -> float:
        return round(time.time() - self._began_s, 2)


def gist(reason: str) -> str:
    """One line for a reason that may be a whole stack trace, whose last line has the error.

    >>> gist("cannot do it"), gist("\\nTraceback (most recent call last):\\n  File x\\nValueError: no\\n")
    ('cannot do it', 'ValueError: no')
    """
    lines = [line.strip() for line in reason.splitlines() if line.strip()] or ["no reason given"]
    return lines[-1] if any(line.startswith("Traceback") for line in lines) else lines[0]
