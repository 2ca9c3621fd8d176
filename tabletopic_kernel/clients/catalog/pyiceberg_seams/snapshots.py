"""The snapshot of a change that removes files or deletes rows.

To be needless, PyIceberg would have to write delete files and delete manifests, and to clean up after a
refused commit on request.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Collection, Mapping
from copy import copy
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from pyiceberg.exceptions import ValidationException
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV2,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _ManifestMergeManager, _OverwriteFiles, _SnapshotProducer
from pyiceberg.typedef import EMPTY_DICT

from tabletopic_kernel.clients.catalog.pyiceberg_seams.manifests import has_files, in_blocks
from tabletopic_kernel.clients.storage.files_to_merge import files_to_merge
from tabletopic_kernel.clients.storage.position_deletes import partition_of, write_positions
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.model.moved_rows import Positions

DELETES = "-deletes.parquet"  # the end of our position delete files' names

_FEW = 4
_MOST_MANIFESTS = 10  # of a change that removes rows
_MUCH_LARGER = 8  # times: such a manifest is not written again; opening one takes DuckDB 3 ms

SnapshotProducer = _SnapshotProducer[Any]


@dataclass(frozen=True)
class SnapshotChange:
    """What one snapshot changes: files to add, files to remove, and rows to delete, by their file's location:
    of files to add, or of ``stay``, which the head has. Their delete files are written into ``folder``.

    ``keeps_rows``: rows of ``add`` are those of ``remove``: Iceberg's "replace", which followers skip.
    """

    ledger: Ledger
    add: tuple[DataFile, ...] = ()
    delete_rows: Mapping[str, Positions] = field(default_factory=dict)
    remove: tuple[DataFile, ...] = ()
    keeps_rows: bool = False
    stay: tuple[DataFile, ...] = ()
    folder: str | None = None  # default: that of the file


def snapshot_of(transaction: Transaction, change: SnapshotChange) -> SnapshotProducer:
    """A change's snapshot on the main branch; raises OSError if the storage refuses a delete file."""
    if not change.remove and not change.delete_rows:
        update = transaction.update_snapshot(snapshot_properties=change.ledger.to_summary())
        producer: SnapshotProducer = update.merge_append()
    else:
        producer = ChangeSnapshot.of(transaction, change)
    for file in change.add:
        producer.append_data_file(file)
    new_writer = producer.new_manifest_writer
    producer.new_manifest_writer = lambda spec: in_blocks(new_writer(spec))  # type: ignore[method-assign]
    _remember_manifests(producer)
    return producer


def _remember_manifests(producer: SnapshotProducer) -> None:
    """Keep the manifests of the snapshot in ``listed``, so that nobody has to read its manifest list."""
    process = producer._process_manifests

    def remembered(manifests: list[ManifestFile]) -> list[ManifestFile]:
        producer.listed = process(manifests)  # type: ignore[attr-defined]
        return producer.listed  # type: ignore[attr-defined,no-any-return]

    producer._process_manifests = remembered  # type: ignore[method-assign]


def metadata_of(
    producer: SnapshotProducer, before: Collection[str], turn: int
) -> tuple[dict[str, int], dict[str, int]]:
    """Manifests that a snapshot wrote, and older ones: ``before``, and with each ``turn`` a few."""
    new: dict[str, int] = dict.fromkeys(producer._written_manifest_lists[-1:], 0)
    old: dict[str, int] = {}
    for manifest in producer.listed:  # type: ignore[attr-defined]
        files = new if manifest.added_snapshot_id == producer.snapshot_id else old
        files[manifest.manifest_path] = manifest.manifest_length
    few = random.Random(turn).sample(list(old), min(_FEW, len(old)))
    return new, {path: old[path] for path in (*few, *before) if path in old}


class _DeletesWriter(ManifestWriterV2):
    """A writer for delete manifests: PyIceberg writes only data manifests."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class ChangeSnapshot(_OverwriteFiles):
    """Removes and adds position delete files along with data files."""

    _keeps_rows = False
    _added_deletes: tuple[DataFile, ...] = ()
    _removed_deletes: tuple[DataFile, ...] = ()

    @classmethod
    def of(cls, transaction: Transaction, change: SnapshotChange) -> ChangeSnapshot:
        """A snapshot of the main branch without the change's new files; raises as ``snapshot_of``."""
        io, properties = transaction._table.io, change.ledger.to_summary()
        snapshot = cls(Operation.OVERWRITE, transaction, io, snapshot_properties=properties)
        snapshot._change_rows(change)
        return snapshot

    def _change_rows(self, change: SnapshotChange) -> None:
        self._keeps_rows = change.keeps_rows
        for file in change.remove:
            if file.content == DataFileContent.DATA:
                self.delete_data_file(file)
            else:
                self._removed_deletes += (file,)
        by_partition: dict[tuple[object, ...], list[DataFile]] = {}
        for file in (*change.add, *change.stay):
            if file.file_path in change.delete_rows:
                by_partition.setdefault(partition_of(file), []).append(file)
        for files in by_partition.values():
            folder = change.folder or files[0].file_path.rpartition("/")[0]
            location = f"{folder}/{uuid.uuid4()}{DELETES}"
            self._written_manifests.append(location)
            positions = {file.file_path: change.delete_rows[file.file_path] for file in files}
            self._added_deletes += (write_positions(self._io, location, files[0], positions),)

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """Few manifests, as every commit of an upsert and every reader opens all: those without files go, and
        small ones are merged; a compaction leaves those of data as they are.
        """
        live = [
            manifest
            for manifest in manifests
            if has_files(manifest) or manifest.added_snapshot_id == self._snapshot_id
        ]
        data = [manifest for manifest in live if manifest.content == ManifestContent.DATA]
        deletes = [manifest for manifest in live if manifest.content == ManifestContent.DELETES]
        specs = {manifest.partition_spec_id for manifest in deletes}
        processed = data if self._keeps_rows else self._merged(data)
        for spec_id in sorted(specs.union(file.spec_id for file in self._added_deletes)):
            of_spec = [manifest for manifest in deletes if manifest.partition_spec_id == spec_id]
            processed = [*processed, *self._with_deletes(spec_id, of_spec)]
        return processed

    def _merged(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        append = self._transaction.update_snapshot().merge_append()  # has what the table's properties say
        sizes = {manifest.manifest_path: manifest.manifest_length for manifest in manifests}
        least = len(sizes) + 1 - min(append._min_count_to_merge, _MOST_MANIFESTS)
        small = set(files_to_merge(sizes, least=least, ratio=_MUCH_LARGER))
        merging = _ManifestMergeManager(append._target_size_bytes, 2, append._merge_enabled, self)
        to_merge = [manifest for manifest in manifests if manifest.manifest_path in small]
        others = [manifest for manifest in manifests if manifest.manifest_path not in small]
        return [*merging.merge_manifests(to_merge), *others]

    def _with_deletes(self, spec_id: int, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """Delete manifests of a spec, with the added files in one that replaces those with removed files."""
        removed = {file.file_path for file in self._removed_deletes}
        added = [file for file in self._added_deletes if file.spec_id == spec_id]
        many = bool(added) and len(manifests) >= _MOST_MANIFESTS
        replaced: dict[str, list[ManifestEntry]] = {}
        for manifest in manifests if removed or many else ():
            entries = manifest.fetch_manifest_entry(self._io, discard_deleted=True)
            if many or any(entry.data_file.file_path in removed for entry in entries):
                replaced[manifest.manifest_path] = entries
        if not replaced and not added:
            return manifests
        with self._deletes_writer(self.spec(spec_id)) as writer:
            for entry in chain.from_iterable(replaced.values()):
                (writer.delete if entry.data_file.file_path in removed else writer.existing)(entry)
            for file in added:
                entry = ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED,
                    snapshot_id=self._snapshot_id,
                    sequence_number=None,
                    file_sequence_number=None,
                    data_file=file,
                )
                writer.add(entry)
        kept = [manifest for manifest in manifests if manifest.manifest_path not in replaced]
        return [*kept, writer.to_manifest_file()]

    def _deletes_writer(self, spec: PartitionSpec) -> ManifestWriter:
        output = self.new_manifest_output()
        writer = _DeletesWriter(spec, self.schema(), output, self._snapshot_id, self._compression)
        return in_blocks(writer)

    def _summary(self, snapshot_properties: dict[str, str] = EMPTY_DICT) -> Summary:
        added, deleted = self._added_data_files, self._deleted_data_files
        self._added_data_files = [*added, *self._added_deletes]
        self._deleted_data_files = deleted | set(self._removed_deletes)
        try:
            summary = super()._summary(snapshot_properties)
        finally:
            self._added_data_files, self._deleted_data_files = added, deleted
        return summary.model_copy(update={"operation": Operation.REPLACE}) if self._keeps_rows else summary

    def _build_manifest_evaluator(self, spec_id: int) -> Callable[[ManifestFile], bool]:
        return thread_safe(super()._build_manifest_evaluator(spec_id))


def thread_safe(evaluate: Callable[[ManifestFile], bool]) -> Callable[[ManifestFile], bool]:
    """PyIceberg's check whether a manifest may have files of the partitions to remove, but thread-safe.

    PyIceberg's own keeps a manifest's bounds in itself while it compares them. A commit that removes files
    checks many manifests concurrently, so one was judged by another's bounds, skipped, and its files reported
    as missing. PyIceberg would have to make an evaluator per call.
    """
    visitor = evaluate.__self__  # type: ignore[attr-defined]  # a bound method
    return lambda manifest: bool(copy(visitor).eval(manifest))


def write(producer: SnapshotProducer) -> None:
    """Write the manifests of a snapshot; ValidationException: a file to remove is no longer there."""
    try:
        producer.commit()
    except ValidationException:
        clean_up(producer)
        raise


def clean_up(producer: SnapshotProducer) -> None:
    """Delete the manifests of a snapshot that is not committed."""
    producer._clean_all_uncommitted()
