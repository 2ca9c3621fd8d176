"""Drops a table from its catalog, with the files that are certainly its own.

Why this is safe: the catalog confirms first that the table is gone; then nothing can refer to its files. They
are removed only under the claim that every removal needs (``claim_files``), so not those of a table whose
catalog was copied, and only in the table's own folders (``own_files``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from tabletopic_kernel.clients.catalog.catalog import reachable
from tabletopic_kernel.clients.catalog.engine_properties import keeps_versions, maintains_itself
from tabletopic_kernel.clients.storage.claims import claim_of
from tabletopic_kernel.clients.storage.storage import list_infos
from tabletopic_kernel.pipeline.write import epochs_root
from tabletopic_kernel.table.changes.ledger_history import live_rows, summary
from tabletopic_kernel.table.expiry import only_reached_by
from tabletopic_kernel.table.files.own import is_collected, metadata_root, own_files
from tabletopic_kernel.table.sweep import claim_files, load_same, remove_dropped

_SHARED = "gc.enabled is false, or the catalog keeps versions of tables: its files stay"
_SERVICE = "the catalog's service removes its files"


@dataclass(frozen=True)
class TableDrop:
    """What goes with a table: its rows, and its files with their bytes.

    ``outside``: files that stay because they are outside the table's own folders. ``note``: why none of the
    files is removed by this program; empty if they are.
    """

    table: str
    rows: int
    files: int
    bytes: int
    outside: int = 0
    note: str = ""


def plan_drop(table: Table, name: str) -> TableDrop:
    """What ``drop_table`` would remove; ``name``: for people. Raises RetryableError: unreadable."""
    return _planned(table, name)[0]


def drop_table(table: Table, name: str, catalog: Catalog) -> TableDrop:
    """Drop the table as it is now; returns what was removed.

    Raises StartOverError if it is another table by now, or its files belong to another catalog, and
    RetryableError if files could not be removed: the table is gone, and they stay.
    """
    table = claim_files(table, lambda: load_same(table, catalog))
    plan, paths = _planned(table, name)
    with reachable("the catalog"):
        if maintains_itself(catalog.properties):
            catalog.purge_table(table.name())
        else:
            catalog.drop_table(table.name())
    if paths:
        remove_dropped(table, [*paths, claim_of(table.metadata, metadata_root(table.metadata))])
    return plan


def _planned(table: Table, name: str) -> tuple[TableDrop, list[str]]:
    metadata, head = table.metadata, table.metadata.current_snapshot()
    plan = TableDrop(name, live_rows(summary(head)) if head else 0, 0, 0)
    if maintains_itself(table.catalog.properties):
        return replace(plan, note=_SERVICE), []
    if not is_collected(metadata) or keeps_versions(table.catalog.properties):
        return replace(plan, note=_SHARED), []
    reached = only_reached_by(table, {snapshot.snapshot_id for snapshot in metadata.snapshots})
    versions = (table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log))
    named = replace(reached, metadata={**dict.fromkeys(versions, 0), **reached.metadata})
    own, outside = own_files(metadata, named)
    staged = list_infos(table, epochs_root(metadata), recursive=True)
    files = {path: info.size or 0 for path, info in staged.items()} | own
    return replace(plan, files=len(files), bytes=sum(files.values()), outside=outside), sorted(files)
