"""Dead letters that are dropped are gone; others, and what becomes of them, stay."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.host.coordinator import Coordinator
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.progress.events import LettersDropped
from tabletopic_kernel.model.settings.desired import DesiredTopic, MaintenanceRequest
from tabletopic_kernel.render.words import event_text
from tabletopic_kernel.workbench.peek.letters import Letters, download, read_letters
from tests.host.rig import Rig, drain
from tests.host.test_replay import LATE, delete_letters, replay, value, with_letters
from tests.table.samples import AVRO, TOPIC, answer_lost, never_arrived, refused
from tests.table.test_dead_letters import LETTERS, commit, dead_letters, rows, stage

REQUEST = MaintenanceRequest(
    id="d", asked_ms=0, work="drop_letters", where="offset < 5", note="no use", by="me"
)


def drop(rig: Rig, coordinator: Coordinator, where: str | None = "offset < 5") -> LettersDropped:
    """Request a drop, and wait for its end."""
    coordinator.carry_out(REQUEST.model_copy(update={"where": where}))
    drain(coordinator)
    events = [event for event in rig.control.written if isinstance(event, LettersDropped)]
    assert len(events) == 1
    rig.control.written.remove(events[0])
    return events[0]


def test_what_matches_is_gone(rig: Rig) -> None:
    """The event says who and why; later letters and replays are as ever."""
    coordinator = with_letters(rig)
    before = len(rig.catalog.real.load_table(LETTERS).snapshots())
    event = drop(rig, coordinator)
    assert (event.letters, event.error) == ({"bad": 3}, None)
    assert (event.note, event.by, event.where) == ("no use", "me", "offset < 5")
    assert (rows(rig), dead_letters(rig)) == ([0, 1], [5, 6, 7, 8, 9])
    assert len(rig.catalog.real.load_table(LETTERS).snapshots()) == before + 1
    assert drop(rig, coordinator).letters == {}
    stage(rig, coordinator, 10, 12, {11})
    commit(rig, coordinator)
    assert replay(rig, coordinator).rows == 4
    assert dead_letters(rig) == [6, 9]
    assert sum(drop(rig, coordinator, None).letters.values()) == 2
    assert dead_letters(rig) == []


@pytest.mark.parametrize("fault", [refused, never_arrived, answer_lost])
def test_trouble_drops_all_or_nothing(rig: Rig, fault: Callable[..., Any]) -> None:
    """A lost answer is tried again, and the event has what was dropped and not more."""
    coordinator = with_letters(rig)
    rig.catalog.faults = [fault]
    event = drop(rig, coordinator)
    left = list(range(2 if event.error else 5, 10))
    assert dead_letters(rig) == left
    assert event.letters == ({} if event.error else {"bad": 3})
    assert (event.error or "3 dead letters dropped by me: no use; bad: 3") in event_text(event)


def test_letters_of_nobody(rig: Rig) -> None:
    """Without letters nothing is dropped; what another program deleted stays deleted."""
    coordinator = with_letters(rig)
    delete_letters(rig, 0)
    assert sum(drop(rig, coordinator).letters.values()) == 2
    assert dead_letters(rig) == [5, 6, 7, 8, 9]


def read(rig: Rig, coordinator: Coordinator, where: str | None = None, limit: int = 0) -> Letters:
    """The letters as people see them."""
    registry = cast(Registry, rig.registry)
    return read_letters(TOPIC, coordinator.settings, registry, rig.catalog.real, where, limit)


def test_letters_by_reason_whole_and_as_files(rig: Rig, tmp_path: Path) -> None:
    """Counts, the newest records with their bytes, and downloads that keep every byte."""
    coordinator = with_letters(rig)
    rig.registry.schemas[LATE] = AVRO
    values = {(n, value(n)) for n in range(2, 10)}
    letters = read(rig, coordinator, limit=50)
    assert [(group.reason, group.letters) for group in letters.groups] == [("bad", 8)]
    assert all(sum(group.counts.values()) == group.letters for group in letters.groups)
    assert {(record.offset, record.raw) for record in letters.records} == values
    assert {record.fate.kind for record in letters.records if record.fate} == {"dead_letter"}
    assert json.dumps(letters.to_json())
    few = read(rig, coordinator, "offset = 3", 1)
    assert (few.letters, [record.offset for record in few.records]) == (1, [3])
    assert read(rig, coordinator, "offset = 77", 1).groups == []
    stage(rig, coordinator, 10, 12, {11})  # in a file of its own
    commit(rig, coordinator)
    more = read(rig, coordinator, limit=2)
    (group,) = more.groups
    assert (more.letters, group.letters, sum(group.counts.values())) == (9, 9, 9)
    assert (group.first_ms, len(more.records)) == (letters.groups[0].first_ms, 2)
    assert (more.records[0].offset, group.last_ms) == (
        11,
        more.records[0].fate and more.records[0].fate.at_ms,
    )
    drop(rig, coordinator, "offset = 11")
    with pytest.raises(UsageError, match="cannot read the condition"):
        read(rig, coordinator, "reason = (SELECT 1)")
    for raw in (False, True):
        file = tmp_path / f"letters-{raw}"
        given = TOPIC, coordinator.settings, rig.catalog.real, file, None
        assert download(*given, raw=raw) == 8
        with pytest.raises(UsageError, match="exists"):
            download(*given, raw=raw)
    lines = [json.loads(line) for line in (tmp_path / "letters-False").read_text().splitlines()]
    assert {(one["offset"], b64decode(one["value"])) for one in lines} == values
    assert (tmp_path / "letters-True" / "0-3").read_bytes() == value(3)


def test_older_hosts_read_other_requests() -> None:
    """A request has the fields of its work alone."""
    asked = MaintenanceRequest(id="c", asked_ms=1, work="compact")
    assert b"note" not in DesiredTopic(topic="t", maintenance=asked).to_json()
