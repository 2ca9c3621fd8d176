"""Maintenance of a table whose topic is not enabled: no host owns it, so the asking process does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tabletopic_kernel.host.maintenance.unowned import maintain
from tabletopic_kernel.model.commit_cycle import Event, State
from tabletopic_kernel.model.progress.events import Compacted
from tabletopic_kernel.model.settings.desired import MaintenanceRequest
from tabletopic_kernel.model.settings.sections import TopicSettings
from tests.host.rig import Rig, order
from tests.host.test_compaction import files, with_files
from tests.table.samples import TOPIC, answer_lost, never_arrived, refused

COMPACT = MaintenanceRequest(id="r", asked_ms=1, work="compact")


def disabled(rig: Rig) -> None:
    """Four files of a topic that was enabled."""
    coordinator = with_files(rig)
    order(coordinator, Event.STOP, until=State.STOPPED)


def done(rig: Rig, request: MaintenanceRequest, **settings: Any) -> Any:
    """The event with the outcome."""
    maintain(TOPIC, TopicSettings(**settings), rig.services(), request)
    return next(
        event for event in rig.control.written[::-1] if getattr(event, "request_id", "") == request.id
    )


def test_small_files_are_compacted_and_a_host_goes_on_there(rig: Rig) -> None:
    """Rows and offsets are the same, and the next owner stages behind them."""
    disabled(rig)
    outcome = done(rig, COMPACT)
    assert isinstance(outcome, Compacted)
    assert (outcome.files_before, outcome.files, outcome.rows, outcome.error) == (4, 1, 40, None)
    assert (files(rig), rig.rows(), rig.offset()) == ([40], 40, 40)
    coordinator = rig.running()
    epoch = coordinator.progress().epoch
    assert epoch == 3
    rig.staged(coordinator, 40, 50, epoch=epoch)
    rig.after(coordinator.settings.commit_interval_ms, coordinator)
    assert (rig.rows(), rig.offset()) == (50, 50)


@pytest.mark.parametrize(
    "faults",
    [[refused], [answer_lost], [never_arrived]],
    ids=lambda faults: faults[0].__name__,
)
@pytest.mark.parametrize("before", [0, 1], ids=["claim", "commit"])
def test_a_commit_that_goes_wrong_is_the_same_commit_again(
    rig: Rig, faults: list[Callable[..., Any]], before: int
) -> None:
    """Nothing is there twice, whatever was lost on the way."""
    disabled(rig)
    rig.catalog.faults += [lambda commit: commit()] * before + faults
    outcome = done(rig, COMPACT)
    if outcome.error is None:
        assert files(rig) == [40]
    else:  # another writer was first when it took the table
        assert "try again" in outcome.error
        assert files(rig) == [10] * 4
    assert rig.rows() == 40


def test_a_host_that_gets_the_topic_meanwhile_ends_it(rig: Rig) -> None:
    """Its epoch is higher: the compaction is refused, and says so."""
    disabled(rig)

    def enabled(commit: Callable[[], Any]) -> Any:
        coordinator = rig.running()
        assert coordinator.progress().epoch == 3
        return commit()

    rig.catalog.faults += [lambda commit: commit(), enabled]
    outcome = done(rig, COMPACT)
    assert "epoch 3, ours is 2" in outcome.error
    assert (files(rig), rig.rows()) == ([10] * 4, 40)


def test_without_a_table_it_says_so(rig: Rig) -> None:
    """Nobody waits for an outcome that never comes."""
    assert "nothing to maintain" in done(rig, COMPACT).error
