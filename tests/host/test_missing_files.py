"""Others delete files that the newest snapshot names: nothing is built on it, and records are read again."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.table.snapshots import Snapshot

from tabletopic_kernel.host.coordinator import Coordinator
from tabletopic_kernel.model.commit_cycle import Event, State
from tests.host.rig import Rig, order
from tests.table.samples import write_rows
from tests.table.test_dead_letters import commit, dead_letters, rows, running, stage

KINDS = ("manifest list", "manifest", "data file")


def head(rig: Rig) -> Snapshot:
    """The newest snapshot."""
    snapshot = rig.table.table.current_snapshot()
    assert snapshot is not None
    return snapshot


def delete(rig: Rig, kind: str) -> str:
    """Delete a file of the newest snapshot's own commit; returns its name."""
    snapshot, io = head(rig), rig.table.table.io
    manifest = next(one for one in snapshot.manifests(io) if one.added_snapshot_id == snapshot.snapshot_id)
    path = {
        "manifest list": snapshot.manifest_list,
        "manifest": manifest.manifest_path,
        "data file": manifest.fetch_manifest_entry(io)[0].data_file.file_path,
    }[kind]
    io.delete(path)
    return Path(path).name


def commit_rows(rig: Rig, coordinator: Coordinator, start: int, end: int) -> None:
    """Commit offsets of partition 0."""
    rig.stage(start, end, epoch=rig.table.newest_epoch)
    rig.after(1_000, coordinator)


@pytest.mark.parametrize("kind", KINDS)
def test_the_next_commit_finds_what_others_deleted(rig: Rig, kind: str) -> None:
    """It is not made; the file is named, the table goes back, and the records are read again (I1)."""
    coordinator = rig.running(commit_interval_ms="1s")
    commit_rows(rig, coordinator, 0, 4)
    before = head(rig).snapshot_id
    commit_rows(rig, coordinator, 4, 6)
    broken, name = head(rig).snapshot_id, delete(rig, kind)
    rig.stage(6, 9)
    rig.after(1_000, coordinator, State.WAITING)
    assert head(rig).snapshot_id == broken
    assert name in str(coordinator.progress().error)
    rig.after(500, coordinator)
    assert coordinator.state is State.RUNNING
    assert head(rig).parent_snapshot_id == before
    assert rig.table.table.snapshot_by_id(broken) is None
    assert rig.worker.spec.start == {0: 4, 1: 0}
    assert "read again from offsets" in str(coordinator.progress().error)
    commit_rows(rig, coordinator, 4, 9)
    assert (coordinator.state, rig.rows(), rig.offset()) == (State.RUNNING, 9, 9)
    assert coordinator.progress().error is None


@pytest.mark.parametrize("kind", KINDS[:2])
def test_a_commit_looks_at_what_it_wrote(rig: Rig, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Metadata that goes between its writing and the swap is found without a further record."""
    coordinator = rig.running(commit_interval_ms="1s")
    commit_rows(rig, coordinator, 0, 4)

    def robbed(commit: object) -> object:
        answer = commit()  # type: ignore[operator]
        delete(rig, kind)
        return answer

    rig.catalog.faults.append(robbed)
    rig.stage(4, 6)
    rig.after(1_000, coordinator, State.WAITING)
    rig.after(500, coordinator)
    assert rig.worker.spec.start == {0: 4, 1: 0}
    commit_rows(rig, coordinator, 4, 6)
    assert (coordinator.state, rig.rows(), rig.offset()) == (State.RUNNING, 6, 6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_takeover_finds_it(rig: Rig, kind: str) -> None:
    """Also an older manifest, or a data file of the last commits, whoever made the newest snapshot."""
    coordinator = rig.running(commit_interval_ms="1s")
    commit_rows(rig, coordinator, 0, 4)
    delete(rig, kind)
    order(coordinator, Event.STOP, State.STOPPED)
    last = rig.running(commit_interval_ms="1s")
    assert rig.worker.spec.start == {0: 0, 1: 0}
    commit_rows(rig, last, 0, 5)
    assert (rig.rows(), rig.offset()) == (5, 5)


def test_an_older_manifest_is_found_within_some_commits(rig: Rig) -> None:
    """Each commit asks for some of the older manifests, the next one for the next."""
    coordinator = rig.running(commit_interval_ms="1s")
    commit_rows(rig, coordinator, 0, 1)
    io = rig.table.table.io
    (old,) = head(rig).manifests(io)
    for at in range(1, 12):
        commit_rows(rig, coordinator, at, at + 1)
    io.delete(old.manifest_path)
    for at in range(12, 24):
        if coordinator.state is State.RUNNING:
            commit_rows(rig, coordinator, at, at + 1)
    assert coordinator.state is State.WAITING
    assert Path(old.manifest_path).name in str(coordinator.progress().error)


def test_records_that_are_gone_stop_the_topic_with_the_way_back(rig: Rig) -> None:
    """Nothing is rolled back if retention took the records: a person decides, and resumes."""
    coordinator = rig.running(commit_interval_ms="1s")
    commit_rows(rig, coordinator, 0, 4)
    back = head(rig).snapshot_id
    commit_rows(rig, coordinator, 4, 6)
    broken = head(rig).snapshot_id
    delete(rig, "data file")
    rig.broker.change(first={0: 6, 1: 0})
    rig.stage(6, 9)
    rig.after(1_000, coordinator, State.WAITING)
    rig.after(500, coordinator)
    assert coordinator.state is State.FAILED
    error = str(coordinator.progress().error)
    assert f"rollback_to_snapshot('default.clicks', {back})" in error
    assert "`tabletopic resume clicks` reads from its offsets (0: 4, 1: 0)" in error
    assert "deleted by retention" in error
    assert head(rig).snapshot_id == broken
    rig.table.table.manage_snapshots().rollback_to_snapshot(back).commit()
    rig.broker.change(first={0: 4, 1: 0})
    order(coordinator, Event.RESUME)
    assert (coordinator.state, rig.worker.spec.start) == (State.RUNNING, {0: 4, 1: 0})


def test_a_change_of_others_is_not_undone(rig: Rig) -> None:
    """The way back leads over their snapshot, so the topic stops and names it."""
    coordinator = rig.running(commit_interval_ms="1s")
    commit_rows(rig, coordinator, 0, 4)
    table = rig.table.table
    files = [file.file_path for file in write_rows(rig.table, 2, 0)]
    table.add_files(files)
    delete(rig, "manifest list")
    rig.stage(4, 6)
    rig.after(1_000, coordinator, State.WAITING)
    rig.after(500, coordinator)
    assert coordinator.state is State.FAILED
    assert f"undo snapshot {head(rig).snapshot_id}" in str(coordinator.progress().error)


def test_lost_letters_come_again_with_their_rows(rig: Rig) -> None:
    """Both tables go back to where the letters are whole, and each record is once in one of them (I7)."""
    coordinator = running(rig, (0, 4, {1}), (4, 8, {5}))
    letters = rig.catalog.real.load_table(("default", "clicks__dead_letters"))
    snapshot = letters.current_snapshot()
    letters.io.delete(snapshot.manifest_list)
    stage(rig, coordinator, 8, 10, {9})
    rig.after(60_000, coordinator, State.WAITING)
    rig.after(60_000, coordinator, State.RUNNING)
    assert (rows(rig), dead_letters(rig)) == ([0, 2, 3], [1])
    stage(rig, coordinator, 4, 10, {5, 9})
    commit(rig, coordinator)
    assert (rows(rig), dead_letters(rig)) == ([0, 2, 3, 4, 6, 7, 8], [1, 5, 9])
