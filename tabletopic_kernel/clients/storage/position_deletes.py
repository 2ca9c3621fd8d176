"""Position delete files: which rows of which data files are deleted (Iceberg spec, "Position Delete Files").

They are read in pieces, which bounds memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

from tabletopic_kernel.model.errors import ActionNeededError
from tabletopic_kernel.model.moved_rows import Mask, Positions

PATH_ID, POSITION_ID = 2147483546, 2147483545
_PATH, _POSITION = "file_path", "pos"
_SCHEMA = pa.schema(
    [
        pa.field(name, kind, nullable=False, metadata={"PARQUET:field_id": str(field_id)})
        for name, kind, field_id in (
            (_PATH, pa.dictionary(pa.int32(), pa.string()), PATH_ID),
            (_POSITION, pa.int64(), POSITION_ID),
        )
    ]
)
_AT_ONCE = 1024**2  # positions read at a time


def read_positions(io: FileIO, location: str) -> Iterator[tuple[str, Positions]]:
    """Positions by data file, as spelled, in pieces; raises ActionNeededError for another file."""
    with io.new_input(location).open() as stream:
        try:
            parquet = pq.ParquetFile(stream, read_dictionary=[_PATH])
            for batch in parquet.iter_batches(_AT_ONCE, columns=[_PATH, _POSITION], use_threads=False):
                yield from _by_path(batch, location)
        except (pa.ArrowInvalid, KeyError) as error:
            raise _wrong(location) from error


def _by_path(batch: pa.RecordBatch, location: str) -> Iterator[tuple[str, Positions]]:
    if set(batch.schema.names) != {_PATH, _POSITION}:
        raise _wrong(location)
    paths, positions = batch.column(_PATH), batch.column(_POSITION)
    if not len(batch):
        return
    if paths.null_count or positions.null_count or positions.type != pa.int64():
        raise _wrong(location)
    if not pa.types.is_dictionary(paths.type):
        paths = paths.dictionary_encode()
    codes, values = paths.indices.to_numpy(), positions.to_numpy()
    if (np.diff(codes) < 0).any():  # not in files that follow Iceberg's order
        order = np.argsort(codes, kind="stable")
        codes, values = codes[order], values[order]
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    for code, part in zip(codes[starts].tolist(), np.split(values, starts[1:]), strict=True):
        yield paths.dictionary[code].as_py(), part


def mark_deleted(io: FileIO, applies: Mapping[str, Collection[str]], masks: Mapping[str, Mask]) -> None:
    """Mark the deleted rows in ``masks``, one per data file; positions beyond the rows do not count."""
    for location, paths in applies.items():
        for path, positions in read_positions(io, location):
            if path in paths:
                mask = masks[path]
                mask[positions[(positions >= 0) & (positions < len(mask))]] = True


def _wrong(location: str) -> ActionNeededError:
    return ActionNeededError(f"{location} is not a position delete file that can be read")


def write_positions(
    io: FileIO, location: str, data: DataFile, positions: Mapping[str, Positions]
) -> DataFile:
    """Write a file that deletes rows at ``positions`` (ascending, unique) of data files by their locations.

    All are in the partition of ``data``. Raises OSError.
    """
    paths = sorted(positions)
    codes = np.repeat(np.arange(len(paths), dtype=np.int32), [len(positions[path]) for path in paths])
    columns = [
        pa.DictionaryArray.from_arrays(codes, paths),  # a location is some 200 bytes
        pa.array(np.concatenate([positions[path] for path in paths]), pa.int64()),
    ]
    output = io.new_output(location)
    with output.create() as sink:
        table = pa.Table.from_arrays(columns, schema=_SCHEMA)
        pq.write_table(table, sink, compression="zstd", store_schema=False)
    # Equal bounds tell readers that the file is for one data file only, so the bounds are not truncated.
    file = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=data.partition,
        record_count=len(columns[0]),
        file_size_in_bytes=len(output),
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds={PATH_ID: paths[0].encode()},
        upper_bounds={PATH_ID: paths[-1].encode()},
        spec_id=data.spec_id,
    )
    file.spec_id = data.spec_id  # from_args leaves it out
    return file


def partition_of(file: DataFile) -> tuple[object, ...]:
    """What tells a file's partition from the others: position deletes apply within one."""
    return (file.spec_id, *(file.partition[index] for index in range(len(file.partition))))
