"""How far tables are behind their topics, from end offsets polled every few seconds.

Why the seconds are right without reading a record: the next record to commit did not exist when the broker
reported an end offset at or below it, and existed when it first reported a higher one. Its age counts from
then, so it is too short by at most one polling interval. For a backlog older than the first poll, only the
timestamp of the newest committed record is known.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tabletopic_kernel.model.progress.events import Progress

# For a partition whose commits stall for hours, every other end is dropped: the age is then short by a few
# hundredths.
_MOST_ENDS = 64


class Lag(NamedTuple):
    """How far a table is behind one partition: the number of offsets, and the oldest one's age in seconds."""

    records: int
    seconds: float


class _Ends:
    """End offsets of a partition, each with the time in ms when it was first seen."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []
        self.committed_to = -1  # an end that the ledger has reached: the arrival of later records was seen

    def add(self, now_ms: int, end: int) -> None:
        if self.seen and end < self.seen[-1][1]:  # the topic was re-created, or lost records
            self.seen, self.committed_to = [], -1
        if self.seen and end == self.seen[-1][1]:
            return
        self.seen.append((now_ms, end))
        if len(self.seen) > _MOST_ENDS:
            self.seen = [*self.seen[:-1:2], self.seen[-1]]

    def lag(self, next_offset: int, newest_ms: int | None, now_ms: int) -> Lag:
        reached = sum(end <= next_offset for _, end in self.seen)
        if reached:
            self.committed_to = self.seen[reached - 1][1]
            del self.seen[: max(0, min(reached, len(self.seen) - 1))]
        at_ms, end = self.seen[0]
        if end <= next_offset:
            return Lag(0, 0.0)
        if newest_ms is not None and not 0 <= self.committed_to <= next_offset:
            at_ms = min(at_ms, newest_ms)
        return Lag(self.seen[-1][1] - next_offset, max(0, now_ms - at_ms) / 1000)


class Lags:
    """The lags of a host's topics. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: dict[str, dict[int, _Ends]] = {}
        # Open transactions: their first offset, when it was first seen, and the offsets that wait behind it.
        self._open: dict[tuple[str, int], tuple[int, int, int]] = {}

    def learn(
        self,
        ends: Mapping[str, Mapping[int, int]],
        now_ms: int,
        waiting: Mapping[str, Mapping[int, int]] | None = None,
    ) -> None:
        """Take all topics' end offsets, forget others; ``waiting``: how many offsets wait behind them."""
        with self._lock:
            for topic in self._ends.keys() - ends.keys():
                del self._ends[topic]
            for topic, partitions in ends.items():
                known = self._ends.setdefault(topic, {})
                for partition, end in partitions.items():
                    known.setdefault(partition, _Ends()).add(now_ms, end)
            before, self._open = self._open, {}
            for topic, behind in (waiting or {}).items():
                for partition, records in behind.items():
                    key, end = (topic, partition), ends[topic][partition]
                    first, since_ms, _ = before.get(key, (-1, 0, 0))
                    self._open[key] = end, since_ms if first == end else now_ms, records

    def open_transactions(self, topic: str, now_ms: int) -> Lag:
        """The offsets that wait behind open transactions, and how long the host has seen the oldest one."""
        with self._lock:
            known = [values for (name, _), values in self._open.items() if name == topic]
        return whole(Lag(records, (now_ms - since_ms) / 1000) for _, since_ms, records in known)

    def of(self, progress: Progress, now_ms: int) -> dict[int, Lag]:
        """The lag of each partition; empty while ledger or end offsets are not known."""
        if progress.epoch == 0:
            return {}
        with self._lock:
            return {
                partition: ends.lag(
                    progress.next_offsets.get(partition, 0), progress.newest_ms.get(partition), now_ms
                )
                for partition, ends in sorted(self._ends.get(progress.topic, {}).items())
            }


def whole(lags: Iterable[Lag]) -> Lag:
    """The lag of a topic: the sum of the records, and the age of the oldest."""
    partitions = list(lags)
    return Lag(sum(lag.records for lag in partitions), max((lag.seconds for lag in partitions), default=0.0))
