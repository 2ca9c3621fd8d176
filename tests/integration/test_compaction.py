"""Compaction on the real stack: Spark's task rewrites, Spark deletes rows by position meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyiceberg.manifest import DataFileContent

from tabletopic_kernel.host.maintenance import compaction
from tabletopic_kernel.pipeline.rewrite import RewriteResult
from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.conftest import Sender
from tests.integration.rows import FAST, V1, V2, row_v1, row_v2

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("host")]
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


def test_rows_that_spark_deletes_meanwhile_stay_deleted(
    bench: Workbench,
    new_topic: Callable[..., Sender],
    caught_up: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By position, after the files were read and before their commit: it is given up, and tried again."""
    sender = new_topic()
    _filled(bench, sender, caught_up)
    spark, topic, run = bench.spark(), sender.topic, compaction.run_task
    name = f"lake.default.{topic}"
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')")
    deleted: list[bool] = []

    def deletes(*arguments: Any) -> RewriteResult:
        result = run(*arguments)
        if not deleted:
            spark.sql(f"DELETE FROM {name} WHERE id = 13")
            deleted.append(True)
        return result

    monkeypatch.setattr(compaction, "run_task", deletes)
    before = _rows(bench, topic)
    done = bench.compact(topic)
    assert done is not None
    assert done.error is None
    table = bench.open_catalog().load_table(f"default.{topic}")
    kinds = [task.delete_files for task in table.scan().plan_files() if task.delete_files]
    assert [file.content for files in kinds for file in files] == [DataFileContent.POSITION_DELETES]
    assert _rows(bench, topic) == [row for row in before if row[0] != "13"]
    assert _files(bench, topic) == 2  # that with the deleted row, and the others
    sender.avro(V1, row_v1(200))
    caught_up(topic)
    assert len(_rows(bench, topic)) == 10 * _COMMITS
