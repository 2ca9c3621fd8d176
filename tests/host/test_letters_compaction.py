"""Compaction of dead letters: each stays a letter once, whatever a commit, a replay or another owner does."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.snapshots import Operation

from tabletopic_kernel.host.coordinator import Coordinator
from tabletopic_kernel.host.replay.replay import Replay
from tabletopic_kernel.model import steps
from tabletopic_kernel.model.commit_cycle import State
from tabletopic_kernel.model.errors import OutdatedError
from tabletopic_kernel.model.ledger import StagedOffsets
from tabletopic_kernel.model.progress.events import Compacted
from tabletopic_kernel.model.settings.desired import MaintenanceRequest, ReplayRequest
from tabletopic_kernel.model.steps import Step
from tabletopic_kernel.pipeline.plan import CompactedBatch
from tabletopic_kernel.pipeline.rewrite import RewriteTask
from tabletopic_kernel.table.compaction import plan as compaction
from tabletopic_kernel.table.compaction.replace import compacted
from tests.drill import foreign
from tests.host.rig import Rig, drain
from tests.host.test_compaction import Threads
from tests.host.test_replay import LATE, value
from tests.table.foreign_deletes import delete_rows
from tests.table.lake import read_file
from tests.table.samples import AVRO, answer_lost, never_arrived, refused, sent_twice
from tests.table.test_dead_letters import LETTERS, commit, dead_letters, rows, running, staged


@pytest.fixture
def threads(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Threads:
    """See ``Threads``."""
    return Threads(rig, monkeypatch)


def with_letters(rig: Rig, count: int = 4, **settings: Any) -> Coordinator:
    """As many commits, each of a row and two letters: offsets 0; 1, 2; 3; 4, 5 …"""
    coordinator = running(rig, **settings)
    for at in range(count):
        more(rig, coordinator, 3 * at)
    assert len(files(rig)) == count
    return coordinator


def more(rig: Rig, coordinator: Coordinator, start: int) -> None:
    """One more such commit."""
    rig.worker.listener.staged(staged(coordinator, start, start + 3, {start + 1, start + 2}, value))
    commit(rig, coordinator)


def files(rig: Rig) -> list[int]:
    """Letters in each file of the head."""
    table = rig.catalog.real.load_table(LETTERS)
    return sorted(task.file.record_count for task in table.scan().plan_files())


def ask(coordinator: Coordinator, where: str | None = None) -> None:
    """As somebody who wants it now."""
    coordinator.carry_out(MaintenanceRequest(id="r", asked_ms=1, work="compact", where=where))


def written(coordinator: Coordinator, threads: Threads) -> None:
    """Letters, after the rows, are in new files, and the coordinator does not know it yet."""
    ask(coordinator)
    threads.write(coordinator, 2)


def outcomes(rig: Rig) -> list[Compacted]:
    """The reported compactions of letters."""
    return [one for one in rig.control.written if isinstance(one, Compacted) and one.dead_letters]


LETTERS_OF_FOUR = [1, 2, 4, 5, 7, 8, 10, 11]


def test_letters_are_put_together(rig: Rig, threads: Threads) -> None:
    """As one commit of theirs, with the ledger as it was; more letters and their settling go on after it."""
    coordinator = with_letters(rig)
    before = rig.worker.listener.owner.dead_letters.ledger
    raw = _raw(rig)
    ask(coordinator)
    threads.go_on(coordinator)
    assert (files(rig), dead_letters(rig), rows(rig)) == ([8], LETTERS_OF_FOUR, [0, 3, 6, 9])
    assert _raw(rig) == raw
    (event,) = outcomes(rig)
    assert (event.request_id, event.files_before, event.files, event.rows) == ("r", 4, 1, 8)
    told = [one for one in rig.control.written if isinstance(one, Compacted)]
    assert [(one.dead_letters, one.request_id) for one in told] == [(False, "r"), (True, "r")]
    head = rig.catalog.real.load_table(LETTERS).current_snapshot()
    assert head.summary.operation is Operation.REPLACE
    after = rig.worker.listener.owner.dead_letters.ledger
    assert (after.next_offsets, after.epoch) == (before.next_offsets, before.epoch)
    assert after.commit_id != before.commit_id
    more(rig, coordinator, 12)
    assert (files(rig), dead_letters(rig)) == ([2, 8], [*LETTERS_OF_FOUR, 13, 14])
    other = rig.running()
    drain(other)
    assert (dead_letters(rig), rows(rig)) == ([*LETTERS_OF_FOUR, 13, 14], [0, 3, 6, 9, 12])


def _raw(rig: Rig) -> list[dict[str, Any]]:
    """Letters as in the files: PyIceberg turns null lists into empty ones."""
    tasks = rig.catalog.real.load_table(LETTERS).scan().plan_files()
    rows = [row for task in tasks for row in read_file(task.file.file_path).to_pylist()]
    return sorted(rows, key=lambda row: row["offset"])


def test_a_condition_is_of_the_table_alone(rig: Rig, threads: Threads) -> None:
    """Dead letters have other columns."""
    coordinator = with_letters(rig)
    ask(coordinator, "a >= 0")
    threads.go_on(coordinator)
    assert (len(files(rig)), outcomes(rig)) == (4, [])


def replay(rig: Rig, coordinator: Coordinator) -> None:
    """Request one; letters whose offsets are not multiples of 3 become rows."""
    rig.registry.schemas[LATE] = AVRO
    coordinator.carry_out(ReplayRequest(id="p", asked_ms=rig.now_ms))


def test_a_replay_meanwhile_waits(rig: Rig, threads: Threads) -> None:
    """It chooses letters by their files, so they are put together before."""
    coordinator = with_letters(rig)
    written(coordinator, threads)
    replay(rig, coordinator)
    threads.go_on(coordinator)
    kinds = [event.type for event in rig.control.written if event.type in ("Compacted", "Replayed")]
    assert kinds == ["Compacted", "Compacted", "Replayed"]
    assert (rows(rig), dead_letters(rig), coordinator.state) == ([*range(12)], [], State.RUNNING)


def test_letters_that_are_marked_stay_as_they_are(rig: Rig, threads: Threads) -> None:
    """Between the two commits of a replay its mark would be forgotten, and records be rows and letters."""
    coordinator = with_letters(rig)
    ownership = rig.worker.listener
    owner, letters = ownership.owner, ownership.owner.dead_letters
    plan = compaction.plan_compaction(letters.table.table, due_only=False)
    (group,) = plan.groups
    made = RewriteTask(letters.table.plan(), 1, group.to_read(), group.files[0].partition).run()
    replaced = group.replaced(made.moved, plan.delete_files)
    batch = CompactedBatch(StagedOffsets({}, {}), tuple(made.files), 0, 0.0, replaced=replaced)
    rig.registry.schemas[LATE] = AVRO
    request = ReplayRequest(id="p", asked_ms=rig.now_ms)
    marked = Replay(request, ownership, SimpleNamespace(figures=lambda _: {})).round()  # type: ignore[arg-type]
    assert marked is not None
    with pytest.raises(OutdatedError, match="being replayed"):
        owner.commit_letters_compaction(batch)
    assert letters.ledger.replay_id is not None
    ownership.stage(marked, at_once=True)
    drain(coordinator)
    threads.go_on(coordinator)
    assert (rows(rig), dead_letters(rig)) == ([*range(12)], [])


def test_letters_of_a_commit_under_way_wait(rig: Rig, threads: Threads) -> None:
    """They are in their table, and its rows are not: its ledger stays where that commit put it (I7)."""
    coordinator = with_letters(rig)

    def commit_then(step: Step) -> None:
        if step is Step.COMPACTED and threads.rewritten == 2:
            rig.worker.listener.staged(staged(coordinator, 12, 15, {13, 14}, value))
            rig.catalog.faults = [lambda commit: commit(), refused, never_arrived]
            rig.now_ms += 60_000
            coordinator.step()

    remove = steps.install(commit_then)
    written(coordinator, threads)
    remove()
    coordinator.step()
    assert rig.worker.listener.owner.pending is not None
    assert len(files(rig)) == 5
    for _ in range(4):
        rig.now_ms += 60_000
        threads.go_on(coordinator)
    assert (rows(rig), dead_letters(rig)) == ([0, 3, 6, 9, 12], [*LETTERS_OF_FOUR, 13, 14])
    assert files(rig) == [2, 8]


@pytest.mark.parametrize("fault", [answer_lost, never_arrived, refused, sent_twice])
def test_a_commit_that_goes_wrong(rig: Rig, threads: Threads, fault: Callable[[Any], Any]) -> None:
    """Whatever the catalog says: each letter once, the topic goes on, and so does the next replay."""
    coordinator = with_letters(rig)
    written(coordinator, threads)
    rig.catalog.faults = [fault]
    for _ in range(3):
        threads.go_on(coordinator)
        rig.now_ms += 60_000
    assert (dead_letters(rig), coordinator.state) == (LETTERS_OF_FOUR, State.RUNNING)
    assert len(files(rig)) == 1
    more(rig, coordinator, 12)
    assert dead_letters(rig) == [*LETTERS_OF_FOUR, 13, 14]
    replay(rig, coordinator)
    for _ in range(3):
        threads.go_on(coordinator)
    assert (rows(rig), dead_letters(rig)) == ([*range(15)], [])


def test_a_request_that_comes_late_comes_to_nothing(rig: Rig, threads: Threads) -> None:
    """After its answer was given up, letters are settled by a commit before they are used (I4)."""
    coordinator = with_letters(rig)
    written(coordinator, threads)
    late: list[Callable[[], Any]] = []

    def kept(request: Callable[[], Any]) -> Any:
        late.append(request)
        raise ConnectionError("connection reset")

    rig.catalog.faults = [kept]
    drain(coordinator)
    assert len(late) == 1
    more(rig, coordinator, 12)
    with pytest.raises(CommitFailedException, match="main has changed"):
        late[0]()
    assert dead_letters(rig) == [*LETTERS_OF_FOUR, 13, 14]
    more(rig, coordinator, 15)
    assert (dead_letters(rig)[-1], coordinator.state) == (17, State.RUNNING)


def _append(rig: Rig) -> None:
    foreign.append_letter(rig.catalog.real.load_table(LETTERS), random.Random(1))


def _delete(rig: Rig) -> None:
    table = rig.catalog.real.load_table(LETTERS)
    table.delete("offset = 4")


def _delete_positions(rig: Rig) -> None:
    table = rig.catalog.real.load_table(LETTERS)
    delete_rows(table, {min(task.file.file_path for task in table.scan().plan_files()): [1]})


@pytest.mark.parametrize("act", [_append, _delete, _delete_positions])
def test_others_change_the_letters_meanwhile(rig: Rig, threads: Threads, act: Callable[[Rig], None]) -> None:
    """What they added or deleted stays so, and it is done in the end."""
    coordinator = with_letters(rig)
    written(coordinator, threads)
    act(rig)
    expected = dead_letters(rig)
    for _ in range(3):
        threads.go_on(coordinator)
        rig.now_ms += 60_000
    assert (dead_letters(rig), coordinator.state) == (expected, State.RUNNING)
    assert len(files(rig)) <= 2


def test_letters_whose_rows_never_came_go_with_their_file(rig: Rig, threads: Threads) -> None:
    """They were put together with others before anybody knew: a settling goes by what stands in them (I7)."""
    coordinator = with_letters(rig)
    owner = coordinator.owner
    batch = staged(coordinator, 12, 15, {13, 14}, value)
    pending = owner.plan_commit([batch])
    owner.dead_letters.commit(pending.dead_letters, owner.ledger, pending.after)
    assert dead_letters(rig)[-1] == 14
    table = owner.dead_letters.table
    plan = compaction.plan_compaction(table.table, due_only=False)
    (group,) = plan.groups
    made = RewriteTask(table.plan(), 1, group.to_read(), group.files[0].partition).run()
    after = replace(pending.after, commit_id="together")
    table.commit(pending.after, compacted(after, made.files, group.replaced(made.moved, plan.delete_files)))
    assert files(rig) == [10]
    other = rig.running()
    drain(other)
    assert (dead_letters(rig), rows(rig)) == (LETTERS_OF_FOUR, [0, 3, 6, 9])
