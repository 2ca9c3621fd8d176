"""Reads the key, the order and the place of rows from data files and files of deleted keys, in pieces.

Columns are found by field id, and have the table's current types: earlier files have other names and narrower
types. Position deletes are applied as readers do: within a partition, and to files that are not newer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestEntry
from pyiceberg.table import Table

from tabletopic_kernel.clients.storage.locations import file_name
from tabletopic_kernel.clients.storage.position_deletes import partition_of, read_positions
from tabletopic_kernel.model.columns.upsert_columns import UpsertColumns
from tabletopic_kernel.model.errors import ActionNeededError
from tabletopic_kernel.model.moved_rows import Mask
from tabletopic_kernel.pipeline.transform.deletes import ALL_KEYS, deletes_schema, value_of
from tabletopic_kernel.table.compaction.deleted_rows import Head, same_partition

FILE: Final = "file"  # the index of a row's file among those read; null for a delete
POSITION: Final = "position"
_AT_ONCE: Final = 256 * 1024  # rows
_ID: Final = b"PARQUET:field_id"
_PLACE = [pa.field(FILE, pa.int32()), pa.field(POSITION, pa.int64())]


def rows_schema(columns: UpsertColumns) -> pa.Schema:
    """The columns that are read of a row: those of a delete, its file and its position there."""
    plain = [pa.field(field.name, _storage(field.type)) for field in deletes_schema(columns)]
    return pa.schema([*plain, *_PLACE])


def read_rows(
    io: FileIO,
    location: str,
    columns: UpsertColumns,
    file: int | None,
    deleted: Mask | None = None,
    keys: pa.Table | None = None,
) -> Iterator[pa.RecordBatch]:
    """Rows of a file, of ``rows_schema``, without those ``deleted``; ``file``: its index, None for deletes.

    With ``keys`` at least the rows that have one, and few others: most rows are copied and joined no further.
    Raises OSError if the storage does not have it.
    """
    with io.new_input(location).open() as stream:
        parquet = pq.ParquetFile(stream, pre_buffer=True)
        paths = _paths_in(parquet.schema_arrow, columns)
        wanted = [".".join(path) for path in paths if path]
        batches = parquet.iter_batches(_AT_ONCE, columns=wanted, use_threads=False)
        yield from _rows(batches, paths, columns, file, deleted, keys)


def rows_in_memory(table: pa.Table, columns: UpsertColumns, file: int | None) -> Iterator[pa.RecordBatch]:
    """As ``read_rows``, of rows or deletes as they are staged."""
    return _rows(table.to_batches(_AT_ONCE), _paths_in(table.schema, columns), columns, file)


def _rows(
    batches: Iterable[pa.RecordBatch],
    paths: Sequence[tuple[str, ...] | None],
    columns: UpsertColumns,
    file: int | None,
    deleted: Mask | None = None,
    keys: pa.Table | None = None,
) -> Iterator[pa.RecordBatch]:
    schema, start = rows_schema(columns), 0
    for whole in batches:
        stays = np.ones(len(whole), np.bool_) if deleted is None else ~deleted[start : start + len(whole)]
        for path, field in zip(paths, schema, strict=False):
            if keys is not None and path and field.name in keys.column_names:
                values = _plain(value_of(whole, path), field.type)
                stays &= np.asarray(pc.is_in(values, keys[field.name].combine_chunks()))
        batch = whole if stays.all() else whole.filter(pa.array(stays))
        positions = start + np.flatnonzero(stays)
        start += len(whole)
        arrays = [
            _plain(value_of(batch, path), field.type) if path else _missing(field, len(batch))
            for path, field in zip(paths, schema, strict=False)
        ]
        of_file = pa.nulls(len(batch), pa.int32())
        if file is not None:
            of_file = pa.repeat(pa.scalar(file, pa.int32()), len(batch))
        yield pa.RecordBatch.from_arrays([*arrays, of_file, pa.array(positions)], schema=schema)


def _paths_in(schema: pa.Schema, columns: UpsertColumns) -> list[tuple[str, ...] | None]:
    """Where the columns are, and the flag of all keys; None: not there."""
    known = dict(_paths(schema))
    known = known or {leaf.field_id: leaf.path for leaf in columns.leaves}  # others added the file
    return [
        known.get(field_id) for field_id in (*(leaf.field_id for leaf in columns.leaves), ALL_KEYS.field_id)
    ]


def _paths(fields: Iterable[pa.Field], outer: tuple[str, ...] = ()) -> Iterator[tuple[int, tuple[str, ...]]]:
    for field in fields:
        path = (*outer, field.name)
        if (field_id := (field.metadata or {}).get(_ID)) is not None:
            yield int(field_id), path
        if pa.types.is_struct(field.type):
            yield from _paths(field.type, path)


def _missing(field: pa.Field, count: int) -> pa.Array:
    """What a file without the column has: null, and no row says anything of all keys."""
    is_flag = field.name == ALL_KEYS.name
    return pa.repeat(pa.scalar(False), count) if is_flag else pa.nulls(count, field.type)


def _storage(kind: pa.DataType) -> pa.DataType:
    """The type that is compared: without names of types, and times in UTC without their zone."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp(kind.unit)
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _plain(array: pa.Array, kind: pa.DataType) -> pa.Array:
    storage = array.storage if isinstance(array, pa.ExtensionArray) else array
    return storage if storage.type == kind else storage.cast(kind)


PartitionKey = tuple[object, ...]


class LiveRows:
    """The rows of a head, and the delete files by partition, which are read when asked for."""

    def __init__(self, table: Table) -> None:
        """Read the manifests of a table's head.

        Raises ActionNeededError if rows are deleted by value, which not all readers understand, and OSError.
        """
        self.head, self._io, self._name = Head(table), table.io, ".".join(table.name())
        if self.head.has_equality_deletes:
            raise ActionNeededError(
                f"another program has deleted rows of {self._name} by value, and only the engine that wrote "
                "such deletes applies them: have it rewrite them"
            )
        self._data = {entry.data_file.file_path: entry for entry in self.head.data}
        self._names = {file_name(path) for path in self._data}
        self._deletes: dict[PartitionKey, list[ManifestEntry]] = {}
        for delete in self.head.deletes:
            self._deletes.setdefault(partition_of(delete.data_file), []).append(delete)
        self._deleted: dict[PartitionKey, dict[str, Mask]] = {}

    def deletes_of(self, partition: PartitionKey) -> Sequence[ManifestEntry]:
        """The delete files of a partition."""
        return self._deletes.get(partition, ())

    def deleted_of(self, partition: PartitionKey) -> Mapping[str, Mask]:
        """Which rows of a partition's data files are deleted, by location; its delete files are read once.

        Raises ActionNeededError if not all readers apply one of them, and OSError.
        """
        if partition not in self._deleted:
            self._deleted[partition] = self.deleted_by(self.deletes_of(partition))
        return self._deleted[partition]

    def deleted_by(self, deletes: Iterable[ManifestEntry]) -> dict[str, Mask]:
        """Which rows some delete files of a partition delete, by the location of data files; as above."""
        deleted: dict[str, Mask] = {}
        for delete in deletes:
            for path, positions in read_positions(self._io, delete.data_file.file_path):
                entry = self._data.get(path)
                if entry is None and file_name(path) in self._names:
                    raise ActionNeededError(
                        f"another program has deleted rows of {self._name} by another spelling of their "
                        f"file, {path}, which not all readers apply: have it rewrite them"
                    )
                if entry is not None and _applies(delete, entry):
                    mask = deleted.setdefault(path, np.zeros(entry.data_file.record_count, np.bool_))
                    mask[positions[positions < len(mask)]] = True
        return deleted


def _applies(delete: ManifestEntry, data: ManifestEntry) -> bool:
    is_older = (delete.sequence_number or 0) < (data.sequence_number or 0)
    return not is_older and same_partition(delete.data_file, data.data_file)
