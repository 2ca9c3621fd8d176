"""The only place that removes files, with the proof that nobody needs them (I10).

Longer than other modules, as every deletion should be read in one place: nothing else in this package deletes
a table's files. ADR 0015 has the proof and its cost. In short: an epoch that has ended commits no more (I5),
so nobody ever needs a file of it that no snapshot of newer metadata reaches; and nobody can bring back a
removed snapshot. Locations are compared in a normal form, however tables, catalogs and listings spell them.

Entry points: ``sweep`` and ``sweep_finished`` for what finished epochs left, ``remove_expired`` for what
expired snapshots reached, ``remove_orphans`` for old files that nothing names, ``remove_unsent`` for what its
own writer gives up. They are stateless, and work for any history of a table.
"""

from __future__ import annotations

import logging
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadata

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.clients.catalog.engine_properties import keeps_versions
from tabletopic_kernel.clients.storage.claims import claim_folder
from tabletopic_kernel.clients.storage.storage import (
    delete_files,
    list_files,
    list_infos,
    live_files,
    manifests_of,
)
from tabletopic_kernel.model.errors import RetryableError, StartOverError
from tabletopic_kernel.pipeline.write import data_root, epochs_root
from tabletopic_kernel.table.topic_table import ledger_of, newest_epoch, summary

_LOG = logging.getLogger(__name__)

# Schemes of the same kind of storage: a file may be named by any of them.
_SAME = {
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "abfss": "abfs",
    "wasb": "abfs",
    "wasbs": "abfs",
    "viewfs": "hdfs",
}
_ACCOUNT = re.compile(r"(?:abfs|wasb)s?://[^/@]*@([^/]+)", re.IGNORECASE)
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):(?!\\)")


def normal_location(text: str) -> str:
    """The normal form of a location, for comparison: scheme, authority, path.

    Spellings that may name the same file become one; that can keep a file too many, never one too few. The
    path is a key, not a URL: its case and its percent signs stay.

    >>> {normal_location(f"{x}/lake/t/") for x in ("", "file:", "file://", "file:///", "file://localhost")}
    {'file:///lake/t'}
    >>> normal_location("s3a://Bucket//A%20b") == normal_location("s3://bucket/A%20b")
    True
    >>> normal_location("wasbs://lake@acme.blob.core.windows.net/t") == normal_location("abfss://lake/t")
    True
    >>> normal_location("hdfs://nn:8020/x"), normal_location("lake/t")
    ('hdfs:///x', 'file://lake/t')
    """
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else "file"
    scheme = _SAME.get(scheme, scheme)
    rest = text[match.end() :] if match else text
    authority = ""
    if match and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        authority = authority.lower()
        if scheme == "abfs":  # a location may leave out the account
            authority = authority.partition("@")[0]
    if scheme in ("file", "hdfs"):  # of one machine or cluster: with or without its name
        authority = ""
        rest = posixpath.normpath(rest) if rest else rest
    return f"{scheme}://{authority}{re.sub('/+', '/', rest).rstrip('/')}"


def account_of(location: str) -> str:
    """The account in a location on Azure, with its host; empty if it leaves that to the settings.

    >>> account_of("wasbs://lake@Acme.blob.core.windows.net/t"), account_of("abfss://lake/t")
    ('acme.dfs.core.windows.net', '')
    """
    found = _ACCOUNT.match(location)
    return found[1].lower().replace(".blob.", ".dfs.") if found else ""


def file_name(location: str) -> str:
    """The last part of a location.

    >>> file_name("s3://b/x/epoch-00000001/4f.parquet")
    '4f.parquet'
    """
    return location.rstrip("/").rpartition("/")[2]


_EPOCH = re.compile(r"/epoch-(\d+)$")
_OTHERS = re.compile(r"/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/epoch-\d+/")
_GC = "gc.enabled"
_CHUNK = 1_000  # files deleted per load of the table's metadata
_TRIES = 3  # to read metadata while somebody expires its snapshots


@dataclass(frozen=True)
class UnreachableFiles:
    """What only the snapshots ``ids`` of a table reached, by location: ``data`` has data and delete files.

    ``metadata``: their manifests, manifest lists, and statistics. The values are bytes.
    """

    ids: frozenset[int]
    data: Mapping[str, int] = field(default_factory=dict)
    metadata: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Removed:
    """How many ``files`` were removed, and their ``bytes``; ``outside``: kept, as in other folders."""

    files: int = 0
    bytes: int = 0
    outside: int = 0
    paths: tuple[str, ...] = ()

    def __add__(self, other: Removed) -> Removed:
        """The sum of both."""
        return Removed(
            self.files + other.files,
            self.bytes + other.bytes,
            self.outside + other.outside,
            self.paths + other.paths,
        )


def is_collected(metadata: TableMetadata) -> bool:
    """Whether files that no snapshot reaches may be removed: not if others share them (``gc.enabled`` is
    false), nor if the catalog keeps its own versions (``keeps_versions``).
    """
    properties = metadata.properties
    is_on = properties.get(_GC, "true").lower() == "true"  # as Java reads it
    return is_on and not keeps_versions(properties)


def _collected(table: Table, catalog: Catalog) -> Table:
    """The table's current state in the catalog, if it is the same table and its files may be removed."""
    fresh = load_same(table, catalog)
    if not is_collected(fresh.metadata) or keeps_versions(catalog.properties):
        raise StartOverError(
            f"files of {'.'.join(table.name())} stay: gc.enabled is false, or the catalog keeps versions of "
            "tables itself"
        )
    return fresh


def metadata_root(metadata: TableMetadata) -> str:
    """The folder of a table's metadata: manifests, manifest lists, statistics."""
    path = metadata.properties.get(TableProperties.WRITE_METADATA_PATH)
    return (path or f"{metadata.location.rstrip('/')}/metadata").rstrip("/")


def claim_files(table: Table, load: Callable[[], Table]) -> Table:
    """Claim the table's files for its catalog before any is removed; as ``claim_folder``."""
    if not is_collected(table.metadata) or keeps_versions(table.catalog.properties):
        return load()
    return claim_folder(table, metadata_root(table.metadata), load, newest_epoch)


def remove_unsent(table: Table, locations: Sequence[str]) -> int:
    """Delete files that their writer gives up, and that no attempt to commit had; returns how many.

    Files of a failed writer may be truncated, or not exist at all.

    Why this is safe: a staged file's name is a UUID that only its owner knows. What never was in a request to
    the catalog is in no snapshot, nor in any that may still come. Do not pass files of an attempt, however it
    ended: ``sweep`` removes them, once their epoch has ended.

    Raises:
        RetryableError: the storage does not delete them.
    """
    return len(delete_files(table, list(locations)))


def sweep(table: Table, *, after_epoch: int, before_epoch: int, catalog: Catalog | None = None) -> int:
    """Delete files that owners of the epochs in between staged and nobody committed; returns how many.

    Args:
        table: loaded at any time; it identifies the table, newer metadata is loaded here.
        after_epoch: epochs up to this one are skipped.
        before_epoch: an epoch of the table; its files and later ones stay.
        catalog: for callers that sweep while another thread uses the table's own.

    Why this is safe: only files below the table's own uuid are considered, so they are this table's. Their
    epochs have ended: the newest metadata has a ledger of ``before_epoch``, so older ones can never commit
    again, not even an attempt in flight (I5). Whatever any snapshot of that metadata reaches, on any ref or
    none, is kept, by location and by name. That is checked again in metadata loaded right before each
    thousand deletions. Doubt deletes nothing: a manifest that cannot be read, a table that is a different
    one, an epoch that has committed but of whose files none is in use, a catalog that is not the only one to
    name these files, or not the newest state of it (``clients/storage/claims.py``).

    Raises:
        RetryableError: storage or catalog do not respond, a manifest cannot be read, or a file not deleted.
        ActionNeededError: storage or catalog refuse it.
        StartOverError: the table is gone or a different one, or its ledger is of an older epoch.
    """

    def newest() -> Table:
        return _ended(table, catalog or table.catalog, before_epoch)

    return _swept(table, after_epoch, before_epoch, newest).files


def _swept(table: Table, after_epoch: int, before_epoch: int, newest: Callable[[], Table]) -> Removed:
    epochs, sizes = _listed(table, after_epoch, before_epoch)
    candidates = _Candidates(str(table.metadata.table_uuid), epochs)
    if candidates.epochs:
        candidates.keep_reached(newest)
        candidates.keep_doubtful(".".join(table.name()))
    return _remove(table, candidates, sizes, newest)


def remove_expired(table: Table, expired: UnreachableFiles, *, catalog: Catalog | None = None) -> Removed:
    """Delete data and metadata that only expired snapshots reached; returns what was removed.

    Args:
        table: loaded at any time; it identifies the table, newer metadata is loaded here.
        expired: collected before these snapshots were removed from the metadata.
        catalog: for callers that remove while another thread uses the table's own.

    Why this is safe: each file belonged to snapshots of this table that are gone from the newest metadata, so
    nobody can make one of them a branch, a tag or the head again. Whatever any snapshot of that metadata
    reaches is kept, as in ``sweep``, and it is loaded again right before each thousand deletions. A file that
    is staged, or of a commit in flight, was in no snapshot yet, so it is not among these: names of staged
    files are new, and nothing expires while a commit is in doubt. Only files in the table's own folders are
    removed; ``own_files`` separates them from those that other tables may have. Doubt deletes nothing: a
    table that is a different one, snapshots that are still or again there, ``gc.enabled`` that is false, a
    manifest that cannot be read.

    Raises: as ``sweep``.
    """

    def newest() -> Table:
        fresh = _collected(table, catalog or table.catalog)
        if any(snapshot.snapshot_id in expired.ids for snapshot in fresh.metadata.snapshots):
            name = ".".join(table.name())
            raise StartOverError(f"{name} has snapshots that were to expire: their files stay")
        return fresh

    own, outside = own_files(table.metadata, expired)
    candidates = _Candidates(str(table.metadata.table_uuid), dict.fromkeys(own, 0))
    return replace(_remove(table, candidates, own, newest), outside=outside)


def remove_orphans(table: Table, old: UnreachableFiles, *, catalog: Catalog | None = None) -> Removed:
    """Delete files among this table's that nothing in it refers to; returns what was removed.

    Args:
        table: as in ``remove_expired``.
        old: from ``expiry.orphan_candidates``; see there why they are this table's, and why nobody is about
            to use them.
        catalog: as in ``remove_expired``.

    Raises: as ``sweep``.
    """

    own, _ = own_files(table.metadata, old)
    candidates = _Candidates(str(table.metadata.table_uuid), dict.fromkeys(own, 0))
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
    candidates = _Candidates(str(table.metadata.table_uuid), dict.fromkeys(own, 0))
    candidates.keep_reached(lambda: table)
    left = {path: own[path] for path in sorted(candidates.epochs)}
    return Removed(len(left), sum(left.values()), outside, tuple(left))


def orphans_of(table: Table, old: UnreachableFiles) -> dict[str, int]:
    """What ``sweep_finished`` and ``remove_orphans`` would remove, with bytes; removes nothing."""
    epochs, sizes = _listed(table, 0, newest_epoch(table.metadata))
    candidates = _Candidates(str(table.metadata.table_uuid), epochs)
    if epochs:
        candidates.keep_reached(lambda: table)
        candidates.keep_doubtful(".".join(table.name()))
    others = {**old.data, **old.metadata}
    gone = removable(table, old).paths
    return {path: sizes[path] for path in candidates.epochs} | {path: others[path] for path in gone}


def own_files(metadata: TableMetadata, expired: UnreachableFiles) -> tuple[dict[str, int], int]:
    """The files in the table's own folders, with their bytes, and how many are elsewhere.

    Epochs' folders below another uuid belong to another table topic with the same ``write.data.path``. Data
    files outside epochs' folders are this table's only below its location, where it has its data: a
    ``write.data.path`` elsewhere, and other folders below its location, may be shared with other tables.
    """
    location, folder = normal_location(metadata.location), normal_location(data_root(metadata))
    accounts = {"", *map(account_of, (metadata.location, data_root(metadata), metadata_root(metadata)))}
    own_epoch = re.compile(rf"/{re.escape(str(metadata.table_uuid))}/epoch-\d+/")
    below = tuple(f"{root}/" for root in {f"{location}/data", folder} if root.startswith(f"{location}/"))
    of_metadata = f"{normal_location(metadata_root(metadata))}/"
    own = {path: size for path, size in expired.metadata.items() if _lies(path, of_metadata)}
    for path, size in expired.data.items():
        if own_epoch.search(normal_location(path)):
            is_own = _lies(path, f"{location}/", f"{folder}/")
        else:
            is_own = _lies(path, *below) and not _OTHERS.search(normal_location(path))
        if is_own:
            own[path] = size
    if accounts != {""}:  # a copied table names its files by their old location
        own = {path: size for path, size in own.items() if account_of(path) in accounts}
    return own, len(expired.data) + len(expired.metadata) - len(own)


def _lies(path: str, *roots: str) -> bool:
    return normal_location(path).startswith(roots)


def _remove(
    table: Table, candidates: _Candidates, sizes: Mapping[str, int], newest: Callable[[], Table]
) -> Removed:
    """Delete candidates that the newest metadata, reloaded before each thousand, does not reach."""
    gone, trouble = Removed(), None
    for chunk in _chunks(sorted(candidates.epochs)):
        candidates.keep_reached(lambda: claim_files(table, newest))
        try:
            removed = delete_files(table, [path for path in chunk if path in candidates.epochs])
            gone += Removed(len(removed), sum(sizes.get(path, 0) for path in removed), paths=tuple(removed))
        except RetryableError as error:  # a file that cannot be deleted does not stop the others
            trouble = trouble or error
    if trouble is not None:
        raise trouble
    return gone


def _listed(table: Table, after_epoch: int, before_epoch: int) -> tuple[dict[str, int], dict[str, int]]:
    """The files in the folders of the epochs in between: the epoch of each, and the bytes of each.

    Folders next to the table's own, without a uuid, are from versions that named them so: nobody knows whose
    such a file is, so it stays.
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
        raise StartOverError(f"the table {name} has no epoch {before_epoch} any more: nothing is removed")
    return fresh


def load_same(table: Table, catalog: Catalog) -> Table:
    """The table's current state in ``catalog``.

    Raises:
        StartOverError: it is gone, or a different table has its name.
        RetryableError, ActionNeededError: as ``reachable``.
    """
    name = ".".join(table.name())
    try:
        with reachable("the catalog"):
            fresh = catalog.load_table(table.name())
    except NoSuchTableError as error:
        raise StartOverError(f"the table {name} no longer exists: nothing is removed") from error
    if fresh.metadata.table_uuid != table.metadata.table_uuid:
        raise StartOverError(f"the table {name} was replaced by another one: nothing is removed")
    return fresh


class _Candidates:
    """Files that may be removed; ``epochs`` has the remaining ones, with their epoch.

    A file is known by its normal location and by its name alone, which contains a UUID: however a folder is
    spelled, moved or mounted, a file reached under this name stays.
    """

    def __init__(self, table_uuid: str, epochs: dict[str, int]) -> None:
        self.epochs = epochs
        self._by_location = {normal_location(path): path for path in epochs}
        self._by_name: dict[str, list[str]] = {}
        for path in epochs:
            self._by_name.setdefault(file_name(path), []).append(path)
        self._own = re.compile(rf"/{re.escape(table_uuid)}/epoch-(\d+)/")
        self._snapshots: set[int] = set()  # already read
        self._manifests: set[str] = set()
        self._used: set[int] = set()  # epochs with a file in use
        self._committed: set[int] = set()  # epochs that have committed files, by the snapshots

    def keep_reached(self, load: Callable[[], Table]) -> None:
        """Drop candidates that the newest metadata's snapshots reach; reads each manifest once.

        Raises:
            RetryableError: the storage does not respond, or something cannot be read.
        """
        for tries_left in reversed(range(_TRIES)):
            table = load()
            try:
                self._read(table)
                return
            except FileNotFoundError as error:  # has somebody expired the snapshot meanwhile?
                if not tries_left:
                    raise RetryableError(f"{'.'.join(table.name())} cannot be read: {error}") from error
            except OSError as error:
                with reachable("the storage", lent=lends_keys(table)):
                    raise error

    def _read(self, table: Table) -> None:
        metadata, io = table.metadata, table.io
        new = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in self._snapshots]
        for statistics in (*metadata.statistics, *metadata.partition_statistics):
            self._keep(statistics.statistics_path)
        for path in (
            table.metadata_location,
            *(entry.metadata_file for entry in metadata.metadata_log),
        ):
            self._keep(path)
        manifests = manifests_of(io, new)
        for path in (*manifests, *(snapshot.manifest_list for snapshot in new if snapshot.manifest_list)):
            self._keep(path)
        unread = [manifest for path, manifest in manifests.items() if path not in self._manifests]
        for manifest, paths in live_files(io, unread):
            for path in paths:
                self._keep(path)
            self._manifests.add(manifest.manifest_path)
        for snapshot in new:
            if (ledger := ledger_of(snapshot)) and int(summary(snapshot).get("added-data-files", 0)):
                self._committed.add(ledger.epoch)
            self._snapshots.add(snapshot.snapshot_id)

    def _keep(self, reached: str) -> None:
        if match := self._own.search(reached):
            self._committed.add(int(match[1]))
        named = self._by_name.get(file_name(reached), ())
        for path in {*named, *filter(None, [self._by_location.get(normal_location(reached))])}:
            if (epoch := self.epochs.pop(path, None)) is not None:
                self._used.add(epoch)

    def keep_doubtful(self, name: str) -> None:
        """Drop all candidates of an epoch that has committed files but none in use: they may be spelled or
        located differently from the listed ones, so these may be in use, too.

        This includes epochs whose files others have all rewritten or deleted: then some needless files stay.
        """
        for epoch in sorted({*self.epochs.values()} & self._committed - self._used):
            kept = [path for path, of in self.epochs.items() if of == epoch]
            for path in kept:
                del self.epochs[path]
            _LOG.warning(
                "%s: epoch %d has committed, but the table refers to none of its %d files there, so none "
                "was removed. Either the table spells their locations differently, or other programs have "
                "removed them from the table. First: %s",
                name,
                epoch,
                len(kept),
                min(kept),
            )


def _chunks(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(paths), _CHUNK):
        yield paths[start : start + _CHUNK]
