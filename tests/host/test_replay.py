"""Replay: letters become rows or stay letters, whatever fails in between."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tabletopic_kernel.formats.wire import prefix
from tabletopic_kernel.host.coordinator import Coordinator
from tabletopic_kernel.host.replay import replay as module
from tabletopic_kernel.host.replay.dry_run import plan_replay
from tabletopic_kernel.host.replay.replay import dead_letters_where
from tabletopic_kernel.model.commit_cycle import Event, State
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.progress.events import Replayed
from tabletopic_kernel.model.settings.desired import ReplayRequest
from tabletopic_kernel.model.steps import Step
from tests.drill import foreign
from tests.host.rig import Rig, drain, order
from tests.table.foreign_deletes import delete_rows
from tests.table.samples import AVRO, TOPIC, answer_lost, never_arrived, refused
from tests.table.test_dead_letters import LETTERS, _fine, commit, dead_letters, rows, running, stage, staged

LATE = 9  # a schema that is registered after its records


def value(offset: int) -> bytes:
    """Offsets that are multiples of 3 are invalid; the other records have their offset in ``a``."""
    return b"rubbish" if offset % 3 == 0 else prefix(LATE) + bytes([2, 2 * offset])


def with_letters(rig: Rig) -> Coordinator:
    """A topic with rows 0, 1 and letters 2 to 9."""
    coordinator = running(rig)
    rig.worker.listener.staged(staged(coordinator, 0, 10, set(range(2, 10)), value))
    commit(rig, coordinator)
    assert (rows(rig), dead_letters(rig)) == ([0, 1], list(range(2, 10)))
    return coordinator


def rows_but_nulls(rig: Rig) -> list[int]:
    """Like ``rows``, without records that have no value."""
    return sorted(one for one in rig.table.table.scan().to_arrow()["a"].to_pylist() if one is not None)


def replay(rig: Rig, coordinator: Coordinator, where: str | None = None) -> Replayed:
    """Request a replay and wait for its end."""
    rig.registry.schemas[LATE] = AVRO
    # By a clock that is far behind: whoever asks has the time of another machine.
    coordinator.carry_out(ReplayRequest(id="r", asked_ms=0, where=where))
    for _ in range(4):
        drain(coordinator)
        rig.now_ms += 60_000
    event = [event for event in rig.control.written if event.type == "Replayed"][-1]
    assert isinstance(event, Replayed)
    return event


def test_letters_become_rows_or_stay(rig: Rig) -> None:
    """What today's settings can read moves to the table, the rest waits on; neither is doubled."""
    coordinator = with_letters(rig)
    event = replay(rig, coordinator)
    assert (rows(rig), dead_letters(rig)) == ([0, 1, 2, 4, 5, 7, 8], [3, 6, 9])
    assert (event.rows, event.stayed, event.error) == (5, {"no_schema_id": 3}, None)
    assert (rig.offset(), coordinator.progress().dead_letters) == (10, 3)
    again = replay(rig, coordinator)
    assert (again.rows, again.stayed) == (0, {"no_schema_id": 3})
    stage(rig, coordinator, 10, 12, {11})
    commit(rig, coordinator)
    assert (rows(rig)[-1], dead_letters(rig)[-1], rig.offset()) == (10, 11, 12)


def delete_letters(rig: Rig, *places: int) -> None:
    """Another program deletes letters by their place in the only file."""
    table = rig.catalog.real.load_table(LETTERS)
    (file,) = (task.file for task in table.scan().plan_files())
    delete_rows(table, {file.file_path: places})


def test_letters_that_others_deleted_become_no_rows(rig: Rig) -> None:
    """A replay reads the letters that are there, not those of the owner's last commit (I1)."""
    coordinator = with_letters(rig)
    delete_letters(rig, 0, 1)
    assert dead_letters(rig) == list(range(4, 10))
    event = replay(rig, coordinator)
    assert (rows(rig), dead_letters(rig)) == ([0, 1, 4, 5, 7, 8], [6, 9])
    assert (event.rows, event.stayed, event.error) == (4, {"no_schema_id": 2}, None)


def test_letters_deleted_meanwhile_do_not_come_back(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read is no longer there: nothing is written, and the next replay takes what is (I1)."""
    coordinator = with_letters(rig)
    monkeypatch.setattr(module, "reach", lambda step: delete_letters(rig, 0) if step is Step.REPLAY else None)
    event = replay(rig, coordinator)
    assert "try again" in (event.error or "")
    assert (rows(rig), dead_letters(rig)) == ([0, 1], list(range(3, 10)))
    monkeypatch.undo()
    replay(rig, coordinator)
    assert (rows(rig), dead_letters(rig)) == ([0, 1, 4, 5, 7, 8], [3, 6, 9])
    assert coordinator.state is State.RUNNING


def test_a_plan_says_what_a_replay_does_and_changes_nothing(rig: Rig, tmp_path: Path) -> None:
    """The same letters become rows in both, and before the replay no file has come or gone."""
    coordinator = with_letters(rig)
    rig.registry.schemas[LATE] = AVRO.replace("int", "long")
    before = (set(tmp_path.rglob("*")), rig.table.table.metadata, len(rig.control.written))
    plan = plan_replay(TOPIC, coordinator.settings, None, rig.registry, rig.catalog.real)  # type: ignore[arg-type]
    assert (plan.letters, plan.rows, plan.stayed) == (8, 5, {"no_schema_id": 3})
    assert plan.changes == ["widen a int → long"]
    assert (set(tmp_path.rglob("*")), rig.table.table.metadata, len(rig.control.written)) == before
    event = replay(rig, coordinator)
    assert (event.rows, event.stayed) == (plan.rows, plan.stayed)


def test_a_replay_obeys_expectations(rig: Rig) -> None:
    """Letters that fail a rule stay, even if it stops the topic; a warning is in ledger and progress."""
    coordinator = running(rig, expectations=("few: a < 7: stop", "even: a % 2 = 0: warn"))
    rig.worker.listener.staged(staged(coordinator, 0, 10, set(range(10)), value))
    commit(rig, coordinator)
    rig.registry.schemas[LATE] = AVRO
    plan = plan_replay(TOPIC, coordinator.settings, None, rig.registry, rig.catalog.real)  # type: ignore[arg-type]
    assert (plan.rows, plan.stayed) == (4, {"expectation": 2, "no_schema_id": 4})
    event = replay(rig, coordinator)
    assert (event.rows, event.stayed, event.error) == (4, plan.stayed, None)
    assert rows(rig) == [1, 2, 4, 5]
    assert rig.table.ledger.expectation_failures == {"even": 3}  # of 1, 5 and 7, which stays
    assert coordinator.progress().expectation_failures == {"even": 3}


def test_a_letter_without_a_timestamp(rig: Rig) -> None:
    """Another program may have put it there: the column allows it, and the topic goes on."""
    coordinator = with_letters(rig)
    foreign.append_letter(rig.catalog.real.load_table(LETTERS), random.Random(1))
    coordinator.owner.dead_letters.unsettle()  # type: ignore[union-attr] # it is seen with the next settling
    stage(rig, coordinator, 10, 12, {11})
    commit(rig, coordinator)
    event = replay(rig, coordinator)
    assert (coordinator.state, coordinator.has_died, event.error) == (State.RUNNING, False, None)
    assert rows_but_nulls(rig) == [0, 1, 2, 4, 5, 7, 8, 10]


def test_where_chooses_letters(rig: Rig) -> None:
    """Letters that the condition does not name are left alone."""
    coordinator = with_letters(rig)
    event = replay(rig, coordinator, "offset >= 5 and offset < 8")
    assert (rows(rig), dead_letters(rig)) == ([0, 1, 5, 7], [2, 3, 4, 6, 8, 9])
    assert (event.rows, event.stayed) == (2, {"no_schema_id": 1})


def test_a_replay_waits_for_a_commit_whose_letters_went_ahead(rig: Rig) -> None:
    """A round would set their ledger back under the commit, which then stopped the topic (I7)."""
    coordinator = with_letters(rig)
    rig.registry.schemas[LATE] = AVRO
    rig.worker.listener.staged(staged(coordinator, 10, 14, {11}, value))
    rig.catalog.faults = [_fine, never_arrived]  # letters are in their table, rows are not
    rig.after(60_000, coordinator)
    assert coordinator.owner.pending is not None
    coordinator.carry_out(ReplayRequest(id="r", asked_ms=rig.now_ms))
    drain(coordinator)
    rig.worker.listener.staged(staged(coordinator, 14, 16, {15}, value))
    for _ in range(4):
        commit(rig, coordinator)
    assert coordinator.state is State.RUNNING
    assert (rows(rig), dead_letters(rig)) == ([0, 1, 2, 4, 5, 7, 8, 10, 11, 12, 13, 14], [3, 6, 9, 15])


@pytest.mark.parametrize("fault", [answer_lost, never_arrived, refused])
def test_a_replay_behind_one_whose_letters_could_not_go(rig: Rig, fault: Any) -> None:
    """Letters that are rows are none to the next replay, which comes before they are gone (I7)."""
    coordinator = with_letters(rig)
    rig.registry.schemas[LATE] = AVRO
    rig.catalog.faults = [_fine, _fine, _fine, fault]  # evolved, marked, committed; they cannot go
    for name in ("first", "second"):
        coordinator.carry_out(ReplayRequest(id=name, asked_ms=rig.now_ms))
    for _ in range(6):
        drain(coordinator)
        rig.now_ms += 60_000
    assert (rows(rig), dead_letters(rig)) == ([0, 1, 2, 4, 5, 7, 8], [3, 6, 9])


@pytest.mark.parametrize("where", ["nonsense", "nowhere = 1", "offset ="])
def test_a_wrong_condition_is_refused(where: str) -> None:
    """The message names what is wrong and gives an example."""
    with pytest.raises(UsageError, match="for example") as raised:
        dead_letters_where(where)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize("place", [0, 1, 2, 3])
# A second each: what never arrived is to the host as an answer that was lost, with the rows of a refusal.
@pytest.mark.parametrize(
    ("fault", "dies"),
    [
        (answer_lost, False),
        (answer_lost, True),
        (refused, False),
        *(
            pytest.param(*one, marks=pytest.mark.integration)
            for one in ((refused, True), (never_arrived, False), (never_arrived, True))
        ),
    ],
)
def test_trouble_at_any_commit_of_a_replay(rig: Rig, place: int, fault: Any, dies: bool) -> None:
    """Any of its commits fails, and the host may die there: nothing is lost or doubled."""
    coordinator = with_letters(rig)
    rig.registry.schemas[LATE] = AVRO
    coordinator.carry_out(ReplayRequest(id="r", asked_ms=rig.now_ms))
    rig.catalog.faults = [_fine] * place + [fault]
    for _ in range(60):
        if not rig.catalog.faults:
            break
        coordinator.step()
    assert rig.catalog.faults == []
    if dies:
        coordinator = running(rig)
    else:
        for _ in range(4):
            drain(coordinator)
            rig.now_ms += 60_000
    stage(rig, coordinator, 10, 12, {11})  # a commit of letters settles what was left
    commit(rig, coordinator)
    assert coordinator.state is State.RUNNING
    assert sorted([*rows(rig), *dead_letters(rig)]) == list(range(12))
    event = replay(rig, coordinator, "offset < 10")
    assert (rows(rig), dead_letters(rig)) == ([0, 1, 2, 4, 5, 7, 8, 10], [3, 6, 9, 11])
    assert event.error is None


def test_a_stop_in_the_middle_loses_nothing(rig: Rig) -> None:
    """Rows that a replay staged are committed on the way out, as all that is staged."""
    coordinator = with_letters(rig)
    rig.registry.schemas[LATE] = AVRO
    coordinator.carry_out(ReplayRequest(id="r", asked_ms=rig.now_ms))
    coordinator.step()
    order(coordinator, Event.STOP, State.STOPPED)
    assert sorted([*rows(rig), *dead_letters(rig)]) == list(range(10))
