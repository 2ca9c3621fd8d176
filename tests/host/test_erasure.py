"""What is erased is in no row, dead letter, snapshot or file; what stays is named; again finishes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tabletopic_kernel.host.maintenance.unowned import maintain
from tabletopic_kernel.model.commit_cycle import Event, State
from tabletopic_kernel.model.progress.events import Erased
from tabletopic_kernel.model.settings.desired import MaintenanceRequest
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.render.words import event_text
from tests.host.rig import Rig, drain, order
from tests.host.test_old_rows import KEEP, UPSERT, Log
from tests.host.test_replay import with_letters
from tests.table.samples import TOPIC, answer_lost, never_arrived, refused
from tests.table.test_dead_letters import LETTERS, dead_letters

REQUEST = MaintenanceRequest(id="e", asked_ms=0, work="erase", where="_kafka_value = '7'", by="me")
APPEND = KEEP | {"keep_ms": None}


def erased(log: Log, request: MaintenanceRequest = REQUEST) -> Erased:
    """Request it, and wait for its end."""
    log.coordinator.carry_out(request)
    for _ in range(3):
        log.rig.after(20_000, log.coordinator)
    return [event for event in log.rig.control.written if isinstance(event, Erased)][-1]


def on_disk(folder: Path, column: str = "_kafka_value") -> set[Any]:
    """The values in all data files, whoever needs them."""
    found: set[Any] = set()
    for path in folder.rglob("*.parquet"):
        rows = pq.read_table(path)
        found |= set(rows[column].to_pylist()) if column in rows.column_names else set()
    return found


@pytest.mark.parametrize("settings", [APPEND, UPSERT | {"keep_ms": None}], ids=["append", "upsert"])
def test_nothing_has_it_any_more(rig: Rig, tmp_path: Path, settings: dict[str, Any]) -> None:
    """Nor a row that another replaced; all other rows and the offsets stay, and records go on."""
    log = Log(rig, rig.running(**settings))
    log.add(1, 7, 3, keys=["a", "b", "c"])
    log.add(4, 7, keys=["b", "d"])
    log.add(7, keys=["e"])
    rows = set(log.kept())
    event = erased(log)
    assert (event.left, event.error, event.files) == ([], None, 1)
    assert event.rows == (3 if settings == APPEND else 2)
    assert len(event.gone) == 3
    assert set(log.kept()) == rows - {"7"} == on_disk(tmp_path)
    assert rig.offset() == log.end
    assert "not whole" not in event_text(event)
    log.add(8)
    assert "8" in log.kept()
    rig.running(**settings)
    assert erased(log).rows == 0


def test_what_a_tag_names_stays_and_is_named(rig: Rig, tmp_path: Path) -> None:
    """Once it is gone, the same request finishes the erasure."""
    log = Log(rig, rig.running(**APPEND))
    log.add(1, 7)
    table = rig.table.table
    table.manage_snapshots().create_tag(table.metadata.current_snapshot_id, "audit").commit()
    event = erased(log)
    assert log.kept() == ["1"]
    (left,) = event.left
    assert "(audit) of default.clicks has 1 files with such rows" in left
    assert "not whole: snapshot" in event_text(event)
    assert "7" in on_disk(tmp_path)
    rig.table.table.manage_snapshots().remove_tag("audit").commit()
    assert erased(log).left == []
    assert on_disk(tmp_path) == {"1"}


@pytest.mark.parametrize("before", [0, 1], ids=["deletion", "expiry"])
@pytest.mark.parametrize("fault", [refused, answer_lost, never_arrived])
def test_what_was_interrupted_is_finished_by_another_request(
    rig: Rig, tmp_path: Path, fault: Callable[..., Any], before: int
) -> None:
    """Whoever carries it out: here the next owner, after the topic was disabled."""
    log = Log(rig, rig.running(**APPEND))
    log.add(1, 7)
    log.add(7)
    rig.catalog.faults = [lambda commit: commit()] * before + [fault] * 2
    erased(log)
    rig.catalog.faults = []
    order(log.coordinator, Event.STOP, until=State.STOPPED)
    maintain(TOPIC, TopicSettings(**APPEND), rig.services(), REQUEST)
    event = rig.control.written[-1]
    assert isinstance(event, Erased)
    assert (event.left, event.error) == ([], None)
    assert on_disk(tmp_path) == {"1"}


def test_dead_letters_go_with_their_files(rig: Rig, tmp_path: Path) -> None:
    """Those that the request names, and no others."""
    coordinator = with_letters(rig)
    request = REQUEST.model_copy(
        update={"where": "a = 1", "letters": "(partition = 0 and offset in (3, 4)) or offset = 9"}
    )
    coordinator.carry_out(request)
    drain(coordinator)
    event = rig.control.written[-1]
    assert isinstance(event, Erased)
    assert (event.letters, event.rows, event.left, event.error) == ({"bad": 3}, 1, [], None)
    assert dead_letters(rig) == [2, 5, 6, 7, 8]
    assert len(rig.catalog.real.load_table(LETTERS).snapshots()) == 1
    assert on_disk(tmp_path, "offset") == {2, 5, 6, 7, 8}
