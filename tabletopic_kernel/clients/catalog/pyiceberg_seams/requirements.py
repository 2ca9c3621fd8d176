"""What a change requires of the table that it is applied to.

A REST catalog assigns the ids of new schemas and specs itself. PyIceberg's own catalogs take those of the
request, and Iceberg's requirements compare only the current schema, spec and sort order: if another writer
has added some and gone back, these are unchanged, but the ids are taken. Two schemas, specs or orders with
the same id would result. The requirements here check that, too; a REST catalog gets Iceberg's part of them.
"""

from __future__ import annotations

from collections.abc import Collection

from pydantic import PrivateAttr
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import (
    AddSortOrderUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePartitionStatisticsUpdate,
    RemoveSnapshotsUpdate,
    SetDefaultSortOrderUpdate,
    TableRequirement,
    TableUpdate,
)

from tabletopic_kernel.clients.catalog.pyiceberg_seams.tables import read_metadata


class _SameSchemas(AssertCurrentSchemaId):
    _ids: frozenset[int] = PrivateAttr(frozenset())

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]  # as its base
        super().validate(base_metadata)
        if base_metadata is not None and self._ids != _schema_ids(base_metadata):
            raise CommitFailedException("Requirement failed: a schema was added concurrently")


class _SameSpecs(AssertDefaultSpecId):
    _ids: frozenset[int] = PrivateAttr(frozenset())

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]  # as its base
        super().validate(base_metadata)
        if base_metadata is not None and self._ids != frozenset(base_metadata.specs()):
            raise CommitFailedException("Requirement failed: a partition spec was added concurrently")


class _SameSortOrders(AssertDefaultSortOrderId):
    _ids: frozenset[int] = PrivateAttr(frozenset())

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]  # as its base
        super().validate(base_metadata)
        if base_metadata is not None and self._ids != _order_ids(base_metadata):
            raise CommitFailedException("Requirement failed: a sort order was added concurrently")


def _schema_ids(metadata: TableMetadata) -> frozenset[int]:
    return frozenset(schema.schema_id for schema in metadata.schemas)


def _order_ids(metadata: TableMetadata) -> frozenset[int]:
    return frozenset(order.order_id for order in metadata.sort_orders)


def same_schemas(metadata: TableMetadata) -> tuple[TableRequirement, ...]:
    """Require that the table's schemas are those of ``metadata``, and no more column ids are taken."""
    schemas = _SameSchemas(current_schema_id=metadata.current_schema_id)
    schemas._ids = _schema_ids(metadata)
    return (
        AssertTableUUID(uuid=metadata.table_uuid),
        schemas,
        # A column that was added and dropped leaves the schema unchanged, but its ids are taken.
        AssertLastAssignedFieldId(last_assigned_field_id=metadata.last_column_id),
    )


def same_specs(metadata: TableMetadata) -> tuple[TableRequirement, ...]:
    """Require that schemas and partition specs are those of ``metadata``, and no more ids are taken."""
    specs = _SameSpecs(default_spec_id=metadata.default_spec_id)
    specs._ids = frozenset(metadata.specs())
    last = AssertLastAssignedPartitionId(last_assigned_partition_id=metadata.last_partition_id)
    return (*same_schemas(metadata), specs, last)


def same_sort_orders(metadata: TableMetadata) -> tuple[TableRequirement, ...]:
    """Require that the sort orders are those of ``metadata``, and no more ids are taken."""
    orders = _SameSortOrders(default_sort_order_id=metadata.default_sort_order_id)
    orders._ids = _order_ids(metadata)
    return (orders,)


def order_updates(order: SortOrder, metadata: TableMetadata) -> tuple[TableUpdate, ...]:
    """The updates that make ``order`` the default, whether the table already has it or not.

    A REST catalog assigns the id of a new order itself, but unsorted is always 0.
    """
    if order in metadata.sort_orders:
        return (SetDefaultSortOrderUpdate(sort_order_id=order.order_id),)
    added = -1 if order.fields else order.order_id
    return AddSortOrderUpdate(sort_order=order), SetDefaultSortOrderUpdate(sort_order_id=added)


class _SameRefs(AssertTableUUID):
    _refs: frozenset[str] = PrivateAttr(frozenset())
    _snapshots: frozenset[int] = PrivateAttr(frozenset())

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]  # as its base
        super().validate(base_metadata)
        if base_metadata is None:
            return
        if self._refs != frozenset(base_metadata.refs):
            raise CommitFailedException("Requirement failed: a branch or tag was created concurrently")
        if not self._snapshots <= {snapshot.snapshot_id for snapshot in base_metadata.snapshots}:
            raise CommitFailedException("Requirement failed: snapshots were expired concurrently")


def same_refs(metadata: TableMetadata, snapshots: Collection[int]) -> tuple[TableRequirement, ...]:
    """Require that branches and tags are those of ``metadata``, unmoved, and ``snapshots`` exist.

    In PyIceberg's catalogs and in Iceberg's, removing a snapshot also removes the branches and tags on it:
    those made meanwhile must not be lost that way. Iceberg's own requirements cannot exclude further refs;
    for a REST catalog see ``lost_a_ref``.
    """
    same = _SameRefs(uuid=metadata.table_uuid)
    same._refs, same._snapshots = frozenset(metadata.refs), frozenset(snapshots)
    heads = (
        AssertRefSnapshotId(ref=name, snapshot_id=ref.snapshot_id) for name, ref in metadata.refs.items()
    )
    return (same, *heads)


def removal_of(metadata: TableMetadata, ids: Collection[int]) -> tuple[TableUpdate, ...]:
    """The updates that remove snapshots from the metadata, with their partition statistics."""
    statistics = tuple(
        RemovePartitionStatisticsUpdate(snapshot_id=file.snapshot_id)
        for file in metadata.partition_statistics
        if file.snapshot_id in ids
    )
    return (*statistics, RemoveSnapshotsUpdate(snapshot_ids=sorted(ids)))


def lost_a_ref(before: Table, after: TableMetadata, snapshots: Collection[int]) -> bool:
    """Whether a branch or tag made after ``before`` was read may have been removed with ``snapshots``.

    The log of ``after`` lists the metadata in between; true if it no longer does.

    Raises:
        OSError, ValueError: such metadata cannot be read.
    """
    log = [entry.metadata_file for entry in after.metadata_log]
    if before.metadata_location not in log:
        return True
    between = log[log.index(before.metadata_location) + 1 :]
    versions = (read_metadata(before.io.new_input(path)) for path in between)
    return any(ref.snapshot_id in snapshots for version in versions for ref in version.refs.values())
