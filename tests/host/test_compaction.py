"""Compaction beside a running topic: when it runs, how it is committed, and what others see of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tabletopic_kernel.host.coordinator import Coordinator
from tabletopic_kernel.host.maintenance import compaction as host_compaction
from tabletopic_kernel.model.commit_cycle import Event, State
from tabletopic_kernel.model.progress.events import Compacted
from tabletopic_kernel.model.settings.desired import MaintenanceRequest
from tabletopic_kernel.pipeline.rewrite import RewriteResult, RewriteTask
from tabletopic_kernel.table.compaction import plan as compaction
from tests.clients.samples import error_of_an_ended_jvm
from tests.host.rig import Rig, drain, order
from tests.table.foreign_deletes import delete_rows
from tests.table.samples import answer_lost, never_arrived, refused, sent_twice

Between = Callable[[], None]


class Threads:
    """Pieces of maintenance, run when the test says so."""

    def __init__(self, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting: list[Callable[[], None]] = []
        self._rig = rig
        self.cpu_s = 0.0
        self.rewrite: Callable[[RewriteTask], RewriteResult] = RewriteTask.run
        self.rewritten = 0  # groups
        rig.spawn = self._spawn
        monkeypatch.setattr(host_compaction, "run_task", self._run)

    def _spawn(self, name: str, work: Callable[[], None]) -> None:
        if name == "maintenance":
            self.waiting.append(work)
        else:
            work()

    def _run(self, _spark: object, _topic: str, task: RewriteTask) -> RewriteResult:
        result = self.rewrite(task)
        result.cpu_s = self.cpu_s
        self.rewritten += 1
        return result

    def write(self, coordinator: Coordinator, groups: int = 1) -> None:
        """Go on until so many groups are in new files, of which the coordinator does not know."""
        while self.rewritten < groups:
            drain(coordinator)
            self.waiting.pop(0)()

    def compact(self, coordinator: Coordinator, where: str | None = None) -> None:
        """Request a compaction, like a user, and run it."""
        ask(coordinator, where)
        self.go_on(coordinator)

    def go_on(self, coordinator: Coordinator) -> None:
        """Run all pieces, and the steps that follow, until nothing is left to do."""
        for _ in range(50):
            drain(coordinator)
            self._rig.after(coordinator.settings.commit_interval_ms, coordinator)
            if not self.waiting:
                return
            self.waiting.pop(0)()
        pytest.fail("it does not come to an end")


@pytest.fixture
def threads(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Threads:
    """See ``Threads``."""
    return Threads(rig, monkeypatch)


def with_files(rig: Rig, count: int = 4, **settings: Any) -> Coordinator:
    """A running topic with this many files, of ten rows each."""
    coordinator = rig.running(**settings)
    for at in range(count):
        stage(rig, coordinator, 10 * at, 10 * at + 10)
    return coordinator


def test_a_topic_without_a_table_answers_at_once(rig: Rig, threads: Threads) -> None:
    """Nobody waits for records that may never come."""
    coordinator = rig.running(value_format="json")
    assert coordinator.owner.table is None
    threads.compact(coordinator)
    assert "there is no table yet" in str(outcome(rig).error)


def stage(rig: Rig, coordinator: Coordinator, start: int, end: int) -> None:
    """One more commit."""
    rig.staged(coordinator, start, end)
    rig.after(coordinator.settings.commit_interval_ms, coordinator)
    assert rig.offset() == end


def ask(coordinator: Coordinator, where: str | None = None) -> None:
    """Request a compaction, like a user."""
    coordinator.carry_out(MaintenanceRequest(id="r", asked_ms=1, work="compact", where=where))


def outcome(rig: Rig) -> Compacted:
    """The reported outcome of the last one."""
    event = [event for event in rig.control.written if event.type == "Compacted"][-1]
    assert isinstance(event, Compacted)
    return event


def files(rig: Rig) -> list[int]:
    """Rows of the head's files."""
    return sorted(task.file.record_count for task in rig.table.table.scan().plan_files())


def parquet(folder: Path) -> set[str]:
    """Data files that lie there."""
    return {path.name for path in folder.rglob("*.parquet")}


def test_who_asks_gets_one_file_and_an_event(rig: Rig, threads: Threads) -> None:
    """Rows and offsets are as before, no commit is counted, and the topic goes on."""
    coordinator = with_files(rig)
    before = rig.table.ledger
    threads.compact(coordinator)
    assert (files(rig), rig.rows(), rig.offset()) == ([40], 40, 40)
    event = outcome(rig)
    assert (event.request_id, event.files_before, event.files, event.rows) == ("r", 4, 1, 40)
    assert event.error is None
    assert 0 < event.bytes < event.bytes_before
    after = rig.table.ledger
    assert (after.commits, after.next_offsets) == (before.commits, before.next_offsets)
    assert coordinator.progress().files == 1
    assert rig.control.types().count("Committed") == 4
    stage(rig, coordinator, 40, 45)
    assert (files(rig), coordinator.state) == ([5, 40], State.RUNNING)


def test_nothing_to_do_is_told_too(rig: Rig, threads: Threads) -> None:
    """Also what cannot be read, and a table that must not be touched."""
    coordinator = with_files(rig, 1)
    threads.compact(coordinator)
    assert (outcome(rig).files_before, outcome(rig).error) == (0, None)
    threads.compact(coordinator, "nothing = 1")
    assert "cannot read the condition" in (outcome(rig).error or "")
    assert files(rig) == [10]


def test_what_is_due_is_done_unasked(rig: Rig, threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as there are enough files, at most once a minute, and not with maintenance off."""
    monkeypatch.setattr(compaction, "MIN_FILES", 3)
    coordinator = with_files(rig, 2, maintenance="off")
    stage(rig, coordinator, 20, 30)
    threads.go_on(coordinator)
    order(coordinator, Event.STOP)
    other = rig.running()
    threads.go_on(other)
    assert files(rig) == [10] * 3  # nothing was committed yet that shows whether it is behind
    rig.staged(other, 30, 40, epoch=2)
    rig.after(10_000, other)
    threads.go_on(other)
    assert (files(rig), outcome(rig).request_id, outcome(rig).files_before) == ([40], None, 4)


@pytest.mark.parametrize("fault", [answer_lost, never_arrived, refused, sent_twice])
def test_a_failed_commit_is_the_same_again(rig: Rig, threads: Threads, fault: Callable[[Any], Any]) -> None:
    """Whatever the catalog says: each row once, the topic goes on, and no file of it is left over (I4)."""
    coordinator = with_files(rig)
    ask(coordinator)
    rig.catalog.faults = [fault]
    for _ in range(3):
        threads.go_on(coordinator)
        rig.now_ms += 60_000
    assert (files(rig), rig.rows(), coordinator.state) == ([40], 40, State.RUNNING)
    assert outcome(rig).error is None
    stage(rig, coordinator, 40, 50)
    assert rig.rows() == 50


def _deletes(rig: Rig) -> None:
    rig.table.table.delete("a = 3")


def _rewrites(rig: Rig) -> None:
    table = rig.table.table
    table.overwrite(table.scan().to_arrow())


def test_deletes_are_looked_at_unasked(rig: Rig, threads: Threads) -> None:
    """However few files there are; all rows of a file may be gone."""
    coordinator = with_files(rig, 2)
    threads.go_on(coordinator)
    assert files(rig) == [10, 10]
    path = min(task.file.file_path for task in rig.table.table.scan().plan_files())
    delete_rows(rig.table.table, {path: range(10)})
    rig.now_ms += 60_000
    stage(rig, coordinator, 20, 30)
    threads.go_on(coordinator)
    assert (outcome(rig).request_id, outcome(rig).deleted_rows) == (None, 10)
    assert len(rig.table.table.scan().to_arrow()) == 20


@pytest.mark.parametrize("act", [_deletes, _rewrites])
def test_overtaken_it_is_given_up_and_chosen_anew(
    rig: Rig, threads: Threads, tmp_path: Path, act: Callable[[Rig], None]
) -> None:
    """Its files go, the topic does not stop, and who asked gets what there is to do now."""
    coordinator = with_files(rig)
    ask(coordinator)
    threads.write(coordinator)
    made = {name for name in parquet(tmp_path) if "rewritten" in name}
    assert len(made) == 1
    act(rig)
    rows = rig.rows()
    threads.go_on(coordinator)
    assert (rig.rows(), coordinator.state) == (rows, State.RUNNING)
    assert not made & parquet(tmp_path)
    assert outcome(rig).error is None
    assert len(files(rig)) == 1


def test_overtaken_after_an_answer_was_lost_the_topic_begins_anew(rig: Rig, threads: Threads) -> None:
    """The commit that nobody confirmed may still arrive, so another epoch begins; no file of it goes (I5)."""
    coordinator = with_files(rig)
    ask(coordinator)

    def lost_then_deleted(_: Callable[[], Any]) -> Any:
        _deletes(rig)
        raise ConnectionError("connection reset")

    rig.catalog.faults = [lost_then_deleted]
    threads.go_on(coordinator)
    assert coordinator.owner is not None
    for _ in range(3):
        rig.now_ms += 60_000
        threads.go_on(coordinator)
    assert rig.table.newest_epoch == 2
    assert rig.rows() == 36
    assert "interrupted" in (outcome(rig).error or "")
    assert coordinator.state is State.RUNNING


@pytest.mark.parametrize("is_heard", [True, False])
def test_what_is_made_for_an_ended_topic_goes(
    rig: Rig, threads: Threads, tmp_path: Path, is_heard: bool
) -> None:
    """The coordinator's thread is over when it comes, or before it has taken it."""
    coordinator = with_files(rig)
    ask(coordinator)
    drain(coordinator)
    threads.waiting.pop(0)()  # chosen
    drain(coordinator)
    before = parquet(tmp_path)
    coordinator.order(Event.STOP)
    if is_heard:
        threads.waiting.pop(0)()
        assert len(parquet(tmp_path)) == len(before) + 1
    drain(coordinator)
    threads.waiting.pop(0)()
    assert (threads.rewritten, coordinator.state) == (1, State.STOPPED)
    assert parquet(tmp_path) == before


@pytest.mark.parametrize(
    ("error", "told"),
    [(RuntimeError("no space left"), "no space left"), (error_of_an_ended_jvm(), "JVM has ended")],
)
def test_a_task_s_error_stops_nobody(rig: Rig, threads: Threads, error: Exception, told: str) -> None:
    """The rows are the same, and the next one may do."""
    coordinator = with_files(rig)
    threads.rewrite = Mock(side_effect=error)
    threads.compact(coordinator)
    assert told in (outcome(rig).error or "")
    assert (files(rig), coordinator.state) == ([10] * 4, State.RUNNING)
    threads.rewrite = RewriteTask.run
    threads.compact(coordinator)
    assert files(rig) == [40]


def test_a_group_that_cannot_be_rewritten_does_not_keep_the_others(
    rig: Rig, threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One bad file would end all compaction of its table for ever."""
    coordinator = with_files(rig)
    bytes_of_two = 2 * max(task.file.file_size_in_bytes for task in rig.table.table.scan().plan_files())
    monkeypatch.setattr(compaction, "_GROUP_BYTES", bytes_of_two)

    def fails(task: RewriteTask) -> RewriteResult:
        threads.rewrite = RewriteTask.run
        raise RuntimeError("a bad file")

    threads.rewrite = fails
    threads.compact(coordinator)
    assert files(rig) == [10, 10, 20]
    assert (outcome(rig).files_before, rig.rows(), coordinator.state) == (2, 40, State.RUNNING)
    assert "a bad file" in (outcome(rig).error or "")


def test_rows_wait_for_their_own_commit(rig: Rig, threads: Threads) -> None:
    """Of rows before, a compaction, and rows after, each is a snapshot of its own, in that order."""
    coordinator = with_files(rig)
    ask(coordinator)
    drain(coordinator)
    coordinator.step()
    threads.waiting.pop(0)()
    drain(coordinator)
    coordinator.step()
    rig.stage(40, 50)
    coordinator.step()
    threads.waiting.pop(0)()
    rig.stage(50, 60)
    threads.go_on(coordinator)
    rig.now_ms += 60_000
    threads.go_on(coordinator)
    kinds = [
        snapshot.summary.operation.value for snapshot in rig.table.table.snapshots() if snapshot.summary
    ][-3:]
    assert kinds == ["append", "replace", "append"]
    assert (files(rig), rig.rows()) == ([10, 10, 40], 60)
