"""The change of an upsert: new rows, and which rows these and deletes replace, in the same snapshot.

Why no key has two rows, and none a row that is older than what was read of it: right before the commit, the
head that its request asserts is searched for each key that is written or deleted (I3). If the head moves, it
is searched again. What the table cannot show, a key that was deleted, is in the files that the ledger names
(``remembered``), in the same snapshot as everything else (I2), so a new owner has it, and a rollback too.

Delete files of a partition are merged in the same snapshot, but for those that are much larger than its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, ManifestEntry
from pyiceberg.partitioning import PartitionField
from pyiceberg.table import Table
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import DateType, IntegerType, LongType, TimestampType, TimestamptzType, TimeType

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.clients.storage.files_to_merge import files_to_merge
from tabletopic_kernel.clients.storage.position_deletes import partition_of
from tabletopic_kernel.model.columns.upsert_columns import UpsertColumns
from tabletopic_kernel.model.ledger import CLOCK_TOLERANCE_MS, Ledger, added
from tabletopic_kernel.model.moved_rows import Positions
from tabletopic_kernel.pipeline.arrange import partition_values
from tabletopic_kernel.pipeline.transform.deletes import deletes_schema
from tabletopic_kernel.pipeline.write import DataFileWriter, KeysWriter, epoch_folder, epochs_root
from tabletopic_kernel.table.changes.change import TableChange, checked_columns
from tabletopic_kernel.table.changes.ledger_history import key_file_name, locations
from tabletopic_kernel.table.changes.upsert.kept_values import with_kept_values
from tabletopic_kernel.table.changes.upsert.leaves import LiveRows, PartitionKey, read_rows
from tabletopic_kernel.table.changes.upsert.lookup import open_lookup
from tabletopic_kernel.table.changes.upsert.staged import (
    Upsert,
    files_before,
    read_as_staged,
    remembered_rows,
    staged_rows,
)
from tabletopic_kernel.table.dead_letters import LetterTable
from tabletopic_kernel.table.topic_table import TopicTable

MOST_FILES: Final = 8  # delete files of a partition, and files with deleted keys; more are merged
_MUCH_LARGER: Final = 8  # times: such a delete file is not written again
_WHOLE = (IntegerType, LongType, DateType, TimeType, TimestampType, TimestamptzType)


def upserted(ledger: Ledger, upsert: Upsert) -> TableChange:
    """Rows that replace those of their keys, and keys that are deleted, which the ledger remembers."""
    return TableChange(ledger, upsert.files, still_true=lambda table, change: _on_head(upsert, table, change))


def _on_head(upsert: Upsert, table: Table, change: TableChange) -> TableChange:
    """The change with the positions of all rows that it replaces."""
    checked_columns(table, change)
    if not upsert.files and not upsert.deletes:
        return change
    columns = upsert.columns(table)
    with reachable("the storage", lent=lends_keys(table)):
        live = LiveRows(table)
        files = [*upsert.files, *(entry.data_file for entry in live.head.data)]
        before = files_before(upsert, locations(table, change.ledger))
        with open_lookup(columns) as lookup:
            superseded = lookup.superseded(
                staged_rows(table, upsert, columns),
                remembered_rows(table, upsert, columns, change.ledger, before),
                partial(live_rows, table, len(upsert.files), columns, live),
            )
            staged = len(upsert.files)
            changes = added(change.ledger.changes, _counted(upsert, superseded, lookup.updated(staged)))
            change = replace(change, ledger=replace(change.ledger, changes=changes))
            if upsert.unavailable:
                ids = upsert.unavailable
                parts, superseded = with_kept_values(table, files, staged, ids, superseded, lookup)
                change = _with_rows(table, change, parts)
        positions = {files[index].file_path: rows for index, rows in superseded.items()}
        merged, removed = _merged(live, files, positions)
    stay = tuple(file for file in files[len(upsert.files) :] if file.file_path in merged)
    folder = f"{epochs_root(table.metadata)}/{epoch_folder(change.ledger.epoch)}"
    return replace(change, delete_rows=merged, remove=removed, stay=stay, folder=folder)


def _counted(upsert: Upsert, superseded: Mapping[int, Positions], updated: int) -> dict[str, int]:
    """What becomes of rows: how many there are more, others, and fewer."""
    staged = len(upsert.files)
    removed = sum(len(rows) for index, rows in superseded.items() if index >= staged)
    written = sum(file.record_count for file in upsert.files)
    written -= sum(len(rows) for index, rows in superseded.items() if index < staged)
    counts = {"insert": max(written - updated, 0), "update": updated, "delete": removed - updated}
    return {change: count for change, count in counts.items() if count}


def _with_rows(table: Table, change: TableChange, parts: Iterable[pa.Table]) -> TableChange:
    """The change that adds some more rows."""
    plan = TopicTable(table).plan()
    writer = DataFileWriter(plan.metadata, plan.io_properties, change.ledger.epoch)
    files = [file for rows in parts for file in writer.write(rows)]
    return replace(change, add=(*change.add, *files))


def live_rows(
    table: Table, first: int, columns: UpsertColumns, live: LiveRows, keys: pa.Table | None
) -> Iterator[pa.RecordBatch]:
    """The live rows of all files that may have one of the keys; None: of all files."""
    may_have = _Files(table, columns, keys)
    for index, entry in enumerate(live.head.data, first):
        path = entry.data_file.file_path
        if keys is None or may_have.keys_of(entry.data_file):
            deleted = live.deleted_of(partition_of(entry.data_file)).get(path)
            yield from read_rows(table.io, path, columns, index, deleted, keys)


class _Files:
    """Which data files may have rows of some keys: all, unless a partition field's values come from the key,
    or the manifest's bounds of a column of the key exclude them.
    """

    def __init__(self, table: Table, columns: UpsertColumns, keys: pa.Table | None) -> None:
        self._specs, self._keys = table.specs(), keys
        self._key = {leaf.field_id: leaf for leaf in columns.key}
        self._values: dict[tuple[int, str], set[Any]] = {}
        self._ranges = dict(self._ranges_of(keys, columns)) if keys is not None else {}

    def keys_of(self, file: DataFile) -> bool:
        """Whether a file may have one."""
        return self._are_within(file) and all(
            file.partition[at] in self._values_of(field)
            for at, field in enumerate(self._specs[file.spec_id].fields)
            if field.source_id in self._key and not isinstance(field.transform, VoidTransform)
        )

    def _are_within(self, file: DataFile) -> bool:
        lower, upper = file.lower_bounds or {}, file.upper_bounds or {}
        return all(
            int.from_bytes(lower[at], "little", signed=True) <= last
            and first <= int.from_bytes(upper[at], "little", signed=True)
            for at, (first, last) in self._ranges.items()
            if at in lower and at in upper
        )

    @staticmethod
    def _ranges_of(keys: pa.Table, columns: UpsertColumns) -> Iterator[tuple[int, tuple[int, int]]]:
        """The least and largest value by field id, of columns whose bounds are whole numbers: also of int
        columns that are long now. Null is within no bounds.
        """
        for leaf in columns.key:
            column = keys.column(f"column_{leaf.field_id}")
            if isinstance(leaf.kind, _WHOLE) and len(column) and not column.null_count:
                numbers = column.cast(pa.int32()) if isinstance(leaf.kind, DateType) else column
                least = pc.min_max(numbers.cast(pa.int64()))
                yield leaf.field_id, (least["min"].as_py(), least["max"].as_py())

    def _values_of(self, field: PartitionField) -> set[Any]:
        name = field.source_id, str(field.transform)
        if name not in self._values:
            leaf = self._key[field.source_id]
            assert self._keys is not None
            kind = schema_to_pyarrow(leaf.kind)
            column = self._keys.column(f"column_{leaf.field_id}").cast(_castable(kind))
            typed = _typed(column, kind).combine_chunks()
            self._values[name] = partition_values(typed, field, leaf.kind)
        return self._values[name]


def _merged(
    live: LiveRows, files: Iterable[DataFile], positions: Mapping[str, Positions]
) -> tuple[dict[str, Positions], tuple[DataFile, ...]]:
    """The positions, with those of small delete files of their partitions, and these files.

    Readers collect positions in a hash table, where those that came in order are next to one another.
    """
    of_files = {file.file_path: partition_of(file) for file in files}
    rows = Counter[PartitionKey]()
    for path, of_file in positions.items():
        rows[of_files[path]] += len(of_file)
    merged, removed = dict(positions), list[ManifestEntry]()
    for partition, count in rows.items():
        deletes = {entry.data_file.file_path: entry for entry in live.deletes_of(partition)}
        sizes = {path: entry.data_file.record_count for path, entry in deletes.items()}
        chosen = files_to_merge(sizes, count, least=len(sizes) - MOST_FILES + 1, ratio=_MUCH_LARGER)
        small = [deletes[path] for path in chosen]
        for path, mask in live.deleted_by(small).items():
            mask[positions.get(path, [])] = True
            merged[path] = np.flatnonzero(mask)
        removed += small
    return merged, tuple(entry.data_file for entry in removed)


def remembering(table: Table, ledger: Ledger, deletes: Iterable[DataFile]) -> Ledger:
    """The ledger that names files with deleted keys, too."""
    names = (key_file_name(table, file.file_path) for file in deletes)
    return replace(ledger, deleted_keys=(*ledger.deleted_keys, *names))


def with_fewer_files(
    table: Table, change: TableChange, upsert: Upsert, newest_ms: Mapping[int, int], letters: LetterTable
) -> TableChange:
    """The change whose ledger names one file instead of several small ones, without what is forgotten.

    A deleted key is forgotten once nothing older can arrive, nor is in this commit: by ``newest_ms``, that of
    the ledger before, all partitions were read to a newer timestamp, and there are no dead ``letters``, which
    a replay could bring. By the settings none is.
    """
    ledger = change.ledger
    if len(ledger.deleted_keys) <= MOST_FILES:
        return change
    columns = upsert.columns(table)
    oldest = min((newest_ms.get(p, 0) for p in ledger.next_offsets), default=0)
    keeps_all = upsert.settings.deleted_keys == "forever"
    keeps_all = keeps_all or (letters.table is not None and bool(letters.tasks(AlwaysTrue())))
    since_us = None if keeps_all else (oldest - CLOCK_TOLERANCE_MS) * 1000
    paths = locations(table, ledger)
    with reachable("the storage", lent=lends_keys(table)), open_lookup(columns) as lookup:
        small = files_to_merge(_sizes(table, paths), least=max(2, len(paths) - MOST_FILES + 1))
        kept = lookup.newest_deletes(_small_rows(table, upsert, columns, ledger, small), since_us)
    target = deletes_schema(columns)
    arrays = [kept.column(field.name).cast(_castable(field.type)) for field in target]
    whole = pa.table(
        [_typed(column, field.type) for column, field in zip(arrays, target, strict=True)], target
    )
    writer = KeysWriter(table.io, f"{epochs_root(table.metadata)}/{epoch_folder(ledger.epoch)}")
    files = writer.write(whole) if len(whole) else []
    large = tuple(name for name, path in zip(ledger.deleted_keys, paths, strict=True) if path not in small)
    return replace(change, ledger=remembering(table, replace(ledger, deleted_keys=large), files))


def _small_rows(
    table: Table, upsert: Upsert, columns: UpsertColumns, ledger: Ledger, paths: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    before = set(files_before(upsert, paths))
    yield from remembered_rows(table, upsert, columns, ledger, [path for path in paths if path in before])
    with read_as_staged(table):
        for path in paths:
            if path not in before:
                yield from read_rows(table.io, path, columns, None)


def _sizes(table: Table, paths: Sequence[str]) -> dict[str, int]:
    sizes = dict.fromkeys(paths, 0)
    for path in paths:
        with suppress(FileNotFoundError):
            sizes[path] = len(table.io.new_input(path))
    return sizes


def _castable(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _typed(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if not isinstance(kind, pa.BaseExtensionType):
        return column
    return pa.chunked_array([pa.ExtensionArray.from_storage(kind, chunk) for chunk in column.chunks], kind)
