"""A table topic's history in time buckets: fine for the last minutes, coarse for the last days.

Bounded: a topic has at most ``sum(size for _, size in TIERS)`` buckets, however long it runs. Values may
arrive in any order: gauges keep their newest value, counts are added up.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

# (length of a bucket in ms, number of buckets): 10 minutes, 2 hours, 7 days (the control topic's retention).
TIERS = ((2_000, 300), (20_000, 360), (1_800_000, 336))
UNKNOWN = -1


def pack(offsets: Mapping[int, int]) -> array[int]:
    """Offsets by partition in a tenth of a dictionary's memory.

    The index is the partition, as Kafka numbers them from 0 without gaps; UNKNOWN for missing ones.

    >>> pack({0: 7, 2: 9}).tolist()
    [7, -1, 9]
    """
    packed = array("q", [UNKNOWN]) * (max(offsets, default=-1) + 1)
    for partition, offset in offsets.items():
        packed[partition] = offset
    return packed


@dataclass(slots=True)
class Bucket:
    """One time bucket: the last value of gauges, the sum of counts.

    ``next_offsets`` are the ledger's, ``end_offsets`` the topic's; each gauge has its time in ms.
    """

    next_offsets: array[int] | None = None
    next_ms: int = UNKNOWN
    end_offsets: array[int] | None = None
    end_ms: int = UNKNOWN
    lag_records: int | None = None
    lag_seconds: float | None = None
    lag_ms: int = UNKNOWN
    rows: int = 0
    files: int = 0
    bytes: int = 0
    commits: int = 0
    last_commit_ms: int = UNKNOWN


@dataclass
class Tier:
    """The newest ``size`` buckets of ``step_ms`` each; bucket n covers [n, n + 1) · step_ms."""

    step_ms: int
    size: int
    buckets: dict[int, Bucket] = field(default_factory=dict)
    newest: int = UNKNOWN

    def at(self, at_ms: int) -> Bucket | None:
        """The bucket for a time, created if missing; None if it is too old to be kept."""
        number = at_ms // self.step_ms
        if number > self.newest:
            first_kept = number - self.size + 1
            if self.newest >= 0 and first_kept - (self.newest - self.size + 1) < self.size:
                for expired in range(self.newest - self.size + 1, first_kept):
                    self.buckets.pop(expired, None)
            else:
                self.buckets.clear()
            self.newest = number
        elif number <= self.newest - self.size:
            return None
        return self.buckets.setdefault(number, Bucket())

    def items(self) -> list[tuple[int, Bucket]]:
        """(start in ms, bucket), oldest first."""
        return [(number * self.step_ms, self.buckets[number]) for number in sorted(self.buckets)]


class History:
    """All tiers of one topic. Not thread-safe."""

    def __init__(self, tiers: tuple[tuple[int, int], ...] = TIERS) -> None:
        self.tiers = [Tier(step_ms, size) for step_ms, size in tiers]

    def _buckets_at(self, at_ms: int) -> Iterator[Bucket]:
        for tier in self.tiers:
            if (bucket := tier.at(at_ms)) is not None:
                yield bucket

    def ledger(self, at_ms: int, next_offsets: array[int]) -> None:
        for bucket in self._buckets_at(at_ms):
            if _is_newer(at_ms, next_offsets, bucket.next_ms, bucket.next_offsets):
                bucket.next_offsets, bucket.next_ms = next_offsets, at_ms

    def ends(self, at_ms: int, end_offsets: array[int]) -> None:
        for bucket in self._buckets_at(at_ms):
            if _is_newer(at_ms, end_offsets, bucket.end_ms, bucket.end_offsets):
                bucket.end_offsets, bucket.end_ms = end_offsets, at_ms

    def lag(self, at_ms: int, lag_records: int, lag_seconds: float | None) -> None:
        """Record the commit lag measured at a time; the seconds may be unknown."""
        for bucket in self._buckets_at(at_ms):
            if at_ms >= bucket.lag_ms:
                bucket.lag_records, bucket.lag_ms = lag_records, at_ms
                bucket.lag_seconds = bucket.lag_seconds if lag_seconds is None else lag_seconds

    def commit(self, at_ms: int, rows: int, files: int, size_bytes: int) -> None:
        for bucket in self._buckets_at(at_ms):
            bucket.rows += rows
            bucket.files += files
            bucket.bytes += size_bytes
            bucket.commits += 1
            bucket.last_commit_ms = max(bucket.last_commit_ms, at_ms)

    def tier_for(self, window_ms: int) -> Tier:
        """The finest tier that reaches back that far; the coarsest if none does."""
        return next((tier for tier in self.tiers if tier.step_ms * tier.size >= window_ms), self.tiers[-1])


def _is_newer(at_ms: int, new: array[int], old_ms: int, old: array[int] | None) -> bool:
    """Of two gauges at the same time, the greater counts: order does not matter."""
    return at_ms > old_ms or (at_ms == old_ms and (old is None or new.tolist() > old.tolist()))


def lag_of(end_offsets: array[int], next_offsets: array[int] | None) -> list[int]:
    """Records that are not in the table yet, by partition; an unknown ledger counts as 0, an empty table.

    >>> lag_of(pack({0: 10, 1: 5}), pack({0: 7}))
    [3, 5]
    """
    known = next_offsets if next_offsets is not None else ()
    return [
        max(0, end - (known[p] if p < len(known) and known[p] != UNKNOWN else 0)) if end != UNKNOWN else 0
        for p, end in enumerate(end_offsets)
    ]


class ArrivalCurve:
    """When records arrived, from samples of the end offsets: how old an offset is, without reading it."""

    def __init__(self) -> None:
        self._times: dict[int, list[int]] = {}
        self._ends: dict[int, list[int]] = {}

    def add(self, at_ms: int, end_offsets: array[int]) -> None:
        """Add a sample; each must be later than the one before."""
        for partition, end in enumerate(end_offsets):
            ends = self._ends.setdefault(partition, [])
            times = self._times.setdefault(partition, [])
            if ends and ends[-1] == end:  # nothing arrived: the next record is even younger
                times[-1] = at_ms
            elif end != UNKNOWN:
                ends.append(end)
                times.append(at_ms)

    def arrived_after_ms(self, partition: int, offset: int) -> int | None:
        """The last time at which ``offset`` did not exist yet; None if the samples begin later."""
        ends = self._ends.get(partition, [])
        index = bisect_right(ends, offset) - 1
        return self._times[partition][index] if index >= 0 else None
