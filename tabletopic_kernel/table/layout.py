"""What settings change of a table that is there: its partitions and its properties, never its rows."""

from __future__ import annotations

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.partitioning import PARTITION_FIELD_ID_START
from pyiceberg.table import TableProperties
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
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
from tabletopic_kernel.model.errors import HeadMovedError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.snapshot import TopicTable
from tabletopic_kernel.table.transaction import same_specs


def lay_out(table: TopicTable, settings: TopicSettings) -> list[str]:
    """Give the table the partitions and properties of the settings; what changed of its partitions, in words.

    Rows that are there stay where they are (Iceberg spec, "Partition Evolution"). The caller owns the table
    and has nothing staged: a commit takes files of one spec.

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
    change = partition_change(table, settings)
    if change is not None:
        spec = partition_spec(settings.partition_by, metadata.schema(), table.former_names())
        last_id = metadata.last_partition_id or PARTITION_FIELD_ID_START - 1
        new = next_spec(spec, metadata.partition_specs, last_id)
        if new in metadata.partition_specs:
            updates.append(SetDefaultSpecUpdate(spec_id=new.spec_id))
        else:
            updates += [AddPartitionSpecUpdate(spec=new), SetDefaultSpecUpdate(spec_id=-1)]
    if not updates:
        return []
    try:
        with reachable("the catalog"):
            table.table.catalog.commit_table(table.table, same_specs(metadata), tuple(updates))
    except CommitFailedException as error:
        locked = lock_trouble(error, table.table.catalog, table.table.name())
        raise locked or HeadMovedError(str(error)) from error
    except NoSuchTableError as error:  # dropped since it was made or looked at
        raise table.gone() from error
    table.reload()
    return [change] if change else []


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
