"""What of a host's events needs a person: a notice has a cause, a sentence, and the command that helps."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tabletopic_kernel.model.progress import events
from tabletopic_kernel.render.words import event_text, seconds

_LONGEST: Final = 1_000  # characters of a sentence
_LATE_MS: Final = 60_000  # so old, and for so long
_PAUSE_MS: Final = 15_000  # between two heartbeats of one delay


@dataclass(frozen=True)
class Notice:
    """``kind``: failed, dead_letters, schema_refused, not_enabled, gap, behind, host_ended or test."""

    kind: str
    topic: str
    host: str
    at_ms: int
    text: str
    next_step: str

    @property
    def cause(self) -> tuple[str, str, str]:
        """The same for what happens again: numbers in it, such as offsets, do not matter."""
        return self.kind, self.topic, re.sub(r"\d+", "#", self.text) if self.kind == "failed" else ""


_KINDS: Final[dict[type[events.ControlEvent], tuple[str, str, str]]] = {
    events.Failed: ("failed", "failed", "tabletopic status {topic}"),
    events.DeadLettered: ("dead_letters", "has new dead letters", "tabletopic replay {topic} --dry-run"),
    events.SchemaRefused: ("schema_refused", "refused a schema", "tabletopic schema {topic}"),
    events.EnableRefused: ("not_enabled", "is not enabled", "tabletopic plan {topic}"),
    events.GapDetected: ("gap", "lost records", "tabletopic events {topic}"),
}


def notice_of(event: events.ControlEvent) -> Notice | None:
    """The notice of an event; None if nobody needs to act: a topic that waits for a server goes on alone."""
    if type(event) not in _KINDS or (isinstance(event, events.Failed) and event.waits):
        return None
    kind, verb, command = _KINDS[type(event)]
    topic = event.topic
    text = _short(f"{topic} {verb}: {event_text(event)}")
    return Notice(kind, topic, event.host, event.at_ms, text, command.format(topic=topic))


def host_ended(host: str, error: Exception, at_ms: int) -> Notice:
    """The notice of a host that an error ended."""
    text = _short(f"the host {host} ended: {error}")
    return Notice("host_ended", "", host, at_ms, text, "tabletopic serve")


class Behind:
    """Which topics fall behind, by their heartbeats: they read, but what they read is old, for a while."""

    def __init__(self) -> None:
        self._late: dict[str, tuple[int, int]] = {}  # by topic: since when, and last

    def notice_of(self, beat: events.Heartbeat) -> Notice | None:
        """The notice, for as long as the topic is behind."""
        topic, now, at = beat.topic, beat.progress, beat.at_ms
        old_ms = at - max(now.newest_ms.values(), default=at)
        reads = now.staging_records or now.staged_rows or now.turn_wait_ms
        if not reads or old_ms <= max(_LATE_MS, 3 * now.commit_interval_ms):
            return None
        since, last = self._late.get(topic, (at, at))
        since = at if at - last > _PAUSE_MS else since
        self._late[topic] = (since, at)
        if at - since < _LATE_MS:
            return None
        text = f"{topic} is behind: its newest row is of a record {seconds(old_ms / 1000)} old, and more wait"
        return Notice("behind", topic, beat.host, at, text, f"tabletopic status {topic}")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
