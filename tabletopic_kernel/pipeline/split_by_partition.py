"""The rows of each partition of a table: the values that Iceberg's transforms give, and the rows by them.

Values are those that manifests hold (Iceberg spec, "Partition Transforms"): times are numbers, decimals and
uuids are themselves. So any column can be the source of several fields, and files that are put together later
have the values that PyIceberg read.

*Why no row is lost.* Rows are sorted by the codes of their values, and each run of equal codes is handed
over: the runs are a division of the rows by construction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionField, PartitionFieldValue, PartitionKey, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import VoidTransform
from pyiceberg.typedef import Record

_MOST_NAME = 120  # characters of a folder's name: file systems take 255, object stores 1,024 for a whole path


class Partition(PartitionKey):
    """A partition by the values of its fields, which are those that manifests hold."""

    @cached_property
    def partition(self) -> Record:
        """The values."""
        return Record(*(one.value for one in self.field_values))

    def to_path(self) -> str:
        """Where its files lie, for people: a long value is cut, as no reader takes values from paths."""
        folders = super().to_path().split("/")
        return "/".join(re.sub("%[0-9A-F]?$", "", folder[:_MOST_NAME]) for folder in folders)


def divided(
    table: pa.Table, spec: PartitionSpec, schema: Schema
) -> Iterator[tuple[Partition | None, pa.Table]]:
    """The rows of each partition, in the order in which they stand; no partition without a spec's fields.

    Args:
        table: of ``file_schema(schema)``, with a row at least.
        spec: its sources are columns of ``schema``, or void.
        schema: of the table.
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
    for start, stop in zip(starts, [*starts[1:], len(table)], strict=True):
        values = [
            PartitionFieldValue(field, key.dictionary[code[start].item()].as_py())
            for field, key, code in zip(spec.fields, keys, codes, strict=True)
        ]
        yield Partition(values, spec, schema), ordered.slice(start, stop - start)


def _changes(codes: list[np.ndarray]) -> np.ndarray:
    """Where a row differs from the one before it."""
    changed = np.zeros(len(codes[0]), dtype=bool)
    changed[0] = True
    for code in codes:
        changed[1:] |= code[1:] != code[:-1]
    return changed


def _values(table: pa.Table, field: PartitionField, schema: Schema) -> pa.Array:
    """What a field's transform makes of the rows."""
    if isinstance(field.transform, VoidTransform):  # its source may be gone
        return pa.nulls(len(table))
    head, *rest = (schema.find_column_name(field.source_id) or "").split(".")
    column = pc.struct_field(table[head], rest) if rest else table[head]
    if pa.types.is_large_binary(column.type):
        column = column.cast(pa.binary())  # iceberg-rust truncates no large ones
    transform = field.transform.pyarrow_transform(schema.find_field(field.source_id).field_type)
    return transform(column).combine_chunks()


def _encoded(values: pa.Array) -> pa.DictionaryArray:
    """The distinct values, null among them, as manifests hold them; and which of them each row has."""
    kind = values.type
    if pa.types.is_date(kind):
        values = values.cast(pa.int32())
    elif pa.types.is_time(kind) or pa.types.is_timestamp(kind):
        values = values.cast(pa.int64())
    if not isinstance(kind, pa.BaseExtensionType):
        return values.dictionary_encode(null_encoding="encode")
    found = values.storage.dictionary_encode(null_encoding="encode")
    distinct = pa.ExtensionArray.from_storage(kind, found.dictionary)
    return pa.DictionaryArray.from_arrays(found.indices, distinct)
