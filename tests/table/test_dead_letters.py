"""Dead letters and rows: two tables, two commits, one ledger that decides."""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import EqualTo
from pyiceberg.table.snapshots import Snapshot

from tabletopic_kernel.host.coordinator import Coordinator
from tabletopic_kernel.model.commit_cycle import Event, State
from tabletopic_kernel.model.errors import (
    LostOwnershipError,
    RetryableError,
    TableTopicError,
)
from tabletopic_kernel.model.ledger import StagedOffsets
from tabletopic_kernel.pipeline.conform import conform, file_schema
from tabletopic_kernel.pipeline.plan import Needs, RefusedRecord, StagedBatch, TablePlan
from tabletopic_kernel.pipeline.write import DataFileWriter
from tabletopic_kernel.table.changes.ledger_history import summary
from tabletopic_kernel.table.changes.lineage import has_newest_rows
from tests.drill import foreign
from tests.host.rig import Rig, drain, made_rig, order
from tests.table.samples import answer_lost, never_arrived, refused, sqlite_catalog

LETTERS = ("default", "clicks__dead_letters")


def ask(coordinator: Coordinator, listener: Any, needs: Needs) -> Any:
    """What the coordinator's thread answers a worker."""
    answers: list[Any] = []

    def run() -> None:
        try:
            answers.append(listener.plan_for(needs))
        except Exception as error:
            answers.append(error)

    asking = threading.Thread(target=run)
    asking.start()
    drain(coordinator, until=lambda: bool(answers))
    asking.join()
    return answers[0]


def staged(
    coordinator: Coordinator,
    start: int,
    end: int,
    bad: set[int],
    value: Callable[[int], bytes | None] | None = None,
) -> StagedBatch:
    """A batch over offsets of partition 0; those in ``bad`` are letters, the rest rows with that number."""
    owner = coordinator.owner
    epoch = owner.ledger.epoch
    numbers = [offset for offset in range(start, end) if offset not in bad]
    rows: list[Any] = []
    if numbers:
        target = file_schema(owner.table.table.schema())
        rows = _write(
            owner.table.plan(), conform({"a": pa.array(numbers, pa.int32())}, len(numbers), target), epoch
        )
    dead_letters: list[Any] = []
    if chosen := sorted(bad & set(range(start, end))):
        columns = {
            "topic": pa.array(["clicks"] * len(chosen)),
            "partition": pa.array([0] * len(chosen), pa.int32()),
            "offset": pa.array(chosen, pa.int64()),
            "value": pa.array([value(offset) if value else None for offset in chosen], pa.binary()),
            "timestamp": pa.array(chosen, pa.timestamp("us", "UTC")),
            "reason": pa.array(["bad"] * len(chosen)),
            "message": pa.array(["it is bad"] * len(chosen)),
            "at": pa.array([0] * len(chosen), pa.timestamp("us", "UTC")),
        }
        target = file_schema(owner.dead_letters.table.table.schema())
        dead_letters = _write(owner.dead_letters.table.plan(), conform(columns, len(chosen), target), epoch)
    samples = tuple(RefusedRecord(0, offset, 1, "bad", "it is bad") for offset in chosen)
    offsets = StagedOffsets({0: start}, {0: end}, {0: 1000 + end})
    counts = {"bad": len(chosen)} if chosen else {}
    return StagedBatch(offsets, tuple(rows), len(numbers), 0.1, tuple(dead_letters), counts, samples)


def _write(plan: TablePlan, rows: pa.RecordBatch, epoch: int) -> list[Any]:
    writer = DataFileWriter(plan.metadata, plan.io_properties, epoch)
    files = writer.write(pa.Table.from_batches([rows]))
    for file in files:
        file.spec_id = writer.spec_id
    return files


def rows(rig: Rig) -> list[int]:
    """Offsets that are rows."""
    return sorted(rig.table.table.scan().to_arrow()["a"].to_pylist())


def dead_letters(rig: Rig) -> list[int]:
    """Offsets that are letters."""
    if not rig.catalog.real.table_exists(LETTERS):
        return []
    return sorted(rig.catalog.real.load_table(LETTERS).scan().to_arrow()["offset"].to_pylist())


def running(rig: Rig, *batches: tuple[int, int, set[int]], **given_: Any) -> Coordinator:
    """A coordinator that runs, with a table for its letters, once these batches are committed."""
    coordinator = rig.running(commit_interval_ms="100ms", **given_)
    ask(coordinator, rig.worker.listener, Needs(dead_letters=True))
    for batch in batches:
        stage(rig, coordinator, *batch)
        commit(rig, coordinator)
    return coordinator


def stage(rig: Rig, coordinator: Coordinator, start: int, end: int, bad: set[int]) -> StagedBatch:
    """Let the worker stage a batch."""
    batch = staged(coordinator, start, end, bad)
    rig.worker.listener.staged(batch)
    drain(coordinator)
    return batch


def commit(rig: Rig, coordinator: Coordinator) -> None:
    """Let the interval pass."""
    rig.after(60_000, coordinator)


def test_rows_and_letters_are_committed_under_one_id(rig: Rig) -> None:
    """Both tables get their part; counts by reason are in the ledger, the progress and an event."""
    coordinator = running(rig)
    stage(rig, coordinator, 0, 5, {1, 3})
    stage(rig, coordinator, 5, 8, {5})
    commit(rig, coordinator)
    assert (rows(rig), dead_letters(rig)) == ([0, 2, 4, 6, 7], [1, 3, 5])
    ledger = rig.table.ledger
    assert ledger.refused == {"bad": 3}
    progress = coordinator.progress()
    assert (progress.refused, progress.dead_letters) == ({"bad": 3}, 3)
    assert progress.dead_letter_table == ".".join(LETTERS)
    (event,) = [event for event in rig.control.written if event.type == "DeadLettered"]
    assert (event.counts, event.table) == ({"bad": 3}, ".".join(LETTERS))
    assert [sample.offset for sample in event.samples] == [1, 3, 5]


@pytest.mark.parametrize("disturb", [foreign.append_letter, foreign.expire, foreign.rewrite])
def test_what_others_do_to_letters_neither_loses_nor_doubles(rig: Rig, disturb: Callable[..., str]) -> None:
    """They append, expire or compact between commits, before a next owner and before it settles."""
    dice, coordinator = random.Random(1), running(rig)
    for start in (0, 4, 8):
        stage(rig, coordinator, start, start + 4, {start + 1})
        commit(rig, coordinator)
        disturb(rig.catalog.real.load_table(LETTERS), dice)
    batch = stage(rig, coordinator, 12, 16, {13})
    pending = coordinator.owner.plan_commit([batch])
    coordinator.owner.dead_letters.commit(batch.dead_letters, coordinator.owner.ledger, pending.after)
    disturb(rig.catalog.real.load_table(LETTERS), dice)
    second = running(rig, (12, 16, {14}))
    assert second.state is State.RUNNING
    found = rig.catalog.real.load_table(LETTERS).scan().to_arrow()
    own = [one["offset"] for one in found.to_pylist() if one["partition"] != foreign.FOREIGN_PARTITION]
    assert Counter([*rows(rig), *own]) == Counter(range(16))
    theirs = len(found) - len(own)
    assert theirs == (4 if disturb is foreign.append_letter else 0)


def test_good_records_make_no_snapshot_of_letters(rig: Rig) -> None:
    """Without bad records there is no dead-letter table, or none of its commits."""
    coordinator = rig.running(commit_interval_ms="100ms")
    rig.stage(0, 3)
    commit(rig, coordinator)
    assert not rig.catalog.real.table_exists(LETTERS)
    ask(coordinator, rig.worker.listener, Needs(dead_letters=True))
    before = len(rig.catalog.real.load_table(LETTERS).metadata.snapshots)
    stage(rig, coordinator, 3, 6, set())
    commit(rig, coordinator)
    assert len(rig.catalog.real.load_table(LETTERS).metadata.snapshots) == before


def test_a_host_that_dies_between_the_two_commits(rig: Rig) -> None:
    """The next owner removes letters whose rows never came; today's verdict on the records counts (I7)."""
    first = running(rig, (0, 3, {1}))
    batch = stage(rig, first, 3, 6, {3, 4})
    pending = first.owner.plan_commit([batch])
    first.owner.dead_letters.commit(batch.dead_letters, first.owner.ledger, pending.after)
    assert (rows(rig), dead_letters(rig)) == ([0, 2], [1, 3, 4])
    second = running(rig)
    assert dead_letters(rig) == [1]
    stage(rig, second, 3, 7, {4})
    commit(rig, second)
    assert (rows(rig), dead_letters(rig)) == ([0, 2, 3, 5, 6], [1, 4])


def test_letters_wait_for_a_table(rig: Rig) -> None:
    """The ledger is kept with the rows: bad records alone, before any schema, are waited out."""
    rig.registry.schemas = {}
    coordinator = rig.running()
    answer = ask(coordinator, rig.worker.listener, Needs(dead_letters=True))
    assert isinstance(answer, RetryableError)
    assert "waiting for one with a schema" in str(answer)
    assert not rig.catalog.real.table_exists(LETTERS)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(
    "faults",
    [[answer_lost], [never_arrived], [refused], [answer_lost] * 2, [never_arrived, refused, answer_lost]],
)
def test_trouble_at_either_commit_neither_loses_nor_doubles(rig: Rig, place: int, faults: list[Any]) -> None:
    """Lost answers, lost requests and conflicts, at the letters' commit or the rows'."""
    coordinator = running(rig)
    stage(rig, coordinator, 0, 6, {2, 5})
    rig.catalog.faults = [_fine] * place + list(faults)
    rig.now_ms += 60_000
    for _ in range(5):
        drain(coordinator)
        rig.now_ms += 60_000
    assert (coordinator.state, rows(rig), dead_letters(rig)) == (State.RUNNING, [0, 1, 3, 4], [2, 5])


def _fine(commit: Callable[[], Any]) -> Any:
    return commit()


def test_an_old_owner_cannot_add_letters(rig: Rig) -> None:
    """After somebody else took the topic, letters of the old owner are refused as its rows are (I5)."""
    old = running(rig)
    batch = stage(rig, old, 0, 4, {1})
    running(rig)
    old.owner.plan_commit([batch])
    with pytest.raises(LostOwnershipError):
        old.owner.send()
    assert (rows(rig), dead_letters(rig)) == ([], [])


def test_an_old_owner_that_makes_the_table_too_late_is_told(rig: Rig) -> None:
    """The table for letters came after the new owner's claim: the epoch of the rows' table decides (I5)."""
    old = rig.running(commit_interval_ms="100ms")
    rig.running(commit_interval_ms="100ms")
    with pytest.raises(LostOwnershipError):
        old.owner.satisfy(Needs(dead_letters=True), recheck=False)


def test_letters_of_a_table_that_was_dropped_are_read_again(rig: Rig) -> None:
    """The new table begins at its start; what it reads again cannot stay a letter."""
    first = running(rig, (0, 4, {1, 3}))
    order(first, Event.STOP, State.STOPPED)
    rig.catalog.real.drop_table(("default", "clicks"))
    second = running(rig)
    assert dead_letters(rig) == []
    stage(rig, second, 0, 4, {3})
    commit(rig, second)
    assert (rows(rig), dead_letters(rig)) == ([0, 1, 2], [3])


def test_letters_whose_table_others_dropped_are_told_as_lost(rig: Rig) -> None:
    """A new table does not begin at the start: only rows are read again."""
    coordinator = running(rig, (0, 4, {1, 3}))
    rig.catalog.real.drop_table(("default", "clicks__dead_letters"))
    stage(rig, coordinator, 4, 8, {5})
    commit(rig, coordinator)
    assert coordinator.state is State.FAILED
    assert "without the lost dead letters" in str(coordinator.progress().error)
    order(coordinator, Event.RESUME)
    stage(rig, coordinator, 4, 8, set())
    commit(rig, coordinator)
    assert rows(rig) == [0, 2, 4, 5, 6, 7]


def test_a_table_that_is_not_this_topics_stops_it(rig: Rig) -> None:
    """Letters of somebody else are neither added to nor removed."""
    coordinator = rig.running()
    rig.catalog.real.create_table(LETTERS, rig.table.table.schema())
    answer = ask(coordinator, rig.worker.listener, Needs(dead_letters=True))
    assert "holds no dead letters" in str(answer)


def _made_anew(rig: Rig) -> Coordinator:
    """The topic is deleted and created again, its table dropped, and a host takes what is there."""
    rig.catalog.real.drop_table(("default", "clicks"))
    rig.broker.change(topic_id="another")
    coordinator = rig.make(commit_interval_ms="100ms")
    order(coordinator, Event.START)
    return coordinator


def test_letters_of_a_topic_that_had_the_name_before_stop_it(rig: Rig) -> None:
    """A person must decide (I8): they are all that is left, and their offsets mean others."""
    running(rig, (0, 4, {1, 3}))
    second = _made_anew(rig)
    assert second.state is State.FAILED
    assert "belong to an earlier topic" in str(second.progress().error)
    assert dead_letters(rig) == [1, 3]
    assert not rig.catalog.real.table_exists(("default", "clicks"))
    rig.catalog.real.rename_table(LETTERS, ("default", "clicks_before"))  # as the error says
    order(second, Event.RESUME)
    assert second.state is State.RUNNING


def test_a_table_of_letters_without_letters_is_taken_over(rig: Rig) -> None:
    """Nobody is asked about letters of a topic made anew where all of them were replayed, or none came."""
    running(rig, (0, 4, set()))
    second = _made_anew(rig)
    assert second.state is State.RUNNING
    ask(second, rig.worker.listener, Needs(dead_letters=True))
    stage(rig, second, 0, 4, {2})
    commit(rig, second)
    assert (rows(rig), dead_letters(rig)) == ([0, 1, 3], [2])


def test_what_is_dropped_leaves_no_files(rig: Rig) -> None:
    """A topic that is lost deletes its staged letters as it does its rows (I10)."""
    coordinator = running(rig)
    batch = stage(rig, coordinator, 0, 4, {1})
    running(rig)
    rig.mine = False
    rig.after(60_000, coordinator, State.WAITING)
    paths = [Path(file.file_path.removeprefix("file://")) for file in (*batch.files, *batch.dead_letters)]
    assert [path.exists() for path in paths] == [False, False]


FAULT = st.sampled_from([_fine, _fine, _fine, answer_lost, never_arrived, refused])
STEP = st.tuples(
    st.integers(1, 4),  # records of the batch
    st.sets(st.integers(0, 30), min_size=8),  # bad ones, by offset; a later try may judge otherwise
    st.lists(FAULT, max_size=4),  # what happens to the next commits
    # Or the host dies before one of its commits: 0 the letters', 1 the rows', 2 neither.
    st.sampled_from(["commit", "stage", 0, 1, 2]),
)


@pytest.mark.integration
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEP, min_size=1, max_size=8))
def test_whatever_fails_each_record_is_a_row_or_a_letter_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, steps: list[Any]
) -> None:
    """Random batches, verdicts, faults and deaths: below the ledger each offset is in one table (I1)."""
    for rig in _fresh_rig(monkeypatch, tmp_path_factory):
        coordinator, position = running(rig), 0
        for count, bad, faults, then in steps:
            if rig.worker.stopping:
                pytest.fail("the worker was stopped")
            batch = stage(rig, coordinator, position, position + count, bad)
            position += count
            rig.catalog.faults = list(faults)
            if isinstance(then, int):
                rig.catalog.faults = [_fine] * then + [never_arrived]
                _half_a_commit(coordinator, batch)
                rig.catalog.faults = []
                coordinator = running(rig)
                position = rig.offset()
            elif then == "commit":
                for _ in range(6):
                    commit(rig, coordinator)
            rig.catalog.faults = []
        commit(rig, coordinator)
        for _ in range(3):
            commit(rig, coordinator)
        assert coordinator.state is State.RUNNING
        assert Counter([*rows(rig), *dead_letters(rig)]) == Counter(range(rig.offset()))
        assert rig.offset() == position


def _half_a_commit(coordinator: Coordinator, batch: StagedBatch) -> None:
    """As far as the faults let it come; then the host is gone."""
    owner = coordinator.owner
    if owner.plan_commit(coordinator.staged) is not None:
        with contextlib.suppress(TableTopicError):  # whatever stopped it, the host dies here
            owner.send()


def _fresh_rig(monkeypatch: pytest.MonkeyPatch, factory: pytest.TempPathFactory) -> Iterator[Rig]:

    root = factory.mktemp("letters")
    catalog = sqlite_catalog(root)
    yield made_rig(catalog, monkeypatch)


def test_letters_that_were_put_into_a_new_file_are_old_ones(rig: Rig) -> None:
    """After a rollback they are there and newer ones are not: their newest file proves nothing (I8)."""
    coordinator = running(rig)
    for start, bad in ((0, {1, 2}), (4, {7})):
        stage(rig, coordinator, start, start + 4, bad)
        commit(rig, coordinator)
    owner = coordinator.owner
    first = next(
        snapshot
        for snapshot in rig.catalog.real.load_table(LETTERS).metadata.snapshots
        if _letters_in(snapshot) == 2
    )
    letters = owner.dead_letters
    (task,) = letters.tasks(EqualTo("offset", 1))
    letters.replace([task], [letters.read(task, EqualTo("offset", 2))], owner.ledger, None)
    assert dead_letters(rig) == [2, 7]
    table = rig.catalog.real.load_table(LETTERS)
    kept = table.metadata.current_snapshot()
    assert kept is not None
    assert has_newest_rows(table, kept)
    table.manage_snapshots().set_current_snapshot(snapshot_id=first.snapshot_id).commit()
    assert dead_letters(rig) == [1, 2]
    assert not has_newest_rows(table.refresh(), kept)


def _letters_in(snapshot: Snapshot) -> int:
    return int(summary(snapshot).get("total-records", 0))


def test_letters_are_kept_whole(rig: Rig) -> None:
    """Without a column of theirs, the topic stops; nothing of a record is left out."""
    coordinator = running(rig, (0, 2, {1}))
    with rig.catalog.real.load_table(LETTERS).update_schema() as update:
        update.rename_column("value", "payload")
        update.rename_column("headers.element.key", "name")
    order(coordinator, Event.PAUSE, State.PAUSED)
    order(coordinator, Event.RESUME)
    assert coordinator.state is State.FAILED
    assert "headers.element.key, value of default.clicks__dead_letters" in str(coordinator.progress().error)
