"""Compaction on the real stack: Spark's task rewrites, Spark deletes rows by position meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyiceberg.manifest import DataFileContent

from tabletopic_kernel.host.maintenance import compaction
from tabletopic_kernel.local import machine
from tabletopic_kernel.model.progress.events import Expired
from tabletopic_kernel.pipeline.rewrite import RewriteResult
from tabletopic_kernel.workbench.topics import requests
from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.conftest import Sender
from tests.integration.rows import FAST, V1, V2, row_v1, row_v2

pytestmark = [pytest.mark.story, pytest.mark.usefixtures("host")]
_COMMITS = 4


def _filled(bench: Workbench, sender: Sender, caught_up: Callable[..., Any]) -> None:
    """Some commits of rows of one version."""
    for at in range(_COMMITS):
        sender.avro(V1, *map(row_v1, range(10 * at, 10 * at + 10)))
        if at == 0:
            bench.enable(sender.topic, FAST)
        caught_up(sender.topic)


def _rows(bench: Workbench, topic: str) -> list[tuple[Any, ...]]:
    found = bench.query(f"SELECT id, name, tags, place.city, note, _kafka_metadata FROM {topic} ORDER BY id")
    return [tuple(map(str, row.values())) for row in found.rows.to_pylist()]


def _files(bench: Workbench, topic: str) -> int:
    table = bench.open_catalog().load_table(f"default.{topic}")
    return len(list(table.scan().plan_files()))


def test_small_files_become_one_in_spark(
    bench: Workbench, new_topic: Callable[..., Sender], caught_up: Callable[..., Any]
) -> None:
    """The rows are the same for DuckDB and for Spark, and the topic goes on; versions are kept apart."""
    sender = new_topic()
    _filled(bench, sender, caught_up)
    before, files = _rows(bench, sender.topic), _files(bench, sender.topic)
    plan = bench.plan_compaction(sender.topic)
    assert sum(len(group.files) for group in plan.groups) == files >= _COMMITS
    done = bench.compact(sender.topic)
    assert done is not None
    assert (done.error, done.files_before, done.files, done.rows) == (None, files, 1, 10 * _COMMITS)
    assert _rows(bench, sender.topic) == before
    for at in range(2):
        sender.avro(V2, row_v2(100 + at))
        caught_up(sender.topic)
    before = _rows(bench, sender.topic)
    again = bench.topic(sender.topic).compact()
    assert again is not None
    assert (again.error, again.files_before, again.files) == (None, 2, 1)
    assert _rows(bench, sender.topic) == before


@pytest.mark.parametrize("minutes", [-5, 5])
def test_a_users_clock_is_wrong(
    bench: Workbench,
    new_topic: Callable[..., Sender],
    caught_up: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    minutes: int,
) -> None:
    """All letters are replayed, and each outcome is found."""
    sender = new_topic()
    sender.raw(V1.encode())
    sender.avro(V1, row_v1(0))
    sender.flush()
    bench.enable(sender.topic, FAST | {"max_refused_share": 1})
    caught_up(sender.topic)
    users_ms = machine.now_ms() + minutes * 60_000
    monkeypatch.setattr(requests, "now_ms", lambda: users_ms)
    replayed, compacted = bench.replay(sender.topic), bench.compact(sender.topic)
    expired = bench.expire(sender.topic)
    assert replayed is not None
    assert replayed.stayed == {"no_schema_id": 1}
    assert compacted is not None
    assert expired is not None
    assert [event.dead_letters for event in expired if isinstance(event, Expired)] == [True, False]


def test_rows_that_spark_deletes_meanwhile_stay_deleted(
    bench: Workbench,
    new_topic: Callable[..., Sender],
    caught_up: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By position, before the files are chosen, and after they were read: the first are left out, the others
    are deleted in the new file, by the same commit."""
    sender = new_topic()
    _filled(bench, sender, caught_up)
    spark, topic, run = bench.spark(), sender.topic, compaction.run_task
    name = f"lake.default.{topic}"
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')")
    deleted: list[bool] = []

    def deletes(*arguments: Any) -> RewriteResult:
        result = run(*arguments)
        if not deleted:
            spark.sql(f"DELETE FROM {name} WHERE id IN (13, 19, 27)")
            deleted.append(True)
        return result

    monkeypatch.setattr(compaction, "run_task", deletes)
    before, files = _rows(bench, topic), _files(bench, topic)
    spark.sql(f"DELETE FROM {name} WHERE id IN (11, 14)")
    done = bench.compact(topic)
    assert done is not None
    assert (done.error, done.files_before, done.files) == (None, files, 1)
    assert (done.rows, done.deleted_rows) == (10 * _COMMITS - 2, 2)
    assert done.delete_files >= 2
    table = bench.open_catalog().load_table(f"default.{topic}")
    kinds = [task.delete_files for task in table.scan().plan_files() if task.delete_files]
    assert [(file.content, file.record_count) for files in kinds for file in files] == [
        (DataFileContent.POSITION_DELETES, 3)
    ]
    gone = {"11", "13", "14", "19", "27"}
    left = [row for row in before if row[0] not in gone]
    assert _rows(bench, topic) == left
    assert _in_spark(bench, name) == [row[0] for row in left]
    spark.sql(f"DELETE FROM {name} WHERE id = 30")  # by position in the new file, beside ours
    left = [row for row in left if row[0] != "30"]
    assert (_rows(bench, topic), _in_spark(bench, name)) == (left, [row[0] for row in left])
    again = bench.compact(topic)
    assert again is not None
    assert (again.error, again.files, again.deleted_rows) == (None, 1, 4)
    assert (_rows(bench, topic), _in_spark(bench, name)) == (left, [row[0] for row in left])
    table = bench.open_catalog().load_table(f"default.{topic}")
    assert not [task for task in table.scan().plan_files() if task.delete_files]
    sender.avro(V1, row_v1(200))
    caught_up(topic)
    assert len(_rows(bench, topic)) == len(left) + 1


def test_rows_of_a_table_kept_by_key_are_counted_at_once(
    bench: Workbench, new_topic: Callable[..., Sender], caught_up: Callable[..., Any]
) -> None:
    """A delete file that also names a file that stays is written again, without the dropped positions."""
    sender = new_topic()
    for at, ids in enumerate((range(50), range(50, 100), range(45, 55))):
        sender.avro(V1, *map(row_v1, ids))
        if at == 0:
            bench.enable(sender.topic, FAST | {"mode": "upsert", "key": "id"})
        caught_up(sender.topic)
    table = bench.open_catalog().load_table(f"default.{sender.topic}")
    before = _rows(bench, sender.topic)
    done = bench.compact(sender.topic, "id < 50")
    assert done is not None
    assert (done.error, done.files, done.deleted_rows) == (None, 1, 5)
    assert (done.delete_files, done.new_delete_files) == (1, 1)
    (status,) = bench.status(sender.topic)
    assert status.rows == len(before) == 100
    assert (_rows(bench, sender.topic), _in_spark(bench, f"lake.default.{sender.topic}")) == (
        before, [row[0] for row in before],
    )  # fmt: skip
    kinds = [task.delete_files for task in table.refresh().scan().plan_files() if task.delete_files]
    assert [file.record_count for files in kinds for file in files] == [5]


def _in_spark(bench: Workbench, name: str) -> list[str]:
    """Ids as Spark reads them."""
    spark = bench.spark()
    spark.sql(f"REFRESH TABLE {name}")
    return [str(row["id"]) for row in spark.sql(f"SELECT id FROM {name} ORDER BY id").collect()]
