"""The only place that removes a table's files, with the proof that nobody needs them (I10).

ADR 0015 has the proof and its cost. In short: an epoch that has ended commits no more (I5), so nobody ever
needs a file of it that no snapshot of newer metadata reaches; and nobody can bring back a removed snapshot.

Entry points: ``sweep`` and ``sweep_finished`` for what finished epochs left, ``remove_expired`` for what
expired snapshots reached, ``remove_orphans`` for old files that nothing names, ``remove_unsent`` for what its
own writer gives up, ``remove_dropped`` for those of a table that is gone. They are stateless, and work for
any history of a table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from tabletopic_kernel.clients.catalog.catalog import reachable
from tabletopic_kernel.clients.catalog.engine_properties import keeps_versions
from tabletopic_kernel.clients.storage.claims import claim_folder
from tabletopic_kernel.clients.storage.storage import delete_files, list_files, list_infos
from tabletopic_kernel.model.errors import RetryableError, StartOverError
from tabletopic_kernel.pipeline.write import epochs_root
from tabletopic_kernel.table.changes.ledger_history import newest_epoch
from tabletopic_kernel.table.files.own import UnreachableFiles, is_collected, metadata_root, own_files
from tabletopic_kernel.table.files.reached import Candidates

_EPOCH = re.compile(r"/epoch-(\d+)$")
_CHUNK = 1_000  # files deleted per load of the table's metadata


@dataclass(frozen=True)
class Removed:
    """How many ``files`` were removed, and their ``bytes``; ``outside``: files kept in other folders."""

    files: int = 0
    bytes: int = 0
    outside: int = 0
    paths: tuple[str, ...] = ()

    def __add__(self, other: Removed) -> Removed:
        return Removed(
            self.files + other.files,
            self.bytes + other.bytes,
            self.outside + other.outside,
            self.paths + other.paths,
        )


def _collected(table: Table, catalog: Catalog) -> Table:
    """The table's current state in the catalog, if it is the same table and its files may be removed."""
    fresh = load_same(table, catalog)
    if not is_collected(fresh.metadata) or keeps_versions(catalog.properties):
        raise StartOverError(
            f"files of {'.'.join(table.name())} stay: gc.enabled is false, or the catalog keeps versions of "
            "tables itself"
        )
    return fresh


def claim_files(table: Table, load: Callable[[], Table]) -> Table:
    """Claim the table's files for its catalog before any is removed; as ``claim_folder``."""
    if not is_collected(table.metadata) or keeps_versions(table.catalog.properties):
        return load()
    return claim_folder(table, metadata_root(table.metadata), load, newest_epoch)


def remove_unsent(table: Table, locations: Sequence[str]) -> int:
    """Delete files that their writer gives up, and that no attempt to commit had; returns how many.

    Why this is safe: a staged file's name is a UUID that only its owner knows. What never was in a request to
    the catalog is in no snapshot, nor in any that may still come. Do not pass files of an attempt, however it
    ended: ``sweep`` removes them, once their epoch has ended.
    """
    return len(delete_files(table, list(locations)))


def remove_dropped(table: Table, locations: Sequence[str]) -> None:
    """Delete the own files of a table that its catalog has just dropped: nothing can refer to them any more.

    ``claim_files`` came before: the catalog was the only one that names them.
    """
    delete_files(table, list(locations))


def sweep(table: Table, *, after_epoch: int, before_epoch: int, catalog: Catalog | None = None) -> int:
    """Delete files that owners of the epochs in between staged and nobody committed; returns how many.

    ``table`` identifies the table, whose newer metadata is loaded here, from ``catalog`` if given.
    Why this is safe: only files below the table's own uuid are considered, so they are this table's. Their
    epochs have ended: the newest metadata has a ledger of ``before_epoch``, so older ones can never commit
    again, not even an attempt in flight (I5). Whatever any snapshot of that metadata reaches, on any ref or
    none, is kept, by name. That is checked again in metadata loaded right before each thousand deletions.
    Doubt deletes nothing: an unreadable manifest, another table, an epoch that has committed but has no file
    in use, a catalog that is not the only one to name these files, or not its newest state
    (``clients/storage/claims.py``). RetryableError, ActionNeededError, StartOverError say so.
    """

    def newest() -> Table:
        return _ended(table, catalog or table.catalog, before_epoch)

    return _swept(table, after_epoch, before_epoch, newest).files


def _swept(table: Table, after_epoch: int, before_epoch: int, newest: Callable[[], Table]) -> Removed:
    epochs, sizes = _listed(table, after_epoch, before_epoch)
    candidates = Candidates(str(table.metadata.table_uuid), epochs)
    if candidates.epochs:
        candidates.keep_reached(newest)
        candidates.keep_doubtful(".".join(table.name()))
    return _remove(table, candidates, sizes, newest)


def remove_expired(table: Table, expired: UnreachableFiles, *, catalog: Catalog | None = None) -> Removed:
    """Delete data and metadata that only ``expired`` snapshots reached; returns what was removed.

    Why this is safe: each file belonged to snapshots of this table that are gone from the newest metadata, so
    nobody can make one of them a branch, a tag or the head again. Whatever any snapshot of that metadata
    reaches is kept, as in ``sweep``, and it is loaded again right before each thousand deletions. A file that
    is staged, or of a commit in flight, was in no snapshot yet, so it is not among these: names of staged
    files are new, and nothing expires while a commit is in doubt. Only files in the table's own folders are
    removed; ``own_files`` separates them from those that other tables may have. Doubt deletes nothing:
    another table, snapshots that still exist or exist again, ``gc.enabled`` false, an unreadable manifest.
    """

    def newest() -> Table:
        fresh = _collected(table, catalog or table.catalog)
        if any(snapshot.snapshot_id in expired.ids for snapshot in fresh.metadata.snapshots):
            name = ".".join(table.name())
            raise StartOverError(f"{name} has snapshots that were to expire: their files stay")
        return fresh

    own, outside = own_files(table.metadata, expired)
    candidates = Candidates(str(table.metadata.table_uuid), dict.fromkeys(own, 0))
    return replace(_remove(table, candidates, own, newest), outside=outside)


def remove_orphans(table: Table, old: UnreachableFiles, *, catalog: Catalog | None = None) -> Removed:
    """Delete files among this table's, of ``orphan_candidates``, that nothing in it refers to."""
    own, _ = own_files(table.metadata, old)
    candidates = Candidates(str(table.metadata.table_uuid), dict.fromkeys(own, 0))
    return _remove(table, candidates, own, lambda: _collected(table, catalog or table.catalog))


def sweep_finished(table: Table, *, before_epoch: int, catalog: Catalog) -> Removed:
    """Like ``sweep``, for all earlier epochs, even swept ones: expiry may have left files of these."""
    fresh = load_same(table, catalog)
    if not is_collected(fresh.metadata) or keeps_versions(catalog.properties):
        return Removed()
    return _swept(fresh, 0, before_epoch, lambda: _ended(table, catalog, before_epoch))


def removable(table: Table, expired: UnreachableFiles) -> Removed:
    """What ``remove_expired`` would remove from a ``table`` without these snapshots; removes nothing."""
    own, outside = own_files(table.metadata, expired)
    candidates = Candidates(str(table.metadata.table_uuid), dict.fromkeys(own, 0))
    candidates.keep_reached(lambda: table)
    left = {path: own[path] for path in sorted(candidates.epochs)}
    return Removed(len(left), sum(left.values()), outside, tuple(left))


def orphans_of(table: Table, old: UnreachableFiles) -> dict[str, int]:
    """What ``sweep_finished`` and ``remove_orphans`` would remove, with bytes; removes nothing."""
    epochs, sizes = _listed(table, 0, newest_epoch(table.metadata))
    candidates = Candidates(str(table.metadata.table_uuid), epochs)
    if epochs:
        candidates.keep_reached(lambda: table)
        candidates.keep_doubtful(".".join(table.name()))
    others = {**old.data, **old.metadata}
    removed = removable(table, old).paths
    return {path: sizes[path] for path in candidates.epochs} | {path: others[path] for path in removed}


def _remove(
    table: Table, candidates: Candidates, sizes: Mapping[str, int], newest: Callable[[], Table]
) -> Removed:
    """Delete candidates that the newest metadata, reloaded before each thousand, does not reach."""
    total, trouble = Removed(), None
    paths = sorted(candidates.epochs)
    for chunk in (paths[start : start + _CHUNK] for start in range(0, len(paths), _CHUNK)):
        candidates.keep_reached(lambda: claim_files(table, newest))
        try:
            removed = delete_files(table, [path for path in chunk if path in candidates.epochs])
            size = sum(sizes.get(path, 0) for path in removed)
            total += Removed(len(removed), size, paths=tuple(removed))
        except RetryableError as error:  # a file that cannot be deleted does not stop the others
            trouble = trouble or error
    if trouble is not None:
        raise trouble
    return total


def _listed(table: Table, after_epoch: int, before_epoch: int) -> tuple[dict[str, int], dict[str, int]]:
    """The files in the folders of the epochs in between: the epoch of each, and the bytes of each.

    Files in folders without a uuid, which earlier versions made, may be another table's, and stay.
    """
    epochs: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for folder in list_files(table, epochs_root(table.metadata), recursive=False):
        match = _EPOCH.search(folder)
        if match and after_epoch < int(match[1]) < before_epoch:
            files = list_infos(table, folder, recursive=True)
            epochs.update(dict.fromkeys(files, int(match[1])))
            sizes.update({path: info.size or 0 for path, info in files.items()})
    return epochs, sizes


def _ended(table: Table, catalog: Catalog, before_epoch: int) -> Table:
    """The table's current state, if it is the same and epochs below ``before_epoch`` are over."""
    fresh = load_same(table, catalog)
    if newest_epoch(fresh.metadata) < before_epoch:
        name = ".".join(table.name())
        raise StartOverError(f"the table {name} no longer has epoch {before_epoch}: nothing is removed")
    return fresh


def load_same(table: Table, catalog: Catalog) -> Table:
    """The table's current state in ``catalog``; raises StartOverError if it is gone, or is another table."""
    name = ".".join(table.name())
    try:
        with reachable("the catalog"):
            fresh = catalog.load_table(table.name())
    except NoSuchTableError as error:
        raise StartOverError(f"the table {name} no longer exists") from error
    if fresh.metadata.table_uuid != table.metadata.table_uuid:
        raise StartOverError(f"the table {name} was replaced by another one")
    return fresh
