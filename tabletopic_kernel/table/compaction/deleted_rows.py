"""Which rows of which data files are deleted by position, and whether that is certain.

Readers agree on a position delete file that names a data file exactly as the manifest does, is in the same
partition, and is not older. If a delete may refer to the file in any other way (another spelling of its
location, another partition, outside the bounds in the manifest), only some readers apply it: such a data file
is doubtful, and left alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.table import Table

from tabletopic_kernel.clients.catalog.pyiceberg_seams.manifests import has_files
from tabletopic_kernel.clients.storage.locations import file_name
from tabletopic_kernel.clients.storage.position_deletes import PATH_ID, read_positions
from tabletopic_kernel.model.errors import ActionNeededError


@dataclass(frozen=True)
class DeleteFile:
    """A position delete file, with its number of positions per data file; None: cannot be read here."""

    entry: ManifestEntry
    positions: Counter[str] | None

    @property
    def location(self) -> str:
        """The file's location."""
        return self.entry.data_file.file_path

    def is_exact(self, data: ManifestEntry) -> bool:
        """Whether all readers agree that it deletes rows of ``data``, which it names."""
        file, data_file = self.entry.data_file, data.data_file
        lower, upper = bounds_of(self.entry)
        path = data_file.file_path.encode()
        within = (lower is None or lower <= path) and (upper is None or path <= upper)
        # Readers take equal bounds for the only file that is meant.
        named_alone = lower is None or lower != upper or set(self.positions or ()) == {data_file.file_path}
        applies = same_partition(file, data_file) and not _is_older(self.entry, data)
        return applies and within and named_alone


@dataclass(frozen=True)
class Deleted:
    """What deletes rows of a data file. ``rows`` is an upper bound: a position may occur twice."""

    files: tuple[DeleteFile, ...] = ()
    rows: int = 0
    doubtful: bool = False


class Head:
    """The files of a table's head: data files in commit order, and delete files."""

    def __init__(self, table: Table) -> None:
        self.data: list[ManifestEntry] = []
        self.deletes: list[ManifestEntry] = []
        head = table.metadata.current_snapshot()
        for manifest in filter(has_files, head.manifests(table.io) if head is not None else ()):
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                entry.data_file.spec_id = manifest.partition_spec_id
                is_data = entry.data_file.content == DataFileContent.DATA
                (self.data if is_data else self.deletes).append(entry)
        self.data.sort(key=lambda entry: (_number(entry), entry.data_file.file_path))
        self.delete_files = frozenset(entry.data_file.file_path for entry in self.deletes)
        self.paths = {entry.data_file.file_path for entry in self.data}

    @property
    def has_twice(self) -> bool:
        """Whether a file, and so its rows or deletes, was added more than once."""
        return len(self.paths) + len(self.delete_files) < len(self.data) + len(self.deletes)

    @property
    def has_equality_deletes(self) -> bool:
        """Whether rows are deleted by value."""
        return any(entry.data_file.content == DataFileContent.EQUALITY_DELETES for entry in self.deletes)


class DeletedRows:
    """The deletes of a head, by data file."""

    def __init__(self, io: FileIO, head: Head, deletes: Sequence[ManifestEntry]) -> None:
        """``deletes``: delete files of the head to look at; nothing is read yet."""
        self._io, self._head = io, head
        self._by_name: dict[str, list[ManifestEntry]] = {}  # deletes of a single data file, by its name
        self._others: list[ManifestEntry] = []
        paths = sorted(head.paths)
        for entry in deletes:
            if (name := _only_name(entry, paths)) is None:
                self._others.append(entry)
            else:
                self._by_name.setdefault(name, []).append(entry)
        self._read: dict[str, DeleteFile] = {}
        self._naming: dict[str, list[DeleteFile]] = {}
        self._unknown: set[str] = set()  # names of files at locations that the head lacks

    def may_apply(self, data: ManifestEntry) -> list[ManifestEntry]:
        """Delete files that may delete rows of a data file, however locations are spelled."""
        named = self._by_name.get(file_name(data.data_file.file_path), ())
        file = data.data_file
        others = (
            entry
            for entry in self._others
            if entry.data_file.spec_id != file.spec_id or same_partition(entry.data_file, file)
        )
        return [entry for entry in (*named, *others) if not _is_older(entry, data)]

    def read(self, wanted: Iterable[ManifestEntry]) -> None:
        """Read delete files, each once; raises OSError if the storage does not respond, or one is gone."""
        for entry in wanted:
            file = entry.data_file
            if file.file_path in self._read:
                continue
            delete_file = self._read[file.file_path] = DeleteFile(entry, self._positions(file))
            for path in delete_file.positions or ():
                self._naming.setdefault(path, []).append(delete_file)
                if path not in self._head.paths:
                    self._unknown.add(file_name(path))

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
        """What deletes rows of a data file; all that ``may_apply`` to it must have been read."""
        file = data.data_file
        naming = self._naming.get(file.file_path, ())
        files = [delete for delete in naming if not _is_older(delete.entry, data)]
        unread = any(
            self._read[entry.data_file.file_path].positions is None for entry in self.may_apply(data)
        )
        is_known = file_name(file.file_path) not in self._unknown
        doubtful = unread or not is_known or not all(delete.is_exact(data) for delete in files)
        rows = sum((delete.positions or Counter())[file.file_path] for delete in files)
        return Deleted(tuple(files), min(rows, file.record_count), doubtful)


def same_partition(file: DataFile, other: DataFile) -> bool:
    """Whether both are in the same partition of the same spec."""
    return bool(file.spec_id == other.spec_id and file.partition == other.partition)


def bounds_of(entry: ManifestEntry) -> tuple[bytes | None, bytes | None]:
    """The lower and upper bound of the locations in a delete file, from its manifest."""
    file = entry.data_file
    lower, upper = ((bounds or {}).get(PATH_ID) for bounds in (file.lower_bounds, file.upper_bounds))
    return lower, upper


def _only_name(entry: ManifestEntry, paths: Sequence[str]) -> str | None:
    """The name of the only data file that a delete file refers to; None: there may be several.

    Truncated bounds may be equal although the locations are not.
    """
    lower, upper = bounds_of(entry)
    if lower is None or lower != upper:
        return None
    text = lower.decode("utf-8", "replace")
    index = bisect_left(paths, text)
    if index < len(paths) and paths[index].startswith(text) and paths[index] != text:
        return None
    return file_name(text) or None


def _is_older(delete: ManifestEntry, data: ManifestEntry) -> bool:
    return (delete.sequence_number or 0) < (data.sequence_number or 0)


def _number(entry: ManifestEntry) -> int:
    return entry.file_sequence_number or entry.sequence_number or 0
