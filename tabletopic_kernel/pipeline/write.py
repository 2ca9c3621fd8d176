"""From rows to data files of a table, on the executors.

Rows are split by partition, sorted, written as Parquet and described, with PyIceberg's options and column
metrics. What depends on the schema alone is computed once and not for each file (ADR 0038), and rows do not
go through PyIceberg's projection onto the schema, which turns null lists of structs into empty ones.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    MetricsMode,
    compute_statistics_plan,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.typedef import Record
from pyiceberg.utils.properties import property_as_int

from tabletopic_kernel.clients.catalog.pyiceberg_seams.files import native, parquet_options
from tabletopic_kernel.clients.catalog.pyiceberg_seams.footers import Footers
from tabletopic_kernel.clients.catalog.pyiceberg_seams.manifests import OwnSpec
from tabletopic_kernel.clients.catalog.pyiceberg_seams.tables import location_provider
from tabletopic_kernel.clients.outside_errors.rules import STORAGE
from tabletopic_kernel.clients.outside_errors.sorting import sort_error
from tabletopic_kernel.model.columns.evolution import METADATA
from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.pipeline.arrange import ROWS_PER_FILE, Partition, divided, permutation, sort_order
from tabletopic_kernel.pipeline.conform import file_schema


def epochs_root(metadata: TableMetadata) -> str:
    """The parent of a table's epoch folders: tables with the same data path or location never share files."""
    return f"{data_root(metadata)}/{metadata.table_uuid}"


def epoch_folder(epoch: int) -> str:
    """The folder under ``epochs_root`` with an epoch's files, by which unused ones are found (I10)."""
    return f"epoch-{epoch:08d}"


def data_root(metadata: TableMetadata) -> str:
    """The location of a table's data files."""
    path = metadata.properties.get(TableProperties.WRITE_DATA_PATH) or f"{metadata.location.rstrip('/')}/data"
    return path.rstrip("/")


_STAGED = ".parquet"  # the end of files' names
# For files with rows of other files: the age of such a file says nothing about its rows.
REWRITTEN = "-rewritten.parquet"
# Files with deleted keys, which no manifest names: Iceberg's removal of orphans passes over hidden names.
DELETED_KEYS = "_{}-keys.parquet"


# Numbers that grow by a little: as differences they take less time and a fraction of the bytes (ADR 0038).
_DELTAS: Final = dict.fromkeys((f"{METADATA}.offset", f"{METADATA}.timestamp"), "DELTA_BINARY_PACKED")
_AT_ONCE: Final = 4  # files of one batch: half of a file's time is PyArrow's or the storage's (ADR 0038)
_ROW_LIMITS = (TableProperties.PARQUET_PAGE_ROW_LIMIT, TableProperties.PARQUET_ROW_GROUP_LIMIT)


class DataFileWriter:
    """Writes Arrow batches of a table's file schema as data files of one epoch."""

    def __init__(
        self,
        metadata_json: str,
        io_properties: dict[str, str],
        epoch: int,
        schema_id: int | None = None,
        suffix: str = _STAGED,
    ) -> None:
        """``schema_id``: the table's schema that files have (None: the current one)."""
        metadata = TableMetadataUtil.parse_raw(metadata_json)
        self.folder = folder = f"{epochs_root(metadata)}/{epoch_folder(epoch)}"
        properties = {**metadata.properties, TableProperties.WRITE_DATA_PATH: folder}
        if codec := properties.get(TableProperties.PARQUET_COMPRESSION):
            properties[TableProperties.PARQUET_COMPRESSION] = codec.lower()  # Java takes either case
        for limit in _ROW_LIMITS:  # with 0 rows a page, PyArrow never finishes
            if (rows := property_as_int(properties, limit, 1)) is not None and rows < 1:
                raise ValueError(f"table property {limit} must be at least 1, and is {rows}")
        self.metadata = metadata.model_copy(update={"properties": properties})
        self._io_properties = io_properties
        self._suffix = suffix
        self.begun: list[str] = []  # locations of files it has begun to write, finished or not
        chosen = metadata.schema() if schema_id is None else metadata.schema_by_id(schema_id)
        assert chosen is not None, schema_id
        self.schema = chosen
        self.target = file_schema(chosen)
        self._spec = OwnSpec.of(metadata.spec())
        self.spec_id = metadata.default_spec_id
        self.order = sort_order(metadata)
        self._locations = location_provider(metadata.location, properties)
        paths = parquet_path_to_id_mapping(chosen)  # ids of columns by path
        self._footers = _footers(chosen, properties, paths)
        self._options = parquet_options(properties) | {
            "store_decimal_as_integer": True,
            "column_encoding": {path: how for path, how in _DELTAS.items() if path in paths},
        }
        self._dictionaries = [path for path in paths if path not in _DELTAS]
        self._row_group_rows = property_as_int(
            properties,
            TableProperties.PARQUET_ROW_GROUP_LIMIT,
            TableProperties.PARQUET_ROW_GROUP_LIMIT_DEFAULT,
        )
        self.target_bytes = int(
            properties.get(
                TableProperties.WRITE_TARGET_FILE_SIZE_BYTES,
                TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT,
            )
        )

    @cached_property
    def io(self) -> FileIO:
        """The table's storage."""
        return load_file_io(self._io_properties, self.metadata.location)

    def write(self, table: pa.Table, most: float = math.inf) -> list[DataFile]:
        """Write ``table`` (of ``conform.file_schema``) as one file per partition.

        Raises RetryableError if the storage refuses; ScatteredError, before it writes, if files exceed
        ``most``.
        """
        try:
            parts = list(self._divided(table, most))
            if len(parts) == 1:
                return list(map(self._write_part, parts))
            with ThreadPoolExecutor(_AT_ONCE, "files") as pool:
                return list(pool.map(self._write_part, parts))
        except (OSError, pa.ArrowException) as error:  # the second: of Azure's client
            if (trouble := sort_error(error, STORAGE, doing="could not write a data file: ")) is None:
                raise
            raise RetryableError(trouble) from error

    def write_one(self, parts: Iterable[pa.Table]) -> DataFile:
        """Write all of ``parts``, each in its own row groups, as one file of one partition.

        In a table with a sort order there is only one part: its rows are sorted together. Raises ValueError
        if the rows are of several partitions, or there are none, or several parts to sort; OSError of the
        storage.
        """
        rest = iter(parts)
        key, first = self._only(next(rest))

        def of_one_partition() -> Iterator[pa.Table]:
            yield first
            for part in rest:
                if not self.order.is_unsorted:
                    raise ValueError("the rows of a sorted file come in several parts")
                other, rows = self._only(part)
                if (other and other.partition) != (key and key.partition):
                    raise ValueError("the rows of one file belong to several partitions")
                yield rows

        return self._write_file(of_one_partition(), key)

    def _only(self, table: pa.Table) -> tuple[Partition | None, pa.Table]:
        (part,) = self._divided(table)
        return part

    def _divided(
        self, table: pa.Table, most: float = math.inf
    ) -> Iterator[tuple[Partition | None, pa.Table]]:
        """Each partition's rows, in the table's sort order: dividing keeps the order of rows."""
        order = permutation(table, self.order, self.schema)
        ordered = table if order is None else table.take(order)
        return divided(ordered, self._spec, self.schema, most)

    def _write_part(self, part: tuple[Partition | None, pa.Table]) -> DataFile:
        key, rows = part
        return self._write_file((rows,), key, dictionaries=len(rows) >= ROWS_PER_FILE)

    def _write_file(
        self, parts: Iterable[pa.Table], key: Partition | None, *, dictionaries: bool = True
    ) -> DataFile:
        path = self._locations.new_data_location(f"{uuid.uuid4()}{self._suffix}", key)
        self.begun.append(path)
        try:
            footer, size = self._write_parquet(path, parts, self._dictionaries if dictionaries else False)
        except BaseException:  # half a file, which nobody would read
            with suppress(OSError, pa.ArrowException):
                self.io.delete(path)
            raise
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=key.partition if key else Record(),
            file_size_in_bytes=size,
            sort_order_id=self.order.order_id or None,
            spec_id=self.spec_id,
            equality_ids=None,
            key_metadata=None,
            **self._footers.statistics(footer),
        )
        file.spec_id = self.spec_id  # from_args leaves it out
        return file

    def _write_parquet(
        self, path: str, parts: Iterable[pa.Table], dictionaries: list[str] | bool
    ) -> tuple[pq.FileMetaData, int]:
        rest = iter(parts)
        first = next(rest)
        stream: Any = self.io.new_output(path).create(overwrite=True)
        with stream:
            options = {**self._options, "use_dictionary": dictionaries}
            with pq.ParquetWriter(native(stream), first.schema, **options) as writer:
                for part in chain((first,), rest):
                    writer.write(part, row_group_size=self._row_group_rows)
            return writer.writer.metadata, stream.tell()


def _footers(schema: Schema, properties: dict[str, str], paths: dict[str, int]) -> Footers:
    metrics = compute_statistics_plan(schema, properties)
    for place in filter(None, map(paths.get, _DELTAS)):  # PyIceberg gives inner columns no bounds
        if metrics[place].mode == MetricsMode(MetricModeTypes.COUNTS):
            metrics[place] = replace(metrics[place], mode=MetricsMode(MetricModeTypes.FULL))
    return Footers(metrics, paths)


class KeysWriter:
    """Writes deleted keys of an upsert table: files in the epoch's folder that no manifest names."""

    target_bytes = 32 * 1024**2

    def __init__(self, io: FileIO, folder: str) -> None:
        self._io, self._folder = io, folder

    def write(self, table: pa.Table, most: float = math.inf) -> list[DataFile]:
        """Write ``table`` as one file; raises RetryableError if the storage refuses."""
        output = self._io.new_output(f"{self._folder}/{DELETED_KEYS.format(uuid.uuid4())}")
        try:
            with output.create() as stream:
                pq.write_table(table, stream, compression="zstd")
            size = len(output)
        except (OSError, pa.ArrowException) as error:
            if (trouble := sort_error(error, STORAGE, doing="could not write deleted keys: ")) is None:
                raise
            raise RetryableError(trouble) from error
        return [keys_file(output.location, len(table), size)]


def keys_file(location: str, rows: int, size: int) -> DataFile:
    """The description of a file with deleted keys."""
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=rows,
        file_size_in_bytes=size,
    )


Shape = tuple[object, ...]


def schemas_by_shape(metadata: TableMetadata) -> dict[Shape, int]:
    """The versions of a table's schema by the shape of their files; of equal ones, the current or newest."""
    newest_last = sorted(
        metadata.schemas,
        key=lambda schema: (schema.schema_id == metadata.current_schema_id, schema.schema_id),
    )
    return {shape_of(file_schema(schema)): schema.schema_id for schema in newest_last}


def shape_of(fields: pa.Schema | pa.StructType) -> Shape:
    """Ids, names, types and nullability, at all levels, without a writer's other metadata."""
    return tuple(_shape_of_field(field) for field in fields)


def _shape_of_field(field: pa.Field) -> Shape:
    kind = field.type
    field_id = (field.metadata or {}).get(b"PARQUET:field_id")
    inside: tuple[object, ...]
    if pa.types.is_struct(kind):
        inside = ("struct", shape_of(kind))
    elif pa.types.is_map(kind):
        inside = ("map", _shape_of_field(kind.key_field), _shape_of_field(kind.item_field))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inside = (str(kind.id), _shape_of_field(kind.value_field))
    else:
        inside = (str(kind),)
    return (field_id, field.name, field.nullable, *inside)
