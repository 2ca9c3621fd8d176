"""The ledger: how far a table has read its topic, stored in the table with the rows.

A ledger is in the summary of a snapshot, so it becomes visible together with the rows it accounts for (I2),
and the table alone determines where to resume (I6). An offset is always the *next to read*.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from tabletopic_kernel.model.errors import InternalError
from tabletopic_kernel.model.fingerprint import LastRecords

PREFIX = "tabletopic."
TAG = "tabletopic-ledger"
# Instead of the tag: the newest ledger, with its snapshot's sequence number.
KEPT_PROPERTY = f"{PREFIX}ledger"
SEQUENCE = "sequence-number"

# Clients report this if a broker has no topic ids: before 2.8, or not yet configured for them (KIP-516).
NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"

_Ordered = TypeVar("_Ordered", int, tuple[int, str])
Offsets = Mapping[int, int]  # partition → next offset

# How far a record may be ahead of our clock: brokers' own default (`message.timestamp.after.max.ms`).
CLOCK_TOLERANCE_MS = 3_600_000


class Outliers(NamedTuple):
    """A partition's records from the future: how many, and the offset and timestamp of the last of them."""

    records: int
    offset: int
    timestamp_ms: int


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
    looked up (I4); ``newest_ms`` is the newest committed record timestamp by partition, without ``outliers``
    (more than CLOCK_TOLERANCE_MS ahead of the clock of who read them); ``commits`` counts those of records
    since the table was created; epochs up to ``swept_epoch`` were swept (I10). ``refused`` counts the
    records rejected since the table was created, by reason, and ``passed_over`` those skipped because they
    describe no row (I1). ``replay_id`` names the newest replay whose rows are in the table (I7). ``lost``
    counts by partition the offsets that were skipped because their records had been deleted (I8).
    ``last_records`` tells a log that was cut and has grown again from the one that was read; ``truncated``
    has by partition what such a log lost and whose rows stay, or what a former topic had: first offset, next
    offset, and ``commits`` at that time (I8). ``deleted_keys``: an upsert table's files of them;
    ``changes``: its inserted, updated and deleted rows. ``expectation_failures``: rows by the rule they fail.
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
    last_records: LastRecords = field(default_factory=dict)
    truncated: Mapping[int, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    outliers: Mapping[int, Outliers] = field(default_factory=dict)
    deleted_keys: tuple[str, ...] = ()
    changes: Mapping[str, int] = field(default_factory=dict)
    expectation_failures: Mapping[str, int] = field(default_factory=dict)

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
        summary |= {} if self.watermark_ms is None else {"watermark-ms": str(self.watermark_ms)}
        summary |= {} if self.replay_id is None else {"replay-id": self.replay_id}
        named: dict[str, Mapping[Any, object]] = {"refused": self.refused, "passed-over": self.passed_over}
        named |= {"changes": self.changes, "lost": self.lost}
        named |= {"expectation-failures": self.expectation_failures}
        named |= {"last-records": self.last_records, "truncated": self.truncated}
        summary |= {name: _encode(counts) for name, counts in named.items() if counts}
        summary |= {"deleted-keys": json.dumps(self.deleted_keys)} if self.deleted_keys else {}
        if self.outliers:
            summary["outliers"] = json.dumps({str(p): self.outliers[p] for p in sorted(self.outliers)})
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
            last_records={p: (last[0], last[1]) for p, last in _by_partition(summary, "last-records")},
            truncated={p: tuple(map(tuple, cuts)) for p, cuts in _by_partition(summary, "truncated")},
            outliers={p: Outliers(*numbers) for p, numbers in _by_partition(summary, "outliers")},
            deleted_keys=tuple(json.loads(summary.get(f"{PREFIX}deleted-keys", "[]"))),
            changes=json.loads(summary.get(f"{PREFIX}changes", "{}")),
            expectation_failures=json.loads(summary.get(f"{PREFIX}expectation-failures", "{}")),
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
        now_ms: int | None = None,
    ) -> Ledger:
        """This ledger after ``staged`` rows and the records without a row, counted by reason.

        ``now_ms`` bounds its times: an older ledger may have one of the future, which would stay for ever.
        Raises InternalError if the rows do not start where this ends: records would be lost or repeated (I1).
        """
        check_contiguous(self.next_offsets, staged.start)
        return replace(
            self,
            commit_id=commit_id,
            commits=self.commits + 1,
            next_offsets={**self.next_offsets, **staged.end},
            newest_ms=newest(_past(self.newest_ms, now_ms), _past(staged.newest_ms, now_ms)),
            last_records={**self.last_records, **staged.last_records},
            outliers=all_outliers(self.outliers, staged.outliers),
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

    def cut_back(self, lost: Mapping[int, tuple[int, int]], *, marked: bool = False) -> Ledger:
        """This ledger before the offsets that the topic's log lost: partition → (first, next offset) (I8)."""
        marks = {p: (*self.truncated.get(p, ()), (*cut, self.commits)) for p, cut in lost.items()}
        return replace(
            self,
            commit_id=str(uuid.uuid4()),
            next_offsets={**self.next_offsets, **{p: first for p, (first, _) in lost.items()}},
            last_records={p: last for p, last in self.last_records.items() if p not in lost},
            truncated={**self.truncated, **marks} if marked else self.truncated,
        )

    def moved(self, cluster_id: str, topic_id: str, next_offsets: Offsets) -> Ledger:
        """This ledger for a copy of its topic: nothing else gives a table to another topic (I8)."""
        return replace(
            self,
            cluster_id=cluster_id,
            topic_id=topic_id,
            next_offsets=next_offsets,
            last_records={},  # as the others, by offsets of the former log
            truncated={p: ((0, end, self.commits),) for p, end in self.next_offsets.items() if end},
            outliers={},
        )

    def is_ahead_of(self, other: Ledger) -> bool:
        """Whether this ledger has read any partition further than ``other``."""
        return any(offset > other.next_offsets.get(p, 0) for p, offset in self.next_offsets.items())


@dataclass(frozen=True)
class StagedOffsets:
    """The records in staged files: ``start`` inclusive, ``end`` exclusive, by partition."""

    start: Offsets
    end: Offsets
    newest_ms: Offsets = field(default_factory=dict)
    outliers: Mapping[int, Outliers] = field(default_factory=dict)
    last_records: LastRecords = field(default_factory=dict)

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
            newest_ms=newest(self.newest_ms, later.newest_ms),
            last_records={**self.last_records, **later.last_records},
            outliers=all_outliers(self.outliers, later.outliers),
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


def newest(before: Mapping[int, _Ordered], new: Mapping[int, _Ordered]) -> dict[int, _Ordered]:
    """The greater of both, by partition."""
    return {**before, **{p: max(value, before.get(p, value)) for p, value in new.items()}}


def all_outliers(before: Mapping[int, Outliers], new: Mapping[int, Outliers]) -> dict[int, Outliers]:
    """Both together; the last of a partition is that of the higher offset.

    >>> all_outliers({0: Outliers(2, 7, 50)}, {0: Outliers(1, 9, 40), 1: Outliers(1, 0, 60)})
    {0: Outliers(records=3, offset=9, timestamp_ms=40), 1: Outliers(records=1, offset=0, timestamp_ms=60)}
    """
    result = dict(before)
    for partition, outliers in new.items():
        last, other = outliers, result.get(partition)
        if other is not None:
            last = max(outliers, other, key=lambda candidate: candidate.offset)._replace(
                records=outliers.records + other.records
            )
        result[partition] = last
    return result


def _past(newest_ms: Offsets, now_ms: int | None) -> Offsets:
    return {p: ms for p, ms in newest_ms.items() if now_ms is None or ms <= now_ms + CLOCK_TOLERANCE_MS}


def _encode(of: Mapping[Any, object]) -> str:
    return json.dumps({str(key): of[key] for key in sorted(of)}, separators=(",", ":"))


def _decode(text: str) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in json.loads(text).items()}


def _by_partition(summary: Mapping[str, str], name: str) -> Iterator[tuple[int, Any]]:
    for partition, value in json.loads(summary.get(f"{PREFIX}{name}", "{}")).items():
        yield int(partition), value
