"""Keeps the files that a table's metadata reaches: nobody needs the remaining candidates."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from pyiceberg.table import Table

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.clients.storage.locations import file_name
from tabletopic_kernel.clients.storage.storage import live_files, manifests_of
from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.table.changes.ledger_history import kept_ledger, ledger_of, summary

_LOG = logging.getLogger(__name__)
_TRIES = 3  # to read metadata while somebody expires its snapshots


class Candidates:
    """Files that may be removed, with their epochs; a file that is reached under its name stays.

    The name alone counts, which has a UUID: however a folder is spelled, moved or mounted.
    """

    def __init__(self, table_uuid: str, epochs: dict[str, int]) -> None:
        self.epochs = epochs
        self._by_name: dict[str, list[str]] = {}
        for path in epochs:
            self._by_name.setdefault(file_name(path), []).append(path)
        self._own = re.compile(rf"/{re.escape(table_uuid)}/epoch-(\d+)/")
        self._snapshots: set[int] = set()  # already read
        self._manifests: set[str] = set()
        self._used: set[int] = set()  # epochs with a file in use
        self._committed: set[int] = set()  # epochs that have committed files, by the snapshots

    def keep_reached(self, load: Callable[[], Table]) -> None:
        """Drop candidates that the newest metadata reaches; each manifest is read once."""
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
        manifests = manifests_of(io, new)
        for path in (
            *(file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics)),
            *(table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)),
            *(name for ledger in map(ledger_of, new) if ledger for name in ledger.deleted_keys),
            *(kept.deleted_keys if (kept := kept_ledger(table)) else ()),
            *(*manifests, *(snapshot.manifest_list for snapshot in new if snapshot.manifest_list)),
        ):
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
        for path in self._by_name.get(file_name(reached), ()):
            if (epoch := self.epochs.pop(path, None)) is not None:
                self._used.add(epoch)

    def keep_doubtful(self, name: str) -> None:
        """Drop all candidates of an epoch that has committed files but none in use.

        The table may spell locations differently, so these may be in use, too. Needless files stay if others
        have rewritten or deleted all files of the epoch.
        """
        for epoch in sorted({*self.epochs.values()} & self._committed - self._used):
            paths = [path for path, owner_epoch in self.epochs.items() if owner_epoch == epoch]
            for path in paths:
                del self.epochs[path]
            _LOG.warning(
                "%s: epoch %d has committed, but the table refers to none of its %d files there, so none "
                "was removed. Either the table spells their locations differently, or other programs have "
                "removed them from the table. First: %s",
                name,
                epoch,
                len(paths),
                min(paths),
            )
