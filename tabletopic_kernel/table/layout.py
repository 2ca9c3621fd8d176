"""Applies settings to an existing table: partitions, sort order and properties, never its rows."""

from __future__ import annotations

from pyiceberg.partitioning import PARTITION_FIELD_ID_START
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
    TableUpdate,
)

from tabletopic_kernel.clients.catalog.catalog import check_inside
from tabletopic_kernel.clients.catalog.pyiceberg_seams.requirements import (
    order_updates,
    same_sort_orders,
    same_specs,
)
from tabletopic_kernel.model.columns.partitions import (
    next_spec,
    partition_spec,
    partition_texts,
    same_partitions,
)
from tabletopic_kernel.model.columns.sort_orders import next_order, sort_order, sort_texts
from tabletopic_kernel.model.columns.upsert_columns import check_same_mode
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.changes.metadata import commit_updates, mend_order
from tabletopic_kernel.table.schemas.covered import former_names
from tabletopic_kernel.table.topic_table import TopicTable


def lay_out(table: TopicTable, settings: TopicSettings) -> list[str]:
    """Apply the settings' partitions, order and properties to further rows; returns the changes.

    The caller owns the table and has nothing staged: a commit takes files of only one spec.
    Raises UsageError if a column is missing or does not fit a transform, or the table has another mode, and
    HeadMovedError.
    """
    check_same_mode(settings, table.table.properties, table.identifier)
    mend_order(table, table.newest_epoch)
    metadata = table.table.metadata
    updates: list[TableUpdate] = []
    wanted = {TableProperties.WRITE_TARGET_FILE_SIZE_BYTES: str(settings.target_file_size_bytes)}
    wanted |= settings.table_properties
    if changed := {key: value for key, value in wanted.items() if metadata.properties.get(key) != value}:
        check_inside(table.table.catalog, changed)
        updates.append(SetPropertiesUpdate(updates=changed))
    changes = []
    if change := partition_change(table, settings):
        changes.append(change)
        spec = partition_spec(settings.partition_by, metadata.schema(), names_before(table))
        last_id = metadata.last_partition_id or PARTITION_FIELD_ID_START - 1
        new = next_spec(spec, metadata.partition_specs, last_id)
        if new in metadata.partition_specs:
            updates.append(SetDefaultSpecUpdate(spec_id=new.spec_id))
        else:
            updates += [AddPartitionSpecUpdate(spec=new), SetDefaultSpecUpdate(spec_id=-1)]
    order = wanted_order(table, settings)
    if order is not None and (change := order_change(table, settings)):
        changes.append(change)
        updates += order_updates(next_order(order, metadata.sort_orders), metadata)
    if updates:
        commit_updates(table, tuple(updates), (*same_specs(metadata), *same_sort_orders(metadata)))
    return changes


def partition_change(table: TopicTable, settings: TopicSettings) -> str | None:
    """What the settings change in the table's partitions, in words; None for nothing."""
    if not settings.partition_by:
        return None
    schema, spec = table.table.schema(), table.table.spec()
    wanted = partition_spec(settings.partition_by, schema, names_before(table))
    if same_partitions(wanted, spec):
        return None
    before, after = (", ".join(partition_texts(layout, schema)) or "nothing" for layout in (spec, wanted))
    return f"partition by {after}, before by {before}"


def order_change(table: TopicTable, settings: TopicSettings) -> str | None:
    """What the settings change in the table's sort order, in words; None for nothing."""
    schema, order = table.table.schema(), table.table.sort_order()
    wanted = wanted_order(table, settings)
    if wanted is None or wanted.fields == order.fields:
        return None
    before, after = (", ".join(sort_texts(layout, schema)) or "nothing" for layout in (order, wanted))
    return f"sort by {after}, before by {before}"


def wanted_order(table: TopicTable, settings: TopicSettings) -> SortOrder | None:
    """The order that the settings require; None: as it is. Renamed columns sort, dropped ones do not."""
    schema, former = table.table.schema(), names_before(table)
    entries: list[str] = []
    for entry in settings.sort_by:
        try:
            sort_order((entry,), schema, former)
        except UsageError:
            if not any(_can_be_sorted_by(entry, before) for before in table.table.metadata.schemas):
                raise
            continue
        entries.append(entry)
    return sort_order(entries, schema, former) if entries else None


def _can_be_sorted_by(entry: str, schema: Schema) -> bool:
    try:
        sort_order((entry,), schema)
    except UsageError:
        return False
    return True


def names_before(table: TopicTable) -> dict[int, tuple[str, ...]]:
    """The former names of columns, by field id."""
    names = {field_id: list(known) for field_id, known in former_names(table.table.properties).items()}
    for schema in table.table.metadata.schemas:
        for field_id in schema.field_ids:
            names.setdefault(field_id, []).append(schema.find_field(field_id).name)
    return {field_id: tuple(dict.fromkeys(known)) for field_id, known in names.items()}
