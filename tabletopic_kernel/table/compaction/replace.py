"""When files may replace others, and what happens to deletes that arrive meanwhile.

Why a compaction neither loses nor revives a row: right before its commit, freshly loaded metadata is checked.
Each file to be replaced must still be in the head, so nobody has deleted or rewritten its rows as a whole; no
file may be there twice, so nobody has added its rows again; and rows that were left out must still be
deleted, so nobody has undone that. Delete files that are newer than the plan are read: positions in replaced
files are translated to positions in the new one, and deleted there in the same snapshot. If not all readers
apply such a file, or if it deletes by value, the compaction is given up and planned again. The request
asserts the head that was checked (I3).

The snapshot removes a delete file if all data files that it names are removed, or were before.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pyiceberg.expressions.visitors import manifest_evaluator
from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import snapshot as pyiceberg_snapshot
from pyiceberg.table.update.snapshot import _OverwriteFiles
from pyiceberg.typedef import EMPTY_DICT

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.clients.storage.position_deletes import mark_deleted, write_positions
from tabletopic_kernel.model.errors import OutdatedError
from tabletopic_kernel.model.moved_rows import Mask, MovedRows, Positions
from tabletopic_kernel.pipeline.plan import Replaced
from tabletopic_kernel.table.compaction.deleted_rows import DeletedRows, DeleteFile, Head, name_of
from tabletopic_kernel.table.compaction.plan import refusal

DELETES = "-deletes.parquet"  # the end of our position delete files' names


@dataclass(frozen=True)
class DeleteChanges:
    """Changes to deletes: rows of new files to delete, by location, and delete files to remove."""

    positions: dict[str, Positions] = field(default_factory=dict)
    removed: tuple[DataFile, ...] = ()


def check_replaced(table: Table, replaced: Replaced) -> DeleteChanges:
    """Check that files may replace others in the head of ``table``, which was just loaded.

    Raises:
        OutdatedError: what was read is no longer what the table has.
        RetryableError, ActionNeededError: as ``reachable``.
    """
    name = ".".join(table.name())
    if any(file.spec_id != table.metadata.default_spec_id for file in replaced.files):
        raise OutdatedError(f"the partitions of {name} were changed during the compaction")
    with reachable("the storage", lent=lends_keys(table)):
        head = Head(table)
    if gone := [file for file in replaced.files if file.file_path not in head.paths]:
        raise OutdatedError(
            f"another program has rewritten or deleted {len(gone)} files of {name} during the compaction"
        )
    if head.has_twice:
        raise OutdatedError(f"another program has added files of {name} again during the compaction")
    if (why := refusal(table, head)) is not None:
        raise OutdatedError(f"another program has changed {name} during the compaction: {why}")
    with reachable("the storage", lent=lends_keys(table)):
        try:
            found, positions = _late(table, head, replaced)
        except FileNotFoundError as error:
            raise OutdatedError(f"a delete file of {name} is gone: {error}") from error
    named = dict(replaced.applied) | {one.location: frozenset(one.positions or ()) for one in found}
    return DeleteChanges(positions, _removable(head, replaced, named))


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
    going = {file.file_path for file in replaced.files}
    data = [entry for entry in head.data if entry.data_file.file_path in going]
    deleted_rows = DeletedRows(table.io, head, new)
    for entry in data:
        deleted_rows.read(deleted_rows.may_apply(entry))
    moved = {one.path: one for one in replaced.moved}
    found: dict[str, DeleteFile] = {}
    applies: dict[str, set[str]] = {}
    masks: dict[str, Mask] = {}
    for entry in data:
        path, deleted = entry.data_file.file_path, deleted_rows.of(entry)
        if deleted.doubtful or (deleted.files and path not in moved):
            raise OutdatedError(f"another program has deleted rows of {name} during the compaction")
        if deleted.files or (some_gone and path in moved):
            masks[path] = np.zeros(moved[path].rows, np.bool_)
        for one in deleted.files:
            found[one.location] = one
            applies.setdefault(one.location, set()).add(path)
    mark_deleted(table.io, applies, masks)
    if some_gone and any((moved[path].mask & ~mask).any() for path, mask in masks.items()):
        raise OutdatedError(f"another program has undone deletes of {name} during the compaction")
    return tuple(found.values()), _translated(moved, masks)


def _translated(moved: Mapping[str, MovedRows], deleted: Mapping[str, Mask]) -> dict[str, Positions]:
    """Rows of replaced files as rows of the new ones, ascending; OutdatedError if they cannot be mapped."""
    products: dict[str, list[Positions]] = {}
    for path, mask in deleted.items():
        translated = moved[path].translated(np.flatnonzero(mask))
        if translated is None:
            raise OutdatedError(f"rows of {path} were deleted while it was sorted")
        for product, positions in translated.items():
            products.setdefault(product, []).append(positions)
    return {product: np.unique(np.concatenate(found)) for product, found in products.items()}


def _removable(head: Head, replaced: Replaced, named: dict[str, frozenset[str]]) -> tuple[DataFile, ...]:
    """Delete files that will apply to no remaining data file; ``named``: the data files that each names."""
    stays = head.paths - {file.file_path for file in replaced.files}
    names = {name_of(path) for path in stays}
    return tuple(
        entry.data_file
        for entry in head.deletes
        if entry.data_file.file_path in named
        and not names & {name_of(path) for path in named[entry.data_file.file_path]}
    )


class _DeletesWriter(ManifestWriterV2):
    """A writer for delete manifests: PyIceberg writes only data manifests."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class ReplaceFiles(_OverwriteFiles):
    """Replaces files by others with the same rows: readers that follow the table need not read these.

    Removes and adds position delete files along with them; PyIceberg's own snapshots leave those unchanged.
    """

    _added_deletes: tuple[DataFile, ...] = ()
    _removed_deletes: tuple[DataFile, ...] = ()

    @classmethod
    def of(cls, transaction: Transaction, properties: dict[str, str]) -> ReplaceFiles:
        """A new, still empty snapshot of the main branch."""
        io = transaction._table.io
        return cls(Operation.OVERWRITE, transaction, io, snapshot_properties=properties)

    def change_deletes(self, changes: DeleteChanges, files: Iterable[DataFile]) -> None:
        """Remove delete files, and delete rows of the new ``files``.

        The files written for that are cleaned up like the manifests of a commit that the catalog refuses.

        Raises:
            OSError: the storage did not accept them.
        """
        self._removed_deletes = changes.removed
        for file in files:
            if (positions := changes.positions.get(file.file_path)) is None:
                continue
            location = f"{file.file_path.rpartition('/')[0]}/{uuid.uuid4()}{DELETES}"
            self._written_manifests.append(location)
            self._added_deletes += (write_positions(self._io, location, file, positions),)

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        removed = {file.file_path for file in self._removed_deletes}
        processed: list[ManifestFile] = []
        for manifest in super()._process_manifests(manifests):
            entries = []
            if removed and manifest.content == ManifestContent.DELETES:
                entries = manifest.fetch_manifest_entry(self._io, discard_deleted=True)
            if not any(entry.data_file.file_path in removed for entry in entries):
                processed.append(manifest)
                continue
            with self._deletes_writer(self.spec(manifest.partition_spec_id)) as writer:
                for entry in entries:
                    how = writer.delete if entry.data_file.file_path in removed else writer.existing
                    how(entry)
            processed.append(writer.to_manifest_file())
        if self._added_deletes:
            with self._deletes_writer(self._transaction.table_metadata.spec()) as writer:
                for file in self._added_deletes:
                    entry = ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED,
                        snapshot_id=self._snapshot_id,
                        sequence_number=None,
                        file_sequence_number=None,
                        data_file=file,
                    )
                    writer.add(entry)
            processed.append(writer.to_manifest_file())
        return processed

    def _deletes_writer(self, spec: PartitionSpec) -> _DeletesWriter:
        output = self.new_manifest_output()
        return _DeletesWriter(spec, self.schema(), output, self._snapshot_id, self._compression)

    def _summary(self, snapshot_properties: dict[str, str] = EMPTY_DICT) -> Summary:
        added, deleted = self._added_data_files, self._deleted_data_files
        self._added_data_files = [*added, *self._added_deletes]
        self._deleted_data_files = deleted | set(self._removed_deletes)
        try:
            summary = super()._summary(snapshot_properties)
        finally:
            self._added_data_files, self._deleted_data_files = added, deleted
        return summary.model_copy(update={"operation": Operation.REPLACE})


def _thread_safe_evaluator(*arguments: Any) -> Callable[[ManifestFile], bool]:
    """PyIceberg's check whether a manifest may have files of the partitions to remove, but thread-safe.

    PyIceberg's own keeps a manifest's bounds in itself while it compares them. A commit that removes files
    checks many manifests concurrently, so one was judged by another's bounds, skipped, and its files reported
    as missing.
    """
    visitor = manifest_evaluator(*arguments).__self__  # type: ignore[attr-defined]  # a bound method
    return lambda manifest: bool(copy(visitor).eval(manifest))


pyiceberg_snapshot.manifest_evaluator = _thread_safe_evaluator  # type: ignore[assignment,attr-defined]
