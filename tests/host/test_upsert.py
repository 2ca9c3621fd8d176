"""A coordinator whose table is kept by key: what it commits, and when."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest

from tabletopic_kernel.clients.storage.storage import list_infos
from tabletopic_kernel.host.schedule import Schedule
from tabletopic_kernel.model.commit_cycle import Event, State
from tabletopic_kernel.model.ledger import StagedOffsets
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.plan import StageResult
from tabletopic_kernel.pipeline.stage import StageTask
from tabletopic_kernel.pipeline.worker.jobs import batch_of_result
from tabletopic_kernel.pipeline.write import epochs_root
from tabletopic_kernel.table.changes.ledger_history import ledger_of, locations
from tabletopic_kernel.table.changes.upsert.upserted import MOST_FILES
from tests.host.rig import Rig, drain
from tests.pipeline.source import SOURCE
from tests.table.samples import answer_lost, never_arrived, refused, sent_twice


def test_a_costly_commit_is_followed_by_a_rest() -> None:
    """Of ten times its CPU, unless somebody asks; the reason is said. Appends never rest."""
    now = [0]
    schedule = Schedule(lambda: now[0])
    upsert = TopicSettings(mode="upsert", commit_interval_ms=1_000)
    schedule.committed(0, {}, upsert, cpu_ms=500)
    for now[0], event in ((1_000, None), (4_999, None), (5_000, Event.COMMIT_DUE)):
        assert schedule.due(State.STAGED, 2**40, upsert) == event
    assert schedule.stretched(upsert) is not None
    assert "every 5.0 s instead of 1.0 s" in (schedule.stretched(upsert) or "")
    now[0] = 2_000
    assert schedule.wait_s(State.STAGED, upsert) == 1.0
    schedule.ask_commit()
    assert schedule.due(State.STAGED, 0, upsert) == Event.COMMIT_DUE
    append = TopicSettings(commit_interval_ms=1_000)
    schedule.committed(0, {}, append, cpu_ms=500)
    assert schedule.due(State.STAGED, 0, append) == Event.COMMIT_DUE
    assert schedule.stretched(append) is None


UPSERT = {"mode": "upsert", "value_format": "string", "key_format": "string", "commit_interval_ms": "1s"}
Log = dict[int, list[tuple[bytes, bytes | None]]]


def _stage(rig: Rig, log: Log, start: dict[int, int], end: dict[int, int]) -> None:
    """What a worker makes of the records in between."""
    rows = [
        {"key": key, "value": value, "headers": None, "partition": p, "offset": at, "timestamp": at * 1000}
        for p in start
        for at, (key, value) in enumerate(log[p][start[p] : end[p]], start[p])
    ]
    result = StageResult()
    for answer in StageTask(rig.worker.plan)(iter([pa.RecordBatch.from_pylist(rows, schema=SOURCE)])):
        result.add(answer.column("result")[0].as_py())
    assert not result.needs
    staged = batch_of_result(StagedOffsets(start, end), result, 0.1)
    # Nobody cuts this log.
    rig.worker.listener.staged(replace(staged, offsets=replace(staged.offsets, last_records={})))


def _dict_of(log: Log, offsets: dict[int, int]) -> dict[str, str]:
    state: dict[bytes, bytes | None] = {}
    for partition, records in log.items():
        state |= dict(records[: offsets[partition]])
    return {key.decode(): value.decode() for key, value in state.items() if value is not None}


def _rows(rig: Rig) -> list[tuple[str, str]]:
    rows = rig.table.table.scan().to_arrow()
    return sorted(zip(rows["_kafka_key"].to_pylist(), rows["_kafka_value"].to_pylist(), strict=True))


@pytest.mark.parametrize("seed", range(2))
def test_the_table_is_the_dict_of_its_records(rig: Rig, seed: int) -> None:
    """After each commit, whatever the catalog answers, and whoever takes over what was staged or sent."""
    dice = Random(seed)
    log: Log = {
        p: [
            (f"{p}-{dice.randrange(6)}".encode(), f"v{at}".encode() if dice.random() < 0.7 else None)
            for at in range(24)
        ]
        for p in (0, 1)
    }
    coordinator = rig.running(**UPSERT)
    start = dict(rig.worker.spec.start)
    while any(start[p] < len(log[p]) for p in log):
        for _ in range(dice.choice([1, 1, 2])):
            end = {p: min(len(log[p]), start[p] + dice.choice([0, 4, 9])) for p in log}
            _stage(rig, log, start, end)
            drain(coordinator)
            start = end
        rig.catalog.faults = dice.choice([[], [answer_lost], [refused], [never_arrived], [sent_twice]])
        if dice.random() < 0.3:  # killed with what is staged
            rig.catalog.faults = []
            coordinator = rig.running(**UPSERT)
            start = dict(rig.worker.spec.start)
            continue
        for _ in range(4):
            rig.after(20_000, coordinator)
        ledger = rig.table.ledger
        assert ledger is not None
        assert _rows(rig) == sorted(_dict_of(log, dict(ledger.next_offsets)).items())
        assert coordinator.progress().rows == len(_rows(rig))
        changes = coordinator.progress().changes  # of all owners, each commit once
        assert changes.get("insert", 0) - changes.get("delete", 0) == len(_rows(rig))
    assert _rows(rig) == sorted(_dict_of(log, dict.fromkeys(log, 60)).items())


def test_deletes_that_were_merged_leave_no_files(rig: Rig) -> None:
    """What a commit puts into a file with others was never named: only that file stays."""
    log: Log = {0: [(f"{at}".encode(), None) for at in range(MOST_FILES + 1)], 1: []}
    coordinator = rig.running(**UPSERT)
    for at in range(len(log[0])):
        _stage(rig, log, {0: at, 1: 0}, {0: at + 1, 1: 0})
        drain(coordinator)
        rig.after(20_000, coordinator)
    table = rig.table.table
    ledgers = list(filter(None, map(ledger_of, table.snapshots())))
    files = list_infos(table, epochs_root(table.metadata), recursive=True)
    assert len(ledgers[-1].deleted_keys) == 1
    assert {path for path in files if path.endswith("-keys.parquet")} == {
        path for ledger in ledgers for path in locations(table, ledger)
    }
