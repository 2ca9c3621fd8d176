"""Other programs' writers: what anybody may do to a table with PyIceberg or Spark; no fault strikes them.

Each takes the world and dice; if the table does not allow it at that time, it does nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException, ValidationError
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.table.update import (
    AddSortOrderUpdate,
    SetDefaultSortOrderUpdate,
    SetLocationUpdate,
    TableUpdate,
)
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField

from tabletopic_kernel.model.columns.upsert_columns import upsert_property
from tabletopic_kernel.pipeline.conform import conform, file_schema
from tabletopic_kernel.pipeline.write import DataFileWriter
from tabletopic_kernel.table.topic_table import TOPIC_PROPERTY
from tests.simulation import keyed
from tests.simulation.kafka import TOPIC
from tests.simulation.lake import LETTERS, MAIN, NEIGHBOUR
from tests.simulation.store import place, respelt
from tests.simulation.tables import LedgerRead
from tests.table.foreign_deletes import delete_rows as delete_by_position

if TYPE_CHECKING:
    from tests.simulation.world import World

Move = Callable[["World", random.Random, Table], None]


def append(world: World, dice: random.Random, table: Table) -> None:
    """Append rows that come from no topic."""
    names = table.schema().as_arrow()
    rows = {field.name: pa.nulls(3, field.type) for field in names if field.name != "a"}
    rows["a"] = pa.array([-1, -2, -3], pa.int64())
    if world.setting.keyed:  # rows from nowhere are older than any change of their key
        rows["_kafka_key"] = pa.array(["k1", "k2", None], rows["_kafka_key"].type)
    table.append(pa.table({field.name: rows[field.name] for field in names}, schema=names))


def expire(world: World, dice: random.Random, table: Table) -> None:
    """Expire all snapshots that no ref holds, like PyIceberg: no file is deleted."""
    table.maintenance.expire_snapshots().older_than(datetime.fromtimestamp(world.now_ms / 1000, UTC)).commit()


def expire_and_clean(world: World, dice: random.Random, table: Table) -> None:
    """The same like Spark: files that only expired snapshots reached are deleted."""
    before = world.reader.tables.reached(table)
    expire(world, dice, table)
    fresh = world.lake.load(table.name())
    assert fresh is not None
    for name in sorted(before - world.reader.tables.reached(fresh)):
        world.lake.store.remove(name)


def rewrite(world: World, dice: random.Random, table: Table) -> None:
    """Compact: merge some files into one, named in the other engine's spelling."""
    tasks = list(table.scan().plan_files())
    chosen = [task.file for task in dice.sample(tasks, min(len(tasks), dice.randint(2, 4)))]
    if len(chosen) < 2 or any(file.spec_id != table.metadata.default_spec_id for file in chosen):
        return
    if not table.spec().is_unpartitioned() and len({str(file.partition) for file in chosen}) > 1:
        return
    rows = (
        keyed.rows_of(table, [task for task in tasks if task.file in chosen])
        if world.setting.keyed
        else pa.concat_tables(
            [world.reader.tables.rows_of(file.file_path) for file in chosen], promote_options="permissive"
        )
    )
    merged = _written(world, dice, table, rows, chosen[0])
    with table.transaction() as transaction:
        producer = transaction.update_snapshot().overwrite()
        for file in chosen:
            producer.delete_data_file(file)
        producer.append_data_file(merged)
        producer.commit()


def _written(world: World, dice: random.Random, table: Table, rows: pa.Table, like: DataFile) -> DataFile:
    """The rows as one file beside the table's own, in the partition of ``like``."""
    io = table.io.properties
    writer = DataFileWriter(table.metadata.model_dump_json(), {k: str(v) for k, v in io.items()}, 0)
    columns = {
        name: rows[name].combine_chunks() for name in rows.column_names if name in table.schema().column_names
    }
    conformed = conform(columns, len(rows), file_schema(table.schema()))
    file = writer._write_file([pa.Table.from_batches([conformed])], None)
    moved = file.file_path.replace("/epoch-00000000", "")
    store = world.lake.store.files
    store[place(moved)] = store.pop(place(file.file_path))
    file[1] = respelt(moved, dice.choice(world.lake.spellings))
    file[3] = like.partition
    return file


def delete_rows(world: World, dice: random.Random, table: Table) -> None:
    """Delete some rows, which any user may do."""
    table.delete(f"a < {dice.randint(0, 12)}")


def delete_positions(world: World, dice: random.Random, table: Table) -> None:
    """Delete some rows of a file or two by position, like Spark."""
    files = [task.file for task in table.scan().plan_files()]
    if not files or any(file.spec_id != table.metadata.default_spec_id for file in files):
        return
    first = dice.choice(files)
    alike = [file for file in files if file.partition == first.partition]
    chosen = dice.sample(alike, min(len(alike), dice.randint(1, 2)))
    positions = {
        file.file_path: sorted(dice.sample(range(file.record_count), dice.randint(1, file.record_count)))
        for file in chosen
    }
    delete_by_position(table, positions, with_bounds=dice.random() < 0.7)


def rollback(world: World, dice: random.Random, table: Table) -> None:
    """Roll back to one of the newest snapshots that are ancestors of the head."""
    head = table.current_snapshot()
    ancestors = []
    while head is not None and head.parent_snapshot_id is not None:
        head = table.snapshot_by_id(head.parent_snapshot_id)
        ancestors += [head.snapshot_id] if head else []
    if ancestors:
        table.manage_snapshots().rollback_to_snapshot(dice.choice(ancestors[:5])).commit()


def tag(world: World, dice: random.Random, table: Table) -> None:
    """Keep an old snapshot with a tag of another program."""
    chosen = dice.choice(table.metadata.snapshots)
    table.manage_snapshots().create_tag(chosen.snapshot_id, f"kept-{dice.randint(1, 3)}").commit()


def untag(world: World, dice: random.Random, table: Table) -> None:
    """Delete one of those tags."""
    names = sorted(name for name in table.metadata.refs if name.startswith("kept-"))
    if names:
        table.manage_snapshots().remove_tag(dice.choice(names)).commit()


def branch(world: World, dice: random.Random, table: Table) -> None:
    """Create a branch with rows of its own, beside the table's."""
    name = f"audit_{dice.randint(1, 2)}"
    if name not in table.metadata.refs:
        head = table.current_snapshot()
        assert head is not None
        table.manage_snapshots().create_branch(head.snapshot_id, name).commit()
        return
    names = table.schema().as_arrow()
    nothing = {f.name: pa.array([-9], f.type) if f.name == "a" else pa.nulls(1, f.type) for f in names}
    table.append(pa.table(nothing, schema=names), branch=name)


def unbranch(world: World, dice: random.Random, table: Table) -> None:
    """Delete one of those branches."""
    names = sorted(name for name in table.metadata.refs if name.startswith("audit_"))
    if names:
        table.manage_snapshots().remove_branch(dice.choice(names)).commit()


def change_schema(world: World, dice: random.Random, table: Table) -> None:
    """Add, rename or drop a column of another program's, even one by which rows are sorted.

    Or change the order of the table's rows.
    """
    names = [name for name in ("a", "note", "remark") if name in table.schema().column_names]
    if dice.random() < 0.5:
        _change_order(dice, table, dice.sample(names, dice.randint(0, len(names))))
        return
    with ExitStack() as patches, table.update_schema() as update:
        if len(names) == 1:
            update.add_column("note", LongType())
        elif dice.random() < 0.5:
            patches.enter_context(_unchecked())
            update.delete_column(names[1])
        else:
            update.rename_column(names[1], "remark" if names[1] == "note" else "note")


def _unchecked() -> AbstractContextManager[Any]:
    """Drop a column of the sort order, which Iceberg's Java and Python libraries refuse to do."""
    return mock.patch.object(SortOrder, "check_compatible", return_value=None)


def _change_order(dice: random.Random, table: Table, names: list[str]) -> None:
    """Like Spark's ``WRITE ORDERED BY``; PyIceberg cannot return to a former order."""
    fields = [
        SortField(
            table.schema().find_field(name).field_id,
            IdentityTransform(),
            dice.choice(list(SortDirection)),
            dice.choice(list(NullOrder)),
        )
        for name in names
    ]
    orders = table.metadata.sort_orders
    known = next((order.order_id for order in orders if list(order.fields) == fields), None)
    if known is not None:
        updates: tuple[TableUpdate, ...] = (SetDefaultSortOrderUpdate(sort_order_id=known),)
    else:
        new = SortOrder(*fields, order_id=1 + max(one.order_id for one in orders) if fields else 0)
        updates = (
            AddSortOrderUpdate(sort_order=new),
            SetDefaultSortOrderUpdate(sort_order_id=-1 if fields else 0),
        )
    table.catalog.commit_table(table, (), updates)


def come_and_go(world: World, dice: random.Random, table: Table) -> None:
    """Change something and change it back: it is as before, and ids are used up."""
    what, name = dice.choice(["a column", "a name", "partitions"]), f"tried_{len(table.specs())}"
    for back in (False, True):
        table = world.lake.catalog.load_table(table.name())
        if what == "partitions":
            with table.update_spec() as spec:
                if back:
                    spec.remove_field(name)
                else:
                    spec.add_field("a", BucketTransform(dice.choice([7, 11])), name)  # of nobody else
            continue
        with table.update_schema() as columns:
            if what == "a name":
                columns.rename_column(*(("tried", "a") if back else ("a", "tried")))
            elif back:
                columns.delete_column("tried")
            else:
                columns.add_column("tried", LongType())


def change_partitions(world: World, dice: random.Random, table: Table) -> None:
    """Partition the table, or remove its partitions."""
    with table.update_spec() as update:
        if table.spec().is_unpartitioned():
            transform = dice.choice([BucketTransform(4), IdentityTransform()])
            update.add_field("a", transform, f"a_{len(table.specs())}")
        else:
            update.remove_field(table.spec().fields[0].name)


def respell(world: World, dice: random.Random, table: Table) -> None:
    """From now on the catalog returns the same location in another spelling, like Hive's."""
    spelt = respelt(table.location(), dice.choice(world.lake.spellings))
    world.lake.catalog.commit_table(table, (), (SetLocationUpdate(location=spelt),))


def share_folder(world: World, dice: random.Random, table: Table) -> None:
    """Data files go to a folder that other tables have too, or to the table's own again."""
    if TableProperties.WRITE_DATA_PATH in table.properties:
        with table.transaction() as transaction:
            transaction.remove_properties(TableProperties.WRITE_DATA_PATH)
    else:
        with table.transaction() as transaction:
            transaction.set_properties({TableProperties.WRITE_DATA_PATH: world.shared_folder})


def drop(world: World, dice: random.Random, table: Table) -> None:
    """Drop the table from the catalog; its files stay."""
    world.left_behind |= world.lake.store.files.keys()
    world.lake.catalog.drop_table(table.name())
    world.table_is_foreign = False


def replace_table(world: World, dice: random.Random, table: Table) -> None:
    """Drop and re-create it by hand, with or without the topic's mark."""
    marked = dice.random() < 0.6
    schema = table.schema()
    world.left_behind |= world.lake.store.files.keys()
    world.lake.catalog.drop_table(table.name())
    kept = {TOPIC_PROPERTY: TOPIC, **upsert_property(world.settings)} if marked else {}
    bare = Schema(*(NestedField(f.field_id, f.name, f.field_type, required=False) for f in schema.fields))
    world.lake.catalog.create_table(table.name(), bare, properties={**kept, "format-version": "2"})
    world.table_is_foreign = not marked


def delete_new_file(world: World, dice: random.Random, table: Table) -> None:
    """Delete a file of the newest commit, like a removal of orphans that read the metadata before it.

    A manifest list, a manifest or a data file; of owners' commits, because others look after theirs.
    """
    head = table.current_snapshot()
    assert head is not None
    new = world.reader.tables.reach(head).difference(
        *(
            world.reader.tables.reach(snapshot)
            for snapshot in table.metadata.snapshots
            if snapshot is not head
        )
    )
    if world.is_within_a_call or LedgerRead.of(head) is None:
        return
    name = dice.choice(sorted(new))
    world.lake.store.remove(name)
    world.robbed.add(name)


# What may be done to which table.
OF_MAIN: dict[str, tuple[Move, int]] = {
    "append": (append, 8),
    "expire": (expire, 6),
    "expire and clean": (expire_and_clean, 5),
    "rewrite": (rewrite, 6),
    "delete rows": (delete_rows, 1),
    "delete positions": (delete_positions, 3),
    "roll back": (rollback, 2),
    "tag": (tag, 3),
    "untag": (untag, 2),
    "branch": (branch, 3),
    "unbranch": (unbranch, 2),
    "change the schema": (change_schema, 3),
    "change the partitions": (change_partitions, 2),
    "change and change back": (come_and_go, 3),
    "spell otherwise": (respell, 3),
    "share the folder": (share_folder, 2),
    "drop": (drop, 1),
    "replace": (replace_table, 1),
    "delete a new file": (delete_new_file, 1),
}
OF_LETTERS: dict[str, tuple[Move, int]] = {
    "expire": (expire, 3),
    "expire and clean": (expire_and_clean, 2),
    "rewrite": (rewrite, 2),
    "tag": (tag, 1),
    "spell otherwise": (respell, 1),
    "delete a new file": (delete_new_file, 1),
}


DELETES = ("delete rows", "delete positions")
# After these a topic may stop until a person has looked.
STOPS = ("roll back", "drop", "replace", "delete rows", "delete a new file")


def do(world: World, identifier: tuple[str, ...], name: str, dice: random.Random) -> bool:
    """Do one of them, if the table exists and allows it; returns whether it was done."""
    moves = OF_MAIN if identifier == MAIN else OF_LETTERS
    table = world.lake.load(identifier)
    if table is None or (table.current_snapshot() is None and name not in ("drop", "replace")):
        return False
    if world.reader.lacks_files(table) and name not in ("drop", "replace"):  # nobody can read it
        return False
    letters = world.lake.look(LETTERS)
    if name in DELETES and letters and world.reader.lacks_files(letters):
        return False  # the reader reads both tables to know which rows go by right
    try:
        moves[name][0](world, dice, table)
    except CommitFailedException:
        return False
    except ValidationError:  # PyIceberg takes no commit to a table that is sorted by a column it lacks
        return False
    return True


__all__ = ["LETTERS", "MAIN", "NEIGHBOUR", "OF_LETTERS", "OF_MAIN", "do"]
