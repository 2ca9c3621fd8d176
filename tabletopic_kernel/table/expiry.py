"""Which snapshots of a table expire, and which files only they reach. Nothing here changes anything.

A snapshot stays if somebody may still ask for it, by name or by time, or if the protocol reads it: the
ledger's, and the one with the highest epoch (I5). All others expire by age. Refs stay, even those with a
``max_ref_age_ms``: only its creator should remove a branch or tag.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import update_table_metadata

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.clients.catalog.pyiceberg_seams.requirements import removal_of
from tabletopic_kernel.clients.storage.storage import live_files, manifests_of, sizes_of
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_names import in_sql
from tabletopic_kernel.table.changes.ledger_history import epoch_of, ledger_of, locations
from tabletopic_kernel.table.files.orphans import orphan_candidates
from tabletopic_kernel.table.files.own import UnreachableFiles, is_collected
from tabletopic_kernel.table.sweep import Removed, orphans_of, removable

_LOG = logging.getLogger(__name__)
_Snapshots = Mapping[int, Snapshot]  # by id
# A limit on their number never expires younger snapshots: a query might lose the files it reads.
_LONGEST_QUERY_MS = 15 * 60_000


@dataclass(frozen=True)
class Retention:
    """What is kept: snapshots younger than ``time_travel_ms``, and the newest ``at_least`` of each branch.

    ``at_most``: how many of those kept only for their age, the newest first; snapshots so young that a query
    may still read them are always kept. None: all. ``only_named``: nothing for its age or number.
    """

    time_travel_ms: int
    at_least: int
    at_most: int | None = None
    only_named: bool = False

    @classmethod
    def of(cls, settings: TopicSettings) -> Retention:
        return cls(settings.snapshots_kept_ms, settings.keep_snapshots, settings.snapshot_limit)


ONLY_NAMED = Retention(0, 1, 0, only_named=True)  # branches, tags, and what the protocol reads


def to_expire(metadata: TableMetadata, retention: Retention, now_ms: int) -> tuple[int, ...]:
    """Ids of the snapshots that expire now, in the order of the metadata; none if ``gc.enabled`` is false.

    Ages are by the caller's clock: a snapshot from the future is young. The longest of a ref's retention, the
    table's ``history.expire.*`` properties and ``retention`` applies; ``at_most`` is only in ``retention``.
    """
    if not is_collected(metadata):
        return ()
    age = _number(metadata, TableProperties.MAX_SNAPSHOT_AGE_MS)
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    kept = {
        snapshot.snapshot_id
        for snapshot in metadata.snapshots
        if age and snapshot.timestamp_ms > now_ms - age
    }
    kept.update(_young(metadata, retention, now_ms))
    if retention.only_named:
        kept.clear()
    for ref in metadata.refs.values():
        kept.add(ref.snapshot_id)
        if ref.snapshot_ref_type is SnapshotRefType.BRANCH and not retention.only_named:
            at_least = max(retention.at_least, _number(metadata, TableProperties.MIN_SNAPSHOTS_TO_KEEP))
            kept.update(_of_branch(by_id, ref, at_least, now_ms))
    kept.update(_of_ledger(by_id, metadata.current_snapshot_id))
    return tuple(snapshot_id for snapshot_id in by_id if snapshot_id not in kept)


def _young(metadata: TableMetadata, retention: Retention, now_ms: int) -> Iterator[int]:
    """The newest snapshots, as far as ``retention`` keeps them for their age.

    The oldest expire first and none in between: Iceberg's snapshot log, which engines need for a query as of
    a time, would end at the gap.
    """
    young = [
        snapshot
        for snapshot in metadata.snapshots
        if snapshot.timestamp_ms > now_ms - retention.time_travel_ms
    ]
    young.sort(key=lambda snapshot: (snapshot.sequence_number or 0, snapshot.timestamp_ms), reverse=True)
    limit = len(young) if retention.at_most is None else retention.at_most
    in_use = min(retention.time_travel_ms, _LONGEST_QUERY_MS)
    return (
        snapshot.snapshot_id
        for index, snapshot in enumerate(young)
        if index < limit or snapshot.timestamp_ms > now_ms - in_use
    )


def reaches_back_to(metadata: TableMetadata) -> int | None:
    """The time of the head's oldest ancestor, where time travel ends; None without a snapshot."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    return min(
        (snapshot.timestamp_ms for snapshot in _ancestors(by_id, metadata.current_snapshot_id)), default=None
    )


def _number(metadata: TableMetadata, name: str) -> int:
    text = metadata.properties.get(name, "0").strip()
    return int(text) if text.isdecimal() else 0


def _ancestors(by_id: _Snapshots, newest: int | None) -> Iterator[Snapshot]:
    while newest is not None and (snapshot := by_id.get(newest)) is not None:
        yield snapshot
        newest = snapshot.parent_snapshot_id


def _of_branch(by_id: _Snapshots, ref: SnapshotRef, at_least: int, now_ms: int) -> Iterator[int]:
    """The newest ancestors of a branch, and those that its own settings keep longer."""
    at_least = max(at_least, ref.min_snapshots_to_keep or 0)
    for index, snapshot in enumerate(_ancestors(by_id, ref.snapshot_id)):
        if index < at_least or snapshot.timestamp_ms > now_ms - (ref.max_snapshot_age_ms or 0):
            yield snapshot.snapshot_id


def _of_ledger(by_id: _Snapshots, head: int | None) -> Iterator[int]:
    """The head's ancestors down to the newest ledger, and the newest snapshot of the highest epoch.

    Without the former, only rows would tell whether the table was rolled back (``lineage``); without the
    latter, a replaced owner would believe that it still owns the table.
    """
    for snapshot in _ancestors(by_id, head):
        yield snapshot.snapshot_id
        if ledger_of(snapshot) is not None:
            break
    claims = [(epoch_of(snapshot), snapshot.sequence_number or 0, key) for key, snapshot in by_id.items()]
    if claims and (newest := max(claims))[0]:
        yield newest[2]


def without(table: Table, ids: Collection[int]) -> Table:
    """The table as it will be once these snapshots have expired."""
    metadata = (
        update_table_metadata(table.metadata, removal_of(table.metadata, ids)) if ids else table.metadata
    )
    return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)


def only_reached_by(table: Table, ids: Collection[int]) -> UnreachableFiles:
    """What only the snapshots ``ids`` reach, by this metadata; their removal checks these candidates."""
    metadata, io = table.metadata, table.io
    expired = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id in ids]
    kept = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in ids]
    data: dict[str, int] = {}
    try:
        with reachable("the storage", lent=lends_keys(table)):
            shared = manifests_of(io, kept) if expired else {}
            only = [manifest for path, manifest in manifests_of(io, expired).items() if path not in shared]
            for _, live in live_files(io, only):
                data.update(live)
            for path in _deleted_keys(table, expired) - _deleted_keys(table, kept):
                with suppress(FileNotFoundError):  # somebody removed it before
                    data |= sizes_of(io, [path])
            files = sizes_of(io, [snapshot.manifest_list for snapshot in expired if snapshot.manifest_list])
    except FileNotFoundError as error:
        # Nobody can read these snapshots. They may go; what else they reached is left as orphans.
        _LOG.warning("%s: snapshots expire without their files: %s", ".".join(table.name()), error)
        return UnreachableFiles(frozenset(ids))
    files |= {manifest.manifest_path: manifest.manifest_length for manifest in only}
    for statistics in (*metadata.statistics, *metadata.partition_statistics):
        if statistics.snapshot_id in ids:
            files[statistics.statistics_path] = statistics.file_size_in_bytes
    return UnreachableFiles(frozenset(ids), data, files)


def _deleted_keys(table: Table, snapshots: Iterable[Snapshot]) -> set[str]:
    """The files with an upsert table's deleted keys, which ledgers name, not manifests."""
    ledgers = map(ledger_of, snapshots)
    return {path for ledger in ledgers if ledger is not None for path in locations(table, ledger)}


@dataclass(frozen=True)
class ExpiryPlan:
    """What an expiry would remove: ``snapshots`` with their times in ms, files and orphans with their bytes.

    ``kept``: snapshots that stay; ``reaches_back_to_ms``: the earliest time that time travel would reach;
    ``outside``: files that stay because they are outside the table's own folders.
    """

    table: str
    snapshots: Mapping[int, int]
    kept: int
    reaches_back_to_ms: int | None
    files: Mapping[str, int]
    outside: int
    orphans: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        snapshots = {str(snapshot_id): time_ms for snapshot_id, time_ms in self.snapshots.items()}
        return {**asdict(self), "snapshots": snapshots}


def plan_expiry(
    catalog: Catalog, identifier: tuple[str, ...], settings: TopicSettings, now_ms: int, *, orphans: bool
) -> ExpiryPlan | None:
    """What an expiry would do to a table now; None without a table."""
    try:
        with reachable("the catalog"):
            table = catalog.load_table(identifier)
    except NoSuchTableError:
        return None
    metadata = table.metadata
    ids = to_expire(metadata, Retention.of(settings), now_ms)
    unreachable = only_reached_by(table, ids)
    after = without(table, ids)
    removed = removable(after, unreachable) if ids else Removed()
    sizes = {**unreachable.data, **unreachable.metadata}
    return ExpiryPlan(
        in_sql(identifier, settings.catalog),
        {
            snapshot.snapshot_id: snapshot.timestamp_ms
            for snapshot in metadata.snapshots
            if snapshot.snapshot_id in unreachable.ids
        },
        len(metadata.snapshots) - len(ids),
        reaches_back_to(after.metadata),
        {path: sizes[path] for path in removed.paths},
        removed.outside,
        orphans_of(table, orphan_candidates(table, now_ms)) if orphans else {},
    )
