"""What holds on every catalog: the same tests on each, with the product's own code.

A new rule for tables gets its test here, and a new catalog its few lines in ``lakes.py``.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import psutil
import pyarrow as pa
import pytest
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.clients.catalog.engine_properties import maintains_itself
from tabletopic_kernel.clients.storage.storage import list_files
from tabletopic_kernel.formats.wire import prefix
from tabletopic_kernel.host.coordinator import Coordinator
from tabletopic_kernel.host.maintenance import compaction
from tabletopic_kernel.model.columns.sort_orders import sort_texts
from tabletopic_kernel.model.commit_cycle import Event, State
from tabletopic_kernel.model.errors import LostOwnershipError
from tabletopic_kernel.model.ledger import TAG, StagedOffsets
from tabletopic_kernel.model.progress.events import Compacted, Expired
from tabletopic_kernel.model.settings.desired import MaintenanceRequest, ReplayRequest
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.plan import Needs, StagedBatch
from tabletopic_kernel.query.duckdb import DuckLake
from tabletopic_kernel.table.changes.change import appended
from tabletopic_kernel.table.layout import lay_out
from tests.athena.trino import Trino
from tests.catalogs.conftest import LakeRig, Spark
from tests.catalogs.lakes import LAKES, Lake
from tests.servers.aws import SECRET
from tests.servers.postgres import PASSWORD
from tests.servers.token_server import SECRET as TOKEN_SECRET
from tests.table.samples import AVRO, SCHEMA, answer_lost, batch, next_commit, write_rows
from tests.table.test_dead_letters import ask, staged

pytestmark = [pytest.mark.integration, pytest.mark.servers]

LATE = 9  # a schema that is registered after its records


def rows(rig: LakeRig) -> list[int]:
    """Values of the rows, by PyIceberg."""
    return sorted(rig.table.table.scan().to_arrow()["a"].to_pylist())


def settled(rig: LakeRig, coordinator: Coordinator, state: State = State.RUNNING) -> None:
    """Advance the clock until the coordinator has recovered."""
    for _ in range(8):
        rig.after(60_000, coordinator)
    assert coordinator.state is state, coordinator.progress().error


def is_there(rig: LakeRig, path: str) -> bool:
    """Whether the storage has a file."""
    return bool(rig.table.table.io.new_input(path).exists())


def test_a_commit_has_rows_ledger_and_tag(rig: LakeRig, lake: Lake) -> None:
    """The table is made and claimed, and rows and ledger become visible together (I2, I5)."""
    coordinator = rig.running(commit_interval_ms="1s")
    assert rig.worker.spec.start == {0: 0, 1: 0}
    rig.committed(coordinator, 0, 3)
    rig.committed(coordinator, 3, 5)
    assert (coordinator.state, rows(rig), rig.offset()) == (State.RUNNING, [0, 0, 1, 1, 2], 5)
    metadata = rig.table.table.metadata
    assert len(metadata.snapshots) == (3 if lake.keeps_history else 1)
    if lake.keeps_history and not maintains_itself(lake.properties):
        assert metadata.refs[TAG].snapshot_id == metadata.current_snapshot_id
    assert rig.control.types()[-1] == "Committed"


def test_columns_come_change_and_are_renamed(rig: LakeRig) -> None:
    """Each in a metadata commit of its own; rows of before are read by the new names."""
    coordinator = rig.running(commit_interval_ms="1s")
    rig.committed(coordinator, 0, 2)
    table, last = rig.table, rig.table.table.metadata.last_column_id
    value = table.table.schema().find_field("a")
    others = [field for field in table.table.schema().fields if field.name != "a"]
    others.append(NestedField(last + 1, "b", StringType(), required=False))
    wide = value.model_copy(update={"field_type": LongType()})
    table.evolve(Schema(value, *others), {}, 1)
    table.evolve(Schema(wide, *others), {}, 1)
    rig.committed(coordinator, 2, 4)
    settled(rig, coordinator)
    rig.table.evolve(Schema(wide.model_copy(update={"name": "c"}), *others), {}, 1)
    found = rig.table.table
    assert sorted(found.scan().to_arrow()["c"].to_pylist()) == [0, 0, 1, 1]
    assert (found.metadata.last_column_id, found.schema().find_type("c")) == (last + 1, LongType())


def test_a_schema_of_the_registry_changes_the_table(rig: LakeRig) -> None:
    """The worker meets it, and the table has the column before the first row that needs it."""
    coordinator = rig.running(commit_interval_ms="1s")
    rig.registry.schemas[2] = AVRO.replace(
        "}]", '}, {"name": "b", "type": ["null", "string"], "default": null}]'
    )
    ask(coordinator, rig.worker.listener, Needs(frozenset({2})))
    ask(coordinator, rig.worker.listener, Needs(proved=frozenset({2})))
    assert {"a", "b"} <= set(rig.table.table.schema().column_names)
    rig.committed(coordinator, 0, 3)
    assert (coordinator.state, rig.offset()) == (State.RUNNING, 3)


def test_partitions_change(rig: LakeRig) -> None:
    """Rows that are there stay where they are, new ones are written by the new spec, and all are read."""
    first = rig.running(commit_interval_ms="1s")
    rig.committed(first, 0, 3)
    assert lay_out(rig.table, TopicSettings(partition_by=["bucket(4, a)"]))
    second = rig.running(commit_interval_ms="1s")
    rig.committed(second, 3, 6, epoch=2)
    settled(rig, second)
    assert (len(rows(rig)), len(rig.table.table.specs())) == (6, 2)
    assert rig.table.table.scan(row_filter="a = 2").count() == 2


def test_rows_are_sorted(rig: LakeRig) -> None:
    """The order is there from the first, and follows its columns where others rename or drop some."""
    first = rig.running(commit_interval_ms="1s", sort_by=("a desc",))
    rig.committed(first, 0, 3)

    def told() -> tuple[list[str], set[int | None]]:
        table = rig.table.table
        ids = {task.file.sort_order_id for task in table.scan().plan_files()}
        return sort_texts(table.sort_order(), table.schema()), ids

    order_id = rig.table.table.metadata.default_sort_order_id
    assert order_id
    assert told() == (["a desc"], {order_id})
    with rig.table.table.update_schema() as columns:
        columns.add_column("note", StringType())
    settings = TopicSettings(sort_by=("note", "a"))
    assert lay_out(rig.table, settings) == ["sort by note, a, before by a desc"]
    with rig.table.table.update_schema() as columns:
        columns.rename_column("note", "remark")
    assert lay_out(rig.table, settings) == []
    assert told()[0] == ["remark", "a"]
    assert lay_out(rig.table, TopicSettings(sort_by=("a",)))
    with rig.table.table.update_schema() as columns:
        columns.delete_column("remark")
    second = rig.running(commit_interval_ms="1s", sort_by=("note", "a"))
    rig.committed(second, 3, 6, epoch=2)
    settled(rig, second)
    assert len(rows(rig)) == 6
    order, ids = told()
    assert order == ["a"]
    assert ids == {order_id, rig.table.table.metadata.default_sort_order_id}


def test_a_foreign_commit_is_no_conflict_that_stays(rig: LakeRig, lake: Lake) -> None:
    """Another program appends between two commits, and between look and request of one."""
    coordinator = rig.running(commit_interval_ms="1s")
    rig.committed(coordinator, 0, 2)
    foreign = open_catalog(rig.catalog.properties).load_table(rig.identifier)

    def append() -> None:
        foreign.refresh()
        foreign.append(pa.table({"a": pa.array([100], pa.int32())}))

    append()
    if not lake.keeps_history:  # their snapshot hides the ledger: the topic stops, and nothing is doubled
        rig.committed(coordinator, 2, 4)
        assert (coordinator.state, rows(rig)) == (State.FAILED, [0, 1, 100])
        assert "has rows but no ledger" in str(coordinator.progress().error)
        return
    rig.catalog.faults = [lambda commit: [append(), commit()]]
    rig.committed(coordinator, 2, 4)
    settled(rig, coordinator)
    assert (rows(rig), rig.offset()) == ([0, 0, 1, 1, 100, 100], 4)


def test_a_commit_whose_answer_is_lost_is_found(rig: LakeRig, lake: Lake) -> None:
    """The connection ends between the catalog's doing and its answer; nothing is committed twice (I4)."""
    coordinator = rig.running(commit_interval_ms="1s")
    lost = lake.gate.lost if lake.gate else 0
    if lake.gate:
        lake.gate.lose_answer_to(lake.commit)
    else:
        rig.catalog.faults = [answer_lost]
    rig.committed(coordinator, 0, 3)
    settled(rig, coordinator)
    assert lake.gate is None or lake.gate.lost == lost + 1
    rig.committed(coordinator, 3, 5)
    assert (rows(rig), rig.offset()) == ([0, 0, 1, 1, 2], 5)
    ids = [snapshot.summary["tabletopic.commit-id"] for snapshot in rig.table.table.metadata.snapshots]  # type: ignore[index]
    assert len(ids) == len(set(ids))


def test_a_next_owner_removes_what_nobody_committed(rig: LakeRig) -> None:
    """After a crash staged files go, committed rows stay, and the old owner is shut out (I5, I10)."""
    old = rig.running(commit_interval_ms="1s")
    rig.committed(old, 0, 3)
    kept = [task.file.file_path for task in rig.table.table.scan().plan_files()]
    (left,) = write_rows(rig.table, 2, epoch=1)
    zombie, late = rig.table, batch(rig.table, 3, 5)
    new = rig.running(commit_interval_ms="1s")
    rig.now_ms += 10_000  # it waits for a first commit, and then no longer
    new.step()
    for thread in threading.enumerate():
        if thread.name == "sweep":
            thread.join()
    gone = [left.file_path, *(file.file_path for file in late.files)]
    assert [is_there(rig, path) for path in (*kept, *gone)] == [True] * len(kept) + [False] * len(gone)
    assert zombie.ledger is not None
    with pytest.raises(LostOwnershipError):
        zombie.commit(zombie.ledger, appended(next_commit(zombie.ledger, late), ()))
    rig.committed(new, 3, 5, epoch=2)
    assert (rows(rig), rig.offset()) == ([0, 0, 1, 1, 2], 5)


def test_old_snapshots_expire(rig: LakeRig, lake: Lake) -> None:
    """They go from the metadata, and what only they reached from the storage; rows and ledger stay."""
    tasks: list[Callable[[], None]] = []
    rig.spawn = lambda _, work: tasks.append(work)
    rig.now_ms = int(time.time() * 1000) + 3_600_000
    settings: dict[str, Any] = {"commit_interval_ms": "1s", "time_travel_ms": 60_000, "keep_snapshots": 1}
    coordinator = rig.running(**settings)
    for start in (0, 2, 4):
        rig.committed(coordinator, start, start + 2)
    if lake.keeps_history:  # a foreign writer's rewrite, so that data files are left
        foreign = open_catalog(rig.catalog.properties).load_table(rig.identifier)
        foreign.overwrite(foreign.scan().to_arrow())
        rig.committed(coordinator, 6, 8)
    before = rows(rig)
    there = set(list_files(rig.table.table, rig.table.table.location(), recursive=True))
    coordinator.carry_out(MaintenanceRequest(id="r", asked_ms=rig.now_ms, work="expire"))
    for _ in range(5):
        coordinator.step()
        while tasks:
            tasks.pop(0)()
    (told,) = [event for event in rig.control.written if isinstance(event, Expired)]
    gone = there - set(list_files(rig.table.table, rig.table.table.location(), recursive=True))
    assert told.error is None
    assert (rows(rig), len(rig.table.table.metadata.snapshots)) == (before, 1)
    if not lake.keeps_history:  # older versions are in its own history, and with them their files
        assert (told.snapshots, told.files, gone) == (0, 0, set())
        return
    assert told.snapshots >= 4
    assert told.files >= 7
    assert sum(path.endswith(".parquet") for path in gone) == 3
    rig.committed(coordinator, 8, 10)
    assert len(rows(rig)) == len(before) + 2


def test_small_files_become_one(rig: LakeRig, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the catalog spells locations: the same rows, and the next owner removes none of it."""
    tasks: list[Callable[[], None]] = []
    rig.spawn = lambda _, work: tasks.append(work)
    monkeypatch.setattr(compaction, "run_task", lambda _spark, _topic, task: task.run())
    coordinator = rig.running(commit_interval_ms="1s")
    for start in (0, 2, 4):
        rig.committed(coordinator, start, start + 2)
    before = rows(rig)
    coordinator.carry_out(MaintenanceRequest(id="r", asked_ms=rig.now_ms, work="compact"))
    for _ in range(8):
        rig.now_ms += 1_000
        coordinator.step()
        while tasks:
            tasks.pop(0)()
    (told,) = [event for event in rig.control.written if isinstance(event, Compacted)]
    assert (told.error, told.files_before, told.files) == (None, 3, 1)
    head = rig.table.table.metadata.current_snapshot()
    assert head.summary.operation.value == "replace"
    (file,) = [task.file.file_path for task in rig.table.table.scan().plan_files()]
    after = rig.running(commit_interval_ms="1s")
    rig.now_ms += 10_000
    after.step()
    while tasks:
        tasks.pop(0)()
    assert is_there(rig, file)
    rig.committed(after, 6, 8, epoch=2)
    assert (rows(rig), rig.offset()) == (sorted([*before, 0, 1]), 8)
    with contextlib.closing(DuckLake(open_catalog(lake.properties), rig.namespace)) as duck:
        assert duck.sql("SELECT count(*) AS n FROM clicks").to_pylist() == [{"n": len(before) + 2}]


def test_others_drop_the_table(rig: LakeRig) -> None:
    """The topic stops with the reason, and fills a new table from the start when it is resumed (I8)."""
    coordinator = rig.running(commit_interval_ms="1s")
    rig.committed(coordinator, 0, 3)
    rig.catalog.real.drop_table(rig.identifier)
    rig.worker.listener.staged(batch_of(3, 5))
    rig.after(60_000, coordinator)
    assert coordinator.state is State.FAILED
    assert "no longer exists" in str(coordinator.progress().error)
    coordinator.order(Event.RESUME)
    settled(rig, coordinator)
    assert rig.worker.spec.start == {0: 0, 1: 0}


def batch_of(start: int, end: int) -> StagedBatch:
    """Offsets without rows: the ledger moves alone."""
    return StagedBatch(StagedOffsets({0: start}, {0: end}), (), 0, 0.1)


def test_others_replace_the_table(rig: LakeRig) -> None:
    """Another table under the name is not written to (I8)."""
    coordinator = rig.running(commit_interval_ms="1s")
    rig.committed(coordinator, 0, 3)
    rig.catalog.real.drop_table(rig.identifier)
    rig.catalog.real.create_table(rig.identifier, SCHEMA, properties={"tabletopic.topic": "clicks"})
    rig.worker.listener.staged(batch_of(3, 5))
    rig.after(60_000, coordinator)
    assert coordinator.state is State.FAILED
    assert "was replaced" in str(coordinator.progress().error)


def test_others_roll_the_table_back(rig: LakeRig, lake: Lake) -> None:
    """The ledger is not where it was: the topic stops, and goes on from the table when it is resumed (I8)."""
    coordinator = rig.running(commit_interval_ms="1s")
    rig.committed(coordinator, 0, 3)
    before = rig.table.table.metadata.current_snapshot_id
    assert before is not None
    rig.committed(coordinator, 3, 5)
    if not lake.keeps_history:
        assert rig.table.table.metadata.snapshot_by_id(before) is None  # nobody can
        return
    rig.table.table.manage_snapshots().rollback_to_snapshot(before).commit()
    rig.stage(5, 6)
    rig.after(60_000, coordinator)
    assert coordinator.state is State.FAILED
    assert "rolled back" in str(coordinator.progress().error)
    coordinator.order(Event.RESUME)
    settled(rig, coordinator)
    assert (rows(rig), rig.worker.spec.start[0]) == ([0, 1, 2], 3)


def test_letters_are_kept_and_replayed(rig: LakeRig) -> None:
    """Bad records wait in a table of their own, and become rows once they can (I1, I7)."""
    coordinator = rig.running(commit_interval_ms="100ms")
    ask(coordinator, rig.worker.listener, Needs(dead_letters=True))

    def value(offset: int) -> bytes:
        return prefix(LATE) + bytes([2, 2 * offset])

    rig.worker.listener.staged(staged(coordinator, 0, 6, {2, 4}, value))
    rig.after(60_000, coordinator)
    letters = rig.catalog.real.load_table((rig.namespace, "clicks__dead_letters"))
    assert sorted(letters.scan().to_arrow()["offset"].to_pylist()) == [2, 4]
    assert rows(rig) == [0, 1, 3, 5]
    rig.registry.schemas[LATE] = AVRO
    coordinator.carry_out(ReplayRequest(id="r", asked_ms=rig.now_ms))
    settled(rig, coordinator)
    assert rows(rig) == [0, 1, 2, 3, 4, 5]
    letters.refresh()
    assert letters.scan().count() == 0


def test_duckdb_reads_the_rows_and_those_of_before(rig: LakeRig, lake: Lake) -> None:
    """By [catalog] alone: the newest rows, those of a snapshot and those of a column that came."""
    coordinator = rig.running(commit_interval_ms="1s")
    rig.committed(coordinator, 0, 3)
    first = rig.table.table.metadata.current_snapshot_id
    rig.committed(coordinator, 3, 5)
    with contextlib.closing(DuckLake(open_catalog(lake.properties), rig.namespace)) as duck:
        count = "SELECT count(*) AS n, sum(a) AS s FROM clicks"
        assert duck.sql(count).to_pylist() == [{"n": 5, "s": 4}]
        if lake.keeps_history:
            assert duck.sql(count, at=first).to_pylist() == [{"n": 3, "s": 3}]
        rig.committed(coordinator, 5, 6)
        assert duck.sql(count).to_pylist()[0]["n"] == 6


def test_what_was_lent_expires(rig: LakeRig, lake: Lake) -> None:
    """A token, or keys for the storage: others are asked for, and no record is lost or doubled (I9)."""
    coordinator = rig.running(commit_interval_ms="1s")
    rig.committed(coordinator, 0, 3)
    rig.stage(3, 5)
    if lake.expire:
        lake.expire()
    settled(rig, coordinator)
    rig.committed(coordinator, rig.offset(), 7)
    assert (len(rows(rig)), rig.offset()) == (7, 7)
    with contextlib.closing(DuckLake(open_catalog(lake.properties), rig.namespace)) as duck:
        assert duck.sql("SELECT count(*) AS n FROM clicks").to_pylist() == [{"n": 7}]


def test_a_table_that_is_not_there(rig: LakeRig) -> None:
    """Is not found, whatever the catalog's words for it are."""
    with pytest.raises(NoSuchTableError):
        rig.catalog.real.load_table((rig.namespace, "nothing"))
    rig.running()
    with pytest.raises(NoSuchTableError):
        rig.catalog.real.load_table((rig.namespace, "nothing"))
    assert rig.table.table.schema().find_field("a").field_type == IntegerType()


# Those whose jars and keys are each of a kind; a session takes most of a minute where the machine is busy.
@pytest.mark.parametrize(
    "lake",
    ["SQLite, local files", "SQLite, Google Cloud Storage", "PostgreSQL, S3", "Glue, S3"],
    indirect=True,
)
def test_spark_reads_and_writes(rig: LakeRig, lake: Lake, spark: Spark) -> None:
    """By [catalog] alone, with the jars that it fetched by itself; no secret is on a command line."""
    # A catalog that Spark has once seen keeps its settings, so each has a name of its own, also in a
    # database, where a name's tables are that name's alone.
    properties = lake.properties | {"name": rig.namespace}
    rig.catalog.real = open_catalog(properties)
    coordinator = rig.running(commit_interval_ms="1s")
    rig.committed(coordinator, 0, 3)
    count = "SELECT count(*) AS n, sum(a) AS s FROM clicks"
    assert spark.ask(properties, rig.namespace, count) == [{"n": 3, "s": 3}]
    spark.ask(properties, rig.namespace, "DELETE FROM clicks WHERE a = 2")
    assert rows(rig) == [0, 1]
    rig.committed(coordinator, 3, 5)
    settled(rig, coordinator)
    assert spark.ask(properties, rig.namespace, count) == [{"n": 4, "s": 2}]
    commands = []
    for process in psutil.Process(spark.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # Hadoop starts some that end at once
            commands.append(" ".join(process.cmdline()))
    assert any("org.apache.spark" in words for words in commands)
    assert not any(secret in words for words in commands for secret in (SECRET, PASSWORD, TOKEN_SECRET))


# Trino finds no emulator of Google's or Azure's storage by its own clients.
@pytest.mark.parametrize(
    "lake", [one for one in LAKES if not one.endswith(("Cloud Storage", "Azure"))], indirect=True
)
def test_trino_reads(rig: LakeRig, lake: Lake, trino: Trino) -> None:
    """Rows of before and after a column was widened and another came, and those of an older snapshot."""
    coordinator = rig.running(commit_interval_ms="1s")
    rig.committed(coordinator, 0, 3)
    table = rig.table
    first = table.table.metadata.current_snapshot_id
    wide = table.table.schema().find_field("a").model_copy(update={"field_type": LongType()})
    others = [field for field in table.table.schema().fields if field.name != "a"]
    new = NestedField(table.table.metadata.last_column_id + 1, "b", StringType(), required=False)
    table.evolve(Schema(wide, *others, new), {}, 1)
    settled(rig, coordinator)
    rig.committed(coordinator, 3, 5)
    lent = rig.table.table.io.properties  # the store's address, by some catalogs
    storage = {"s3.endpoint": lent["s3.endpoint"]} if "s3.endpoint" in lent else {}
    trino.add_catalog(rig.namespace, lake.properties | storage)
    clicks = f'"{rig.namespace}".clicks'
    assert trino.ask(f"SELECT count(*), sum(a), count(b) FROM {clicks}", rig.namespace) == [[5, 4, 0]]
    if lake.keeps_history:
        then = trino.ask(f"SELECT count(*), sum(a) FROM {clicks} FOR VERSION AS OF {first}", rig.namespace)
        assert then == [[3, 3]]
