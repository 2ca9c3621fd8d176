"""Which file a row goes to, and where in it: divides and sorts rows by a table's partitions and sort order.

Partition values are those in manifests (Iceberg spec, "Partition Transforms"): times are numbers, decimals
and uuids are themselves. So any column can be the source of several fields, and files that are merged later
have the values that PyIceberg read.

*Why no row is lost.* For partitions, rows are sorted by the codes of their values, and each run of equal
codes becomes a part: by construction, the runs divide the rows. For a sort order, rows are taken by a
permutation of their positions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionField, PartitionFieldValue, PartitionKey, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import UnknownTransform, VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import IcebergType

from tabletopic_kernel.model.errors import RetryableError

# A file costs as much as this many rows: with fewer, a second task of a batch makes it slower, and two files
# of what could be one (ADR 0038).
ROWS_PER_FILE: Final = 256
_MOST_NAME = 120  # characters of a folder's name: file systems allow 255, object stores 1,024 for a full path


class Partition(PartitionKey):
    """A partition: the values of its fields, in the form of manifests."""

    @cached_property
    def partition(self) -> Record:
        return Record(*(field.value for field in self.field_values))

    def to_path(self) -> str:
        """The path of its files: long values are truncated: no reader takes values from paths."""
        folders = super().to_path().split("/")
        return "/".join(re.sub("%[0-9A-F]?$", "", folder[:_MOST_NAME]) for folder in folders)


class ScatteredError(RetryableError):
    """Rows belong to so many partitions that one task of their batch should write all files."""


def divided(
    table: pa.Table, spec: PartitionSpec, schema: Schema, most: float = math.inf
) -> Iterator[tuple[Partition | None, pa.Table]]:
    """The rows of each partition, in their original order; a single one if the spec has no fields.

    ``table``: of ``file_schema(schema)``, with at least one row. Raises ScatteredError before the first part,
    if there are more than ``most``.
    """
    if spec.is_unpartitioned():
        yield None, table
        return
    keys = [_encoded(_values(table, field, schema)) for field in spec.fields]
    codes = [key.indices.to_numpy() for key in keys]
    ordered, starts = table, [0]
    if any(code.any() for code in codes):
        order = np.lexsort(codes[::-1])
        ordered, codes = table.take(pa.array(order)), [code[order] for code in codes]
        starts = np.flatnonzero(_changes(codes)).tolist()
    if len(starts) > most:
        raise ScatteredError(f"{len(table):,} rows belong to {len(starts):,} partitions")
    for start, stop in zip(starts, [*starts[1:], len(table)], strict=True):
        values = [
            PartitionFieldValue(field, key.dictionary[code[start].item()].as_py())
            for field, key, code in zip(spec.fields, keys, codes, strict=True)
        ]
        yield Partition(values, spec, schema), ordered.slice(start, stop - start)


def _changes(codes: list[np.ndarray]) -> np.ndarray:
    """A mask of the rows that differ from the one before."""
    changed = np.zeros(len(codes[0]), dtype=bool)
    changed[0] = True
    for code in codes:
        changed[1:] |= code[1:] != code[:-1]
    return changed


def sort_order(metadata: TableMetadata) -> SortOrder:
    """The sort order of a table's new files: its default one, or none if that has an unknown transform."""
    order = metadata.sort_order_by_id(metadata.default_sort_order_id) or UNSORTED_SORT_ORDER
    known = not any(isinstance(field.transform, UnknownTransform) for field in order.fields)
    return order if known else UNSORTED_SORT_ORDER


def permutation(table: pa.Table, order: SortOrder, schema: Schema) -> pa.Array | None:
    """The permutation that sorts ``table`` by ``order``; None if it is already sorted.

    The sort is stable. Floats are in the order of the Iceberg spec ("Sort Orders"):
    ``-NaN < -Infinity < … < -0 < 0 < … < Infinity < NaN``. A column that ``schema``, a version of the
    table's, lacks is null in all rows.
    """
    keys: list[pa.Array] = []
    directions: list[str] = []
    for field in order.fields if len(table) > 1 else ():
        if field.source_id not in schema.field_ids:
            continue
        values = _comparable(_values(table, field, schema))
        if values.null_count:
            first = field.null_order is NullOrder.NULLS_FIRST
            keys.append(values.is_null())
            directions.append("descending" if first else "ascending")
        if values.null_count < len(values):
            keys.append(values)
            directions.append("ascending" if field.direction is SortDirection.ASC else "descending")
    if not keys:
        return None
    names = [str(index) for index in range(len(keys))]
    sort_keys = list(zip(names, directions, strict=True))
    indices = pc.sort_indices(pa.RecordBatch.from_arrays(keys, names=names), sort_keys=sort_keys)
    in_place = np.array_equal(indices.to_numpy(), np.arange(len(indices)))
    return None if in_place else indices


def _comparable(values: pa.Array) -> pa.Array:
    """Values whose Arrow order is that of the Iceberg spec."""
    if isinstance(values.type, pa.BaseExtensionType):
        return values.storage
    if not pa.types.is_floating(values.type):
        return values
    # As integers: in negative ones, all bits except the sign are inverted.
    floats = values.fill_null(0).to_numpy(zero_copy_only=False)
    bits = floats.view(np.int32 if floats.itemsize == 4 else np.int64)
    numbers = np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)
    return pa.array(numbers, mask=values.is_null().to_numpy(zero_copy_only=False))


def partition_values(column: pa.Array, field: PartitionField, kind: IcebergType) -> set[Any]:
    """The values that a partition field has for a column of type ``kind``, in the form of manifests."""
    column = column.cast(pa.binary()) if pa.types.is_large_binary(column.type) else column
    return set(_encoded(field.transform.pyarrow_transform(kind)(column)).dictionary.to_pylist())


def _values(table: pa.Table, field: PartitionField | SortField, schema: Schema) -> pa.Array:
    if isinstance(field.transform, VoidTransform):  # its source may be gone
        return pa.nulls(len(table))
    head, *rest = (schema.find_column_name(field.source_id) or "").split(".")
    column = pc.struct_field(table[head], rest) if rest else table[head]
    if pa.types.is_large_binary(column.type):
        column = column.cast(pa.binary())  # iceberg-rust cannot truncate large ones
    transform = field.transform.pyarrow_transform(schema.find_field(field.source_id).field_type)
    values = transform(column).combine_chunks()
    return values if isinstance(values, pa.Array) else pa.concat_arrays(values.chunks)


def _encoded(values: pa.Array) -> pa.DictionaryArray:
    """The distinct values, including null, in the form of manifests, and which of them each row has."""
    kind = values.type
    if pa.types.is_date(kind):
        values = values.cast(pa.int32())
    elif pa.types.is_time(kind) or pa.types.is_timestamp(kind):
        values = values.cast(pa.int64())
    if not isinstance(kind, pa.BaseExtensionType):
        return values.dictionary_encode(null_encoding="encode")
    encoded = values.storage.dictionary_encode(null_encoding="encode")
    distinct = pa.ExtensionArray.from_storage(kind, encoded.dictionary)
    return pa.DictionaryArray.from_arrays(encoded.indices, distinct)
