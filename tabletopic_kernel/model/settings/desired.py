"""The desired state of a topic, as the settings topic has it, and what users ask of its host."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field

from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.values import Frozen
from tabletopic_kernel.model.topic_names import stands_for


class _Request(Frozen):
    """``asked_ms``: by the requester's clock, for people; no rule reads it."""

    id: str
    asked_ms: int

    @property
    def events_from(self) -> int | None:
        """The control topic's end before the request, in its id; None if an older command made it."""
        offset = re.search(r"@([0-9]{1,18})$", self.id)
        return int(offset[1]) if offset else None


class ReplayRequest(_Request):
    """A requested replay of the dead letters that match ``where``."""

    where: str | None = None


class MaintenanceRequest(_Request):
    """A requested maintenance of a table, before it is due.

    ``where`` limits a compaction to the files that may have such rows, and a drop to such dead letters;
    ``orphans``: an expiry removes files that no snapshot needs as well. ``note`` and ``by``: why dead letters
    are dropped, and who asks. An erasure is of rows ``where``, and of dead letters that match ``letters``.
    """

    work: Literal["compact", "expire", "drop_letters", "erase"]
    where: str | None = None
    orphans: bool = False
    note: str = ""
    by: str = ""
    letters: str | None = None


Request = ReplayRequest | MaintenanceRequest


class DesiredTopic(Frozen):
    """One message of the settings topic: what should run. Key = topic; a tombstone = disabled."""

    topic: str
    run: Literal["on", "paused"] = "on"
    settings: TopicSettings = Field(default_factory=TopicSettings)
    # Who wrote it and when, for people; no rule reads them.
    requested_by: str = ""
    requested_at_ms: int = 0
    # When an early commit was last requested; a host acts once on each new time.
    commit_asked_ms: int = 0
    # Hosts remember it until a later message replaces this one; each acts on it once.
    replay: ReplayRequest | None = None
    maintenance: MaintenanceRequest | None = None  # the same
    # Why a later message does not count: set by its readers, never written.
    refused: str | None = Field(None, exclude=True)

    @property
    def requests(self) -> list[Request]:
        """What the message asks for, besides a commit."""
        return [request for request in (self.replay, self.maintenance) if request is not None]

    def to_json(self) -> bytes:
        """The message's value: only what was set, because older hosts refuse unknown settings."""
        return self.model_dump_json(exclude_none=True, exclude_unset=True).encode()

    @classmethod
    def from_json(cls, raw: bytes) -> DesiredTopic:
        """Read a message's value; raises pydantic's ValidationError."""
        return cls.model_validate_json(raw).model_copy(update={"refused": None})


class StandingPattern(Frozen):
    """Topics that are enabled as they come; ``exclude``: patterns; ``settings``: what was given for all."""

    pattern: str
    exclude: tuple[str, ...] = ()
    settings: TopicSettings = Field(default_factory=TopicSettings)
    requested_by: str = ""  # for people

    def matches(self, topic: str) -> bool:
        return stands_for(self.pattern, self.exclude, topic)

    def to_json(self) -> bytes:
        return self.model_dump_json(exclude_unset=True).encode()
