"""What a table contains: the files its snapshots reach, its ledger, and the rows in its files.

Read by PyIceberg and PyArrow from metadata, manifests and Parquet files; each once, as no file ever changes.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFileContent, read_manifest_list
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.sorting import NullOrder, SortDirection
from pyiceberg.transforms import IdentityTransform

from tests.simulation.kafka import CUT, PARTITION
from tests.simulation.lake import MAIN, Lake
from tests.simulation.store import place

Row = tuple[int, int, int]  # generation of the topic, partition, offset
DeadLetterSample = tuple[int, int, str | None]  # partition, offset, replay


@dataclass(frozen=True)
class LedgerRead:
    """What a snapshot's summary says, by the keys of docs/reference/ledger.md."""

    offsets: dict[int, int]
    epoch: int
    commit_id: str
    topic_id: str
    lost: dict[int, int]
    replay_id: str | None
    deleted_keys: tuple[str, ...] = ()

    @classmethod
    def of(cls, snapshot: Snapshot) -> LedgerRead | None:
        """The ledger of a snapshot; None where another writer made it."""
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        if "tabletopic.offsets" not in summary:
            return None
        return cls(
            _by_partition(summary["tabletopic.offsets"]),
            int(summary["tabletopic.epoch"]),
            summary["tabletopic.commit-id"],
            summary["tabletopic.topic-id"],
            _by_partition(summary.get("tabletopic.lost", "{}")),
            summary.get("tabletopic.replay-id"),
            tuple(json.loads(summary.get("tabletopic.deleted-keys", "[]"))),
        )


def head_and_ancestors(table: Table) -> Iterator[Snapshot]:
    """The head and what it was built on, as far as it is still there."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    one = table.current_snapshot()
    while one is not None:
        yield one
        one = by_id.get(one.parent_snapshot_id) if one.parent_snapshot_id is not None else None


def _tagged(table: Table) -> Snapshot | None:
    tag = table.metadata.refs.get("tabletopic-ledger")
    return table.snapshot_by_id(tag.snapshot_id) if tag else None


def _by_partition(text: str) -> dict[int, int]:
    return {int(partition): offset for partition, offset in json.loads(text).items()}


class WrongValueError(Exception):
    """A row does not hold what its record did."""


class Tables:
    """Reads the tables of a lake."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._manifests: dict[str, tuple[tuple[str, int], ...]] = {}
        # Of each data file and each position delete file in them: its location, and the number of its commit.
        self._data: dict[str, tuple[tuple[str, int], ...]] = {}
        self._deletes: dict[str, tuple[tuple[str, int], ...]] = {}
        self._orders: dict[str, tuple[tuple[str, int], ...]] = {}  # of sorted files, which order they say
        self._lists: dict[str, tuple[str, ...]] = {}
        self._reach: dict[str, frozenset[str]] = {}

    def ledger(self, table: Table) -> LedgerRead | None:
        """The newest ledger among the ancestors of the head; the tag's, where those have been expired."""
        for ancestor in head_and_ancestors(table):
            if found := LedgerRead.of(ancestor):
                return found
        kept = _tagged(table)
        return LedgerRead.of(kept) if kept else None

    def has_way_to_ledger(self, table: Table) -> bool:
        """Whether an ancestor of the head has a ledger."""
        return any(LedgerRead.of(ancestor) for ancestor in head_and_ancestors(table))

    def highest_epoch(self, table: Table) -> int:
        """Of all snapshots."""
        ledgers = map(LedgerRead.of, table.metadata.snapshots)
        return max((ledger.epoch for ledger in ledgers if ledger is not None), default=0)

    def is_behind_its_ledger(self, table: Table) -> bool:
        """Whether only the tag has kept a ledger, of a snapshot that cannot be an ancestor of the head.

        It would be older than the oldest remaining ancestor, or its newest rows are not in the head. So the
        table was rolled back to before it, or may have been, and nothing says what it has read.
        """
        ancestors, kept = list(head_and_ancestors(table)), _tagged(table)
        if kept is None or any(LedgerRead.of(ancestor) for ancestor in ancestors):
            return False
        if not ancestors:
            return False
        if (kept.sequence_number or 0) > (ancestors[-1].sequence_number or 0):
            return True
        return not self._newest_rows(kept) <= set(self._rows_by_commit(ancestors[0]))

    def _newest_rows(self, snapshot: Snapshot) -> set[Row]:
        """Those of the newest commit whose rows of the topic the snapshot has."""
        left = self.rows_left(snapshot)
        for new_only in (True, False):
            by_commit = {
                row: commit
                for row, commit in self._rows_by_commit(snapshot, new_only=new_only).items()
                if len(row) != 3 or not isinstance(row[2], int) or row in left
            }
            if by_commit:
                break
        newest = max(by_commit.values(), default=0)
        return {row for row, commit in by_commit.items() if commit == newest}

    def _rows_by_commit(self, snapshot: Snapshot, *, new_only: bool = False) -> dict[Row, int]:
        """Each row, or letter, of the topic in a snapshot, with the number of the commit of its file.

        ``new_only``: not those of files that the owner made of others, which tell by their names.
        """
        found: dict[Row, int] = {}
        for manifest in snapshot.manifests(self._lake.io):
            for entry in manifest.fetch_manifest_entry(self._lake.io, discard_deleted=True):
                if entry.data_file.content is not DataFileContent.DATA:
                    continue
                name, number = place(entry.data_file.file_path), entry.file_sequence_number or 0
                if new_only and name.endswith("-rewritten.parquet"):
                    continue
                for row in self._of_topic(name):
                    found[row] = max(number, found.get(row, 0))
        return found

    def _of_topic(self, name: str) -> Iterable[Any]:
        columns = pq.ParquetFile(pa.BufferReader(self._lake.store.files[name])).schema_arrow.names
        return self.rows(name) if "_kafka_metadata" in columns else self.dead_letters(name)

    def named(self) -> set[str]:
        """Data files that any snapshot has ever named, as far as was seen."""
        return {name for entries in self._manifests.values() for name, _ in entries}

    def reached(self, table: Table) -> set[str]:
        """Places of all files that any snapshot of the table reaches."""
        return {name for snapshot in table.metadata.snapshots for name in self.reach(snapshot)}

    def key_files(self, table: Table, snapshot: Snapshot) -> set[str]:
        """Places of the files with deleted keys that a snapshot's ledger names."""
        ledger, root = LedgerRead.of(snapshot), f"{table.location()}/data/{table.metadata.table_uuid}/"
        names = ledger.deleted_keys if ledger and table.name() == MAIN else ()
        return {place(f"{root}{name}" if name.startswith("epoch-") else name) for name in names}

    def reach(self, snapshot: Snapshot) -> frozenset[str]:
        """Places of all files of a snapshot."""
        if (found := self._reach.get(snapshot.manifest_list)) is not None:
            return found
        manifests = self._manifests_of(snapshot)
        files = (name for manifest in manifests for name, _ in self._entries(manifest))
        found = frozenset((place(snapshot.manifest_list), *manifests, *files))
        if manifests:  # else the list may only be missing now
            self._reach[snapshot.manifest_list] = found
        return found

    def data(self, snapshot: Snapshot) -> Iterator[tuple[str, int]]:
        """Places and lengths of the data files of a snapshot."""
        for manifest in self._manifests_of(snapshot):
            yield from self._entries(manifest)

    def _manifests_of(self, snapshot: Snapshot) -> tuple[str, ...]:
        name = place(snapshot.manifest_list)
        if name not in self._lists:
            if name not in self._lake.store.files:
                return ()
            found = list(read_manifest_list(self._lake.io.new_input(snapshot.manifest_list)))
            self._lists[name] = tuple(place(one.manifest_path) for one in found)
            for one in found:
                if place(one.manifest_path) in self._lake.store.files:
                    self._read_manifest(one)
        return self._lists[name]

    def _read_manifest(self, manifest: Any) -> None:
        name = place(manifest.manifest_path)
        if name not in self._manifests:
            entries = manifest.fetch_manifest_entry(self._lake.io, discard_deleted=True)
            self._manifests[name] = tuple(
                (place(one.data_file.file_path), one.data_file.file_size_in_bytes) for one in entries
            )
            self._orders[name] = tuple(
                (one.data_file.file_path, one.data_file.sort_order_id)
                for one in entries
                if one.data_file.sort_order_id
            )
            told = [
                (entry.data_file.content, entry.data_file.file_path, entry.sequence_number or 0)
                for entry in entries
            ]
            for content, kept in (
                (DataFileContent.DATA, self._data),
                (DataFileContent.POSITION_DELETES, self._deletes),
            ):
                kept[name] = tuple((path, number) for one, path, number in told if one is content)

    def _entries(self, manifest: str) -> tuple[tuple[str, int], ...]:
        return self._manifests.get(manifest, ())

    def rows(self, name: str) -> Counter[Row]:
        """The rows of a data file that came from the topic."""
        return _rows(self._lake.store.files[name])

    def rows_left(self, snapshot: Snapshot) -> Counter[Row]:
        """The rows of a snapshot that came from the topic, without those that are deleted by position."""
        manifests, files = self._manifests_of(snapshot), self._lake.store.files
        deleted: dict[str, list[tuple[int, frozenset[int]]]] = {}
        for location, number in (one for manifest in manifests for one in self._deletes.get(manifest, ())):
            for path, positions in _positions(files[place(location)]).items():
                deleted.setdefault(path, []).append((number, positions))
        total: Counter[Row] = Counter()
        for location, number in (one for manifest in manifests for one in self._data.get(manifest, ())):
            applied = [positions for since, positions in deleted.get(location, ()) if since >= number]
            content = files[place(location)]
            total.update(_rows(content, frozenset().union(*applied)))
        return total

    def unsorted(self, table: Table) -> Iterator[str]:
        """Files that an owner has written in an order that they say, and are not in."""
        head = table.current_snapshot()
        for manifest in self._manifests_of(head) if head else ():
            for location, order_id in self._orders.get(manifest, ()):
                order = table.metadata.sort_order_by_id(order_id)
                if "/epoch-" not in location or order is None:
                    continue
                # What a transform makes of values is not computed here: fields before the first one count.
                known = tuple(
                    (
                        one.source_id,
                        one.direction is SortDirection.ASC,
                        one.null_order is NullOrder.NULLS_FIRST,
                    )
                    for one in takewhile(
                        lambda one: isinstance(one.transform, IdentityTransform), order.fields
                    )
                )
                if not _is_sorted(self._lake.store.files[place(location)], known):
                    yield location

    def dead_letters(self, name: str) -> Counter[DeadLetterSample]:
        """The letters of a data file."""
        return _letters(self._lake.store.files[name])

    def rows_of(self, location: str) -> pa.Table:
        """The rows of a data file, as they lie there."""
        return pq.read_table(io.BytesIO(self._lake.store.files[place(location)]))


def _read(content: bytes, columns: list[str]) -> list[dict[str, Any]]:
    """Without the threads and the folders of ``read_table``: files are tiny."""
    return pq.ParquetFile(pa.BufferReader(content)).read(columns, use_threads=False).to_pylist()  # type: ignore[no-any-return]


@lru_cache(maxsize=4096)
def _positions(content: bytes) -> dict[str, frozenset[int]]:
    """Positions that a delete file has, by the locations of data files."""
    found: dict[str, set[int]] = {}
    for row in _read(content, ["file_path", "pos"]):
        found.setdefault(row["file_path"], set()).add(row["pos"])
    return {path: frozenset(positions) for path, positions in found.items()}


@lru_cache(maxsize=4096)
def _rows(content: bytes, deleted: frozenset[int] = frozenset()) -> Counter[tuple[int, int, int]]:
    """Which log, partition and offset of each row that came from the topic; its value must say the same.

    Logs are numbered: those of a generation of the topic, a hundred, follow each other by its cuts. No record
    has a ``b``: one that seems to was decoded by a text that its schema's id had before.
    """
    found = _read(content, ["a", "b", "_kafka_metadata"])
    total: Counter[tuple[int, int, int]] = Counter()
    for at, row in enumerate(found):
        where = row["_kafka_metadata"]
        if at in deleted or where is None or where["offset"] is None:
            continue
        made, rest = divmod(row["a"], CUT)
        if rest != where["partition"] * PARTITION + where["offset"] or row.get("b") is not None:
            raise WrongValueError(str(row))
        total[made, where["partition"], where["offset"]] += 1
    return total


@lru_cache(maxsize=4096)
def _is_sorted(content: bytes, order: tuple[tuple[int, bool, bool], ...]) -> bool:
    """Whether rows rise, or fall, by columns: field id, whether it rises, whether nulls are first."""
    parquet = pq.ParquetFile(pa.BufferReader(content))
    names = {
        int((field.metadata or {}).get(b"PARQUET:field_id", -1)): field.name for field in parquet.schema_arrow
    }
    rows = parquet.read(use_threads=False)
    keys: list[list[tuple[bool, int]]] = [[] for _ in range(len(rows))]
    for field_id, rises, nulls_first in order:
        if field_id not in names:
            continue  # it is null in all of them
        for key, value in zip(keys, rows[names[field_id]].to_pylist(), strict=True):
            key.append(((value is None) is not nulls_first, (value or 0) * (1 if rises else -1)))
    return keys == sorted(keys)


@lru_cache(maxsize=4096)
def _letters(content: bytes) -> Counter[tuple[int, int, str | None]]:
    found = _read(content, ["partition", "offset", "replay_id"])
    return Counter((row["partition"], row["offset"], row["replay_id"]) for row in found)
