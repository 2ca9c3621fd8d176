"""Expiry by a topic's owner: when it runs, what it waits for, what it reports, and what a crash leaves."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from tabletopic_kernel.clients.catalog.engine_properties import maintains_itself
from tabletopic_kernel.host.coordinator import Coordinator
from tabletopic_kernel.host.maintenance import expiry
from tabletopic_kernel.model.commit_cycle import Event
from tabletopic_kernel.model.progress.events import Expired, OrphansRemoved
from tabletopic_kernel.model.settings import sections
from tabletopic_kernel.model.settings.desired import MaintenanceRequest
from tabletopic_kernel.pipeline.write import data_root
from tests.host.rig import Rig, drain
from tests.table.histories import place_of
from tests.table.samples import answer_lost, refused, write_rows
from tests.table.test_dead_letters import LETTERS, commit, stage
from tests.table.test_expiry import files_below

_HOUR = 3_600_000
_DAY = 24 * _HOUR
_SHORT: dict[str, Any] = {"time_travel_ms": 60_000, "keep_snapshots": 1, "commit_interval_ms": "1s"}


class Owner:
    """A running topic; its threads work when the test says so."""

    def __init__(self, rig: Rig, **settings: Any) -> None:
        self.rig, self.tasks = rig, list[tuple[str, Callable[[], None]]]()
        rig.now_ms = int(time.time() * 1000) + _HOUR
        rig.spawn = self._spawn
        self.coordinator: Coordinator = rig.running(**(_SHORT | settings))
        self.offset = 0

    def _spawn(self, name: str, work: Callable[[], None]) -> None:
        if name.startswith("stop"):
            work()
        else:
            self.tasks.append((name, work))

    def commit(self, times: int = 1) -> None:
        """So many commits of one record."""
        for _ in range(times):
            epoch = self.coordinator.progress().epoch
            assert epoch is not None
            self.rig.stage(self.offset, self.offset + 1, epoch=epoch)
            self.offset += 1
            self.rig.now_ms += 1_000
            drain(self.coordinator)

    def work(self) -> list[str]:
        """Run all that is due: steps, and threads until there are none; returns the threads' names."""
        done = []
        while True:
            for _ in range(3):
                self.coordinator.step()
            if not self.tasks:
                return done
            name, task = self.tasks.pop(0)
            task()
            done.append(name)

    def ask(self, *, orphans: bool = False) -> list[Any]:
        """A user's request; returns what is reported."""
        request = MaintenanceRequest(id="r", asked_ms=self.rig.now_ms, work="expire", orphans=orphans)
        self.coordinator.carry_out(request)
        self.work()
        return [one for one in self.told() if one.request_id == "r"]

    def told(self) -> list[Expired | OrphansRemoved]:
        """Events of maintenance."""
        return [one for one in self.rig.control.written if isinstance(one, Expired | OrphansRemoved)]

    def snapshots(self) -> int:
        """As they are now."""
        return len(self.rig.table.table.metadata.snapshots)


def test_it_runs_some_minutes_after_the_first_commit_and_each_hour(rig: Rig) -> None:
    """And tells only of what was done."""
    owner = Owner(rig)
    owner.commit(5)
    assert owner.work() == []
    rig.now_ms += 5 * 60_000
    assert owner.work() == ["maintenance"] * 2
    (told,) = owner.told()
    assert isinstance(told, Expired)
    assert (told.snapshots, told.kept, told.request_id, told.error) == (5, 1, None, None)
    assert told.files >= 5
    assert told.bytes > 0
    assert owner.work() == []
    rig.now_ms += _HOUR
    assert owner.work() == ["maintenance"]
    assert len(owner.told()) == 1
    assert rig.rows() == 5
    owner.commit()


def test_default_time_travel_keeps_so_many_and_no_more(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """However young the rest is; the event says how far back that is. A time that somebody set counts."""
    monkeypatch.setattr(sections, "_MAX_SNAPSHOTS", 3)
    owner = Owner(rig, time_travel_ms=None)
    owner.commit(5)
    rig.now_ms += 5 * 60_000
    owner.work()
    (told,) = owner.told()
    assert isinstance(told, Expired)
    assert (told.snapshots, told.kept, owner.snapshots()) == (3, 3, 3)
    assert told.reaches_back_to_ms == rig.table.table.metadata.snapshots[0].timestamp_ms
    owner.commit()


def test_it_runs_each_so_many_commits(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that commits twice a second has 7,000 snapshots in an hour."""
    monkeypatch.setattr(expiry, "EACH_COMMITS", 3)
    owner = Owner(rig)
    owner.commit(2)
    assert owner.work() == []
    owner.commit()
    assert "maintenance" in owner.work()
    owner.commit(2)
    assert owner.work() == []


def test_without_a_commit_it_runs_after_an_hour(rig: Rig) -> None:
    """A topic that nobody writes to ages as well."""
    owner = Owner(rig)
    rig.now_ms += _HOUR - 1
    assert owner.work() == []
    rig.now_ms += 1
    assert "maintenance" in owner.work()


def test_switched_off_it_runs_when_asked(rig: Rig) -> None:
    """Nothing by itself."""
    owner = Owner(rig, maintenance="off")
    owner.commit(3)
    rig.now_ms += 2 * _HOUR
    assert owner.work() == []
    (told,) = owner.ask()
    assert (told.snapshots, told.request_id) == (3, "r")


@pytest.mark.parametrize(("maintenance", "runs"), [("auto", False), ("on", True)])
def test_catalogs_that_expire(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, maintenance: str, runs: bool
) -> None:
    """S3 Tables expire their snapshots; on means all the same."""
    owner = Owner(rig, maintenance=maintenance)
    monkeypatch.setitem(rig.catalog.real.properties, "rest.signing-name", "s3tables")
    assert maintains_itself(rig.catalog.real.properties)
    owner.commit(2)
    rig.now_ms += _HOUR
    assert ("maintenance" in owner.work()) is runs


def test_who_asked_is_told_that_nothing_was_to_do(rig: Rig) -> None:
    """With no snapshot to expire, and without a table."""
    owner = Owner(rig, keep_snapshots=100)
    owner.commit()
    (told,) = owner.ask()
    assert (told.snapshots, told.kept, told.files) == (0, 2, 0)
    assert [one.type for one in owner.ask(orphans=True)][1:] == ["Expired", "OrphansRemoved"]


def test_a_commit_under_way_comes_first(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """While nobody knows whether it arrived, nothing expires."""
    owner = Owner(rig)
    owner.commit(3)

    def away(*_: Any) -> Any:
        raise ConnectionError("connection reset")

    def lost(commit: Callable[[], Any]) -> Any:
        monkeypatch.setattr(rig.catalog, "load_table", away)
        return answer_lost(commit)

    rig.catalog.faults = [lost]
    rig.stage(owner.offset, owner.offset + 1)
    owner.offset += 1
    rig.now_ms += 1_000
    owner.coordinator.step()
    assert owner.coordinator.owner.pending is not None
    owner.coordinator.carry_out(MaintenanceRequest(id="r", asked_ms=0, work="expire"))
    for _ in range(3):
        owner.coordinator.step()
    assert owner.tasks == []
    monkeypatch.delattr(rig.catalog, "load_table")
    rig.now_ms += 60_000
    drain(owner.coordinator)
    owner.work()
    assert [one.request_id for one in owner.told()] == ["r"]
    assert owner.snapshots() == 1


def test_a_refusal_is_told_to_who_asked(rig: Rig) -> None:
    """And nothing is done; it does not disturb the topic."""
    owner = Owner(rig)
    owner.commit(2)
    rig.catalog.faults = [refused]
    (told,) = owner.ask()
    assert told.snapshots == told.files == 0
    assert "conflict" in str(told.error)
    assert owner.snapshots() == 3
    (*_, told) = owner.ask()
    assert (told.snapshots, told.error) == (2, None)


def test_dead_letters_expire_as_well(rig: Rig) -> None:
    """With a ledger of their own."""
    from tests.table.test_dead_letters import running

    owner = Owner.__new__(Owner)
    owner.rig, owner.tasks, owner.offset = rig, [], 0
    rig.spawn = lambda name, work: owner.tasks.append((name, work))
    owner.coordinator = running(rig, time_travel_ms=60_000, keep_snapshots=1)
    for start in (0, 4, 8):
        stage(rig, owner.coordinator, start, start + 4, {start})
        commit(rig, owner.coordinator)
    rig.now_ms = int(time.time() * 1000) + 30 * _DAY
    told = owner.ask()
    assert [one.dead_letters for one in told] == [True, False]
    assert all(one.snapshots >= 3 and one.files and one.error is None for one in told)
    letters = rig.catalog.load_table(LETTERS)
    assert len(letters.metadata.snapshots) == 1
    assert letters.scan().count() == 3
    stage(rig, owner.coordinator, 12, 16, {12})
    commit(rig, owner.coordinator)
    assert rig.catalog.load_table(LETTERS).scan().count() == 4


def rewrite(table: Table) -> None:
    """Another program moves all rows into another file."""
    table.overwrite(table.scan().to_arrow())


def test_a_crash_before_the_files_go_leaves_them_for_the_sweep(rig: Rig) -> None:
    """Data files of finished epochs, exactly, once a day, though their epoch was swept before."""
    Owner(rig).commit(3)
    old = [place_of(path) for path in rig.table.table.inspect.files()["file_path"].to_pylist()]
    for offset in (3, 4):  # the last epoch that was swept is looked at once more
        owner = Owner(rig)
        owner.offset = offset
        owner.commit()
        assert owner.work() == ["sweep"]
    rewrite(rig.table.table)
    owner.commit()
    owner.coordinator.carry_out(MaintenanceRequest(id="r", asked_ms=0, work="expire"))
    for _ in range(3):
        owner.coordinator.step()
    owner.tasks.pop()[1]()
    owner.coordinator.step()
    assert owner.snapshots() == 1
    assert all(path.exists() for path in old)  # and the host dies
    other = Owner(rig)
    other.offset = owner.offset
    staged = write_rows(rig.table, 2, epoch=4)
    other.commit(2)
    assert other.work() == ["sweep"]
    assert all(path.exists() for path in old)
    rig.now_ms += 10 * 60_000
    assert "maintenance" in other.work()
    assert not any(path.exists() for path in old)
    assert all(place_of(file.file_path).exists() for file in staged)
    told = other.told()[-1]
    assert isinstance(told, OrphansRemoved)
    assert (told.files, told.request_id) == (len(old), None)
    assert rig.rows() == 3 + 3 + 2


def test_a_file_that_is_finished_after_its_epochs_sweep_goes_by_the_next(rig: Rig) -> None:
    """Its owner stood still, lost the topic, and wrote on."""
    Owner(rig).commit()
    owner = Owner(rig)
    owner.offset = 1
    owner.commit()
    assert owner.work() == ["sweep"]
    late = [place_of(file.file_path) for file in write_rows(rig.table, 2, epoch=1)]
    owner.commit()  # the ledger says that the epoch was swept
    other = Owner(rig)
    other.offset = owner.offset
    other.commit()
    assert all(path.exists() for path in late)
    assert other.work() == ["sweep"]
    assert not any(path.exists() for path in late)
    assert rig.rows() == 4


def _aged(path: Path, days: float = 4) -> Path:
    then = time.time() - days * 86_400
    os.utime(path, (then, then))
    return path


def test_orphans_of_others_go_when_asked(rig: Rig) -> None:
    """Old files that nothing names: metadata, and data files outside the epochs."""
    owner = Owner(rig, keep_snapshots=100)
    owner.commit(3)
    table = rig.table.table
    there = files_below(table)
    metadata, data = place_of(table.location()) / "metadata", place_of(data_root(table.metadata))
    newest = place_of(table.metadata_location)
    orphans = [metadata / "x-m0.avro", metadata / "snap-1-0-x.avro", data / "p=1" / "00000-0-x.parquet"]
    kept = [metadata / "notes.txt", data / "readme.md", data / "epoch-00000001" / "x.parquet"]
    for path in (*orphans, *kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"abc")
    old = metadata / "00000-x.metadata.json"
    old.write_bytes(newest.read_bytes())
    for path in (*there, *orphans, *kept, old):
        _aged(path)
    young = metadata / "y-m0.avro"
    young.write_bytes(b"abc")
    told = owner.ask(orphans=True)
    assert [one.type for one in told] == ["Expired", "OrphansRemoved"]
    assert told[1].files == 4
    assert not any(path.exists() for path in (*orphans, old))
    assert all(path.exists() for path in (*there, *kept, young))
    owner.commit()


@pytest.mark.parametrize("case", ["another's metadata", "damaged metadata", "gc is off", "it lies elsewhere"])
def test_orphans_in_a_folder_that_may_be_shared_stay(rig: Rig, case: str) -> None:
    """Nobody can tell whose they are."""
    owner = Owner(rig, keep_snapshots=100)
    owner.commit(2)
    table = rig.table.table
    metadata, data = place_of(table.location()) / "metadata", place_of(data_root(table.metadata))
    orphans = [metadata / "x-m0.avro", data / "00000-0-x.parquet"]
    for path in orphans:
        path.write_bytes(b"abc")
        _aged(path)
    if case == "another's metadata":
        uuid = str(table.metadata.table_uuid)
        text = place_of(table.metadata_location).read_text().replace(uuid, f"00000000{uuid[8:]}")
        (metadata / "00000-x.metadata.json").write_text(text)
    elif case == "damaged metadata":
        (metadata / "00000-x.metadata.json").write_text("{")
    elif case == "gc is off":
        with table.transaction() as change:
            change.set_properties({"gc.enabled": "false"})
    else:
        with table.transaction() as change:
            change.set_properties({"write.metadata.path": f"{table.location()}/moved"})
    (_, told) = owner.ask(orphans=True)
    assert (told.files, told.error) == (0, None)
    assert all(path.exists() for path in orphans)


def test_data_files_below_a_shared_path_stay(rig: Rig, tmp_path: Path) -> None:
    """``write.data.path`` may be that of other tables; so may a folder with metadata in it."""
    owner = Owner(rig, keep_snapshots=100)
    owner.commit(2)
    table = rig.table.table
    with table.transaction() as change:
        change.set_properties({"write.data.path": f"file://{tmp_path}/shared"})
    shared = tmp_path / "shared" / "00000-0-x.parquet"
    inside = place_of(table.location()) / "data" / "00000-0-x.parquet"
    shared.parent.mkdir()
    for path in (shared, inside):
        path.write_bytes(b"abc")
        _aged(path)
    assert owner.ask(orphans=True)[-1].files == 0
    with table.refresh().transaction() as change:
        change.remove_properties("write.data.path")
    other = place_of(table.location()) / "data" / "other" / "metadata"
    other.mkdir(parents=True)
    (other / "00000-x.metadata.json").write_text("{}")
    assert owner.ask(orphans=True)[-1].files == 0
    assert shared.exists()
    assert inside.exists()


def test_a_paused_topic_waits(rig: Rig) -> None:
    """Who does not own the table now changes nothing in it."""
    owner = Owner(rig)
    owner.commit(2)
    owner.coordinator.order(Event.PAUSE)
    for _ in range(3):
        owner.coordinator.step()
    owner.tasks.clear()
    owner.coordinator.carry_out(MaintenanceRequest(id="r", asked_ms=0, work="expire"))
    owner.coordinator.step()
    assert owner.tasks == []
