"""Looks for records of a topic, forward or backward, within bounds; the answer says how far it looked.

A chunk has as many offsets of each partition. Records are in the order of time, and those of a partition in
that of its offsets: so what is left out begins at one offset of each partition, where the next search begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.model.ledger import Offsets, StagedOffsets
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.source import SOURCE_SCHEMA, KafkaRanges
from tabletopic_kernel.workbench.peek import PeekedRecord, decoded
from tabletopic_kernel.workbench.peek.condition import Condition
from tabletopic_kernel.workbench.peek.wanted import Bounds, Looked, Search, range_of

_CHUNK_RECORDS: Final = 65_536
_CHUNK_BYTES: Final = 64 * 1024**2
_GROWTH: Final = 4
_BOUNDS: Final = Bounds()


class Records(list[PeekedRecord]):
    """The records, how far the search ``looked``, and their bytes in Arrow, of ``SOURCE_SCHEMA``."""

    def __init__(self, records: list[PeekedRecord], looked: Looked, batch: pa.RecordBatch | None) -> None:
        super().__init__(records)
        self.looked, self.batch = looked, batch


def look(
    topic: str,
    settings: TopicSettings,
    broker: Broker,
    registry: Registry,
    wanted: Search,
    bounds: Bounds = _BOUNDS,
) -> Records:
    """The records that ``wanted`` describes, in its order; UsageError if there is no such partition."""
    condition = Condition(wanted.where, wanted.key, topic, settings, registry)
    facts = broker.facts(topic)
    low, high, notes = range_of(wanted, facts, broker)
    source = KafkaRanges(topic, broker.properties, headers=True)
    reading = _Reading(source, condition, low, high, wanted, bounds)
    reading.run()
    batch, position = reading.chosen()
    looked = _looked(wanted, reading, low, high, position, notes)
    return Records([] if batch is None else decoded(batch, topic, settings, registry), looked, batch)


def follow(
    topic: str,
    settings: TopicSettings,
    broker: Broker,
    registry: Registry,
    wanted: Search,
    going: Callable[[], bool] = lambda: True,
    wait: Callable[[], None] = lambda: time.sleep(0.5),
) -> Iterator[list[PeekedRecord]]:
    """Matching records as they come, in groups; from now on, or from where ``wanted`` begins."""
    condition = Condition(wanted.where, wanted.key, topic, settings, registry)
    low, high, _ = range_of(wanted, broker.facts(topic), broker)
    position = dict(high if wanted.backward else low)
    source = KafkaRanges(topic, broker.properties, headers=True)
    forward = replace(wanted, start="oldest")
    while going():
        ends = broker.end_offsets([topic]).get(topic, {})
        if wanted.partition is not None:
            ends = {p: end for p, end in ends.items() if p == wanted.partition}
        # A topic that was deleted and created again ends earlier.
        start = position = {p: min(position.get(p, 0), end) for p, end in ends.items()}
        if start == ends:
            wait()
            continue
        reading = _Reading(source, condition, start, ends, forward, Bounds(records=_CHUNK_RECORDS))
        reading.run(of_all=True)
        position = reading.position
        batch, _ = reading.chosen(of_all=True)
        if batch is not None:
            yield decoded(batch, topic, settings, registry)


class _Reading:
    """The chunks of one search; ``position``: next offsets, or backward those before which to go on."""

    def __init__(
        self,
        source: KafkaRanges,
        condition: Condition,
        low: Offsets,
        high: Offsets,
        wanted: Search,
        bounds: Bounds,
    ) -> None:
        self._source, self._condition, self._low, self._high = source, condition, low, high
        self._wanted, self._bounds = wanted, bounds
        self.position = dict(high if wanted.backward else low)
        self.cut_by = ""
        self._matches: list[pa.RecordBatch] = []
        self._count = self._records = self._bytes = 0

    def run(self, *, of_all: bool = False) -> None:
        """Read until there are enough matches, a bound is reached, or all was read."""
        began, step = time.monotonic(), self._wanted.limit
        while any(self.position[p] != end for p, end in self._ends.items()):
            if self._count >= self._wanted.limit and not of_all:
                self.cut_by = "limit"
            elif self._records >= self._bounds.records:
                self.cut_by = "records"
            elif self._bytes >= self._bounds.bytes:
                self.cut_by = "bytes"
            elif time.monotonic() - began >= self._bounds.seconds:
                self.cut_by = "seconds"
            if self.cut_by:
                return
            self._read(self._step(step))
            step *= _GROWTH

    @property
    def _ends(self) -> Offsets:
        return self._low if self._wanted.backward else self._high

    def _step(self, step: int) -> int:
        """Offsets of each partition in the next chunk."""
        most = min(_CHUNK_RECORDS, self._bounds.records - self._records)
        if self._records:
            most = min(most, _CHUNK_BYTES * self._records // max(1, self._bytes))
        return max(1, min(step, most // max(1, len(self._low))))

    def _read(self, step: int) -> None:
        at = self.position
        if self._wanted.backward:
            chunk = StagedOffsets({p: max(self._low[p], end - step) for p, end in at.items()}, dict(at))
            self.position = dict(chunk.start)
        else:
            chunk = StagedOffsets(dict(at), {p: min(self._high[p], start + step) for p, start in at.items()})
            self.position = dict(chunk.end)
        batches = [batch for batch in self._source.read(chunk) if len(batch)]
        self._records += chunk.records
        self._bytes += sum(batch.nbytes for batch in batches)
        if batches:
            (records,) = pa.Table.from_batches(batches, SOURCE_SCHEMA).combine_chunks().to_batches()
            if self._condition:
                records = records.filter(pa.array(self._condition.matches(records)))
            self._matches.append(records)
            self._count += len(records)

    def chosen(self, *, of_all: bool = False) -> tuple[pa.RecordBatch | None, Offsets]:
        """The first matches in order, and the position behind them."""
        if not self._count:
            return None, self.position
        (records,) = pa.Table.from_batches(self._matches).combine_chunks().to_batches()
        order = _order(records, backward=self._wanted.backward)
        limit = len(order) if of_all else self._wanted.limit
        position, rest = dict(self.position), records.take(pa.array(order[limit:]))
        for p, offset in zip(rest["partition"].to_pylist(), rest["offset"].to_pylist(), strict=True):
            position[p] = max(position[p], offset + 1) if self._wanted.backward else min(position[p], offset)
        return records.take(pa.array(order[:limit])), position


def _order(records: pa.RecordBatch, *, backward: bool) -> np.ndarray[Any, Any]:
    """Indexes by time; within a partition by offset, as a time counts as the newest so far."""
    partitions, offsets = (records.column(name).to_numpy() for name in ("partition", "offset"))
    times = records.column("timestamp").cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).copy()
    for partition in np.unique(partitions):
        (rows,) = np.nonzero(partitions == partition)
        rows = rows[np.argsort(offsets[rows])]
        times[rows] = np.maximum.accumulate(times[rows])
    sign = -1 if backward else 1
    return np.lexsort((sign * offsets, partitions, sign * times))


def _looked(
    wanted: Search, reading: _Reading, low: Offsets, high: Offsets, position: Offsets, notes: list[str]
) -> Looked:
    backward = wanted.backward
    ranges = {p: (position[p], high[p]) if backward else (low[p], position[p]) for p in low}
    left = any(position[p] != (low if backward else high)[p] for p in low)
    rest = None
    if left:
        where = ",".join(f"{p}:{offset}" for p, offset in sorted(position.items()))
        rest = replace(wanted, before=where) if backward else replace(wanted, start=where, at=None)
    return Looked(
        looked=sum(end - first for first, end in ranges.values()),
        records=sum(high[p] - low[p] for p in low),
        ranges=ranges,
        cut_by=(reading.cut_by or "limit") if left else "",
        go_on=rest,
        notes=tuple(notes),
    )
