"""What the drill's tables say, read by plain PyIceberg beside the product's own way of reading them."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot, ancestors_of

_EVERY_S = 0.25


@dataclass(frozen=True)
class Ledger:
    """The ledger in a snapshot's summary: commit id, next offset by partition, and what it counts."""

    commit_id: str
    epoch: int
    next_offsets: Mapping[int, int]
    refused: int
    skipped: int

    @property
    def covered(self) -> int:
        """Offsets below it, over all partitions."""
        return sum(self.next_offsets.values())


def ledger_of(snapshot: Snapshot) -> Ledger | None:
    """The ledger that a snapshot carries; None where it is another writer's."""
    summary = dict(snapshot.summary.additional_properties) if snapshot.summary else {}
    if "tabletopic.offsets" not in summary:
        return None
    return Ledger(
        summary["tabletopic.commit-id"],
        int(summary["tabletopic.epoch"]),
        {int(partition): offset for partition, offset in json.loads(summary["tabletopic.offsets"]).items()},
        sum(json.loads(summary.get("tabletopic.refused", "{}")).values()),
        sum(json.loads(summary.get("tabletopic.passed-over", "{}")).values()),
    )


def newest_ledger(table: Table) -> Ledger | None:
    """The ledger of the head, found through its ancestors and else by the tag."""
    metadata = table.metadata
    head = metadata.current_snapshot()
    for snapshot in ancestors_of(head, metadata) if head else ():
        if found := ledger_of(snapshot):
            return found
    tag = metadata.refs.get("tabletopic-ledger")
    kept = metadata.snapshot_by_id(tag.snapshot_id) if tag else None
    return ledger_of(kept) if kept else None


@dataclass(frozen=True)
class Sample:
    """A topic at a moment: seconds since 1970, offsets below the ledger, and records that it is behind."""

    at_s: float
    covered: int
    lag: int


def commit_after(samples: Sequence[Sample], at_s: float) -> float | None:
    """When the first commit of records after ``at_s`` was seen; None as long as there is none."""
    first = bisect_right(samples, at_s, key=lambda sample: sample.at_s)
    covered = samples[first - 1].covered if first else 0
    for sample in samples[first:]:
        if sample.covered > covered:
            return sample.at_s
        covered = sample.covered  # less after a rollback
    return None


class Sampler:
    """Looks at every table again and again, from ``with`` to its end.

    Args:
        catalog: of its own, as it is used in a thread.
        ends: topic → the offset behind the last acknowledged record, by partition.
    """

    def __init__(
        self, catalog: Catalog, tables: Mapping[str, str], ends: Callable[[str], Mapping[int, int]]
    ) -> None:
        self.samples: dict[str, list[Sample]] = {topic: [] for topic in tables}
        self._catalog = catalog
        self._tables = tables
        self._ends = ends
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="drill sampler", daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(_EVERY_S):
            for topic, name in self._tables.items():
                # The catalog may be locked by the drill itself; the next look will do.
                with contextlib.suppress(Exception):
                    self._look(topic, name)

    def _look(self, topic: str, name: str) -> None:
        ends = dict(self._ends(topic))
        try:
            ledger = newest_ledger(self._catalog.load_table(name))
        except NoSuchTableError:
            return
        if ledger is not None:
            lag = sum(max(0, end - ledger.next_offsets.get(p, 0)) for p, end in ends.items())
            self.samples[topic].append(Sample(time.time(), ledger.covered, lag))
