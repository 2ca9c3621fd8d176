"""Rows that are too old go, and no others: whatever their times, other writers, and the catalog's answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from tabletopic_kernel.host.coordinator import Coordinator
from tabletopic_kernel.model.ledger import StagedOffsets
from tabletopic_kernel.model.progress.events import RowsDeleted
from tabletopic_kernel.pipeline.plan import StageResult
from tabletopic_kernel.pipeline.stage import StageTask
from tabletopic_kernel.pipeline.worker.jobs import batch_of_result
from tabletopic_kernel.render.words import event_text
from tabletopic_kernel.table.health import next_work
from tests.host.rig import Rig, drain
from tests.host.test_compaction import Threads, threads  # noqa: F401
from tests.pipeline.source import SOURCE
from tests.table.foreign_deletes import delete_rows
from tests.table.samples import answer_lost, never_arrived, refused, sent_twice

_DAY = 86_400_000
_NOW = 100 * _DAY + 7_000_000
KEEP: dict[str, Any] = {
    "value_format": "string",
    "key_format": "string",
    "commit_interval_ms": "1s",
    "keep_ms": "90d",
}
UPSERT = KEEP | {"mode": "upsert"}


class Log:
    """Records of partition 0: value n has the time of n, None: no time that Kafka knows."""

    def __init__(self, rig: Rig, coordinator: Coordinator) -> None:
        self.rig, self.coordinator, self.end = rig, coordinator, 0

    def add(self, *times_ms: int | None, keys: list[str] | None = None) -> None:
        """Stage and commit one file with records of these times."""
        rows = [
            {
                "key": (keys[n] if keys else f"k{self.end + n}").encode(),
                "value": str(ms).encode(),
                "headers": None,
                "partition": 0,
                "offset": self.end + n,
                "timestamp": None if ms is None else ms * 1000,
            }
            for n, ms in enumerate(times_ms)
        ]
        result = StageResult()
        for answer in StageTask(self.rig.worker.plan)(
            iter([pa.RecordBatch.from_pylist(rows, schema=SOURCE)])
        ):
            result.add(answer.column("result")[0].as_py())
        offsets = StagedOffsets({0: self.end, 1: 0}, {0: self.end + len(rows), 1: 0})
        staged = batch_of_result(offsets, result, 0.1)
        self.rig.worker.listener.staged(replace(staged, offsets=replace(staged.offsets, last_records={})))
        self.end += len(rows)
        drain(self.coordinator)
        self.rig.after(20_000, self.coordinator)

    def kept(self) -> list[str]:
        """The values of all rows."""
        return sorted(self.rig.table.table.scan().to_arrow()["_kafka_value"].to_pylist())

    def events(self) -> list[RowsDeleted]:
        """What was reported."""
        return [event for event in self.rig.control.written if isinstance(event, RowsDeleted)]


def started(rig: Rig, **settings: Any) -> Log:
    """A topic that keeps rows for 90 days."""
    rig.now_ms = _NOW
    return Log(rig, rig.running(**(KEEP | settings)))


def due(log: Log) -> None:
    """An hour passes."""
    log.rig.after(3_600_000, log.coordinator)


def test_what_is_old_goes_and_nothing_else(rig: Rig) -> None:
    """Files go whole or are written anew; what is from the future or of no time stays, and the ledger too."""
    log = started(rig)
    bound = 10 * _DAY
    log.add(1, 2, 3)
    log.add(bound - 1, bound, _NOW, _NOW * 10)
    log.add(bound, bound + 1)
    assert [work.why for work in next_work(rig.table.table, log.coordinator.settings, rig.now_ms)][2] == (
        "_kafka_metadata.timestamp before 1970-01-11 00:00 UTC: whole files: 1, with 3 rows; others: 1"
    )
    before = rig.offset()
    due(log)
    assert log.kept() == sorted(map(str, (bound, _NOW, _NOW * 10, bound, bound + 1)))
    (event,) = log.events()
    assert (event.rows, event.files, event.rewritten, event.error) == (4, 1, 1, None)
    assert event_text(event).startswith("deleted 4 rows with _kafka_metadata.timestamp before 1970-01-11")
    assert rig.offset() == before
    commits = len(rig.table.table.snapshots())
    due(log)
    assert (len(log.events()), len(rig.table.table.snapshots())) == (1, commits)
    log.add(5, _NOW)
    due(log)
    assert log.events()[1].rows == 1
    rig.running(**KEEP)  # a takeover finds no rollback
    assert rig.offset() == log.end


def test_rows_without_a_time_stay(rig: Rig) -> None:
    """Also in a file whose other rows are too old."""
    log = started(
        rig,
        keep_by="day",
        projection="SELECT nullif(_kafka_value, 'None')::bigint v, "
        "make_timestamp_ms(nullif(_kafka_value, 'None')::bigint)::date AS day, _kafka_value FROM batch",
    )
    log.add(1, None, _NOW)
    due(log)
    assert log.kept() == sorted(["None", str(_NOW)])


@pytest.mark.parametrize("faults", [[refused], [answer_lost], [never_arrived], [sent_twice]])
def test_the_catalog_may_say_anything(rig: Rig, faults: list[Callable[..., Any]]) -> None:
    """A deletion is one commit, whatever is lost on the way, and is counted once."""
    log = started(rig)
    log.add(1, _NOW)
    log.add(2, 3)
    rig.catalog.faults = list(faults)
    due(log)
    rig.after(60_000, log.coordinator)
    assert log.kept() == [str(_NOW)]
    (event,) = log.events()
    assert (event.rows, event.error) == (3, None)


@pytest.mark.parametrize("seed", range(2))
def test_a_table_by_key_keeps_the_newest_young_rows(rig: Rig, seed: int) -> None:
    """Old rows go by their own time, with the deletes that applied to their files; replaced ones stay so."""
    dice = Random(seed)
    log = started(rig, **UPSERT)
    newest: dict[str, int] = {}
    for _ in range(6):
        keys = [f"k{dice.randrange(8)}" for _ in range(6)]
        times = sorted(dice.choice([dice.randrange(10 * _DAY), _NOW - dice.randrange(_DAY)]) for _ in keys)
        log.add(*times, keys=keys)
        # A record counts as at least as new as those before it in its partition.
        newest |= dict(zip(keys, times, strict=True))
        if dice.random() < 0.5:
            due(log)
            newest = {key: ms for key, ms in newest.items() if ms >= 10 * _DAY}
            assert log.kept() == sorted(map(str, newest.values()))
    due(log)
    assert log.kept() == sorted(str(ms) for ms in newest.values() if ms >= 10 * _DAY)
    assert all(event.error is None for event in log.events())


def test_rows_that_others_deleted_do_not_come_back(rig: Rig, threads: Threads) -> None:  # noqa: F811
    """Not even if they do so while the deletion is planned; files that others removed are passed over."""
    log = started(rig)
    log.add(1, _NOW, _NOW + 1)
    log.add(2, 3)
    rig.now_ms += 3_600_000
    drain(log.coordinator)
    threads.waiting.pop(0)()  # planned, and asked
    table = rig.table.table
    tasks = sorted((task.file.record_count, task.file.file_path) for task in table.scan().plan_files())
    delete_rows(table, {tasks[1][1]: [1]})
    threads.go_on(log.coordinator)
    assert log.kept() == [str(_NOW + 1)]
    (event,) = log.events()
    assert (event.rows, event.error) == (3, None)


def test_a_column_without_times_is_an_error_and_stops_nothing(rig: Rig) -> None:
    """The event says what to set."""
    log = started(rig, keep_by="_kafka_value")
    log.add(1)
    due(log)
    assert log.kept() == ["1"]
    assert "must be a timestamp or a date, and is string" in (log.events()[0].error or "")
    assert log.coordinator.progress().error is None
