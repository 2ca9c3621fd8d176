"""Which rows of which data files are deleted by position, and whether that is sure.

Readers agree on a position delete file that names a data file exactly as its manifest does, is of the same
partition, and is not older. Where anything else may name the file, as by another spelling of its location,
from another partition, or outside the bounds that the manifest tells, some readers apply it and some do not:
such a data file is doubtful, and is left alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.table import Table

from tabletopic_kernel.clients.storage.position_deletes import PATH_ID, read_positions
from tabletopic_kernel.model.errors import ActionNeededError


@dataclass(frozen=True)
class DeleteFile:
    """A position delete file, and how many positions it has of each data file; None: not to be read here."""

    entry: ManifestEntry
    positions: Counter[str] | None

    @property
    def location(self) -> str:
        """Where it is."""
        return self.entry.data_file.file_path

    def is_exact(self, data: ManifestEntry) -> bool:
        """Whether no reader doubts that it deletes rows of ``data``, which it names."""
        file, of = self.entry.data_file, data.data_file
        lower, upper = bounds_of(self.entry)
        path = of.file_path.encode()
        within = (lower is None or lower <= path) and (upper is None or path <= upper)
        # Equal bounds are taken for the only file that is meant.
        named_alone = lower is None or lower != upper or set(self.positions or ()) == {of.file_path}
        return same_partition(file, of) and within and named_alone


@dataclass(frozen=True)
class Deleted:
    """What deletes rows of a data file. ``rows`` are at most so many, as positions may be there twice."""

    files: tuple[DeleteFile, ...] = ()
    rows: int = 0
    doubtful: bool = False


class Head:
    """The files of a table's head: data in the order of their commits, and deletes."""

    def __init__(self, table: Table) -> None:
        self.data: list[ManifestEntry] = []
        self.deletes: list[ManifestEntry] = []
        head = table.metadata.current_snapshot()
        for manifest in head.manifests(table.io) if head is not None else ():
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                entry.data_file.spec_id = manifest.partition_spec_id
                is_data = entry.data_file.content is DataFileContent.DATA
                (self.data if is_data else self.deletes).append(entry)
        self.data.sort(key=lambda entry: (_number(entry), entry.data_file.file_path))
        self.delete_files = frozenset(entry.data_file.file_path for entry in self.deletes)
        self.paths = {entry.data_file.file_path for entry in self.data}

    @property
    def has_twice(self) -> bool:
        """Whether a file, and so its rows or its deletes, was added more than once."""
        return len(self.paths) + len(self.delete_files) < len(self.data) + len(self.deletes)

    @property
    def has_equality_deletes(self) -> bool:
        """Whether rows are deleted by their values."""
        return any(entry.data_file.content is DataFileContent.EQUALITY_DELETES for entry in self.deletes)


class DeletedRows:
    """Of data files of a head, what deletes rows of them."""

    def __init__(self, io: FileIO, head: Head, deletes: Sequence[ManifestEntry]) -> None:
        """``deletes``: delete files of the head to look at; nothing is read yet."""
        self._io, self._head = io, head
        self._by_name: dict[str, list[ManifestEntry]] = {}  # those that say which one file they are of
        self._others: list[ManifestEntry] = []
        paths = sorted(head.paths)
        for entry in deletes:
            if (name := _only_name(entry, paths)) is None:
                self._others.append(entry)
            else:
                self._by_name.setdefault(name, []).append(entry)
        self._read: dict[str, DeleteFile] = {}
        self._naming: dict[str, list[DeleteFile]] = {}
        self._unknown: set[str] = set()  # names of locations that no data file is at

    def may_apply(self, data: ManifestEntry) -> list[ManifestEntry]:
        """Delete files that may delete rows of a data file, by what is sure however locations are spelt."""
        named = self._by_name.get(name_of(data.data_file.file_path), ())
        file = data.data_file
        others = (
            entry
            for entry in self._others
            if entry.data_file.spec_id != file.spec_id or same_partition(entry.data_file, file)
        )
        return [entry for entry in (*named, *others) if not _is_older(entry, data)]

    def read(self, wanted: Iterable[ManifestEntry]) -> None:
        """Read delete files, each once.

        Raises:
            OSError: the storage does not answer, or one is gone.
        """
        for entry in wanted:
            file = entry.data_file
            if file.file_path in self._read:
                continue
            made = self._read[file.file_path] = DeleteFile(entry, self._positions(file))
            for path in made.positions or ():
                self._naming.setdefault(path, []).append(made)
                if path not in self._head.paths:
                    self._unknown.add(name_of(path))

    def _positions(self, file: DataFile) -> Counter[str] | None:
        if file.file_format != FileFormat.PARQUET or file.key_metadata is not None:
            return None
        counts: Counter[str] = Counter()
        try:
            for path, positions in read_positions(self._io, file.file_path):
                counts[path] += len(positions)
        except ActionNeededError:
            return None
        return counts

    def of(self, data: ManifestEntry) -> Deleted:
        """What deletes rows of a data file; what ``may_apply`` to it was read."""
        file = data.data_file
        found = [one for one in self._naming.get(file.file_path, ()) if not _is_older(one.entry, data)]
        unread = any(
            self._read[entry.data_file.file_path].positions is None for entry in self.may_apply(data)
        )
        doubtful = (
            unread or name_of(file.file_path) in self._unknown or any(not one.is_exact(data) for one in found)
        )
        rows = sum((one.positions or Counter())[file.file_path] for one in found)
        return Deleted(tuple(found), min(rows, file.record_count), doubtful)


def name_of(location: str) -> str:
    """The last part, which is the same however a location is spelt."""
    return location.rpartition("/")[2]


def same_partition(one: DataFile, other: DataFile) -> bool:
    """Whether both are of the same partition of the same spec."""
    return bool(one.spec_id == other.spec_id and one.partition == other.partition)


def bounds_of(entry: ManifestEntry) -> tuple[bytes | None, bytes | None]:
    """Between which locations those in a delete file are, as its manifest tells."""
    file = entry.data_file
    lower, upper = ((bounds or {}).get(PATH_ID) for bounds in (file.lower_bounds, file.upper_bounds))
    return lower, upper


def _only_name(entry: ManifestEntry, paths: Sequence[str]) -> str | None:
    """Of the one file that a delete file is of, the name; None: it may be of several.

    Bounds that were cut may be equal though the locations are not.
    """
    lower, upper = bounds_of(entry)
    if lower is None or lower != upper:
        return None
    text = lower.decode("utf-8", "replace")
    at = bisect_left(paths, text)
    if at < len(paths) and paths[at].startswith(text) and paths[at] != text:
        return None
    return name_of(text) or None


def _is_older(delete: ManifestEntry, data: ManifestEntry) -> bool:
    return (delete.sequence_number or 0) < (data.sequence_number or 0)


def _number(entry: ManifestEntry) -> int:
    return entry.file_sequence_number or entry.sequence_number or 0
