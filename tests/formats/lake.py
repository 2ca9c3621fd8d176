"""Decoded rows in a data file, and what PyIceberg and DuckDB read from it."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import IcebergType, ListType, MapType, StructType, UUIDType

from tabletopic_kernel.pipeline.conform import conform, file_schema
from tabletopic_kernel.pipeline.write import DataFileWriter
from tabletopic_kernel.table.topic_table import base_properties
from tests.formats.avro_cases import plain_rows


class Written:
    """Rows as staged: conformed to the table and in one data file, without a catalog."""

    def __init__(self, schema: Schema, rows: pa.RecordBatch, folder: Path) -> None:
        self._metadata: TableMetadata = new_table_metadata(
            schema,
            UNPARTITIONED_PARTITION_SPEC,
            UNSORTED_SORT_ORDER,
            location=f"file://{folder}",
            properties=base_properties(),
        )
        writer = DataFileWriter(self._metadata.model_dump_json(), {}, epoch=1)
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        fitted = conform(columns, len(rows), file_schema(writer.schema))
        (self._file,) = writer.write(pa.Table.from_batches([fitted]))

    @property
    def file(self) -> DataFile:
        """The file's description."""
        return self._file

    def by_pyiceberg(self) -> pa.RecordBatch:
        """The rows as returned by a PyIceberg scan."""
        io = load_file_io({}, self._metadata.location)
        scan = ArrowScan(self._metadata, io, self._metadata.schema(), AlwaysTrue())
        return _one_batch(scan.to_table([FileScanTask(self._file)]))

    def by_duckdb(self, connection: duckdb.DuckDBPyConnection) -> pa.RecordBatch:
        """The rows as read by DuckDB."""
        path = self._file.file_path.removeprefix("file://")
        found = connection.execute("SELECT * FROM read_parquet(?)", [path]).to_arrow_table()
        return _one_batch(found)


@contextmanager
def written(schema: Schema, rows: pa.RecordBatch) -> Iterator[Written]:
    """``Written`` in a temporary folder of its own."""
    with tempfile.TemporaryDirectory(prefix="tabletopic-test-") as folder:
        yield Written(schema, rows, Path(folder))


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def duckdb_rows(batch: pa.RecordBatch, schema: Schema) -> list[dict[str, Any]]:
    """DuckDB's rows in the form of ``plain_rows``: it has text for UUIDs and no byte widths."""
    return [
        {field.name: _as_plain(row[field.name], field.field_type) for field in schema.fields}
        for row in plain_rows(batch)
    ]


def _as_plain(value: Any, kind: IcebergType) -> Any:
    if value is None:
        return None
    match kind:
        case UUIDType():
            return uuid.UUID(value).bytes if isinstance(value, str) else value
        case StructType():
            return {field.name: _as_plain(value[field.name], field.field_type) for field in kind.fields}
        case ListType():
            return [_as_plain(item, kind.element_type) for item in value]
        case MapType():
            return [(key, _as_plain(item, kind.value_type)) for key, item in value]
    return value


def as_pyiceberg_reads(rows: list[dict[str, Any]], schema: Schema) -> list[dict[str, Any]]:
    """The rows as PyIceberg 0.12 returns them: missing lists and maps of structs become empty.

    The nulls are in the file, and DuckDB and Spark read them (``ArrowProjectionVisitor`` loses them, except
    below lists and maps of anything else, which it leaves unchanged).
    """
    return [
        {field.name: _without_null_lists(row[field.name], field.field_type) for field in schema.fields}
        for row in rows
    ]


def _without_null_lists(value: Any, kind: IcebergType) -> Any:
    match kind:
        case StructType() if value is not None:
            return {f.name: _without_null_lists(value[f.name], f.field_type) for f in kind.fields}
        case ListType() if isinstance(kind.element_type, StructType):
            return [_without_null_lists(item, kind.element_type) for item in value or []]
        case MapType() if isinstance(kind.value_type, StructType):
            return [(key, _without_null_lists(item, kind.value_type)) for key, item in value or []]
    return value
