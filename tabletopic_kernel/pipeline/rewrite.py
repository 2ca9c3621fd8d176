"""Merges small data files of one partition into few larger ones, on an executor, keeping the rows' order.

Nothing is projected onto the table's schema: that would turn null lists of structs into empty ones (ADR
0004). Files are merged only if their Parquet schema is, field by field, that of one version of the table's
schema, and the result is written with that version, or with the current one if that only has more fields,
some of them inside lists or maps (``partial_versions``). All others stay as they are.

Rows deleted by position delete files are left out, also of a single file of any size. Unless the table has a
sort order, the others are in the new file in the order of the files, and of the rows in each, so
``MovedRows`` knows where each one is.

Why no row is lost: rows are counted in the manifests, as each file is read, and as each file is written, less
the deleted ones; if two of these differ, nothing is returned. Memory is bounded by the rows of one row group
of each schema, however large the files and their row groups are, plus a byte for each row of the files, and
four more if they are sorted.

In a table with a sort order, rows are sorted in memory: one file per ``_SORTED_BYTES``, mostly only
one, because the groups of such tables are small. A merge of sorted files would be less simple: files older
than the order, or from other engines, are not sorted by it.
"""

from __future__ import annotations

import pickle
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record

from tabletopic_kernel.clients.outside_errors.rules import STORAGE
from tabletopic_kernel.clients.outside_errors.sorting import plain, sort_error
from tabletopic_kernel.clients.storage.position_deletes import mark_deleted
from tabletopic_kernel.model.columns.missing_fields import partial_versions
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError, TableTopicError
from tabletopic_kernel.model.ledger import added
from tabletopic_kernel.model.moved_rows import Mask, MovedRows
from tabletopic_kernel.pipeline.arrange import permutation
from tabletopic_kernel.pipeline.conform import conform
from tabletopic_kernel.pipeline.plan import TablePlan
from tabletopic_kernel.pipeline.write import REWRITTEN, DataFileWriter, Shape, schemas_by_shape, shape_of

# A row group is written when the buffered rows reach this many bytes in Arrow, or this number.
_ROW_GROUP_BYTES = 128 * 1024**2
_ROW_GROUP_ROWS = 1024**2
# How much is read at a time.
_PART_BYTES = 16 * 1024**2
_PART_ROWS = 128 * 1024
_MOST_PLACES = 32 * 1024**2  # rows that are tracked through the sort: four bytes each
_SORTED_BYTES = 256 * 1024**2  # in Arrow; sorting takes as much again


Places = np.ndarray[tuple[int], np.dtype[np.uint32]]


@dataclass(frozen=True)
class SmallFile:
    """A file to read: its path, its row count in the table, and its deletes."""

    path: str
    rows: int
    deletes: tuple[str, ...] = ()  # locations of position delete files


@dataclass
class RewriteResult:
    """The result of a rewrite: ``files`` with ``rows`` rows, all of files ``moved`` but for deleted ones.

    ``left`` counts files that stay as they are, by reason. ``begun`` has the locations of files that were
    begun: after an ``error``, none of them is certainly finished, and ``files`` is empty.
    """

    files: list[DataFile] = field(default_factory=list)
    moved: list[MovedRows] = field(default_factory=list)
    rows: int = 0
    left: dict[str, int] = field(default_factory=dict)
    cpu_s: float = 0.0
    error: Exception | None = None
    begun: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class RewriteTask:
    """Files of one ``partition``, in the order of their rows in the result; a function for ``mapInArrow``."""

    table: TablePlan
    epoch: int
    files: tuple[SmallFile, ...]
    partition: Record

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rewrite the group: whatever comes in, one pickled result goes out."""
        for _ in batches:
            pass
        result = pickle.dumps(self.run())
        yield pa.RecordBatch.from_arrays([pa.array([result], pa.binary())], names=["result"])

    def run(self) -> RewriteResult:
        """Rewrite the group in this process.

        The result's error is a RetryableError if the storage does not respond, an ActionNeededError if a file
        differs from what the table says about it.
        """
        began = time.process_time()
        rewriting = _Rewrite(self)
        try:
            result = rewriting.result()
        except Exception as error:
            result = RewriteResult(error=_classified(error))
        result.begun = rewriting.begun
        result.cpu_s = time.process_time() - began
        return result


def _classified(error: Exception) -> Exception:
    """The classified error, for another process, with its context."""
    if (trouble := sort_error(error, STORAGE, doing="small files could not be compacted: ")) is not None:
        return RetryableError(trouble)
    if isinstance(error, TableTopicError):
        return error
    bug = RuntimeError(f"{type(error).__name__}: {plain(error)}")
    bug.add_note("".join(traceback.format_exception(error)))
    return bug


def read_result(pickled: bytes) -> RewriteResult:
    """Read a task's result, as returned by an executor."""
    result: RewriteResult = pickle.loads(pickled)
    return result


class _Rewrite:
    def __init__(self, task: RewriteTask) -> None:
        self._task = task
        self._writers: list[DataFileWriter] = []
        self._current = self._writer(None)
        self._io = self._current.io
        self._result = RewriteResult()

    @property
    def begun(self) -> list[str]:
        return [path for writer in self._writers for path in writer.begun]

    def _writer(self, schema_id: int | None) -> DataFileWriter:
        plan = self._task.table
        writer = DataFileWriter(plan.metadata, plan.io_properties, self._task.epoch, schema_id, REWRITTEN)
        self._writers.append(writer)
        return writer

    def result(self) -> RewriteResult:
        """Merge the files of each schema; others stay."""
        metadata = self._current.metadata
        schemas = schemas_by_shape(metadata)
        by_schema: dict[int | None, list[SmallFile]] = {}
        current, partial, completed = metadata.current_schema_id, partial_versions(metadata), False
        for file in self._task.files:
            version = schemas.get(_shape_at(self._io, file))
            completed |= version in partial
            by_schema.setdefault(current if version in partial else version, []).append(file)
        sources = {field.source_id for field in metadata.spec().fields}
        for schema_id, files in by_schema.items():
            if schema_id is None:
                self._leave("written with a schema that the table never had", files)
            elif not sources <= set((metadata.schema_by_id(schema_id) or Schema()).field_ids):
                self._leave("written before the column of their partition", files)
            elif len(files) == 1 and not files[0].deletes and not (completed and schema_id == current):
                self._leave("the only file of its schema", files)
            else:
                self._merge(self._writer(schema_id), files)
        return self._result

    def _leave(self, why: str, files: Sequence[SmallFile]) -> None:
        self._result.left = added(self._result.left, {why: len(files)})

    def _merge(self, writer: DataFileWriter, files: Sequence[SmallFile]) -> None:
        dropped = _deleted(self._io, files)
        counts = [file.rows - int(dropped[file.path].sum()) for file in files]
        total, new_files, places, is_traceable = sum(counts), list[DataFile](), None, True
        if total and writer.order.is_unsorted:
            rows = _runs(self._io, files, dropped, writer.target, (_ROW_GROUP_BYTES, _ROW_GROUP_ROWS))
            new_files = [writer.write_one(rows)]
        elif total:
            new_files, places, is_traceable = self._write_sorted(writer, files, dropped, total)
            if not new_files:
                self._leave("too large in memory to be sorted together", files)
                return
        if (written := sum(file.record_count for file in new_files)) != total:
            raise ActionNeededError(f"{len(files)} files have {total} rows, and {written} were written")
        if foreign := next((file for file in new_files if file.partition != self._task.partition), None):
            raise ActionNeededError(
                f"{files[0].path} is in the partition {self._task.partition}, and its rows belong to "
                f"{foreign.partition}"
            )
        self._result.files += new_files
        starts = accumulate((file.record_count for file in new_files[:-1]), initial=0)
        products = tuple(zip((file.file_path for file in new_files), starts, strict=False))  # none, of none
        base = 0
        for file, count in zip(files, counts, strict=True):
            numbers = places[base : base + count] if places is not None else None
            moved = MovedRows.of(
                file.path, dropped[file.path], products if is_traceable else (), base, numbers
            )
            self._result.moved.append(moved)
            base += count
        self._result.rows += total

    def _write_sorted(
        self, writer: DataFileWriter, files: Sequence[SmallFile], dropped: Mapping[str, Mask], count: int
    ) -> tuple[list[DataFile], Places | None, bool]:
        """The files' ``count`` rows, sorted in memory, in as few files as possible; none if that is no gain.

        Also each old row's number among all new ones, if their order changed, and whether it is known.
        """
        new_files: list[DataFile] = []
        places = np.empty(count, np.uint32) if count <= _MOST_PLACES else None
        start, has_moved = 0, False
        for rows in _runs(self._io, files, dropped, writer.target, (_SORTED_BYTES, count)):
            # At most half as many: otherwise they would be merged again and again without becoming fewer.
            if not new_files and len(files) > 1 and 2 * count > len(rows) * len(files):
                return [], None, True
            order = permutation(rows, writer.order, writer.schema)
            ordered = rows if order is None else rows.take(order)
            if places is not None:
                numbers = np.arange(start, start + len(rows), dtype=np.uint32)
                places[numbers if order is None else start + order.to_numpy()] = numbers
            start, has_moved = start + len(rows), has_moved or order is not None
            new_files.append(writer.write_one((ordered,)))
        return new_files, places if has_moved else None, places is not None or not has_moved


def _deleted(io: FileIO, files: Sequence[SmallFile]) -> dict[str, Mask]:
    """Masks of the deleted rows, by file."""
    dropped = {file.path: np.zeros(file.rows, np.bool_) for file in files}
    applies: dict[str, set[str]] = {}
    for file in files:
        for location in file.deletes:
            applies.setdefault(location, set()).add(file.path)
    mark_deleted(io, applies, dropped)
    return dropped


def _runs(
    io: FileIO,
    files: Sequence[SmallFile],
    dropped: Mapping[str, Mask],
    target: pa.Schema,
    limits: tuple[int, int],
) -> Iterator[pa.Table]:
    """The rows of all files, without dropped ones, in their order; ``limits``: bytes and rows per part."""
    batches: list[pa.RecordBatch] = []
    size = rows = 0
    for file in files:
        for batch in _rows_of(io, file, dropped[file.path], target):
            if batches and (size + batch.nbytes > limits[0] or rows + len(batch) > limits[1]):
                yield pa.Table.from_batches(batches)
                batches, size, rows = [], 0, 0
            batches.append(batch)
            size, rows = size + batch.nbytes, rows + len(batch)
    if batches:
        yield pa.Table.from_batches(batches)


def _rows_of(io: FileIO, file: SmallFile, dropped: Mask, target: pa.Schema) -> Iterator[pa.RecordBatch]:
    start = 0
    with io.new_input(file.path).open() as stream:
        parquet = pq.ParquetFile(stream)
        for part in _parts(parquet):
            mask, start = dropped[start : start + len(part)], start + len(part)
            kept = part.filter(pa.array(~mask)) if mask.any() else part
            if len(kept):
                yield conform(dict(zip(kept.schema.names, kept.columns, strict=True)), len(kept), target)


def _parts(parquet: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    """All rows in parts: row groups of other writers may be far larger than ours."""
    for index in range(parquet.num_row_groups):
        group = parquet.metadata.row_group(index)
        fit = group.num_rows * _PART_BYTES // max(1, group.total_byte_size)
        yield from parquet.iter_batches(max(1, min(fit, _PART_ROWS)), [index], use_threads=False)


def _shape_at(io: FileIO, file: SmallFile) -> Shape:
    """The shape of a file's schema; raises ActionNeededError if the table says otherwise."""
    with io.new_input(file.path).open() as stream:
        try:
            parquet = pq.ParquetFile(stream)
            shape, rows = shape_of(parquet.schema_arrow), parquet.metadata.num_rows
        except pa.ArrowInvalid as error:  # not a Parquet file, or truncated
            raise ActionNeededError(f"{file.path} cannot be read: {plain(error)}") from error
    if rows != file.rows:
        raise ActionNeededError(f"{file.path} has {rows} rows, but the table says {file.rows}")
    return shape
