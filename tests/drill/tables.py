"""The contents of the drill's tables, read with plain PyIceberg, independently of the product's own code."""

from __future__ import annotations

import contextlib
import itertools
import json
import sqlite3
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlparse

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot, ancestors_of

_EVERY_S = 0.1
_METADATA_FILES = "SELECT table_namespace || '.' || table_name, metadata_location FROM iceberg_tables"


@dataclass(frozen=True)
class Ledger:
    """The ledger in a snapshot's summary: commit id, next offset by partition, and counts.

    ``skipped``: offsets whose records were deleted before they were read; ``passed_over``: records that
    describe no row; ``refused``: those that could not become one.
    """

    commit_id: str
    epoch: int
    next_offsets: Mapping[int, int]
    skipped: int
    passed_over: int = 0
    refused: int = 0

    @property
    def offsets(self) -> int:
        """The number of offsets below it, over all partitions."""
        return sum(self.next_offsets.values())


def ledger_of(snapshot: Snapshot) -> Ledger | None:
    """The ledger in a snapshot; None if another writer made it."""
    return _ledger(snapshot.summary.additional_properties if snapshot.summary else {})


def _ledger(summary: Mapping[str, str]) -> Ledger | None:
    if "tabletopic.offsets" not in summary:
        return None
    return Ledger(
        summary["tabletopic.commit-id"],
        int(summary["tabletopic.epoch"]),
        {int(partition): offset for partition, offset in json.loads(summary["tabletopic.offsets"]).items()},
        *(
            sum(json.loads(summary.get(f"tabletopic.{name}", "{}")).values())
            for name in ("lost", "passed-over", "refused")
        ),
    )


def newest_ledger(table: Table) -> Ledger | None:
    """The ledger of the head, from its ancestors or else from the tag."""
    metadata = table.metadata
    head = metadata.current_snapshot()
    for snapshot in ancestors_of(head, metadata) if head else ():
        if found := ledger_of(snapshot):
            return found
    tag = metadata.refs.get("tabletopic-ledger")
    kept = metadata.snapshot_by_id(tag.snapshot_id) if tag else None
    return ledger_of(kept) if kept else None


def ledger_before(table: Table, snapshots: int) -> Ledger | None:
    """The oldest ledger that the table may have after a rollback by up to ``snapshots`` snapshots."""
    metadata = table.metadata
    head = metadata.current_snapshot()
    ancestors = itertools.islice(ancestors_of(head, metadata), snapshots + 1) if head else ()
    found = [ledger for snapshot in ancestors if (ledger := ledger_of(snapshot)) is not None]
    return found[-1] if found else newest_ledger(table)


@dataclass(frozen=True)
class Sample:
    """A topic at one time: seconds since 1970, offsets below the ledger, lag in records, epoch."""

    at_s: float
    offsets: int
    lag: int
    epoch: int = 0


def commit_after(samples: Sequence[Sample], at_s: float) -> float | None:
    """When the first commit of records after ``at_s`` was seen; None until then."""
    first = bisect_right(samples, at_s, key=lambda sample: sample.at_s)
    offsets = samples[first - 1].offsets if first else 0
    for sample in samples[first:]:
        if sample.offsets > offsets:
            return sample.at_s
        offsets = sample.offsets  # fewer after a rollback
    return None


def handed_over_after(samples: Sequence[Sample], at_s: float) -> float | None:
    """When the next owner's first commit of records after ``at_s`` was seen; None until then."""
    first = bisect_right(samples, at_s, key=lambda sample: sample.at_s)
    epoch = samples[first - 1].epoch if first else 0
    before = samples[max(0, first - 1) :]
    for last, sample in itertools.pairwise(before):
        if sample.epoch > epoch and sample.offsets > last.offsets:
            return sample.at_s
    return None


class Sampler:
    """Samples every table continually, during ``with``.

    It reads the catalog's file and the metadata's plain JSON directly, so it can sample often with little
    effect on what it watches.

    Args:
        catalog: the SQLite file of the catalog.
        tables: topic → its table's name.
        ends: topic → the offset after the last acknowledged record, by partition.
    """

    def __init__(
        self, catalog: Path, tables: Mapping[str, str], ends: Callable[[str], Mapping[int, int]]
    ) -> None:
        self.samples: dict[str, list[Sample]] = {topic: [] for topic in tables}
        self._catalog = catalog
        self._topics = {name: topic for topic, name in tables.items()}
        self._ends = ends
        # Table → its metadata's file, the ledger there.
        self._known: dict[str, tuple[str, Ledger | None]] = {}
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
            # The drill itself may have locked the catalog; the next sample will do.
            with contextlib.suppress(sqlite3.Error, OSError):
                self.look()

    def look(self) -> None:
        """Add a sample for every table that has a ledger.

        Raises:
            sqlite3.Error, OSError: the catalog is locked, or a metadata file cannot be read.
        """
        with contextlib.closing(
            sqlite3.connect(f"file:{self._catalog}?mode=ro", uri=True, timeout=0)
        ) as file:
            rows = file.execute(_METADATA_FILES).fetchall()
        for name, location in rows:
            if (topic := self._topics.get(name)) is None:
                continue
            ends = dict(self._ends(topic))
            if self._known.get(name, ("",))[0] != location:
                self._known[name] = location, _ledger_in(Path(path_of(location)))
            if (ledger := self._known[name][1]) is not None:
                lag = sum(max(0, end - ledger.next_offsets.get(p, 0)) for p, end in ends.items())
                self.samples[topic].append(Sample(time.time(), ledger.offsets, lag, ledger.epoch))


def _ledger_in(file: Path) -> Ledger | None:
    """Like ``newest_ledger``, for the metadata in a file."""
    metadata = json.loads(file.read_text("utf-8"))
    by_id = {one["snapshot-id"]: one for one in metadata.get("snapshots", ())}
    tag = metadata.get("refs", {}).get("tabletopic-ledger", {}).get("snapshot-id")
    snapshot = by_id.get(metadata.get("current-snapshot-id"))
    while snapshot is not None:
        if found := _ledger(snapshot.get("summary", {})):
            return found
        snapshot = by_id.get(snapshot.get("parent-snapshot-id"))
    return _ledger(by_id[tag].get("summary", {})) if tag in by_id else None


def path_of(location: str) -> str:
    """The path of a local file, however its location is spelled; ``%`` has no special meaning."""
    return urlparse(location).path if location.startswith("file:") else location
