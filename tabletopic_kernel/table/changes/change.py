"""What one snapshot does to a table, as a value; ``TopicTable.commit`` carries it out.

The table may move on after a change was planned. So the commit calls its ``still_true`` right before the
request, on freshly loaded metadata whose head the request asserts (I3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.clients.catalog.pyiceberg_seams.snapshots import SnapshotChange
from tabletopic_kernel.model.errors import HeadMovedError, StartOverError
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.pipeline.conform import conform, file_schema

ALWAYS_TRUE = AlwaysTrue()


@dataclass(frozen=True)
class TableChange(SnapshotChange):
    """Everything that one snapshot does (I2).

    ``still_true`` checks the freshly loaded table and returns the change as it applies there. It raises
    OutdatedError or StartOverError if the change cannot be made any more, HeadMovedError to plan again.
    """

    still_true: Callable[[Table, TableChange], TableChange] = lambda _, change: change


def appended(ledger: Ledger, files: Iterable[DataFile]) -> TableChange:
    """New rows, or with no files the ledger alone."""
    return TableChange(ledger, tuple(files), still_true=checked_columns)


def rewritten(ledger: Ledger, read: Sequence[FileScanTask], files: Iterable[DataFile]) -> TableChange:
    """``files`` instead of those that were ``read``, as long as these have the rows that were read."""

    def still_true(table: Table, change: TableChange) -> TableChange:
        _check_as_read(table, read)
        return checked_columns(table, change)

    return TableChange(ledger, tuple(files), remove=tuple(task.file for task in read), still_true=still_true)


def file_rows(table: Table, task: FileScanTask, where: BooleanExpression = ALWAYS_TRUE) -> pa.Table:
    """The rows of one data file that match ``where``, in the table's columns."""
    with reachable("the storage", lent=lends_keys(table)):
        rows = ArrowScan(table.metadata, table.io, table.schema(), where).to_table([task])
    target = file_schema(table.schema())
    batches = [
        conform(dict(zip(batch.schema.names, batch.columns, strict=True)), len(batch), target)
        for batch in rows.combine_chunks().to_batches()
    ]
    return pa.Table.from_batches(batches, schema=target)


def checked_columns(table: Table, change: TableChange) -> TableChange:
    """Check that the table still has each column of the new files.

    Nobody can read the values of a dropped column, even if another column gets its name.
    """
    field_ids = table.metadata.schema().field_ids
    if any(not field_ids >= (file.column_sizes or {}).keys() for file in change.add):
        raise StartOverError(f"another program has dropped a column of {'.'.join(table.name())}")
    return change


def _check_as_read(table: Table, read: Sequence[FileScanTask]) -> None:
    """Check that files to remove have the rows that were read: deleted ones would come back (I1)."""
    if not read:
        return
    with reachable("the storage", lent=lends_keys(table)):
        deletes = {task.file.file_path: _deletes_of(task) for task in table.scan().plan_files()}
    if any(deletes.get(task.file.file_path) != _deletes_of(task) for task in read):
        raise HeadMovedError(
            f"another program has just rewritten or deleted rows of {'.'.join(table.name())}; try again"
        )


def _deletes_of(task: FileScanTask) -> set[str]:
    return {file.file_path for file in task.delete_files}
