"""What to look for in a topic, how much to read for it, and how far a search looked."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from tabletopic_kernel.clients.kafka.broker import Broker, TopicFacts
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.ledger import Offsets

_PLACES: Final = re.compile(r"\d{1,9}:\d{1,18}(,\d{1,9}:\d{1,18})*")


@dataclass(frozen=True)
class Bounds:
    """How much a search reads at most."""

    records: int = 1_000_000
    bytes: int = 1024**3
    seconds: float = 10.0


@dataclass(frozen=True)
class Search:
    """Which records to show. ``start``: ``newest`` or ``oldest``, an offset of each partition, or
    ``PARTITION:OFFSET,…``; ``before``: as the last two; ``at``: a time in ISO 8601, UTC without a zone.
    """

    start: str = "newest"
    at: str | None = None
    before: str | None = None
    partition: int | None = None
    key: str | None = None
    where: str | None = None
    limit: int = 20

    @property
    def backward(self) -> bool:
        """Whether the newest come first."""
        return self.start == "newest" and self.at is None


@dataclass(frozen=True)
class Looked:
    """How far a search looked: ``looked`` of ``records`` offsets, in ``ranges`` (first, next) by partition.

    ``cut_by`` ended it before the end: ``limit``, ``records``, ``bytes`` or ``seconds``; ``go_on`` is the
    search of the rest. ``notes``: what was asked for and is not there.
    """

    looked: int = 0
    records: int = 0
    ranges: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    cut_by: str = ""
    go_on: Search | None = None
    notes: tuple[str, ...] = ()

    def command(self, topic: str) -> str:
        """The command that continues."""
        assert self.go_on is not None
        options = {
            "--from": self.go_on.start if self.go_on.start != "newest" else None,
            "--before": self.go_on.before,
            "--partition": self.go_on.partition,
            "--key": self.go_on.key,
            "--where": self.go_on.where,
            "-n": self.go_on.limit if self.go_on.limit != Search.limit else None,
        }
        words = [(option, str(value)) for option, value in options.items() if value is not None]
        return shlex.join(["tabletopic", "peek", topic, *(word for pair in words for word in pair)])


def range_of(
    wanted: Search, facts: TopicFacts, broker: Broker
) -> tuple[dict[int, int], dict[int, int], list[str]]:
    """The first and end offsets of what to look at, and what was asked for and is not there."""
    known = sorted(facts.end)
    if wanted.partition is not None and wanted.partition not in facts.end:
        has = f"{known[0]} to {known[-1]}" if len(known) > 1 else "0 alone"
        raise UsageError(f"{facts.topic} has no partition {wanted.partition}; it has {has}")
    chosen = known if wanted.partition is None else [wanted.partition]
    first = {p: facts.first.get(p, 0) for p in chosen}
    low, high = dict(first), {p: max(first[p], facts.end[p]) for p in chosen}
    notes: list[str] = []
    if wanted.at is not None:
        if wanted.start != "newest":
            raise UsageError("a search begins at a time or at an offset, not at both")
        low |= broker.offsets_at(facts.topic, chosen, _time_ms(wanted.at))
    elif wanted.start not in ("newest", "oldest"):
        low |= _places(wanted.start, low, "newest, oldest, ")
    if wanted.before is not None:
        high |= _places(wanted.before, high)
    for p in chosen:
        if not first[p] <= low[p] <= facts.end[p]:
            word, offset = ("ends", facts.end[p]) if low[p] >= first[p] else ("begins", first[p])
            notes.append(f"partition {p} {word} at offset {offset:,}")
        low[p] = min(max(low[p], first[p]), facts.end[p])
        high[p] = max(low[p], min(high[p], facts.end[p]))
    return low, high, notes


def _places(text: str, partitions: Offsets, names: str = "") -> dict[int, int]:
    if text.isdecimal() and len(text) <= 18:
        return dict.fromkeys(partitions, int(text))
    if not _PLACES.fullmatch(text):
        raise UsageError(f"{text!r} is no place in a topic: write {names}an offset, or PARTITION:OFFSET,…")
    places = (place.partition(":") for place in text.split(","))
    return {int(p): int(offset) for p, _, offset in places if int(p) in partitions}


def _time_ms(text: str) -> int:
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(f"{text!r} is no time such as 2026-01-31T12:00:00Z") from None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0, round(at.timestamp() * 1000))  # Kafka has other meanings for times below 0
