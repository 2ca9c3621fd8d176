"""The coordinator and errors: what it waits for, retries, and reports. The worker is a stand-in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tabletopic_kernel.model.commit_cycle import Event, State
from tabletopic_kernel.model.errors import (
    ActionNeededError,
    BadRecordError,
    LoginRefusedError,
    ResumeError,
    RetryableError,
    StartOverError,
    TableTopicError,
)
from tabletopic_kernel.pipeline.plan import Needs
from tests.host.rig import FakeWorker, Rig, drain, order
from tests.table.samples import IDENTIFIER, answer_lost, batch, never_arrived, refused


@pytest.mark.parametrize(
    "faults", [[answer_lost], [never_arrived], [never_arrived, answer_lost], [refused] * 3]
)
def test_trouble_during_a_commit_neither_loses_nor_doubles(rig: Rig, faults: list[Any]) -> None:
    """Lost answers, lost requests and conflicts end in exactly one commit (I3, I4)."""
    coordinator = rig.running(commit_interval_ms="100ms")
    rig.staged(coordinator, 0, 4)
    rig.catalog.faults = list(faults)
    for _ in range(3):
        rig.after(60_000, coordinator)
    assert (coordinator.state, rig.rows(), rig.offset()) == (State.RUNNING, 4, 4)
    assert rig.catalog.faults == []


def test_a_property_that_cannot_be_is_told_and_not_taken_for_a_bug(rig: Rig) -> None:
    """Whoever sets it for the table; once it is corrected, the topic goes on where it stopped."""
    coordinator = rig.running(commit_interval_ms="100ms")
    name = "commit.manifest.min-count-to-merge"
    for value, state in (("many", State.FAILED), ("100", State.RUNNING)):
        table = rig.catalog.real.load_table(IDENTIFIER)
        table.transaction().set_properties({name: value}).commit_transaction()
        if coordinator.state is State.FAILED:
            order(coordinator, Event.RESUME)
        rig.stage(0, 4)
        rig.after(100, coordinator)
        assert coordinator.state is state
        assert (name in (coordinator.progress().error or "")) is (state is State.FAILED)
    assert (rig.rows(), rig.offset()) == (4, 4)


@pytest.mark.parametrize(
    ("fault", "at_once", "told"),
    [(never_arrived, 1, "did not confirm"), (refused, 10, "refuses each commit")],
)
def test_a_catalog_that_takes_no_commits_is_asked_again_after_a_while(
    rig: Rig, fault: Any, at_once: int, told: str
) -> None:
    """One that can be read and not written, or whose cache is stale; each try waits longer (I9)."""
    coordinator = rig.running(commit_interval_ms="100ms")
    rig.staged(coordinator, 0, 4)
    rig.catalog.faults = [fault] * 1_000
    rig.now_ms += 100
    for tries in (1, 2, 3):
        drain(coordinator)
        assert (coordinator.state, 1_000 - len(rig.catalog.faults)) == (State.STAGED, tries * at_once)
        assert told in str(coordinator.progress().error)
        assert coordinator.progress().state is State.WAITING  # as people are told
        rig.now_ms += 500 << (tries - 1)
    order(coordinator, Event.STOP, State.STOPPED)
    assert len(rig.catalog.faults) > 900
    rig.catalog.faults = []
    order(coordinator, Event.START)
    assert (coordinator.state, rig.offset()) == (State.RUNNING, 0)
    rig.stage(0, 4, epoch=2)
    rig.after(60_000, coordinator)
    assert (rig.rows(), rig.offset(), coordinator.progress().error) == (4, 4, None)


def test_an_outage_of_the_catalog_is_waited_out(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is discarded while the catalog is away; afterwards the same files are committed (I9)."""
    coordinator = rig.running(commit_interval_ms="100ms")
    rig.staged(coordinator, 0, 4)
    away = True
    real = rig.catalog.real.load_table

    def load(identifier: Any) -> Any:
        if away:
            raise OSError("no route to host")
        table = real(identifier)
        table.catalog = rig.catalog
        return table

    monkeypatch.setattr(rig.catalog, "load_table", load)
    rig.after(100, coordinator)
    assert coordinator.state is State.STAGED
    assert "no route to host" in str(coordinator.progress().error)
    assert coordinator.progress().state is State.WAITING
    for _ in range(3):
        rig.now_ms += 60_000
        coordinator.step()
    away = False
    rig.after(60_000, coordinator)
    assert (coordinator.state, rig.rows(), coordinator.progress().error) == (State.RUNNING, 4, None)


def test_a_worker_that_dies_is_replaced_from_the_ledger(rig: Rig) -> None:
    """What it had staged is committed first; the next one starts where the table ends (I6)."""
    coordinator = rig.running(commit_interval_ms="1h")
    rig.stage(0, 4)
    rig.worker.listener.ended(RetryableError("the broker went away"))
    drain(coordinator, until=State.WAITING)
    assert (rig.rows(), rig.offset()) == (4, 4)
    rig.after(60_000, coordinator)
    assert coordinator.state is State.RUNNING
    assert len(FakeWorker.made) == 2
    assert rig.worker.spec.start == {0: 4, 1: 0}
    assert rig.table.ledger.epoch == 1  # nobody else was here: an outage makes no snapshots


def test_a_topic_that_is_taken_again_as_it_was_left_is_no_news(rig: Rig) -> None:
    """An outage that is retried for hours writes no event a retry; a table that somebody replaced is one."""
    coordinator = rig.running(commit_interval_ms="1h")
    for _ in range(3):
        rig.worker.listener.ended(RetryableError("the storage went away"))
        drain(coordinator, until=State.WAITING)
        rig.after(60_000, coordinator, State.RUNNING)
    assert rig.control.types().count("Enabled") == 1
    rig.catalog.real.drop_table(rig.table.table.name())
    rig.worker.listener.ended(RetryableError("the table went away"))
    drain(coordinator, until=State.WAITING)
    rig.after(60_000, coordinator, State.RUNNING)
    assert rig.control.types().count("Enabled") == 2


def test_a_worker_whose_login_is_refused_is_replaced_after_a_minute(rig: Rig) -> None:
    """Not after half a second: accounts get locked by that."""
    coordinator = rig.running()
    rig.worker.listener.ended(LoginRefusedError("SaslAuthenticationException: no"))
    drain(coordinator, until=State.WAITING)
    rig.after(50_000, coordinator)
    assert len(FakeWorker.made) == 1
    rig.after(10_000, coordinator)
    assert len(FakeWorker.made) == 2


def test_what_a_topic_waits_for_is_told_until_it_is_over(rig: Rig) -> None:
    """A worker that is tried again does not hide the trouble; a commit, or some quiet time, ends it."""
    coordinator = rig.running(commit_interval_ms="100ms")

    def fail() -> None:
        rig.worker.listener.ended(RetryableError("the registry does not respond"))
        drain(coordinator, until=State.WAITING)
        rig.after(5_000, coordinator)
        assert coordinator.state is State.RUNNING
        assert "registry" in str(coordinator.progress().error)
        assert coordinator.progress().state is State.WAITING

    fail()
    fail()
    rig.now_ms += 30_000
    coordinator.step()
    assert coordinator.progress().error is None
    fail()
    rig.stage(0, 4)
    rig.after(100, coordinator)
    assert (rig.offset(), coordinator.progress().error) == (4, None)
    assert coordinator.progress().state is State.RUNNING


def test_a_bad_record_stops_the_topic_until_somebody_resumes(rig: Rig) -> None:
    """The reason stays visible, staged rows are committed, and a resume tries again."""
    coordinator = rig.running(commit_interval_ms="1h")
    rig.stage(0, 2)
    rig.worker.listener.ended(BadRecordError("partition 0 offset 2: rubbish"))
    drain(coordinator, until=State.FAILED)
    assert coordinator.progress().error == "partition 0 offset 2: rubbish"
    assert rig.rows() == 2
    rig.after(10**9, coordinator)
    assert coordinator.state is State.FAILED
    order(coordinator, Event.RESUME)
    assert (coordinator.state, coordinator.progress().error) == (State.RUNNING, None)


def test_a_broker_that_is_down_at_the_start_is_waited_for(rig: Rig) -> None:
    """Starting tries again with growing waits until it works (I9)."""
    rig.broker.trouble = [RetryableError("down")] * 3
    coordinator = rig.make()
    order(coordinator, Event.START)
    assert (coordinator.state, coordinator.progress().error) == (State.WAITING, "down")
    for _ in range(3):
        rig.after(60_000, coordinator)
    assert coordinator.state is State.RUNNING


@pytest.mark.parametrize("fault", [answer_lost, never_arrived])
@pytest.mark.parametrize("stop", [False, True])
def test_batches_that_come_while_a_commit_is_unknown_are_not_forgotten(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, fault: Any, stop: bool
) -> None:
    """The answer is lost and the catalog is away: once it is back, old and new batches are in, once each."""
    coordinator = rig.running(commit_interval_ms="100ms")
    rig.staged(coordinator, 0, 4)
    late = batch(rig.table, 4, 9)
    away = False
    real = rig.catalog.load_table

    def load(identifier: Any) -> Any:
        if away:
            raise OSError("no route to host")
        return real(identifier)

    def lost_and_away(commit: Callable[[], Any]) -> Any:
        nonlocal away
        away = True
        return fault(commit)

    monkeypatch.setattr(rig.catalog, "load_table", load)
    rig.catalog.faults = [lost_and_away]
    rig.after(100, coordinator)
    assert coordinator.state is State.SETTLING
    rig.worker.listener.staged(late)
    drain(coordinator)
    away = False
    rig.now_ms += 60_000
    if stop:
        coordinator.order(Event.STOP)
    drain(coordinator)
    rig.now_ms += 60_000  # a commit that is not there is made again after a while
    drain(coordinator, until=lambda: coordinator.state is (State.STOPPED if stop else State.RUNNING))
    assert (rig.rows(), rig.offset()) == (9, 9)


def test_an_error_of_ours_is_told_with_what_to_do(rig: Rig) -> None:
    """The topic is failed; the exception's name is in the sentence, its trace in the log."""
    coordinator = rig.running()
    coordinator._crash(KeyError("x"))
    assert coordinator.state is State.FAILED
    error = str(coordinator.progress().error)
    assert error.startswith("a bug in this program stopped the topic (KeyError: 'x')")
    assert "Resume the topic" in error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            ActionNeededError("resumes has no table: create it"),
            "resumes has no table: create it; then resume the topic",
        ),
        (
            ResumeError("the table is gone; resume to fill another"),
            "the table is gone; resume to fill another",
        ),
        (BadRecordError("offset 2: rubbish"), "offset 2: rubbish"),
    ],
)
def test_a_stopped_topic_says_how_to_resume(rig: Rig, error: TableTopicError, reason: str) -> None:
    """Once, whatever names and words the message contains."""
    coordinator = rig.running()
    rig.worker.listener.ended(error)
    drain(coordinator, until=State.FAILED)
    assert coordinator.progress().error == reason


def test_a_batch_does_not_wait_for_a_plan_of_a_coordinator_that_ended(rig: Rig) -> None:
    """Its thread would hold the batch, and whoever stops the worker would wait for that, for ever."""
    coordinator = rig.running()
    errors: list[Exception] = []

    def ask() -> None:
        try:
            rig.worker.listener.plan_for(Needs(schema_ids=frozenset({1})))
        except Exception as error:
            errors.append(error)

    waiting = threading.Thread(target=ask, daemon=True)
    waiting.start()
    coordinator._crash(KeyError("x"))
    waiting.join(60)
    assert [type(error) for error in errors] == [StartOverError]
