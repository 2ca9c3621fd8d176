"""What a change requires of the table that it is applied to.

A REST catalog assigns the ids of new schemas and specs itself. PyIceberg's own catalogs take those of the
request, and Iceberg's requirements compare only the current schema, spec and sort order: if another writer
has added some and gone back, these are unchanged, but the ids are taken. Two schemas, specs or orders with
the same id would result. The requirements here check that, too; a REST catalog gets Iceberg's part of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from pydantic import PrivateAttr
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table, update
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import SortOrder

from tabletopic_kernel.clients.catalog.pyiceberg_seams.tables import read_metadata

_Watched = tuple[str, Callable[[TableMetadata], Iterable[Any]]]  # what may be done, and what it changes
_SCHEMAS: _Watched = ("a schema was added", lambda base: (schema.schema_id for schema in base.schemas))
_SPECS: _Watched = ("a partition spec was added", lambda base: base.specs())
_ORDERS: _Watched = ("a sort order was added", lambda base: (order.order_id for order in base.sort_orders))
_REFS: _Watched = ("a branch or tag was created", lambda base: base.refs)


class _Same(update.AssertTableUUID):
    """Iceberg's requirement of a table's uuid; its own catalogs also require that nothing watched changed."""

    _known: list[tuple[_Watched, frozenset[Any]]] = PrivateAttr()

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]  # as its base
        super().validate(base_metadata)
        for (change, ids), ids_seen in self._known:
            if base_metadata is not None and frozenset(ids(base_metadata)) != ids_seen:
                raise CommitFailedException(f"Requirement failed: {change} concurrently")


def _same(metadata: TableMetadata, *watched: _Watched) -> _Same:
    same = _Same(uuid=metadata.table_uuid)
    same._known = [((change, ids), frozenset(ids(metadata))) for change, ids in watched]
    return same


def same_schemas(metadata: TableMetadata, *watched: _Watched) -> tuple[update.TableRequirement, ...]:
    """Require that the table's schemas are those of ``metadata``, and no more column ids are taken."""
    return (
        _same(metadata, _SCHEMAS, *watched),
        update.AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
        # A column that was added and dropped leaves the schema unchanged, but its ids are taken.
        update.AssertLastAssignedFieldId(last_assigned_field_id=metadata.last_column_id),
    )


def same_specs(metadata: TableMetadata) -> tuple[update.TableRequirement, ...]:
    """Require that schemas and partition specs are those of ``metadata``, and no more ids are taken."""
    return (
        *same_schemas(metadata, _SPECS),
        update.AssertDefaultSpecId(default_spec_id=metadata.default_spec_id),
        update.AssertLastAssignedPartitionId(last_assigned_partition_id=metadata.last_partition_id),
    )


def same_sort_orders(metadata: TableMetadata) -> tuple[update.TableRequirement, ...]:
    """Require that the sort orders are those of ``metadata``, and no more ids are taken."""
    default = update.AssertDefaultSortOrderId(default_sort_order_id=metadata.default_sort_order_id)
    return _same(metadata, _ORDERS), default


def order_updates(order: SortOrder, metadata: TableMetadata) -> tuple[update.TableUpdate, ...]:
    """The updates that make ``order`` the default, whether the table already has it or not.

    A REST catalog assigns the id of a new order itself, but unsorted is always 0.
    """
    if order in metadata.sort_orders:
        return (update.SetDefaultSortOrderUpdate(sort_order_id=order.order_id),)
    added = -1 if order.fields else order.order_id
    return update.AddSortOrderUpdate(sort_order=order), update.SetDefaultSortOrderUpdate(sort_order_id=added)


def same_refs(metadata: TableMetadata, snapshots: Collection[int]) -> tuple[update.TableRequirement, ...]:
    """Require that branches and tags are those of ``metadata``, unmoved, and ``snapshots`` exist.

    In PyIceberg's catalogs and in Iceberg's, removing a snapshot also removes the branches and tags on it:
    those made meanwhile must not be lost that way. Iceberg's own requirements cannot exclude further refs;
    for a REST catalog see ``lost_a_ref``.
    """
    chosen = frozenset(snapshots)
    snapshots_left: _Watched = (
        "snapshots were expired",
        lambda base: chosen.intersection(snapshot.snapshot_id for snapshot in base.snapshots),
    )
    heads = (
        update.AssertRefSnapshotId(ref=name, snapshot_id=ref.snapshot_id)
        for name, ref in metadata.refs.items()
    )
    return (_same(metadata, _REFS, snapshots_left), *heads)


def removal_of(metadata: TableMetadata, ids: Collection[int]) -> tuple[update.TableUpdate, ...]:
    """The updates that remove snapshots from the metadata, with their partition statistics."""
    statistics = tuple(
        update.RemovePartitionStatisticsUpdate(snapshot_id=file.snapshot_id)
        for file in metadata.partition_statistics
        if file.snapshot_id in ids
    )
    return (*statistics, update.RemoveSnapshotsUpdate(snapshot_ids=sorted(ids)))


def lost_a_ref(before: Table, after: TableMetadata, snapshots: Collection[int]) -> bool:
    """Whether a branch or tag made after ``before`` may be gone with ``snapshots``, by the log."""
    log = [entry.metadata_file for entry in after.metadata_log]
    if before.metadata_location not in log:
        return True
    between = log[log.index(before.metadata_location) + 1 :]
    versions = (read_metadata(before.io.new_input(path)) for path in between)
    return any(ref.snapshot_id in snapshots for version in versions for ref in version.refs.values())
