"""What a commit of an upsert reads beside the table: staged files, and those with deleted keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from tabletopic_kernel.clients.outside_errors.sorting import plain
from tabletopic_kernel.clients.storage.locations import file_name
from tabletopic_kernel.model.columns.upsert_columns import UpsertColumns, upsert_columns
from tabletopic_kernel.model.errors import ActionNeededError, UnreadableFilesError
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.changes.upsert.leaves import read_rows
from tabletopic_kernel.table.layout import names_before
from tabletopic_kernel.table.topic_table import TopicTable

_GONE: Final = (
    "another program, such as an orphan removal, has deleted {count} files with deleted keys of {table} (the "
    "first is {first}). An older change of such a key, if one is still to come, would bring its row back. "
    "`tabletopic alter {topic} --on-gap go_on`, then resume, continues without them"
)


@dataclass(frozen=True)
class Upsert:
    """What a commit writes by the topic's settings: staged ``files``, and ``deletes`` of keys."""

    settings: TopicSettings
    files: tuple[DataFile, ...]
    deletes: tuple[DataFile, ...]
    unavailable: frozenset[int] = frozenset()  # field ids of columns in which some rows lack their value

    def columns(self, table: Table) -> UpsertColumns:
        """The key and the order of the table as it is now; UsageError if others have dropped one."""
        return upsert_columns(self.settings, table.schema(), names_before(TopicTable(table)))


def files_before(upsert: Upsert, paths: Iterable[str]) -> list[str]:
    """Those of the files with deleted keys that were not staged for this commit."""
    new = {file_name(file.file_path) for file in upsert.deletes}
    return [path for path in paths if file_name(path) not in new]


def staged_rows(table: Table, upsert: Upsert, columns: UpsertColumns) -> Iterator[pa.RecordBatch]:
    """Rows and deletes, of ``leaves.rows_schema``."""
    with read_as_staged(table):
        for index, file in enumerate(upsert.files):
            yield from read_rows(table.io, file.file_path, columns, index)
        for file in upsert.deletes:
            yield from read_rows(table.io, file.file_path, columns, None)


@contextmanager
def read_as_staged(table: Table) -> Iterator[None]:
    """Staged files that are missing, or not whole, are read from the topic again."""
    try:
        yield
    except (FileNotFoundError, pa.ArrowInvalid) as error:
        raise UnreadableFilesError(
            f"a staged file of {'.'.join(table.name())} is not in the storage as it was written "
            f"({plain(error)}); it was not committed, and its records are read again"
        ) from error


def remembered_rows(
    table: Table, upsert: Upsert, columns: UpsertColumns, ledger: Ledger, paths: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Deletes that the ledger names; ActionNeededError if files are missing, unless the settings go on."""
    missing: list[str] = []
    for path in paths:
        try:
            yield from read_rows(table.io, path, columns, None)
        except FileNotFoundError:
            missing.append(path)
    if missing and upsert.settings.on_gap == "stop":
        name = ".".join(table.name())
        raise ActionNeededError(
            _GONE.format(count=len(missing), table=name, first=missing[0], topic=ledger.topic)
        )
