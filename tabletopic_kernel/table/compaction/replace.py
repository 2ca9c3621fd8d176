"""When files may replace others, and what happens to deletes that arrive meanwhile.

Why a compaction neither loses nor revives a row: right before its commit, freshly loaded metadata is checked.
Each file to be replaced must still be in the head, so nobody has deleted or rewritten its rows as a whole; no
file may be there twice, so nobody has added its rows again; and rows that were left out must still be
deleted, so nobody has undone that. Delete files that are newer than the plan are read: positions in replaced
files are translated to positions in the new one, and deleted there in the same snapshot. If not all readers
apply such a file, or if it deletes by value, the compaction is given up and planned again. The request
asserts the head that was checked (I3).

The snapshot also removes the delete files of replaced files: live rows are the rows of data files less the
positions of delete files (``live_rows``). Positions in files that stay are written again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace as dataclass_replace
from functools import partial

import numpy as np
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.clients.storage.locations import file_name
from tabletopic_kernel.clients.storage.position_deletes import mark_deleted
from tabletopic_kernel.model.errors import OutdatedError
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.model.moved_rows import Mask, MovedRows, Positions
from tabletopic_kernel.pipeline.plan import Replaced
from tabletopic_kernel.pipeline.write import epoch_folder, epochs_root
from tabletopic_kernel.table.changes.change import TableChange
from tabletopic_kernel.table.compaction.deleted_rows import DeletedRows, DeleteFile, Head
from tabletopic_kernel.table.compaction.plan import refusal


def compacted(ledger: Ledger, files: Iterable[DataFile], replaced: Replaced) -> TableChange:
    """``files`` with the rows of those ``replaced``, also of columns that others have dropped meanwhile."""
    return TableChange(
        ledger, tuple(files), remove=replaced.files, keeps_rows=True, still_true=partial(_on_head, replaced)
    )


def _on_head(replaced: Replaced, table: Table, change: TableChange) -> TableChange:
    """The change with translated deletes; OutdatedError if its files cannot replace others in the head."""
    name = ".".join(table.name())
    if any(file.spec_id != table.metadata.default_spec_id for file in replaced.files):
        raise OutdatedError(f"the partitions of {name} were changed during the compaction")
    with reachable("the storage", lent=lends_keys(table)):
        head = Head(table)
    if missing := [file for file in replaced.files if file.file_path not in head.paths]:
        raise OutdatedError(
            f"another program has rewritten or deleted {len(missing)} files of {name} during the compaction"
        )
    if head.has_twice:
        raise OutdatedError(f"another program has added files of {name} again during the compaction")
    if (reason := refusal(table, head)) is not None:
        raise OutdatedError(f"another program has changed {name} during the compaction: {reason}")
    with reachable("the storage", lent=lends_keys(table)):
        try:
            late, positions = _late(table, head, replaced)
            named = dict(replaced.applied) | {file.location: frozenset(file.positions or ()) for file in late}
            removed, stay, kept = _without(table, head, replaced, named)
        except FileNotFoundError as error:
            raise OutdatedError(f"a delete file of {name} is gone: {error}") from error
    return dataclass_replace(
        change,
        delete_rows=positions | kept,
        remove=(*replaced.files, *removed),
        stay=stay,
        folder=f"{epochs_root(table.metadata)}/{epoch_folder(change.ledger.epoch)}",
    )


def _late(table: Table, head: Head, replaced: Replaced) -> tuple[Sequence[DeleteFile], dict[str, Positions]]:
    """Newer delete files of the files to be replaced, and what they delete in the new files.

    If a delete file that the rewrite applied is gone, all are read: Spark merges a file's older deletes into
    a new delete file, but somebody may also have undone them.
    """
    name = ".".join(table.name())
    some_gone = bool(replaced.applied.keys() - head.delete_files)
    new = [
        entry for entry in head.deletes if some_gone or entry.data_file.file_path not in replaced.delete_files
    ]
    if not new and not some_gone:
        return (), {}
    replaced_paths = {file.file_path for file in replaced.files}
    data = [entry for entry in head.data if entry.data_file.file_path in replaced_paths]
    deleted_rows = DeletedRows(table.io, head, new)
    for entry in data:
        deleted_rows.read(deleted_rows.may_apply(entry))
    moved = {rows.path: rows for rows in replaced.moved}
    by_location: dict[str, DeleteFile] = {}
    applies: dict[str, set[str]] = {}
    masks: dict[str, Mask] = {}
    for entry in data:
        path, deleted = entry.data_file.file_path, deleted_rows.of(entry)
        if deleted.doubtful or (deleted.files and path not in moved):
            raise OutdatedError(f"another program has deleted rows of {name} during the compaction")
        if deleted.files or (some_gone and path in moved):
            masks[path] = np.zeros(moved[path].rows, np.bool_)
        for delete_file in deleted.files:
            by_location[delete_file.location] = delete_file
            applies.setdefault(delete_file.location, set()).add(path)
    mark_deleted(table.io, applies, masks)
    if some_gone and any((moved[path].mask & ~mask).any() for path, mask in masks.items()):
        raise OutdatedError(f"another program has undone deletes of {name} during the compaction")
    return tuple(by_location.values()), _translated(moved, masks)


def _translated(moved: Mapping[str, MovedRows], deleted: Mapping[str, Mask]) -> dict[str, Positions]:
    """Rows of replaced files as rows of the new ones, ascending; OutdatedError if they cannot be mapped."""
    products: dict[str, list[Positions]] = {}
    for path, mask in deleted.items():
        translated = moved[path].translated(np.flatnonzero(mask))
        if translated is None:
            raise OutdatedError(f"rows of {path} were deleted while it was sorted")
        for product, positions in translated.items():
            products.setdefault(product, []).append(positions)
    return {product: np.unique(np.concatenate(parts)) for product, parts in products.items()}


def _without(
    table: Table, head: Head, replaced: Replaced, named: Mapping[str, frozenset[str]]
) -> tuple[list[DataFile], tuple[DataFile, ...], dict[str, Positions]]:
    """The delete files to remove, and the data files that stay with the positions that these have of them.

    ``named``: the data files that each delete file of the replaced ones names. One that not all readers apply
    to a file that stays is not removed: all would apply the new one.
    """
    gone = {file.file_path for file in replaced.files}
    stay = {path: entry for entry in head.data if (path := entry.data_file.file_path) not in gone}
    names = {file_name(path) for path in stay}
    removed: list[DataFile] = []
    applies: dict[str, set[str]] = {}
    for entry in head.deletes:
        paths = named.get(entry.data_file.file_path, frozenset())
        delete_file, kept = DeleteFile(entry, Counter(paths)), {p for p in paths if file_name(p) in names}
        if paths and all(path in stay and delete_file.is_exact(stay[path]) for path in kept):
            removed.append(entry.data_file)
            applies |= {delete_file.location: kept} if kept else {}
    masks = {
        path: np.zeros(stay[path].data_file.record_count, np.bool_) for path in set().union(*applies.values())
    }
    mark_deleted(table.io, applies, masks)
    positions = {path: np.flatnonzero(mask) for path, mask in masks.items() if mask.any()}
    return removed, tuple(stay[path].data_file for path in positions), positions
