"""A snapshot's files are readable: staged files are checked before they are committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io import pyarrow as io_pyarrow
from pyiceberg.manifest import DataFile

from tabletopic_kernel.host.coordinator import Coordinator
from tabletopic_kernel.model.commit_cycle import Event, State
from tabletopic_kernel.model.errors import OutcomeUnknownError
from tests.host.rig import Rig
from tests.table.samples import answer_lost
from tests.table.test_dead_letters import commit, dead_letters, rows, running, stage


def place(file: DataFile) -> Path:
    """Where a staged file lies."""
    return Path(file.file_path.removeprefix("file://"))


def staged(coordinator: Coordinator) -> list[Path]:
    """The files that wait for their commit."""
    return [place(file) for batch in coordinator.staged for file in batch.files]


def cut(path: Path) -> None:
    """Truncate a file."""
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("damage", [Path.unlink, cut])
def test_files_that_nobody_can_read_are_never_committed(rig: Rig, damage: Any) -> None:
    """The batch is dropped whole, told with its reason, and read again from the ledger (I1, I6)."""
    coordinator = rig.running(commit_interval_ms="1s")
    rig.stage(0, 4)
    rig.staged(coordinator, 4, 6)
    first, second = staged(coordinator)
    damage(second)
    rig.after(1_000, coordinator, State.WAITING)
    assert (rig.rows(), rig.offset()) == (0, 0)
    assert not first.exists()
    assert f"{second.name} " in str(coordinator.progress().error)
    assert "CommitFailed" in rig.control.types()
    rig.after(500, coordinator)
    assert coordinator.state is State.RUNNING
    assert rig.worker.spec.start == {0: 0, 1: 0}
    assert rig.table.ledger.epoch == 1
    rig.stage(0, 6)
    rig.after(1_000, coordinator)
    assert (rig.rows(), rig.offset()) == (6, 6)


def test_a_storage_that_keeps_nothing_is_not_asked_without_end(rig: Rig) -> None:
    """Each batch that fails waits longer for its next try."""
    coordinator = rig.running(commit_interval_ms="100ms")
    waits = []
    for _ in range(5):
        rig.staged(coordinator, 0, 4)
        for path in staged(coordinator):
            path.unlink()
        rig.after(100, coordinator, State.WAITING)
        waits.append(coordinator._schedule.retries.at_ms - rig.now_ms)
        rig.after(waits[-1], coordinator, State.RUNNING)
    assert waits == [500, 1_000, 2_000, 4_000, 8_000]


def test_an_outage_of_the_storage_is_no_failed_batch(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who cannot look keeps the files, and commits the same ones afterwards (I9)."""
    coordinator = rig.running(commit_interval_ms="1s")
    rig.staged(coordinator, 0, 4)
    (path,) = staged(coordinator)

    def away(_: object) -> int:
        raise OSError("connection refused")

    with monkeypatch.context() as patch:
        patch.setattr(io_pyarrow.PyArrowFile, "__len__", away)
        rig.after(1_000, coordinator, State.STAGED)
        assert "storage does not respond" in str(coordinator.progress().error)
    assert staged(coordinator) == [path]
    rig.after(1_000, coordinator)
    assert rig.rows() == 4


@pytest.mark.parametrize("kind", ["dead_letters", "files"])
def test_letters_are_looked_at_too(rig: Rig, kind: str) -> None:
    """Letters and rows are committed both or neither, whichever of them cannot be read (I1, I7)."""
    coordinator = running(rig)
    batch = stage(rig, coordinator, 0, 4, {1})
    place(getattr(batch, kind)[0]).unlink()
    rig.after(60_000, coordinator, State.WAITING)
    rig.after(60_000, coordinator, State.RUNNING)
    assert (rows(rig), dead_letters(rig)) == ([], [])
    stage(rig, coordinator, 0, 4, {1})
    commit(rig, coordinator)
    assert (rows(rig), dead_letters(rig)) == ([0, 2, 3], [1])


def test_a_commit_that_landed_is_not_looked_at_again(rig: Rig) -> None:
    """Its answer was lost; others have rewritten its files since, and removed them."""
    coordinator = rig.running(commit_interval_ms="1s")
    rig.staged(coordinator, 0, 4)
    owner = coordinator.owner
    pending = owner.plan_commit(coordinator.staged)
    rig.catalog.faults = [answer_lost]
    with pytest.raises(OutcomeUnknownError, match="did not confirm"):
        owner.send()
    table = rig.catalog.real.load_table(rig.table.table.name())
    table.overwrite(table.scan().to_arrow())
    place(pending.files[0]).unlink()
    owner.send()
    coordinator.order(Event.STOP)
    assert rig.rows() == 4
