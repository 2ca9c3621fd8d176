"""Whether a head whose history has expired still has the newest rows that the kept ledger counts.

Somebody may roll a table back, append to it, and expire earlier snapshots: then no ancestor of the head has a
ledger, and the one that the tag kept may count rows that are gone. Snapshots cannot distinguish that from a
table that others only appended to or rewrote. Rows can: a rollback removes the newest ones first, so if these
are still there, nothing was rolled back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.snapshots import Snapshot

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.model.columns.evolution import METADATA
from tabletopic_kernel.model.dead_letter import DEAD_LETTERS_OF_PROPERTY
from tabletopic_kernel.pipeline.write import REWRITTEN

_Places = set[tuple[int, int]]  # partition, offset


def has_newest_rows(table: Table, kept: Snapshot) -> bool:
    """Whether the newest rows of ``kept`` are rows of the head; False also if that is unknown.

    A file that both have from the same commit has its rows in both. Others are read, two numbers per row:
    rewritten rows keep their ``_kafka_metadata``. Compacted rows are older than their file, so finding them
    proves nothing. So the commits of the kept snapshot are checked, newest first, until all rows of a commit
    that added new ones are found.
    """
    head = table.metadata.current_snapshot()
    assert head is not None
    with reachable("the storage", lent=lends_keys(table)):
        head_files = {(number, file.file_path): file for number, file in _files(table, head)}
        kept_files = sorted(_files(table, kept), key=lambda entry: -entry[0])
        kept_keys = {(number, file.file_path) for number, file in kept_files}
        new_files = [FileScanTask(file) for key, file in head_files.items() if key not in kept_keys]
        # With what the kept snapshot deletes: rows that an upsert has replaced are in no head.
        tasks = {task.file.file_path: task for task in table.scan(snapshot_id=kept.snapshot_id).plan_files()}
        for number, group in groupby(kept_files, key=lambda entry: entry[0]):
            missing = [file for _, file in group if (number, file.file_path) not in head_files]
            if not missing:
                return True
            column = _numbers(table)
            if column is None:
                return False
            lost = [tasks[file.file_path] for file in missing if file.file_path in tasks]
            wanted = {place for places in _places(table, lost, column) for place in places}
            is_new = bool(wanted) and any(_is_new(table, file) for file in missing)
            for places in _places(table, new_files, column) if wanted else ():
                wanted -= places
                if not wanted:
                    break
            if wanted:
                return False
            if is_new:
                return True
    return True


def _is_new(table: Table, file: DataFile) -> bool:
    """Whether an owner staged the file for new rows: nobody else writes into an epoch's folder."""
    is_staged = f"/{table.metadata.table_uuid}/epoch-" in file.file_path
    return is_staged and not file.file_path.endswith(REWRITTEN)


def _files(table: Table, snapshot: Snapshot) -> Iterator[tuple[int, DataFile]]:
    """A snapshot's data files, each with the number of the commit that added it."""
    for manifest in snapshot.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            if entry.data_file.content == DataFileContent.DATA:
                yield entry.file_sequence_number or entry.sequence_number or 0, entry.data_file


def _numbers(table: Table) -> Schema | None:
    """The columns with partition and offset; None if the table has none."""
    names = ("partition", "offset") if DEAD_LETTERS_OF_PROPERTY in table.properties else (METADATA,)
    try:
        return table.schema().select(*names)
    except ValueError:
        return None


def _places(table: Table, tasks: Iterable[FileScanTask], column: Schema) -> Iterator[_Places]:
    """Partition and offset of the files' rows, one set per batch; nothing for other writers' rows."""
    scan = ArrowScan(table.metadata, table.io, column, AlwaysTrue())
    for batch in scan.to_record_batches(tasks):
        rows = batch if batch.num_columns > 1 else pa.RecordBatch.from_struct_array(batch.column(0))
        places = rows.select(["partition", "offset"]).drop_null()
        yield set(zip(*(numbers.to_pylist() for numbers in places.columns), strict=True))
