"""Compaction of a table: which small files are put together, and when they may take the others' place.

Files are chosen by tiers of their size: 32 of a partition and a tier are due, and become files that are at
least two tiers above, so that a byte is rewritten two or three times until its file is as large as the table
wants. Files are touched only if all is known of them: Parquet, unencrypted, of the table's partition spec,
with no delete file that may apply. In a table with a sort order they may have any order or none, and become
files of that order; in one without, files that somebody has sorted stay as they are.

Why a compaction neither loses nor revives a row: right before it is committed, in metadata loaded for that,
each file that goes must still be part of the head, so nobody has deleted or rewritten its rows as a whole;
no file may be there twice, so nobody has added its rows again; and the head may have no delete file that it
did not have when the files were chosen, so nobody has deleted some of them. The request asserts that head
(I3). Otherwise the compaction is given up and planned again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.expressions import BooleanExpression
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties, Transaction
from pyiceberg.table.delete_file_index import PATH_FIELD_ID
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _OverwriteFiles
from pyiceberg.typedef import EMPTY_DICT

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.model.columns.conditions import read_condition
from tabletopic_kernel.model.errors import OutdatedError
from tabletopic_kernel.model.ledger import added
from tabletopic_kernel.pipeline.arrange import sort_order
from tabletopic_kernel.pipeline.plan import Replaced

MIN_FILES = 32  # small files of a partition and a tier that are due to be put together
_TIER = 8  # how much larger the files of a tier are than those of the tier below
_SMALL = 4  # a file is small below the target size divided by that
_GROUP_BYTES = 128 * 1024**2  # read by one task
_SORTED_BYTES = 32 * 1024**2  # the same, where its rows are sorted in memory: some 200 MB of Arrow
_Partition = tuple[str, tuple[bool, ...]]  # in words, and which of its values are null
_SUPPORTED_VERSION = 2  # rows of version 3 have ids, which PyIceberg cannot keep


@dataclass(frozen=True)
class Group:
    """Files of one partition that are to become one, by commit; ``partition`` in words, empty without."""

    partition: str
    files: tuple[DataFile, ...]

    @property
    def bytes(self) -> int:
        """Size of the files."""
        return sum(file.file_size_in_bytes for file in self.files)

    @property
    def rows(self) -> int:
        """Rows in the files."""
        return sum(file.record_count for file in self.files)


@dataclass(frozen=True)
class CompactionPlan:
    """What a compaction would put together.

    ``files`` are all data files of the head, ``delete_files`` the locations of its delete files. ``left``
    counts files that stay as they are, by reason; ``refused`` says why no file may be touched at all.
    """

    groups: tuple[Group, ...] = ()
    files: int = 0
    delete_files: frozenset[str] = frozenset()
    left: dict[str, int] = field(default_factory=dict)
    refused: str | None = None

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; files are counted."""
        groups = [
            {
                "partition": group.partition,
                "files": len(group.files),
                "rows": group.rows,
                "bytes": group.bytes,
            }
            for group in self.groups
        ]
        return {"files": self.files, "groups": groups, "left": self.left, "refused": self.refused}


def rows_where(where: str | None, schema: Schema) -> BooleanExpression | None:
    """A condition on the columns of a table; None for none. Raises as ``read_condition``."""
    how = (
        "Write conditions on the columns of the table, for example event_time >= '2026-01-01T00:00:00+00:00'"
    )
    return read_condition(where, schema, how)


def plan_compaction(
    table: Table, *, where: BooleanExpression | None = None, due_only: bool = True
) -> CompactionPlan:
    """Groups of small files of the table's head.

    Args:
        table: as loaded just now.
        where: only files that may have such rows.
        due_only: only what is due; else all small files of partitions with two of them or more.

    Raises:
        RetryableError, ActionNeededError: as ``reachable``.
    """
    with reachable("the storage", lent=lends_keys(table)):
        head = _Head(table)
        refused = head.refused()
        if refused is not None:
            return CompactionPlan((), len(head.data), head.delete_files, refused=refused)
        wanted = None
        if where is not None:
            wanted = {task.file.file_path for task in table.scan(row_filter=where).plan_files()}
    chosen, left = head.small_files(wanted)
    target = _target_bytes(table)
    groups: list[Group] = []
    for (partition, _), files in sorted(chosen.items()):
        picked = _due(files, target) if due_only else files
        together = [Group(partition, tuple(packed)) for packed in _packed(picked, min(target, _GROUP_BYTES))]
        groups += [group for group in together if len(group.files) > 1]
    return CompactionPlan(tuple(groups), len(head.data), head.delete_files, left)


def _target_bytes(table: Table) -> int:
    """Size that files are to have: what the table wants, or what one task can sort if that is less."""
    name, default = (
        TableProperties.WRITE_TARGET_FILE_SIZE_BYTES,
        TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT,
    )
    wanted = int(table.properties.get(name, default))
    return wanted if sort_order(table.metadata).is_unsorted else min(wanted, _SORTED_BYTES)


class _Head:
    """The files of a table's head: data in the order of their commits, and deletes."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.data: list[ManifestEntry] = []
        self._deletes: list[ManifestEntry] = []
        head = table.metadata.current_snapshot()
        for manifest in head.manifests(table.io) if head is not None else ():
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                is_data = entry.data_file.content is DataFileContent.DATA
                (self.data if is_data else self._deletes).append(entry)
        self.data.sort(key=lambda entry: (_number(entry), entry.data_file.file_path))
        self.delete_files = frozenset(entry.data_file.file_path for entry in self._deletes)
        self.paths = {entry.data_file.file_path for entry in self.data}

    def refused(self) -> str | None:
        """Why none of its files may be touched; None: some may."""
        if self._table.metadata.format_version > _SUPPORTED_VERSION:
            return f"tables of format version {self._table.metadata.format_version} are not compacted here"
        if any(entry.data_file.content is DataFileContent.EQUALITY_DELETES for entry in self._deletes):
            return "the table has equality deletes, which only the engine that wrote them can apply"
        if self.has_twice:
            return "the table has a file twice, and whoever takes it away takes both"
        return None

    @property
    def has_twice(self) -> bool:
        """Whether a data file, and so its rows, was added more than once."""
        return len(self.paths) < len(self.data)

    def small_files(self, wanted: set[str] | None) -> tuple[dict[_Partition, list[DataFile]], dict[str, int]]:
        """Small files that may be touched, by partition; and how many may not, by reason."""
        chosen: dict[_Partition, list[DataFile]] = {}
        left: dict[str, int] = {}
        spec, schema = self._table.spec(), self._table.schema()
        for entry in self.data:
            file = entry.data_file
            if file.file_size_in_bytes >= _target_bytes(self._table) / _SMALL or not file.record_count:
                continue
            if wanted is not None and file.file_path not in wanted:
                continue
            if (why := self._why_not(entry)) is not None:
                left = added(left, {why: 1})
                continue
            partition = "" if spec.is_unpartitioned() else spec.partition_to_path(file.partition, schema)
            # Null and the text "null" read the same.
            nulls = tuple(value is None for value in _values(file))
            chosen.setdefault((partition, nulls), []).append(file)
        return chosen, left

    def _why_not(self, entry: ManifestEntry) -> str | None:
        file = entry.data_file
        keeps_order = file.sort_order_id and sort_order(self._table.metadata).is_unsorted
        reasons = (
            (file.file_format != FileFormat.PARQUET, f"{file.file_format.value} files"),
            (file.spec_id != self._table.metadata.default_spec_id, "in partitions of before"),
            (file.key_metadata is not None, "encrypted"),
            (keeps_order, "sorted, unlike the table"),
            # It equals nothing, so nobody can tell which deletes are of its partition.
            (any(isinstance(v, float) and math.isnan(v) for v in _values(file)), "in a partition of NaN"),
            (any(_may_apply(delete, entry) for delete in self._deletes), "with deleted rows"),
        )
        return next((why for is_so, why in reasons if is_so), None)


def _values(file: DataFile) -> list[Any]:
    """Of the file's partition."""
    return [file.partition[at] for at in range(len(file.partition))]


def _number(entry: ManifestEntry) -> int:
    return entry.file_sequence_number or entry.sequence_number or 0


def _may_apply(delete: ManifestEntry, entry: ManifestEntry) -> bool:
    """Whether a delete file may delete rows of a data file, by what is sure however paths are spelt."""
    if (delete.sequence_number or 0) < (entry.sequence_number or 0):
        return False
    lower, upper = ((one or {}).get(PATH_FIELD_ID) for one in _bounds(delete.data_file))
    name = entry.data_file.file_path.rpartition("/")[2].encode()
    if lower and lower == upper:
        return lower.endswith(name)
    same = delete.data_file.spec_id == entry.data_file.spec_id
    return not same or delete.data_file.partition == entry.data_file.partition


def _bounds(file: DataFile) -> tuple[dict[int, bytes] | None, dict[int, bytes] | None]:
    return file.lower_bounds, file.upper_bounds


def _due(files: Sequence[DataFile], target: int) -> list[DataFile]:
    """Files of the highest tier that has enough of them, and of all tiers below."""
    tiers = [int(math.log(target / max(1, file.file_size_in_bytes), _TIER)) for file in files]
    full = [tier for tier in set(tiers) if tiers.count(tier) >= MIN_FILES]
    return [file for file, tier in zip(files, tiers, strict=True) if full and tier >= min(full)]


def _packed(files: Iterable[DataFile], most: int) -> Iterator[list[DataFile]]:
    """Files that follow each other, up to so many bytes together."""
    group: list[DataFile] = []
    size = 0
    for file in files:
        if group and size + file.file_size_in_bytes > most:
            yield group
            group, size = [], 0
        group.append(file)
        size += file.file_size_in_bytes
    if group:
        yield group


def check_replaced(table: Table, replaced: Replaced) -> None:
    """See that files may take the place of others in the head of ``table``, as loaded just now.

    Raises:
        OutdatedError: what was read is no longer what the table has.
        RetryableError, ActionNeededError: as ``reachable``.
    """
    name = ".".join(table.name())
    if any(file.spec_id != table.metadata.default_spec_id for file in replaced.files):
        raise OutdatedError(f"the partitions of {name} were changed while its files were put together")
    with reachable("the storage", lent=lends_keys(table)):
        head = _Head(table)
    if gone := [file for file in replaced.files if file.file_path not in head.paths]:
        raise OutdatedError(f"another program has rewritten or deleted {len(gone)} files of {name} meanwhile")
    if head.has_twice:
        raise OutdatedError(f"another program has added files of {name} once more meanwhile")
    if head.delete_files - replaced.delete_files:
        raise OutdatedError(f"another program has deleted rows of {name} meanwhile")


class ReplaceFiles(_OverwriteFiles):
    """Files take the place of others with the same rows: those who follow the table need not read them."""

    @classmethod
    def of(cls, transaction: Transaction, properties: dict[str, str]) -> ReplaceFiles:
        """A snapshot of the main branch, to be filled."""
        io = transaction._table.io
        return cls(Operation.OVERWRITE, transaction, io, snapshot_properties=properties)

    def _summary(self, snapshot_properties: dict[str, str] = EMPTY_DICT) -> Summary:
        summary = super()._summary(snapshot_properties)
        return summary.model_copy(update={"operation": Operation.REPLACE})
