"""The ledger: how far a table has read its topic, stored in the table with the rows.

A ledger is in the summary of a snapshot, so it becomes visible together with the rows it accounts for (I2),
and the table alone determines where to resume (I6). An offset is always the *next to read*.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tabletopic_kernel.model.errors import InternalError

PREFIX = "tabletopic."
TAG = "tabletopic-ledger"

# Clients report this if a broker has no topic ids: before 2.8, or not yet configured for them (KIP-516).
NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"

Offsets = Mapping[int, int]  # partition → next offset


def is_same_topic(before: str, now: str) -> bool:
    """Whether two topic ids may be one topic's: a topic without an id gets it once its brokers support ids.

    >>> is_same_topic("uB1c", "uB1c"), is_same_topic("uB1c", "Zw0x"), is_same_topic(NO_TOPIC_ID, "Zw0x")
    (True, False, True)
    """
    return before == now or NO_TOPIC_ID in (before, now)


@dataclass(frozen=True)
class Ledger:
    """Next offsets of every partition, and who wrote them.

    ``epoch`` rises with every owner (I5); ``commit_id`` names the commit, so that an unknown outcome can be
    looked up (I4); ``newest_ms`` is the newest committed record timestamp by partition; ``commits`` counts
    the commits of records since the table was created; epochs up to ``swept_epoch`` were swept (I10).
    ``refused`` counts the records rejected since the table was created, by reason, and ``passed_over`` those
    skipped because they describe no row (I1). ``replay_id`` names the newest replay whose rows are in the
    table (I7). ``lost`` counts by partition the offsets that were skipped because their records had been
    deleted (I8).
    """

    topic: str
    cluster_id: str
    topic_id: str
    next_offsets: Offsets
    epoch: int
    commit_id: str
    newest_ms: Offsets = field(default_factory=dict)
    commits: int = 0
    swept_epoch: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    passed_over: Mapping[str, int] = field(default_factory=dict)
    replay_id: str | None = None
    lost: Offsets = field(default_factory=dict)

    @property
    def watermark_ms(self) -> int | None:
        """The minimum over partitions of the newest committed record timestamp, in ms; None if empty."""
        return min(self.newest_ms.values(), default=None)

    def to_summary(self) -> dict[str, str]:
        """The snapshot summary properties that contain this ledger."""
        summary = {
            "topic": self.topic,
            "cluster-id": self.cluster_id,
            "topic-id": self.topic_id,
            "offsets": _encode(self.next_offsets),
            "epoch": str(self.epoch),
            "commit-id": self.commit_id,
            "newest-ms": _encode(self.newest_ms),
            "commits": str(self.commits),
            "swept-epoch": str(self.swept_epoch),
        }
        if self.watermark_ms is not None:
            summary["watermark-ms"] = str(self.watermark_ms)
        for name, counts in (("refused", self.refused), ("passed-over", self.passed_over)):
            if counts:
                summary[name] = json.dumps(dict(sorted(counts.items())), separators=(",", ":"))
        if self.replay_id is not None:
            summary["replay-id"] = self.replay_id
        if self.lost:
            summary["lost"] = _encode(self.lost)
        return {f"{PREFIX}{key}": value for key, value in summary.items()}

    @classmethod
    def from_summary(cls, summary: Mapping[str, str]) -> Ledger | None:
        """The ledger in a snapshot summary; None for another writer's snapshot."""
        if f"{PREFIX}offsets" not in summary:
            return None
        return cls(
            topic=summary[f"{PREFIX}topic"],
            cluster_id=summary[f"{PREFIX}cluster-id"],
            topic_id=summary[f"{PREFIX}topic-id"],
            next_offsets=_decode(summary[f"{PREFIX}offsets"]),
            epoch=int(summary[f"{PREFIX}epoch"]),
            commit_id=summary[f"{PREFIX}commit-id"],
            newest_ms=_decode(summary.get(f"{PREFIX}newest-ms", "{}")),
            commits=int(summary.get(f"{PREFIX}commits", "0")),
            swept_epoch=int(summary.get(f"{PREFIX}swept-epoch", "0")),
            refused=json.loads(summary.get(f"{PREFIX}refused", "{}")),
            passed_over=json.loads(summary.get(f"{PREFIX}passed-over", "{}")),
            replay_id=summary.get(f"{PREFIX}replay-id"),
            lost=_decode(summary.get(f"{PREFIX}lost", "{}")),
        )

    def claimed(self, epoch: int, commit_id: str) -> Ledger:
        """This ledger under a new owner (I5)."""
        if epoch <= self.epoch:
            raise InternalError(f"epoch {epoch} does not rise above {self.epoch}")
        return replace(self, epoch=epoch, commit_id=commit_id)

    def for_next_owner(self, newest_epoch: int) -> Ledger:
        """This ledger under the next owner: with a new highest epoch, otherwise unchanged (I5)."""
        return self.claimed(max(self.epoch, newest_epoch) + 1, str(uuid.uuid4()))

    def advanced(
        self,
        staged: StagedOffsets,
        commit_id: str,
        refused: Mapping[str, int] | None = None,
        passed_over: Mapping[str, int] | None = None,
    ) -> Ledger:
        """This ledger after the rows of ``staged`` and the records without a row, counted by reason.

        Raises:
            InternalError: the staged rows do not start where this ledger ends; committing them would
                lose or repeat records (I1).
        """
        check_contiguous(self.next_offsets, staged.start)
        return replace(
            self,
            commit_id=commit_id,
            commits=self.commits + 1,
            next_offsets={**self.next_offsets, **staged.end},
            newest_ms=_newest(self.newest_ms, staged.newest_ms),
            refused=added(self.refused, refused or {}),
            passed_over=added(self.passed_over, passed_over or {}),
        )

    def skipping(self, missing: Mapping[int, tuple[int, int]], commit_id: str) -> Ledger:
        """This ledger after a gap: partition → (next offset, first available) (I8)."""
        lost = {p: first - offset + self.lost.get(p, 0) for p, (offset, first) in missing.items()}
        firsts = {p: first for p, (_, first) in missing.items()}
        return replace(
            self,
            commit_id=commit_id,
            next_offsets={**self.next_offsets, **firsts},
            lost={**self.lost, **lost},
        )

    def moved(self, cluster_id: str, topic_id: str, next_offsets: Offsets) -> Ledger:
        """This ledger for a copy of its topic: nothing else gives a table to another topic (I8)."""
        return replace(self, cluster_id=cluster_id, topic_id=topic_id, next_offsets=next_offsets)

    def is_ahead_of(self, other: Ledger) -> bool:
        """Whether this ledger has read any partition further than ``other``."""
        return any(offset > other.next_offsets.get(p, 0) for p, offset in self.next_offsets.items())


@dataclass(frozen=True)
class StagedOffsets:
    """The records in staged files: ``start`` inclusive, ``end`` exclusive, by partition."""

    start: Offsets
    end: Offsets
    newest_ms: Offsets = field(default_factory=dict)

    @property
    def records(self) -> int:
        """Offsets covered; an upper bound of records (gaps from log compaction and transactions count)."""
        return sum(self.end[partition] - self.start[partition] for partition in self.end)

    def then(self, later: StagedOffsets) -> StagedOffsets:
        """Both together; ``later`` must start where this ends."""
        check_contiguous(self.end, later.start)
        return StagedOffsets(
            start={**later.start, **self.start},
            end={**self.end, **later.end},
            newest_ms=_newest(self.newest_ms, later.newest_ms),
        )


def check_contiguous(ends: Offsets, starts: Offsets) -> None:
    """Check that every partition known to both continues where it ended; raises InternalError."""
    broken = {p: (ends[p], start) for p, start in starts.items() if p in ends and ends[p] != start}
    if broken:
        raise InternalError(f"offsets are not contiguous (partition: expected, found): {broken}")


def added(before: Mapping[str, int], new: Mapping[str, int]) -> dict[str, int]:
    """The sums of both counts, by reason.

    >>> added({"a": 1}, {"a": 2, "b": 3})
    {'a': 3, 'b': 3}
    """
    return {reason: before.get(reason, 0) + new.get(reason, 0) for reason in sorted({*before, *new})}


def _newest(before: Offsets, new: Offsets) -> Offsets:
    return {p: max(before.get(p, -1), new.get(p, -1)) for p in sorted({*before, *new})}


def _encode(offsets: Offsets) -> str:
    return json.dumps({str(p): offsets[p] for p in sorted(offsets)}, separators=(",", ":"))


def _decode(text: str) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in json.loads(text).items()}
