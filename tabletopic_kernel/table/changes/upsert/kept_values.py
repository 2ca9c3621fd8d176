"""Rows whose event left values out: they keep those of the row that they replace.

Their event has placeholders (``pipeline/transform/unavailable.py``). The commit's look-up knows which row was
the newest before: that of the key, or of the key that a change of the key deleted. Rows with their values are
one more data file of the snapshot, and the staged ones are deleted by position.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table

from tabletopic_kernel.model.moved_rows import Positions
from tabletopic_kernel.pipeline.conform import conform, file_schema
from tabletopic_kernel.pipeline.transform.unavailable import unavailable
from tabletopic_kernel.table.changes.upsert.leaves import FILE, POSITION
from tabletopic_kernel.table.changes.upsert.lookup import Lookup, Place


class _Rows(NamedTuple):
    rows: pa.Table
    at: dict[Place, int]  # the index of each


def with_kept_values(
    table: Table,
    files: Sequence[DataFile],
    staged: int,
    field_ids: frozenset[int],
    superseded: Mapping[int, Positions],
    lookup: Lookup,
) -> tuple[pa.Table, dict[int, Positions]]:
    """The rows that get values, with them, and by file the positions of all rows to delete.

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
    found = {place for of_column in sources.values() for place in of_column.values()}
    earlier = _read(table, files, _by_file(found), names)
    whole = rows.rows
    for name, of_column in sources.items():
        chosen = np.arange(len(whole))
        for place, source in of_column.items():
            chosen[rows.at[place]] = len(whole) + earlier.at[source]
        both = pa.chunked_array([*whole[name].chunks, *earlier.rows[name].chunks], whole[name].type)
        at = whole.schema.get_field_index(name)
        whole = whole.set_column(at, whole.schema.field(at), both.take(pa.array(chosen)))
    gone = {index: np.union1d(superseded.get(index, rows), rows) for index, rows in wanted.items()}
    return whole, {**superseded, **gone}


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


def _note_lacking(table: Table, file: DataFile, index: int, lacking: Mapping[str, set[Place]]) -> None:
    start = 0
    for batch in _batches(table, file, list(lacking)):
        for places, column in zip(lacking.values(), batch.columns, strict=True):
            places.update((index, start + at) for at in np.flatnonzero(unavailable(column)).tolist())
        start += len(batch)


def _by_file(places: Iterable[Place]) -> dict[int, Positions]:
    by_file: dict[int, list[int]] = {}
    for file, position in sorted(places):
        by_file.setdefault(file, []).append(position)
    return {file: np.array(positions, np.int64) for file, positions in by_file.items()}


def _read(
    table: Table, files: Sequence[DataFile], wanted: Mapping[int, Positions], names: Sequence[str]
) -> _Rows:
    """The rows at ``wanted`` places in the table's columns of now."""
    target = file_schema(table.schema().select(*names))
    parts, index = [], dict[Place, int]()
    for file, positions in wanted.items():
        start = 0
        for batch in _batches(table, files[file], names):
            here = positions[(positions >= start) & (positions < start + len(batch))]
            if len(here):
                parts.append(batch.take(pa.array(here - start)))
            start += len(batch)
        index |= {(file, position): len(index) + at for at, position in enumerate(positions.tolist())}
    return _Rows(pa.Table.from_batches(parts, schema=target), index)


def _batches(table: Table, file: DataFile, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a file in order, deleted ones, too."""
    schema = table.schema().select(*names)
    target = file_schema(schema)
    scan = ArrowScan(table.metadata, table.io, schema, AlwaysTrue())
    for batch in scan.to_record_batches([FileScanTask(file)]):
        yield conform(dict(zip(batch.schema.names, batch.columns, strict=True)), len(batch), target)


def _places(rows: set[Place]) -> pa.Table:
    files, positions = zip(*rows, strict=True) if rows else ((), ())
    return pa.table({FILE: pa.array(files, pa.int32()), POSITION: pa.array(positions, pa.int64())})
