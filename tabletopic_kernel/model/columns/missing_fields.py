"""Fields inside lists and maps that files lack, because the schema has them since.

With its defaults, Spark fails on a file that has a map without one of its fields (Iceberg's issue 14043:
"required … is not in the store").
"""

from __future__ import annotations

from collections.abc import Iterator

from pyiceberg.schema import index_by_id
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import IcebergType, ListType, MapType, StructType

Leaves = frozenset[int]  # the ids of primitive fields, which are a file's columns


def partial_versions(metadata: TableMetadata) -> dict[int, Leaves]:
    """The versions of the schema whose files a rewrite completes with nulls, and these files' columns.

    None with a field that was renamed or dropped, which would need more, or without a partition's column.
    """
    current = metadata.schema()
    wanted = [_leaves(kind) for kind in _outermost(current.as_struct())]
    sources = {field.source_id for field in metadata.spec().fields}
    return {
        old.schema_id: leaves
        for old, leaves in ((schema, _leaves(schema.as_struct())) for schema in metadata.schemas)
        if any(leaves & inside and inside - leaves for inside in wanted)
        and _only_gains(old.as_struct(), current.as_struct())
        and sources <= old.field_ids
    }


def _leaves(kind: IcebergType) -> Leaves:
    return frozenset(number for number, field in index_by_id(kind).items() if field.field_type.is_primitive)


def _outermost(kind: IcebergType) -> Iterator[IcebergType]:
    """Lists and maps that are in no other."""
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from _outermost(field.field_type)
    elif isinstance(kind, ListType | MapType):
        yield kind


def _only_gains(old: IcebergType, new: IcebergType) -> bool:
    """Whether all that is new is fields that may be null; types are widened at most, as Iceberg says."""
    if isinstance(old, StructType) and isinstance(new, StructType):
        before = {field.field_id: field for field in old.fields}
        after = {field.field_id: field for field in new.fields}
        return (
            before.keys() <= after.keys()
            and all(
                after[number].name == was.name
                and (was.required or not after[number].required)
                and _only_gains(was.field_type, after[number].field_type)
                for number, was in before.items()
            )
            and not any(after[number].required for number in after.keys() - before.keys())
        )
    if isinstance(old, ListType) and isinstance(new, ListType):
        return (old.element_required or not new.element_required) and _only_gains(
            old.element_type, new.element_type
        )
    if isinstance(old, MapType) and isinstance(new, MapType):
        return (
            old.key_type == new.key_type
            and (old.value_required or not new.value_required)
            and _only_gains(old.value_type, new.value_type)
        )
    return True
