"""Removal of data files that no snapshot refers to (I10)."""

from __future__ import annotations

import re

from pyiceberg.table import Table

from tabletopic_kernel.adapters.catalog import delete_files, list_files, reachable
from tabletopic_kernel.adapters.datafiles import data_root
from tabletopic_kernel.core.ledger import Ledger

_EPOCH = re.compile(r"/epoch-(\d+)$")


def sweep(table: Table, *, after_epoch: int, before_epoch: int) -> int:
    """Delete what owners of the epochs in between staged and nobody committed; returns how many files.

    Both ends are exclusive. Safe while the owner of ``before_epoch`` works: older epochs can never
    commit again (I5), and files in them that some snapshot refers to stay.

    Raises:
        RetryableError: storage or catalog do not answer.
    """
    folders = []
    for folder in list_files(table, data_root(table.metadata), recursive=False):
        match = _EPOCH.search(folder)
        if match and after_epoch < int(match[1]) < before_epoch:
            folders.append(folder)
    candidates = {path for folder in folders for path in list_files(table, folder, recursive=True)}
    if not candidates:
        return 0
    with reachable("the storage"):
        kept = _referenced(table, after_epoch)
    return delete_files(table, sorted(candidates - kept))


def _referenced(table: Table, after_epoch: int) -> set[str]:
    """Data files that any snapshot refers to, of those staged after ``after_epoch``.

    Such files were added by snapshots of later epochs, so older manifests need not be read.
    """
    snapshots = table.metadata.snapshots
    firsts = [
        snapshot.sequence_number or 0
        for snapshot in snapshots
        if (
            ledger := Ledger.from_summary(
                dict(snapshot.summary.additional_properties) if snapshot.summary else {}
            )
        )
        and ledger.epoch > after_epoch
    ]
    first = min(firsts, default=0)
    paths: set[str] = set()
    read: set[str] = set()
    for snapshot in snapshots:
        if (snapshot.sequence_number or 0) < first:
            continue
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path in read or manifest.sequence_number < first:
                continue
            read.add(manifest.manifest_path)
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
            paths.update(_normal(entry.data_file.file_path) for entry in entries)
    return paths


def _normal(path: str) -> str:
    """Spark writes file:/x where PyIceberg writes file:///x."""
    return re.sub(r"^file:/+", "file:///", path)
