"""Data files on the executors: split by partition, write Parquet, describe.

PyIceberg's Parquet writer does the work (compression, row groups, column metrics); its projection
onto the table's schema is left out, because it turns null lists of structs into empty ones.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.fileformat import FileFormatFactory
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey
from pyiceberg.table import TableProperties
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.typedef import Record

from tabletopic_kernel.clients.outside_errors.sorting import plain, sort_error
from tabletopic_kernel.clients.outside_errors.table import STORAGE
from tabletopic_kernel.model.errors import RetryableError


def epochs_root(metadata: TableMetadata) -> str:
    """Where the folders of a table's epochs lie; it carries the table's uuid.

    So tables that share a ``write.data.path``, and tables that follow each other under one location, never
    meet each other's files.
    """
    return f"{data_root(metadata)}/{metadata.table_uuid}"


def epoch_folder(epoch: int) -> str:
    """Name of the folder under ``epochs_root`` that holds the files staged under ``epoch``.

    Files of a finished epoch that no snapshot refers to are found by it (I10).
    """
    return f"epoch-{epoch:08d}"


def data_root(metadata: TableMetadata) -> str:
    """Where a table's data files lie."""
    path = metadata.properties.get(TableProperties.WRITE_DATA_PATH) or f"{metadata.location.rstrip('/')}/data"
    return path.rstrip("/")


class DataFileWriter:
    """Writes Arrow batches of a table's file schema as data files of one epoch."""

    def __init__(self, metadata_json: str, io_properties: dict[str, str], epoch: int) -> None:
        metadata = TableMetadataUtil.parse_raw(metadata_json)
        folder = f"{epochs_root(metadata)}/{epoch_folder(epoch)}"
        properties = {**metadata.properties, TableProperties.WRITE_DATA_PATH: folder}
        self._metadata = metadata.model_copy(update={"properties": properties})
        self._io_properties = io_properties
        self.schema = metadata.schema()
        self.spec_id = metadata.default_spec_id
        self.target_bytes = int(
            properties.get(
                TableProperties.WRITE_TARGET_FILE_SIZE_BYTES,
                TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT,
            )
        )

    @cached_property
    def _io(self) -> FileIO:
        return load_file_io(self._io_properties, self._metadata.location)

    def write(self, table: pa.Table) -> list[DataFile]:
        """Write ``table`` (of ``conform.file_schema``) as one file per partition.

        Raises:
            RetryableError: the storage did not take it.
        """
        try:
            return [self._write_file(part, key) for key, part in self._partitions(table)]
        except OSError as error:
            found = sort_error(error, STORAGE)
            why = found.reason if found else plain(error)
            raise RetryableError(f"could not write a data file: {why}") from error

    def _write_file(self, table: pa.Table, key: PartitionKey | None) -> DataFile:
        model = FileFormatFactory.get(FileFormat.PARQUET)
        locations = load_location_provider(self._metadata.location, self._metadata.properties)
        path = locations.new_data_location(f"{uuid.uuid4()}.parquet", key)
        output = self._io.new_output(path)
        with model.create_writer(output, self.schema, self._metadata.properties) as writer:
            writer.write(table)
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=key.partition if key else Record(),
            file_size_in_bytes=len(output),
            sort_order_id=None,
            spec_id=self.spec_id,
            equality_ids=None,
            key_metadata=None,
            **writer.result().to_serialized_dict(),
        )
        file.spec_id = self.spec_id  # from_args leaves it out, and so does pickle
        return file

    def _partitions(self, table: pa.Table) -> Iterator[tuple[PartitionKey | None, pa.Table]]:
        """The rows of each partition: one sort by partition values, then slices."""
        spec = self._metadata.spec()
        if spec.is_unpartitioned():
            yield None, table
            return
        names = [str(position) for position in range(len(spec.fields))]
        keys = pa.table(
            [
                field.transform.pyarrow_transform(self.schema.find_field(field.source_id).field_type)(
                    _column(table, self.schema.find_column_name(field.source_id) or "")
                )
                for field in spec.fields
            ],
            names=names,
        )
        distinct = keys.group_by(names, use_threads=False).aggregate([])
        if len(distinct) == 1:
            slices = [(0, len(table))]
            ordered, ordered_keys = table, keys
        else:
            order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in names])
            ordered, ordered_keys = table.take(order), keys.take(order)
            slices = _runs(ordered_keys)
        for start, stop in slices:
            values = [
                PartitionFieldValue(field=field, value=ordered_keys[name][start].as_py())
                for field, name in zip(spec.fields, names, strict=True)
            ]
            key = PartitionKey(field_values=values, partition_spec=spec, schema=self.schema)
            yield key, ordered.slice(start, stop - start)


def _column(table: pa.Table, path: str) -> pa.ChunkedArray:
    head, *rest = path.split(".")
    column = table[head]
    return pc.struct_field(column, rest) if rest else column


def _runs(keys: pa.Table) -> list[tuple[int, int]]:
    """Start and stop of every run of equal rows in a sorted table."""
    changed = np.zeros(len(keys), dtype=bool)
    changed[0] = True
    for column in keys.columns:
        codes = column.combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
        changed[1:] |= codes[1:] != codes[:-1]
    starts = np.flatnonzero(changed).tolist()
    return list(zip(starts, [*starts[1:], len(keys)], strict=True))
