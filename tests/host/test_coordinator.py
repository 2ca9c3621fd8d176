"""The coordinator: what it commits and when. The worker is a stand-in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.types import BinaryType

from tabletopic_kernel.model import steps
from tabletopic_kernel.model.commit_cycle import Event, State
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError
from tabletopic_kernel.model.ledger import NO_TOPIC_ID, TAG, StagedOffsets
from tabletopic_kernel.model.progress.events import Committed
from tabletopic_kernel.model.steps import Step
from tabletopic_kernel.pipeline.plan import Needs, StagedBatch
from tests.host.rig import Rig, drain, order
from tests.table.samples import IDENTIFIER, batch


def test_it_creates_claims_and_starts(rig: Rig) -> None:
    """Starting makes the table from the registry's schema, claims it and starts at its ledger."""
    rig.running()
    assert rig.worker.spec.start == {0: 0, 1: 0}
    assert rig.table.ledger.epoch == 1
    assert rig.control.types() == ["SchemaEvolved", "Enabled"]


def test_a_wait_is_told_as_long_as_it_lasts(rig: Rig) -> None:
    """For a turn, and for the cluster's executors; a batch that is being staged is counted."""
    coordinator = rig.running()
    rig.worker.waits_s = 12.3456
    assert coordinator.progress().turn_wait_ms == 12_346
    rig.worker.waits_s = None
    assert coordinator.progress().turn_wait_ms is None
    coordinator = rig.running()
    rig.worker.staging_records = 300_000
    assert coordinator.progress().staging_records == 300_000


def test_a_batch_without_executors_waits_for_the_cluster(rig: Rig) -> None:
    """It is not at work, and says why, as long as it lasts."""
    coordinator = rig.running()
    rig.worker.cluster_waits = "waits for the cluster: no executor"
    told = coordinator.progress()
    assert (told.state, told.error) == (State.WAITING, "waits for the cluster: no executor")
    rig.worker.cluster_waits = None
    told = coordinator.progress()
    assert (told.state, told.error) == (State.RUNNING, None)


def test_it_commits_when_the_interval_is_over(rig: Rig) -> None:
    """Staged files wait for the interval, then they and the ledger are one snapshot."""
    coordinator = rig.running(commit_interval_ms="5s")
    rig.stage(0, 3)
    rig.staged(coordinator, 3, 5)
    assert (coordinator.state, rig.rows()) == (State.STAGED, 0)
    assert coordinator.progress().staged_rows == 5
    rig.after(5_000, coordinator)
    assert (coordinator.state, rig.rows(), rig.offset()) == (State.RUNNING, 5, 5)
    assert rig.control.types()[-1] == "Committed"
    assert coordinator.progress().commits == 1


@pytest.mark.parametrize("set_by_ms", [-86_400_000, 86_400_000])
def test_who_sets_the_clock_of_the_machine_moves_no_commit(rig: Rig, set_by_ms: int) -> None:
    """An interval is a duration, and so is what a commit takes."""
    coordinator = rig.running(commit_interval_ms="5s")
    rig.staged(coordinator, 0, 3)
    rig.set_by_ms = set_by_ms
    rig.after(4_999, coordinator)
    assert (coordinator.state, rig.rows()) == (State.STAGED, 0)
    rig.after(1, coordinator)
    assert (coordinator.state, rig.rows()) == (State.RUNNING, 3)
    (committed,) = [one for one in rig.control.written if isinstance(one, Committed)]
    assert 0 <= committed.seconds < 60


def test_it_commits_early_when_enough_is_staged_or_somebody_asks(rig: Rig) -> None:
    """Bytes and people can be faster than the interval."""
    coordinator = rig.running(commit_interval_ms="1h")
    rig.staged(coordinator, 0, 3)
    assert rig.rows() == 0
    coordinator.commit_now()
    drain(coordinator)
    assert rig.rows() == 3
    coordinator.settings = coordinator.settings.model_copy(update={"commit_bytes": 1})
    rig.staged(coordinator, 3, 4)
    assert rig.rows() == 4


def test_a_commit_on_request_takes_what_is_in_the_topic_then(rig: Rig) -> None:
    """What is staged at once, and what was not read yet as soon as it is staged; later records wait again."""
    coordinator = rig.running(commit_interval_ms="1h")
    rig.broker.change(end={0: 9, 1: 0})
    rig.stage(0, 3)
    coordinator.commit_now()
    drain(coordinator)
    assert rig.offset() == 3
    assert rig.worker.asked[-1] == {0: 9, 1: 0}
    rig.stage(3, 7)  # a batch takes only so much
    drain(coordinator)
    asked = len(rig.worker.asked)
    assert (rig.offset(), rig.worker.asked[-1]) == (7, {0: 9, 1: 0})
    rig.staged(coordinator, 7, 10)
    assert (rig.offset(), len(rig.worker.asked)) == (10, asked)
    rig.staged(coordinator, 10, 12)
    assert (coordinator.state, rig.offset()) == (State.STAGED, 10)


def test_a_commit_on_request_needs_no_broker_and_resumes_nothing(rig: Rig) -> None:
    """Without the broker what is staged is committed; a topic that is paused stays as it is."""
    coordinator = rig.running(commit_interval_ms="1h")
    rig.staged(coordinator, 0, 3)
    rig.broker.trouble = [RetryableError("no answer")]
    coordinator.commit_now()
    drain(coordinator)
    assert (coordinator.state, rig.offset(), rig.worker.asked) == (State.RUNNING, 3, [{}])
    order(coordinator, Event.PAUSE, State.PAUSED)
    coordinator.commit_now()
    drain(coordinator)
    assert (coordinator.state, len(rig.worker.asked)) == (State.PAUSED, 1)


def test_nothing_staged_makes_no_snapshot(rig: Rig) -> None:
    """Time alone commits nothing; control records of transactions move the ledger without rows."""
    coordinator = rig.running()
    before = len(rig.table.table.metadata.snapshots)
    for _ in range(5):
        rig.now_ms += 60_000
        coordinator.step()
    assert len(rig.table.table.metadata.snapshots) == before
    coordinator = rig.running(commit_interval_ms="100ms")
    rig.worker.listener.staged(StagedBatch(StagedOffsets({0: 0}, {0: 9}), (), 0, 0.1))
    rig.now_ms += 100
    drain(coordinator)
    assert (rig.rows(), rig.offset()) == (0, 9)


def test_pause_and_stop_commit_what_is_staged(rig: Rig) -> None:
    """Neither a pause nor a stop throws work away."""
    coordinator = rig.running(commit_interval_ms="1h")
    rig.stage(0, 2)
    order(coordinator, Event.PAUSE, State.PAUSED)
    assert rig.rows() == 2
    order(coordinator, Event.RESUME)
    rig.stage(2, 5, epoch=2)
    order(coordinator, Event.STOP, State.STOPPED)
    assert rig.rows() == 5


def test_a_new_owner_ends_the_old_one(rig: Rig) -> None:
    """After somebody else claimed the table, nothing is committed and the files are removed (I5, I10)."""
    coordinator = rig.running(commit_interval_ms="100ms")
    rig.staged(coordinator, 0, 4)
    path = Path(coordinator.staged[0].files[0].file_path.removeprefix("file://"))
    assert path.exists()
    other = rig.table
    other.claim(other.ledger.claimed(2, "somebody else"), other.ledger)
    rig.mine = False
    rig.after(100, coordinator, State.WAITING)
    assert rig.rows() == 0
    assert not path.exists()
    rig.after(10**6, coordinator)
    assert coordinator.state is State.WAITING
    assert rig.table.ledger.epoch == 2


def test_a_last_commit_of_the_old_owner_stops_nobody(rig: Rig) -> None:
    """The ledger goes on between the new owner's look at it and its claim: it looks again (I5)."""
    old = rig.running(commit_interval_ms="1s")
    rig.staged(old, 0, 4)
    old.owner.plan_commit(old.staged)
    last = [old.owner.send]
    new = rig.make()
    new.order(Event.START)
    remove = steps.install(lambda step: last.pop()() if step is Step.CLAIM and last else None)
    try:
        drain(new)
    finally:
        remove()
    assert not last
    assert new.state is State.WAITING
    rig.after(30_000, new)
    assert (new.state, rig.offset(), rig.worker.spec.start[0]) == (State.RUNNING, 4, 4)


def test_the_table_is_not_taken_again_before_the_old_worker_is_gone(rig: Rig) -> None:
    """A batch that the old worker was still busy with is dropped, not given to its successor (I1, I10)."""
    coordinator = rig.running(commit_interval_ms="100ms")
    old, may_stop = rig.worker, threading.Event()
    old.stop = may_stop.wait  # type: ignore[method-assign,assignment]
    rig.staged(coordinator, 0, 4)
    other = rig.table

    def is_dropping() -> bool:
        return coordinator.state is State.DROPPING

    other.claim(other.ledger.claimed(2, "somebody else"), other.ledger)
    rig.now_ms += 100
    drain(coordinator, until=is_dropping)
    rig.now_ms += 60_000
    drain(coordinator, until=is_dropping)
    assert coordinator.state is State.DROPPING
    late = batch(rig.table, 0, 4)
    old.listener.staged(late)
    drain(coordinator, until=is_dropping)
    assert not Path(late.files[0].file_path.removeprefix("file://")).exists()
    may_stop.set()
    drain(coordinator, until=State.WAITING)
    rig.after(60_000, coordinator, State.RUNNING)
    assert rig.table.ledger.epoch == 3
    rig.stage(0, 4, epoch=3)
    rig.after(60_000, coordinator)
    assert (rig.rows(), rig.offset()) == (4, 4)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"topic_id": "another"}, "re-created"),
        ({"cluster_id": "another"}, "another cluster"),
        ({"first": {0: 10, 1: 0}}, "deleted by retention"),
        ({"end": {0: 2, 1: 100}}, "ends at offset 2"),
        ({"first": {0: 0}, "end": {0: 100}}, "no longer has partitions"),
    ],
)
def test_a_topic_that_is_not_what_the_ledger_says_stops(rig: Rig, change: dict[str, Any], told: str) -> None:
    """Nothing is skipped in silence, nothing of another topic is appended (I8)."""
    coordinator = rig.running(commit_interval_ms="100ms")
    rig.staged(coordinator, 0, 4)
    order(coordinator, Event.PAUSE, State.PAUSED)
    rig.broker.change(**change)
    order(coordinator, Event.RESUME)
    assert coordinator.state is State.FAILED
    assert told in str(coordinator.progress().error)
    assert rig.offset() == 4


def test_rows_without_a_ledger_stop_the_topic(rig: Rig) -> None:
    """Others removed the tag and expired every ledger: no record becomes a row twice (I8)."""
    coordinator = rig.running(commit_interval_ms="100ms")
    rig.stage(0, 4)
    rig.after(1000, coordinator)
    table = rig.catalog.real.load_table(IDENTIFIER)
    table.manage_snapshots().remove_tag(TAG).commit()
    table.append(table.scan().to_arrow().slice(0, 1))
    table.maintenance.expire_snapshots().by_ids(
        [
            snapshot.snapshot_id
            for snapshot in table.metadata.snapshots
            if snapshot != table.current_snapshot()
        ]
    ).commit()
    rig.stage(4, 6)
    rig.after(1000, coordinator, State.FAILED)
    for event in (None, Event.RESUME):
        if event is not None:
            coordinator.order(event)
            drain(coordinator)
        assert coordinator.state is State.FAILED
        assert "has rows but no ledger" in str(coordinator.progress().error)
    assert rig.rows() == 5
    rig.catalog.real.drop_table(IDENTIFIER)
    order(coordinator, Event.RESUME)
    assert coordinator.state is State.RUNNING


@pytest.mark.parametrize(
    ("change", "back", "told"),
    [
        (
            lambda update: update.rename_column("_kafka_metadata.offset", "place"),
            lambda update: update.rename_column("_kafka_metadata.place", "offset"),
            "_kafka_metadata.offset",
        ),
        (
            lambda update: update.delete_column("_kafka_key"),
            lambda update: update.add_column("_kafka_key", BinaryType()),
            "_kafka_key",
        ),
    ],
)
def test_a_lost_column_of_kafka_stops_until_it_is_back(
    rig: Rig, change: Callable[[Any], Any], back: Callable[[Any], Any], told: str
) -> None:
    """Rows would silently lack its values: the topic stops, says which one, and goes on when it is there."""
    coordinator = rig.running(commit_interval_ms="100ms")
    rig.staged(coordinator, 0, 4)
    with rig.catalog.real.load_table(IDENTIFIER).update_schema() as update:
        change(update)
    for event, state in ((Event.PAUSE, State.PAUSED), (Event.RESUME, State.FAILED)):
        coordinator.order(event)
        drain(coordinator, until=lambda wanted=state: coordinator.state is wanted)  # type: ignore[misc]
    assert f"dropped {told} of default.clicks" in str(coordinator.progress().error)
    with rig.catalog.real.load_table(IDENTIFIER).update_schema() as update:
        back(update)
    order(coordinator, Event.RESUME)
    assert coordinator.state is State.RUNNING


@pytest.mark.parametrize("ids", [("topic-id", NO_TOPIC_ID), (NO_TOPIC_ID, "given-later")])
def test_a_broker_that_knows_no_topic_ids_stops_nothing(rig: Rig, ids: tuple[str, str]) -> None:
    """A topic gets its id when all brokers of a cluster have learned to give one, and is the same topic."""
    rig.broker.change(topic_id=ids[0])
    coordinator = rig.running(commit_interval_ms="100ms")
    rig.staged(coordinator, 0, 4)
    rig.broker.change(topic_id=ids[1])
    rig.stage(4, 6)
    rig.after(60_000, coordinator)
    assert coordinator.state is State.RUNNING
    order(coordinator, Event.PAUSE, State.PAUSED)
    order(coordinator, Event.RESUME)
    assert coordinator.state is State.RUNNING
    assert (rig.rows(), rig.offset()) == (6, 6)


def test_a_batch_of_a_topic_made_anew_is_not_taken(rig: Rig) -> None:
    """The worker has read offsets of another topic: its files go, and it ends with the reason (I8)."""
    coordinator = rig.running(commit_interval_ms="100ms")
    read = batch(rig.table, 0, 4)
    rig.broker.change(topic_id="another")
    with pytest.raises(ActionNeededError, match="re-created"):
        rig.worker.listener.staged(read)
    assert not Path(read.files[0].file_path.removeprefix("file://")).exists()
    drain(coordinator)
    assert rig.rows() == 0


def test_without_a_schema_the_table_waits_for_the_first_record(rig: Rig) -> None:
    """The worker asks for the schema it meets, and says when it read a record; the table follows."""
    schemas, rig.registry.schemas = rig.registry.schemas, {}
    coordinator = rig.running()
    assert rig.worker.plan.table is None
    rig.registry.schemas = schemas
    plans: list[Any] = []
    for needs in (Needs(frozenset({1})), Needs(proved=frozenset({1}))):
        asking = threading.Thread(
            target=lambda needs=needs: plans.append(rig.worker.listener.plan_for(needs))
        )
        asking.start()
        wanted = len(plans) + 1
        drain(coordinator, until=lambda wanted=wanted: len(plans) == wanted)
        asking.join()
    assert (plans[0].table, set(plans[0].values.candidates)) == (None, {1})
    assert plans[1].table is not None
    assert (set(plans[1].values.schemas), plans[1].values.candidates) == ({1}, {})
    rig.stage(0, 2)
    coordinator.commit_now()
    drain(coordinator)
    assert rig.rows() == 2


def test_on_the_way_out_no_batch_begins_and_one_commit_takes_all(rig: Rig) -> None:
    """Who waits for the topic waits for neither: not for a batch that began late, nor for two commits."""
    coordinator = rig.running(commit_interval_ms=100)
    rig.stage(0, 2)
    rig.now_ms += 1_000  # the commit is overdue
    coordinator._thread = threading.Thread(target=lambda: None)
    coordinator._thread.start()
    coordinator.close(0)
    assert rig.worker.stopping
    rig.stage(2, 4)  # of the batch under way
    drain(coordinator, until=State.STOPPED)
    assert rig.offset() == 4
    assert coordinator.progress().commits == 1
