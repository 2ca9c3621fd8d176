"""Rows whose event left values out: they keep those of the row that they replace.

Their event has placeholders (``pipeline/transform/unavailable.py``). The commit's look-up knows which row was
the newest before: that of the key, or of the key that a change of the key deleted. Rows with their values are
one more data file of the snapshot, and the staged ones are deleted by position.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table

from tabletopic_kernel.model.moved_rows import Positions
from tabletopic_kernel.pipeline.conform import conform, file_schema
from tabletopic_kernel.pipeline.transform.unavailable import unavailable
from tabletopic_kernel.pipeline.write import shape_of
from tabletopic_kernel.table.changes.upsert.leaves import FILE, POSITION
from tabletopic_kernel.table.changes.upsert.lookup import Lookup, Place

_AT_ONCE: Final = 8 * 1024  # rows, of large values
Rows: TypeAlias = DataFile | pa.Table  # staged ones may be in memory


class _Rows(NamedTuple):
    rows: pa.Table
    at: dict[Place, int]  # the index of each


def with_kept_values(
    table: Table,
    files: Sequence[Rows],
    staged: int,
    field_ids: frozenset[int],
    superseded: Mapping[int, Positions],
    lookup: Lookup,
) -> tuple[Iterator[pa.Table], dict[int, Positions]]:
    """The rows that get values, with them, in parts, and by file the positions of all rows to delete.

    The first so many ``files`` are ``staged``; ``field_ids``: the columns in which some lack values.
    """
    schema = table.schema()
    names = [field.name for field in schema.fields if field.field_id in field_ids]
    lacking = {name: set[Place]() for name in names}
    for index in range(staged):
        _note_lacking(table, files[index], index, lacking)
    before = lookup.rows_before(_places(set().union(*lacking.values())))
    beaten = {(index, position) for index, rows in superseded.items() for position in rows.tolist()}
    wanted = _by_file(set().union(*lacking.values()) - beaten)
    sources = {name: _sources(places - beaten, places, before) for name, places in lacking.items()}
    rows = _read(table, files, wanted, [field.name for field in schema.fields])
    to_delete = {index: np.union1d(superseded.get(index, rows), rows) for index, rows in wanted.items()}
    return _with_sources(table, files, rows, sources), {**superseded, **to_delete}


def _with_sources(
    table: Table, files: Sequence[Rows], rows: _Rows, sources: Mapping[str, Mapping[Place, Place]]
) -> Iterator[pa.Table]:
    """Rows with the values of their sources: a part at a time, as values are large, in the sources' order."""
    first = {
        row: min(of[row] for of in sources.values() if row in of) for of in sources.values() for row in of
    }
    order = sorted(rows.at, key=lambda row: first.get(row, row))
    for start in range(0, len(order), _AT_ONCE):
        chosen = order[start : start + _AT_ONCE]
        part = rows.rows.take(pa.array([rows.at[row] for row in chosen]))
        needed = {of_column[row] for of_column in sources.values() for row in chosen if row in of_column}
        earlier = _read(table, files, _by_file(needed), list(sources))
        for name, of_column in sources.items():
            both = pa.chunked_array([*part[name].chunks, *earlier.rows[name].chunks], part[name].type)
            indices = [
                len(part) + earlier.at[of_column[row]] if row in of_column else at
                for at, row in enumerate(chosen)
            ]
            at_column = part.schema.get_field_index(name)
            part = part.set_column(at_column, part.schema.field(at_column), both.take(pa.array(indices)))
        yield part


def _sources(rows: set[Place], lacking: set[Place], before: Mapping[Place, Place]) -> dict[Place, Place]:
    """For each of the rows the newest one before that has the value, as far as there is one."""
    sources: dict[Place, Place] = {}
    for row in rows:
        at: Place | None = row
        while at in lacking:
            at = before.get(at)
        if at is not None:
            sources[row] = at
    return sources


def _note_lacking(table: Table, file: Rows, index: int, lacking: Mapping[str, set[Place]]) -> None:
    for start, batch in _batches(table, file, list(lacking)):
        for places, column in zip(lacking.values(), batch.columns, strict=True):
            places.update((index, start + at) for at in np.flatnonzero(unavailable(column)).tolist())


def _by_file(places: Iterable[Place]) -> dict[int, Positions]:
    by_file: dict[int, list[int]] = {}
    for file, position in sorted(places):
        by_file.setdefault(file, []).append(position)
    return {file: np.array(positions, np.int64) for file, positions in by_file.items()}


def _read(
    table: Table, files: Sequence[Rows], wanted: Mapping[int, Positions], names: Sequence[str]
) -> _Rows:
    """The rows at ``wanted`` places in the table's current columns."""
    target = file_schema(table.schema().select(*names))
    parts, index = [], dict[Place, int]()
    for file, positions in wanted.items():
        for start, batch in _batches(table, files[file], names, positions):
            in_batch = positions[(positions >= start) & (positions < start + len(batch))]
            if len(in_batch):
                parts.append(batch.take(pa.array(in_batch - start)))
        index |= {(file, position): len(index) + at for at, position in enumerate(positions.tolist())}
    return _Rows(pa.Table.from_batches(parts, schema=target), index)


def _batches(
    table: Table, file: Rows, names: Sequence[str], wanted: Positions | None = None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of a file in order, deleted ones, too, with the position of the first of each batch.

    Row groups without ``wanted`` rows may be left out. PyIceberg reads all rows at once, and makes null lists
    of structs empty: it reads only files of other shapes.
    """
    schema, start = table.schema().select(*names), 0
    target = file_schema(schema)
    if isinstance(file, pa.Table):
        for batch in file.select(target.names).to_batches(_AT_ONCE):
            yield start, conform(dict(zip(target.names, batch.columns, strict=True)), len(batch), target)
            start += len(batch)
        return
    with table.io.new_input(file.file_path).open() as stream:
        parquet = pq.ParquetFile(stream, pre_buffer=True)
        fields = dict(zip(parquet.schema_arrow.names, shape_of(parquet.schema_arrow), strict=True))
        if [fields.get(name) for name in target.names] == list(shape_of(target)):
            for group in range(parquet.num_row_groups):
                end = start + parquet.metadata.row_group(group).num_rows
                if wanted is None or ((wanted >= start) & (wanted < end)).any():
                    for batch in parquet.iter_batches(_AT_ONCE, [group], target.names, use_threads=False):
                        columns = {name: batch.column(name) for name in target.names}
                        yield start, conform(columns, len(batch), target)
                        start += len(batch)
                start = end
            return
    scan = ArrowScan(table.metadata, table.io, schema, AlwaysTrue())
    for batch in scan.to_record_batches([FileScanTask(file)]):
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        yield start, conform(columns, len(batch), target)
        start += len(batch)


def _places(rows: set[Place]) -> pa.Table:
    files, positions = zip(*rows, strict=True) if rows else ((), ())
    return pa.table({FILE: pa.array(files, pa.int32()), POSITION: pa.array(positions, pa.int64())})
