"""The columns of a table for rows of a newer schema: what the table lacks so far is left out."""

from __future__ import annotations

from copy import copy

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from tabletopic_kernel.model.columns.evolution import VALUE
from tabletopic_kernel.pipeline.conform import map_entries, rebuilt


def as_table(rows: pa.Table, have: Schema, want: Schema) -> pa.Table:
    """Rows of a newer schema with the columns of an older one, by field id; types stay as they are."""
    if have == want:
        return rows
    batches = [
        pa.RecordBatch.from_struct_array(
            _projected(batch.to_struct_array(), have.as_struct(), want.as_struct())
        )
        for batch in rows.to_batches()
    ]
    return pa.Table.from_batches(batches) if batches else rows.slice(0, 0)


def with_columns_of(table: Table, other: Table) -> Table:
    """A table's rows with the columns of a copy of it that has evolved."""
    schemas, current = other.metadata.schemas, other.metadata.current_schema_id
    head = copy(table)
    head.metadata = table.metadata.model_copy(update={"schemas": schemas, "current_schema_id": current})
    return head


def is_other_value(have: Schema, want: Schema) -> bool:
    """Whether values become columns by other settings than those of the table: fields, or one column."""
    names = {column.name for column in want.fields}
    added = {column.name for column in have.fields} - names
    return VALUE in added or (VALUE in names and any(not name.startswith("_kafka_") for name in added))


def _projected(array: pa.Array, have: IcebergType, want: IcebergType) -> pa.Array:
    """An array without the nested fields that ``want`` lacks, and with its names."""
    if have == want:
        return array
    if isinstance(have, StructType) and isinstance(want, StructType):
        at = {column.field_id: index for index, column in enumerate(have.fields)}
        children = [
            _projected(
                array.field(at[column.field_id]),
                have.fields[at[column.field_id]].field_type,
                column.field_type,
            )
            for column in want.fields
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, [column.name for column in want.fields], mask=mask)
    if isinstance(have, ListType) and isinstance(want, ListType):
        items = _projected(array.values, have.element_type, want.element_type)
        return rebuilt(array, pa.large_list(items.type), items)
    if isinstance(have, MapType) and isinstance(want, MapType):
        keys, items = map_entries(array).flatten()
        keys, items = (
            _projected(keys, have.key_type, want.key_type),
            _projected(items, have.value_type, want.value_type),
        )
        kind = pa.map_(keys.type, items.type)
        return rebuilt(
            array, kind, pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
        )
    return array
