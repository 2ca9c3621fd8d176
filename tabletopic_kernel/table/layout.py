"""What settings change in an existing table: partitions, sort order and properties, never its rows."""

from __future__ import annotations

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.partitioning import PARTITION_FIELD_ID_START
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSortOrderUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
    TableUpdate,
)

from tabletopic_kernel.clients.catalog.catalog import reachable
from tabletopic_kernel.clients.catalog.hive_locks import lock_trouble
from tabletopic_kernel.model.columns.partitions import (
    next_spec,
    partition_spec,
    partition_texts,
    same_partitions,
)
from tabletopic_kernel.model.columns.sort_orders import next_order, same_order, sort_order, sort_texts
from tabletopic_kernel.model.errors import HeadMovedError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.snapshot import TopicTable
from tabletopic_kernel.table.transaction import same_sort_orders, same_specs


def lay_out(table: TopicTable, settings: TopicSettings) -> list[str]:
    """Give the table the partitions, order and properties of the settings; what changed, in words.

    Rows that are there stay where they are (Iceberg spec, "Partition Evolution"), and in their order until
    they are compacted. The caller owns the table and has nothing staged: a commit takes files of one spec.

    Raises:
        UsageError: the settings name a column that the table lacks, or one that a transform cannot take.
        HeadMovedError: another writer was first.
        RetryableError: the catalog does not answer.
    """
    metadata = table.table.metadata
    updates: list[TableUpdate] = []
    wanted = {TableProperties.WRITE_TARGET_FILE_SIZE_BYTES: str(settings.target_file_size_bytes)}
    wanted |= settings.table_properties
    if changed := {key: one for key, one in wanted.items() if metadata.properties.get(key) != one}:
        updates.append(SetPropertiesUpdate(updates=changed))
    changes = [change for of in (partition_change, order_change) if (change := of(table, settings))]
    if partition_change(table, settings):
        spec = partition_spec(settings.partition_by, metadata.schema(), table.former_names())
        last_id = metadata.last_partition_id or PARTITION_FIELD_ID_START - 1
        new = next_spec(spec, metadata.partition_specs, last_id)
        if new in metadata.partition_specs:
            updates.append(SetDefaultSpecUpdate(spec_id=new.spec_id))
        else:
            updates += [AddPartitionSpecUpdate(spec=new), SetDefaultSpecUpdate(spec_id=-1)]
    if order_change(table, settings):
        order = sort_order(settings.sort_by, metadata.schema(), table.former_names())
        updates += _order_updates(next_order(order, metadata.sort_orders), metadata)
    if not updates:
        return []
    try:
        with reachable("the catalog"):
            same = (*same_specs(metadata), *same_sort_orders(metadata))
            table.table.catalog.commit_table(table.table, same, tuple(updates))
    except CommitFailedException as error:
        locked = lock_trouble(error, table.table.catalog, table.table.name())
        raise locked or HeadMovedError(str(error)) from error
    except NoSuchTableError as error:  # dropped since it was made or looked at
        raise table.gone() from error
    table.reload()
    return changes


def _order_updates(order: SortOrder, metadata: TableMetadata) -> tuple[TableUpdate, ...]:
    """A REST catalog chooses the id of a new order itself, but unsorted is always 0."""
    if order in metadata.sort_orders:
        return (SetDefaultSortOrderUpdate(sort_order_id=order.order_id),)
    added = -1 if order.fields else order.order_id
    return AddSortOrderUpdate(sort_order=order), SetDefaultSortOrderUpdate(sort_order_id=added)


def partition_change(table: TopicTable, settings: TopicSettings) -> str | None:
    """What the settings change of the table's partitions, in words; None for nothing.

    Raises:
        UsageError: see ``lay_out``.
    """
    if not settings.partition_by:
        return None
    schema, spec = table.table.schema(), table.table.spec()
    wanted = partition_spec(settings.partition_by, schema, table.former_names())
    if same_partitions(wanted, spec):
        return None
    before, after = (", ".join(partition_texts(one, schema)) or "nothing" for one in (spec, wanted))
    return f"partition by {after}, before by {before}"


def order_change(table: TopicTable, settings: TopicSettings) -> str | None:
    """What the settings change of the order of the table's rows, in words; None for nothing.

    Raises:
        UsageError: see ``lay_out``.
    """
    if not settings.sort_by:
        return None
    schema, order = table.table.schema(), table.table.sort_order()
    wanted = sort_order(settings.sort_by, schema, table.former_names())
    if same_order(wanted, order):
        return None
    before, after = (", ".join(sort_texts(one, schema)) or "nothing" for one in (order, wanted))
    return f"sort by {after}, before by {before}"
