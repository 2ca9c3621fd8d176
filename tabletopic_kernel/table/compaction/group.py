"""Files that a compaction merges into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.manifest import DataFile

from tabletopic_kernel.model.moved_rows import MovedRows
from tabletopic_kernel.pipeline.plan import Replaced
from tabletopic_kernel.pipeline.rewrite import SmallFile
from tabletopic_kernel.table.compaction.deleted_rows import Deleted


@dataclass(frozen=True)
class Group:
    """Files of one partition to merge into one, in commit order; ``partition`` is text, empty without one.

    ``deletes``: what deletes rows of a file, by location; only files with deleted rows.
    """

    partition: str
    files: tuple[DataFile, ...]
    deletes: Mapping[str, Deleted] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Size of the files."""
        return sum(file.file_size_in_bytes for file in self.files)

    @property
    def rows(self) -> int:
        """Rows in the files, including deleted ones."""
        return sum(file.record_count for file in self.files)

    @property
    def deleted_rows(self) -> int:
        """Deleted rows of the files: an upper bound, because a position may be in two delete files."""
        return sum(deleted.rows for deleted in self.deletes.values())

    def to_read(self) -> tuple[SmallFile, ...]:
        """The files in the form in which a task reads them."""
        deletes = {path: tuple(file.location for file in rows.files) for path, rows in self.deletes.items()}
        return tuple(
            SmallFile(file.file_path, file.record_count, deletes.get(file.file_path, ()))
            for file in self.files
        )

    def replaced(self, moved: Sequence[MovedRows], known: frozenset[str]) -> Replaced:
        """What a commit must know of the files whose rows ``moved``; ``known``: the plan's delete files."""
        moved_paths = {rows.path for rows in moved}
        applied = {
            delete.location: frozenset(delete.positions or ())
            for path in moved_paths & self.deletes.keys()
            for delete in self.deletes[path].files
        }
        files = tuple(file for file in self.files if file.file_path in moved_paths)
        return Replaced(files, known, tuple(moved), applied)
