"""Which files of a table a compaction merges.

Files are chosen by size tiers: 32 files of one partition and tier are due, or 4 if merging all such saves
1,000 files. The files that 32 become are at least two tiers higher, so a byte is rewritten two or three times
until its file has the table's target size. A file with more than a fifth of its rows deleted is due by
itself. So are all files with deleted rows in a partition with more than 8 delete files; for a file above the
target size, which is rewritten alone, only its own delete files count. A file is touched only if everything
about it is known: Parquet, unencrypted, of the table's partition spec, with no deletes except those by
position that all readers apply (``deleted_rows``). In a table with a sort order, files may have any order or
none, and become files of that order; in a table without, files that somebody has sorted stay as they are.

A compaction that a person asks for completes files of any size that lack a field inside a list or map
(``model/columns/missing_fields.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.expressions import BooleanExpression
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.model.columns.conditions import read_condition
from tabletopic_kernel.model.columns.missing_fields import partial_versions
from tabletopic_kernel.model.columns.sort_orders import order_without_lost
from tabletopic_kernel.model.ledger import added
from tabletopic_kernel.pipeline.arrange import sort_order
from tabletopic_kernel.table.compaction.deleted_rows import Deleted, DeletedRows, Head
from tabletopic_kernel.table.compaction.group import Group

MIN_FILES = 32  # this many small files of one partition and tier are due
# In this many partitions, a few are: what was written for many partitions at once never comes to 32.
SPREAD_FILES, SPREAD_SAVES = 4, 1_000
MAX_DELETE_FILES = 8  # per partition; with more, all of its files with deleted rows are due
DELETED_SHARE = 0.2  # of a file's rows; with more, it is due by itself
_TIER = 8  # the ratio of file sizes between a tier and the tier below
_SMALL = 4  # files below the target size divided by this are small
_GROUP_BYTES = 128 * 1024**2  # read by one task
_SORTED_BYTES = 32 * 1024**2  # the same, if its rows are sorted in memory: some 200 MB of Arrow
_Partition = tuple[str, tuple[bool, ...]]  # as text, and which of its values are null
_SUPPORTED_VERSION = 2  # rows of version 3 have ids, which PyIceberg cannot keep


@dataclass(frozen=True)
class CompactionPlan:
    """What a compaction would merge.

    ``files`` counts all data files of the head, ``delete_files`` has the locations of its delete files.
    ``left`` counts files that stay as they are, by reason; ``refused``: why no file may be touched at all.
    """

    groups: tuple[Group, ...] = ()
    files: int = 0
    delete_files: frozenset[str] = frozenset()
    left: dict[str, int] = field(default_factory=dict)
    refused: str | None = None


def rows_where(where: str | None, schema: Schema) -> BooleanExpression | None:
    """A condition on the columns of a table; None for none. Raises as ``read_condition``."""
    hint = (
        "Write conditions on the columns of the table, for example event_time >= '2026-01-01T00:00:00+00:00'"
    )
    return read_condition(where, schema, hint)


def plan_compaction(
    table: Table, *, where: BooleanExpression | None = None, due_only: bool = True
) -> CompactionPlan:
    """Groups of small files of the head of a table that was just loaded, which may have rows ``where``.

    Not ``due_only``: all small ones of partitions with at least two of them, and those to complete.
    """
    with reachable("the storage", lent=lends_keys(table)):
        head = Head(table)
        refused = refusal(table, head)
        if refused is not None:
            return CompactionPlan((), len(head.data), head.delete_files, refused=refused)
        wanted = None
        if where is not None:
            wanted = {task.file.file_path for task in table.scan(row_filter=where).plan_files()}
        chooser = _Chooser(table, head, wanted, due_only=due_only)
    chosen, left = chooser.candidates()
    max_bytes = min(_target_bytes(table), _GROUP_BYTES)
    groups: list[Group] = []
    min_files = chooser.min_files(chosen.values())
    for (partition, _), files in sorted(chosen.items(), key=lambda item: item[0]):
        picked = chooser.pick(files, min_files if due_only else None)
        for packed in _packed(picked, max_bytes):
            with_deletes = [candidate for candidate in packed if candidate.deleted.files]
            deletes = {candidate.file.file_path: candidate.deleted for candidate in with_deletes}
            group = Group(partition, tuple(candidate.file for candidate in packed), deletes)
            is_any_use = len(group.files) > 1 or group.deleted_rows or chooser.is_partial(group.files[0])
            groups += [group] if is_any_use else []
    return CompactionPlan(tuple(groups), len(head.data), head.delete_files, left)


def refusal(table: Table, head: Head) -> str | None:
    """Why none of a table's files may be touched; None if some may."""
    if table.metadata.format_version > _SUPPORTED_VERSION:
        return f"tables of format version {table.metadata.format_version} are not compacted here"
    if head.has_equality_deletes:
        return "the table has equality deletes, which only the engine that wrote them can apply"
    if head.has_twice:
        return "the table lists a file twice, and removing it would remove both"
    return None


def target_bytes(table: Table) -> int:
    """The size of files that the table's properties ask for."""
    default = TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT
    return int(table.properties.get(TableProperties.WRITE_TARGET_FILE_SIZE_BYTES, default))


def _target_bytes(table: Table) -> int:
    """The target size of files: the table's, or what one task can sort if that is less."""
    wanted = target_bytes(table)
    return wanted if sort_order(table.metadata).is_unsorted else min(wanted, _SORTED_BYTES)


@dataclass(frozen=True)
class _Candidate:
    """A file that may be touched, and what deletes rows of it."""

    file: DataFile
    deleted: Deleted

    @property
    def bytes(self) -> int:
        return self.file.file_size_in_bytes

    @property
    def is_heavy(self) -> bool:
        """Whether it is due just because readers skip so many of its rows."""
        return self.deleted.rows > DELETED_SHARE * self.file.record_count

    @property
    def has_many_deletes(self) -> bool:
        """Whether it is due just because readers open so many delete files for it."""
        return len(self.deleted.files) > MAX_DELETE_FILES


class _Chooser:
    def __init__(self, table: Table, head: Head, wanted: set[str] | None, *, due_only: bool) -> None:
        self._table, self._head, self._target = table, head, _target_bytes(table)
        self._partial = set() if due_only else set(partial_versions(table.metadata).values())
        data = [
            entry
            for entry in head.data
            if entry.data_file.record_count and (wanted is None or entry.data_file.file_path in wanted)
        ]
        self._deleted = DeletedRows(table.io, head, head.deletes)
        applying = {id(entry): self._deleted.may_apply(entry) for entry in data} if head.deletes else {}
        self._data = [entry for entry in data if self._concerns(entry.data_file) or applying.get(id(entry))]
        self._obstacles = [self._obstacle(entry.data_file) for entry in self._data]
        for entry, obstacle in zip(self._data, self._obstacles, strict=True):
            if obstacle is None:
                self._deleted.read(applying.get(id(entry), ()))

    def _is_small(self, file: DataFile) -> bool:
        return file.file_size_in_bytes < self._target / _SMALL

    def is_partial(self, file: DataFile) -> bool:
        """Whether a file is to be completed, whatever its size."""
        return bool(self._partial) and frozenset(file.column_sizes or ()) in self._partial

    def _concerns(self, file: DataFile) -> bool:
        return self._is_small(file) or self.is_partial(file)

    def candidates(self) -> tuple[dict[_Partition, list[_Candidate]], dict[str, int]]:
        """Files that may be touched, by partition, and how many may not, by reason."""
        chosen: dict[_Partition, list[_Candidate]] = {}
        left: dict[str, int] = {}
        spec, schema = self._table.spec(), self._table.schema()
        for entry, obstacle in zip(self._data, self._obstacles, strict=True):
            file = entry.data_file
            candidate = _Candidate(file, self._deleted.of(entry) if obstacle is None else Deleted())
            reasons = (
                (obstacle is not None, obstacle or ""),
                (candidate.deleted.doubtful, "with deletes that not all readers apply"),
            )
            if reason := next((reason for applies, reason in reasons if applies), None):
                left = added(left, {reason: 1})
                continue
            if not self._concerns(file) and not candidate.deleted.rows:
                continue
            partition = "" if spec.is_unpartitioned() else spec.partition_to_path(file.partition, schema)
            # Null and the text "null" read the same.
            nulls = tuple(value is None for value in _values(file))
            chosen.setdefault((partition, nulls), []).append(candidate)
        return chosen, left

    def _obstacle(self, file: DataFile) -> str | None:
        metadata = self._table.metadata
        own = metadata.sort_order_by_id(file.sort_order_id) if file.sort_order_id else None
        # An order with a dropped column is not kept.
        keeps_order = (
            sort_order(metadata).is_unsorted
            and file.sort_order_id
            and (own is None or order_without_lost(own, (), metadata.schema()) is None)
        )
        reasons = (
            (file.file_format != FileFormat.PARQUET, f"{file.file_format.value} files"),
            (file.spec_id != self._table.metadata.default_spec_id, "in partitions of an earlier spec"),
            (file.key_metadata is not None, "encrypted"),
            (bool(keeps_order), "sorted, unlike the table"),
            # NaN equals nothing, so it is unknown which deletes belong to its partition.
            (any(isinstance(v, float) and math.isnan(v) for v in _values(file)), "in a partition of NaN"),
        )
        return next((reason for applies, reason in reasons if applies), None)

    def min_files(self, partitions: Iterable[Sequence[_Candidate]]) -> int:
        small = [[candidate for candidate in files if self._is_small(candidate.file)] for files in partitions]
        due = [_due(files, self._target, SPREAD_FILES) for files in small]
        return SPREAD_FILES if sum(len(files) - 1 for files in due if files) >= SPREAD_SAVES else MIN_FILES

    def pick(self, files: Sequence[_Candidate], min_files: int | None) -> list[_Candidate]:
        """The files of a partition to rewrite; ``min_files``: only those that are due."""
        small = [candidate for candidate in files if self._is_small(candidate.file)]
        # A file above the target size is a lot to write: only its own delete files count.
        large = [candidate for candidate in files if candidate.bytes > self._target]
        others = [candidate for candidate in files if candidate.bytes <= self._target]
        deletes = {delete.location for candidate in others for delete in candidate.deleted.files}
        many = len(deletes) > MAX_DELETE_FILES
        heavy = [candidate for candidate in others if candidate.is_heavy or (many and candidate.deleted.rows)]
        if min_files is not None:
            # Small files join them if that at most doubles the work.
            size = sum(candidate.bytes for candidate in heavy)
            with_them = [candidate for candidate in small if candidate.bytes <= size]
            if sum(candidate.bytes for candidate in with_them) > size:
                with_them = []
            small = _due(small, self._target, min_files) or with_them
        heavy += [candidate for candidate in large if candidate.is_heavy or candidate.has_many_deletes]
        heavy += [candidate for candidate in files if self.is_partial(candidate.file)]
        picked = {id(candidate) for candidate in (*small, *heavy)}
        return [candidate for candidate in files if id(candidate) in picked]


def _values(file: DataFile) -> list[Any]:
    return [file.partition[index] for index in range(len(file.partition))]


def _due(files: Sequence[_Candidate], target: int, min_files: int) -> list[_Candidate]:
    """Files of the highest tier that has enough of them, and of all tiers below."""
    tiers = [int(math.log(target / max(1, candidate.bytes), _TIER)) for candidate in files]
    full = [tier for tier in set(tiers) if tiers.count(tier) >= min_files]
    return [candidate for candidate, tier in zip(files, tiers, strict=True) if full and tier >= min(full)]


def _packed(files: Iterable[_Candidate], max_bytes: int) -> Iterator[list[_Candidate]]:
    group: list[_Candidate] = []
    size = 0
    for candidate in files:
        if group and size + candidate.bytes > max_bytes:
            yield group
            group, size = [], 0
        group.append(candidate)
        size += candidate.bytes
    if group:
        yield group
