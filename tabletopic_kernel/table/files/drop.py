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
from tabletopic_kernel.model.errors import RetryableError, StartOverError
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


@dataclass(frozen=True)
class ClaimedTable:
    """A table that may be dropped, and its files."""

    table: Table
    plan: TableDrop
    paths: list[str]


def plan_drop(table: Table, name: str) -> TableDrop:
    """What ``drop_table`` would remove; ``name``: for people. Raises RetryableError: unreadable."""
    return _planned(table, name)[0]


def claim_table(table: Table, name: str, catalog: Catalog) -> ClaimedTable:
    """The table as it is now, if it may be dropped.

    Raises StartOverError if it is another table by now, or its files belong to another catalog.
    """
    if maintains_itself(catalog.properties):
        table = load_same(table, catalog)
    else:
        table = claim_files(table, lambda: load_same(table, catalog))
    return ClaimedTable(table, *_planned(table, name))


def drop_table(claimed: ClaimedTable, catalog: Catalog) -> TableDrop:
    """Drop the table; returns what was removed.

    Raises RetryableError if the catalog does not do it, or if files could not be removed: these stay.
    """
    table = claimed.table
    drop = catalog.purge_table if maintains_itself(catalog.properties) else catalog.drop_table
    try:
        with reachable("the catalog"):
            drop(table.name())
    except RetryableError:
        if not _is_gone(table, catalog):  # else only the answer was lost
            raise
    if claimed.paths:
        try:
            remove_dropped(table, [*claimed.paths, claim_of(table.metadata, metadata_root(table.metadata))])
        except RetryableError as error:
            raise RetryableError(
                f"{claimed.plan.table} is dropped, but files are left below {table.location()}; remove them "
                f"there: {error}"
            ) from error
    return claimed.plan


def _is_gone(table: Table, catalog: Catalog) -> bool:
    try:
        load_same(table, catalog)
    except StartOverError:
        return True
    return False


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
