"""Rows deleted by position by others, like Spark's merge on read; PyIceberg's API cannot write that."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles

_PATH_ID, _POSITION_ID = 2147483546, 2147483545


def delete_rows(
    table: Table,
    positions: Mapping[str, Sequence[int]],
    *,
    equality: bool = False,
    with_bounds: bool = True,
    file_format: FileFormat = FileFormat.PARQUET,
) -> DataFile:
    """Commit one delete file with ``positions`` of data files, which are of one partition.

    ``equality``, ``file_format``: what its manifest says of it.
    """
    rows = sorted((path, at) for path, places in positions.items() for at in places)
    location = f"{table.location()}/data/{uuid.uuid4()}-foreign-deletes.parquet"
    fields = [("file_path", pa.string(), _PATH_ID), ("pos", pa.int64(), _POSITION_ID)]
    schema = pa.schema([pa.field(n, t, False, {"PARQUET:field_id": str(i)}) for n, t, i in fields])
    columns = [[path for path, _ in rows], [at for _, at in rows]]
    with table.io.new_output(location).create() as sink:
        pq.write_table(pa.table(dict(zip(schema.names, columns, strict=True)), schema), sink)
    like = next(iter(table.scan().plan_files())).file
    for task in table.scan().plan_files():
        if task.file.file_path in positions:
            like = task.file
    lower, upper = min(positions).encode(), max(positions).encode()
    file = DataFile.from_args(
        content=DataFileContent.EQUALITY_DELETES if equality else DataFileContent.POSITION_DELETES,
        file_path=location, file_format=file_format, partition=like.partition, record_count=len(rows),
        file_size_in_bytes=len(table.io.new_input(location)),
        lower_bounds={_PATH_ID: lower} if with_bounds else None,
        upper_bounds={_PATH_ID: upper} if with_bounds else None,
    )  # fmt: skip
    file.spec_id = table.metadata.default_spec_id
    with table.transaction() as transaction:
        producer = _AppendDeletes(Operation.APPEND, transaction, table.io)
        producer.append_data_file(file)
        producer.commit()
    return file


def remove_delete_file(table: Table, file: DataFile) -> None:
    """Commit that a delete file is no longer the table's."""
    with table.transaction() as transaction:
        producer = _RemoveDeletes(Operation.APPEND, transaction, table.io)
        producer.gone = file.file_path
        producer.commit()


class _DeletesManifest(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _AppendDeletes(_FastAppendFiles):
    def new_manifest_writer(self, spec: PartitionSpec) -> Any:
        output = self.new_manifest_output()
        return _DeletesManifest(spec, self.schema(), output, self._snapshot_id, self._compression)


class _RemoveDeletes(_AppendDeletes):
    gone = ""

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        return [
            manifest
            for manifest in manifests
            if all(one.data_file.file_path != self.gone for one in self.fetch_manifest_entry(manifest))
        ]


def delete_files(table: Table) -> list[DataFile]:
    """Of the head."""
    head = table.current_snapshot()
    return [
        entry.data_file
        for manifest in head.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
        if entry.data_file.content is not DataFileContent.DATA
    ]
