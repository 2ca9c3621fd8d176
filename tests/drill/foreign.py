"""Foreign writes to the drill's tables: what a user, another engine or a service may do."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.snapshots import Snapshot, ancestors_of
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import IntegerType, LongType, StringType

from tabletopic_kernel.clients.catalog.pyiceberg_seams.requirements import (
    order_updates,
    same_schemas,
    same_sort_orders,
)
from tabletopic_kernel.model.columns.sort_orders import next_order
from tabletopic_kernel.model.ledger import TAG

# Foreign rows have this partition in their Kafka metadata.
FOREIGN_PARTITION = -1
_METADATA = "_kafka_metadata"


def append(table: Table, dice: random.Random) -> str:
    """Append rows that are no records."""
    schema = table.schema().as_arrow()
    row = {
        _METADATA: {
            "partition": FOREIGN_PARTITION,
            "offset": dice.randrange(1 << 40),
            "timestamp": datetime.now(UTC),
        }
    }
    table.append(pa.Table.from_pylist([row], schema=schema))
    return "appended a row"


def append_letter(table: Table, dice: random.Random) -> str:
    """Append a dead letter that belongs to no record."""
    row = {
        "topic": "somebody else's",
        "partition": FOREIGN_PARTITION,
        "offset": dice.randrange(1 << 40),
        "reason": "by_others",
        "message": "no record",
        "at": datetime.now(UTC),
    }
    table.append(pa.Table.from_pylist([row], schema=table.schema().as_arrow()))
    return "appended a dead letter"


def expire(table: Table, _: random.Random) -> str:
    """Expire all snapshots except the head and those that refs keep."""
    before = len(table.metadata.snapshots)
    moment = datetime.now() + timedelta(seconds=1)
    table.maintenance.expire_snapshots().older_than(moment).commit()
    return f"expired {before - len(table.refresh().metadata.snapshots)} of {before} snapshots"


def rewrite(table: Table, dice: random.Random) -> str:
    """Merge some data files into one, like a compaction, in a snapshot without the ledger."""
    tasks = [task for task in table.scan().plan_files() if not task.delete_files]
    if len(tasks) < 2:
        return "too few files to rewrite"
    some = dice.sample(tasks, min(len(tasks), dice.randint(2, 8)))
    spec = table.spec()
    if not spec.is_unpartitioned():
        first = some[0].file.partition
        some = [task for task in tasks if task.file.partition == first and task.file.spec_id == spec.spec_id][
            :8
        ]
        if len(some) < 2:
            return "too few files of one partition to rewrite"
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files

    scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
    rows = scan.to_table(some)
    properties = {**table.metadata.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    transaction = table.transaction()
    update = transaction.update_snapshot().overwrite()
    for task in some:
        update.delete_data_file(task.file)
    for file in _dataframe_to_data_files(table.metadata, rows, table.io):
        update.append_data_file(file)
    update.commit()
    transaction.commit_transaction()
    return f"rewrote {len(some)} files, {len(rows):,} rows"


def rollback(table: Table, dice: random.Random) -> str:
    """Roll back to one of the last snapshots, but never across a replay, nor to one without a ledger.

    Rolling back a replay loses its rows, as their letters are gone; and without a ledger, nobody knows where
    to continue: a host can only stop then.
    """
    head = table.current_snapshot()
    steps = dice.randint(1, 4)
    while head is not None and steps and head.parent_snapshot_id is not None:
        parent = table.snapshot_by_id(head.parent_snapshot_id)
        if parent is None or _replay_of(table, head) != _replay_of(table, parent):
            break
        head, steps = parent, steps - 1
    if head is None or head == table.current_snapshot():
        return "no snapshot to go back to"
    table.manage_snapshots().rollback_to_snapshot(head.snapshot_id).commit()
    return f"rolled back to snapshot {head.snapshot_id}"


def roll_forward(table: Table) -> str:
    """Set the head to the snapshot that the tag kept, as a topic asks if it cannot tell where to continue."""
    kept = table.metadata.refs[TAG].snapshot_id
    table.manage_snapshots().set_current_snapshot(kept).commit()
    return f"rolled forward to snapshot {kept}"


def _replay_of(table: Table, snapshot: Snapshot) -> str | None:
    """The newest replay whose rows a snapshot has, empty for none; None if no ledger is left."""
    for one in ancestors_of(snapshot, table.metadata):
        if one.summary is not None and "tabletopic.offsets" in one.summary.additional_properties:
            return one.summary.additional_properties.get("tabletopic.replay-id", "")
    return None


def column(table: Table, _: random.Random) -> str:
    """Add a column that no record has."""
    name = f"note_{len(table.schema().fields)}"
    with table.update_schema() as update:
        update.add_column(name, StringType())
    return f"added the column {name}"


def partition(table: Table, _: random.Random) -> str:
    """Add or remove a partition field."""
    fields = [field.name for field in table.spec().fields]
    with table.update_spec() as update:
        if "by_note" in fields:
            update.remove_field("by_note")
        else:
            update.add_field(_some_column(table), BucketTransform(4), "by_note")
    return (
        "removed the partition field by_note" if "by_note" in fields else "added the partition field by_note"
    )


def order(table: Table, dice: random.Random) -> str:
    """Change the sort order of new rows, like Spark's ``WRITE ORDERED BY``, or remove it."""
    schema, metadata = table.schema(), table.metadata
    names = [field.name for field in schema.fields if field.field_type.is_primitive]
    chosen = dice.sample(names, min(len(names), dice.randrange(3)))
    fields = [
        SortField(
            schema.find_field(name).field_id,
            IdentityTransform(),
            dice.choice(list(SortDirection)),
            dice.choice(list(NullOrder)),
        )
        for name in chosen
    ]
    wanted = next_order(SortOrder(*fields), metadata.sort_orders)
    same = (*same_schemas(metadata), *same_sort_orders(metadata))
    table.catalog.commit_table(table, same, order_updates(wanted, metadata))
    return f"sorted by {', '.join(chosen) or 'nothing'}"


def _some_column(table: Table) -> str:
    """A column that buckets can be made of."""
    kinds = (StringType, LongType, IntegerType)
    names = [field.name for field in table.schema().fields if isinstance(field.field_type, kinds)]
    return "text" if "text" in names else names[0]


def tag(table: Table, dice: random.Random) -> str:
    """Tag some snapshot, or remove one of our tags."""
    return _ref(
        table, dice, "drill-tag", table.manage_snapshots().create_tag, table.manage_snapshots().remove_tag
    )


def branch(table: Table, dice: random.Random) -> str:
    """Create a branch on some snapshot, or remove one of ours."""
    manage = table.manage_snapshots
    return _ref(table, dice, "drill-branch", manage().create_branch, manage().remove_branch)


def _ref(table: Table, dice: random.Random, prefix: str, create: Callable, remove: Callable) -> str:  # type: ignore[type-arg]
    ours = [name for name in table.metadata.refs if name.startswith(prefix)]
    if len(ours) > 2:
        remove(dice.choice(ours)).commit()
        return f"removed a {prefix}"
    snapshot = dice.choice(table.metadata.snapshots)
    create(snapshot.snapshot_id, f"{prefix}-{dice.randrange(1 << 30)}").commit()
    return f"put a {prefix} on a snapshot"


class Reached:
    """Data files by manifest; reads each manifest once, as it never changes."""

    def __init__(self) -> None:
        self._files: dict[str, frozenset[str]] = {}

    def files(self, table: Table) -> set[str]:
        """Every data file that some snapshot of the table reaches."""
        manifests = {
            manifest.manifest_path: manifest
            for snapshot in table.metadata.snapshots
            for manifest in snapshot.manifests(table.io)
        }
        for path, manifest in manifests.items():
            if path not in self._files:
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                self._files[path] = frozenset(entry.data_file.file_path for entry in entries)
        return set(_deleted_keys(table)).union(*(self._files[path] for path in manifests))


def _deleted_keys(table: Table) -> Iterator[str]:
    """Files with deleted keys that the ledgers of an upsert table name, below its data folder."""
    root = f"{table.location()}/data/{table.metadata.table_uuid}/"
    is_keyed = "tabletopic.upsert" in table.properties  # dead letters repeat the ledger of their table
    for snapshot in table.metadata.snapshots if is_keyed else ():
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        yield from (f"{root}{name}" for name in json.loads(summary.get("tabletopic.deleted-keys", "[]")))


def reachable_files(table: Table) -> set[str]:
    """Every data file that some snapshot of the table reaches."""
    return Reached().files(table)
