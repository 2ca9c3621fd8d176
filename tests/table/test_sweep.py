"""The sweep: everything still readable stays, whoever expired, rolled back or spelt what."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.host.coordinator import Coordinator
from tabletopic_kernel.model.columns.partitions import partition_spec
from tabletopic_kernel.model.commit_cycle import Action
from tabletopic_kernel.model.errors import (
    HeadMovedError,
    LostOwnershipError,
    OutcomeUnknownError,
    RetryableError,
    StartOverError,
)
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.write import data_root
from tabletopic_kernel.table.sweep import sweep
from tabletopic_kernel.table.topic_table import TopicTable
from tests.host.rig import Rig, made_rig
from tests.table.histories import STEPS, TableLife, live, place_of
from tests.table.samples import SCHEMA, FlakyCatalog, answer_lost, batch, commit_staged, write_rows

# How a folder of this machine may be written, as people, Spark and the Hive metastore do.
SPELLINGS = (
    "{}", "file:{}", "file://{}", "file:///{}", "file://{}/", "file://{}//sub", "{}/a b/ü/c%20d",
    "file://localhost{}", "relative/lake",
)  # fmt: skip


def on_disk(files: Sequence[DataFile]) -> list[bool]:
    """Whether each file is there."""
    return [place_of(file.file_path).exists() for file in files]


def committed(
    table: TopicTable, ledger: Ledger, *, epoch: int = 1, rows: int = 3
) -> tuple[list[DataFile], Ledger]:
    """Commit a batch; its files, and the ledger then."""
    start = ledger.next_offsets[0]
    staged = batch(table, start, start + rows, epoch=epoch)
    after = commit_staged(table, ledger, staged)
    return list(staged.files), after


def expire_all(table: Table) -> None:
    """Expire what can be, as PyIceberg does: no file goes."""
    table.refresh()
    before = datetime.now(UTC) + timedelta(minutes=1)
    table.maintenance.expire_snapshots().older_than(before.replace(tzinfo=None)).commit()


def next_owner(rig: Rig) -> Coordinator:
    """The host was killed; another owner takes the topic, and its sweep comes to an end."""
    other = rig.running()
    rig.now_ms += 10_000  # it waits for a first commit, and then no longer
    other.step()
    for thread in threading.enumerate():
        if thread.name == "sweep":
            thread.join()
    return other


def test_a_new_owner_after_an_expiry_keeps_every_row(rig: Rig) -> None:
    """Snapshots were expired, and the files that only older ones added are still the head's."""
    coordinator = rig.running(commit_interval_ms="1s")
    for at in range(5):
        rig.stage(at * 10, at * 10 + 10)
        rig.after(1_000, coordinator)
    left = write_rows(rig.table, 2, epoch=1)
    expire_all(rig.table.table)
    assert len(rig.table.table.metadata.snapshots) == 1
    next_owner(rig)
    assert len(rig.table.table.scan().to_arrow()) == 50
    assert on_disk(left) == [False]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_rows_stay_however_spelt(spelling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locations of one folder are written in several ways; each names the same files."""
    warehouse = spelling.format(tmp_path / "lake")
    catalog = open_catalog(
        {"name": "lake", "type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": warehouse}
    )
    monkeypatch.chdir(tmp_path)  # PyIceberg takes the host of a file's URL for a folder of the working one
    rig = made_rig(catalog, monkeypatch)
    coordinator = rig.running(commit_interval_ms="1s")
    rig.stage(0, 10)
    rig.after(1_000, coordinator)
    left = write_rows(rig.table, 2, epoch=1)
    next_owner(rig)
    assert len(rig.table.table.scan().to_arrow()) == 10
    assert on_disk(left) == [False]


def test_tables_that_share_a_folder_keep_their_files(catalog: Any, tmp_path: Path) -> None:
    """Two topics may have one ``write.data.path``: neither sweep sees the other's files."""
    shared = TopicSettings(table_properties={"write.data.path": f"file://{tmp_path}/warehouse/shared"})
    tables = []
    for name in ("clicks", "views"):
        spec = partition_spec((), SCHEMA)
        table = TopicTable.create(catalog, ("default", name), SCHEMA, spec, name, shared)
        ledger = Ledger(name, "cluster", "topic-id", {0: 0}, 1, "claim")
        table.claim(ledger, None)
        files, after = committed(table, ledger)
        table.claim(after.claimed(2, "second"), after)
        tables.append((table, files, write_rows(table, 1, epoch=1)))
    for table, _, left in tables:
        assert sweep(table.table, after_epoch=0, before_epoch=2) == len(left)
    for table, files, _ in tables:
        assert all(on_disk(files))
        assert len(table.table.scan().to_arrow()) == 3


STEP = st.tuples(st.integers(0, 1), st.sampled_from(sorted(STEPS)), st.integers(0, 5))


# Others keep a snapshot of theirs, roll back to it after a claim, and append: the ledger is gone.
_STEPS = ("commit 0", "append 0", "expire 0", "refer 1", "claim 0", "expire 0", "roll_back 1", "append 0")
_ROLLED_BACK = [(0, step, int(n)) for step, n in (one.split() for one in (*_STEPS, "claim 0", "sweep 0"))]


def lives_of(folder: Path) -> list[TableLife]:
    """Two new tables of one folder."""
    uri = f"sqlite:///{folder}/catalog.db"
    catalog = open_catalog({"type": "sql", "uri": uri, "warehouse": f"file://{folder}/lake"})
    return [TableLife(catalog, name, folder / "lake" / "shared") for name in ("clicks", "views")]


@pytest.mark.filterwarnings("ignore:Delete operation")
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEP, min_size=4, max_size=10))
# What only an older snapshot, only a tag, and only the owner has; an old owner after a rollback; a request
# whose answer was lost; an expiry.
@example([(0, "commit", 0), (0, "rewrite", 1), (0, "claim", 0), (0, "sweep", 0)])
@example([(0, "commit", 0), (0, "refer", 4), (0, "rewrite", 1), (0, "expire", 0), (1, "commit", 0)])
@example([(0, "commit", 0), (0, "claim", 0), (0, "leave", 0), (0, "sweep", 0)])
@example([(0, "commit", 0), (0, "claim", 0), (0, "roll_back", 1), (0, "wake", 0)])
@example([(0, "commit", 1), (0, "commit", 2), (0, "respell", 1), (0, "commit", 0), (0, "sweep", 0)])
@example([(0, "commit", 0), (0, "commit", 0), (0, "expire", 0), (0, "claim", 0), (0, "sweep", 0)])
@example(_ROLLED_BACK)
def test_what_is_reached_stays_and_the_rest_goes(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str, int]]
) -> None:
    """Commits, takeovers, others' writes, expiry, rollback, refs, spellings: a sweep takes orphans alone."""
    live(lives_of(tmp_path_factory.mktemp("lives")), steps)


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore:Delete operation")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEP, min_size=5, max_size=40))
def test_what_is_reached_stays_in_long_lives(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str, int]]
) -> None:
    """The same over longer histories."""
    live(lives_of(tmp_path_factory.mktemp("lives")), steps)


# --- doubt deletes nothing --------------------------------------------------------------------------------


def taken_over(table: TopicTable, ledger: Ledger) -> tuple[list[DataFile], list[DataFile], Ledger]:
    """A table with a committed file and one that was left, both of epoch 1; epoch 2 owns it."""
    files, after = committed(table, ledger)
    left = write_rows(table, 1, epoch=1)
    second = after.claimed(2, "second")
    table.claim(second, after)
    return files, left, second


def test_an_epoch_of_which_nothing_is_in_use_stays(owned: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The table's files are not where the storage lists some: nothing goes, and people are told once."""
    table, ledger = owned
    files, left, _ = taken_over(table, ledger)
    place_of(files[0].file_path).unlink()
    assert sweep(table.table, after_epoch=0, before_epoch=2) == 0
    assert on_disk(left) == [True]
    assert caplog.text.count("epoch 1 has committed") == 1


@pytest.mark.parametrize("damage", ["gone", "cut off"])
@pytest.mark.parametrize("what", ["manifest", "list"])
def test_nothing_goes_while_a_manifest_cannot_be_read(owned: Any, damage: str, what: str) -> None:
    """Who cannot read all that the table reaches has no proof: neither a manifest, nor the list of them."""
    table, ledger = owned
    files, left, _ = taken_over(table, ledger)
    snapshot = table.table.metadata.snapshots[-1]
    manifest = place_of(snapshot.manifests(table.table.io)[0].manifest_path)
    if what == "list":
        manifest = place_of(snapshot.manifest_list)
    if damage == "gone":
        manifest.unlink()
    else:  # as a reader sees it: a whole file without entries
        whole = manifest.read_bytes()
        manifest.write_bytes(whole[: whole.index(whole[-16:]) + 16])
    with pytest.raises(RetryableError, match=r"manifest|cannot be read"):
        sweep(table.table, after_epoch=0, before_epoch=2)
    assert on_disk([*files, *left]) == [True, True]


class StubbornStorage(PyArrowFileIO):
    """Deletes nothing with one of ``kept`` in its name, and reports that with a library's own error."""

    kept: tuple[str, ...] = ()

    def delete(self, location: Any) -> None:
        """Delete a file, or refuse."""
        if any(one in str(location) for one in self.kept):
            raise StorageLibraryError("AccessDenied")
        super().delete(location)


class StorageLibraryError(Exception):
    """No OSError, as those of most clients of object stores."""


def stubborn(table: TopicTable, *kept: DataFile) -> StubbornStorage:
    """The table's storage refuses to delete some files."""
    io = StubbornStorage(table.table.io.properties)
    io.kept = tuple(file.file_path.rpartition("/")[2] for file in kept)
    table.table.io = io
    return io


def test_a_file_that_cannot_be_deleted_keeps_no_other(owned: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the storage raises, in whichever thousand: the rest goes, and the sweep is not over."""
    table, ledger = owned
    files, left, _ = taken_over(table, ledger)
    left += write_rows(table, 1, epoch=1) + write_rows(table, 1, epoch=1)
    left.sort(key=lambda file: file.file_path)
    monkeypatch.setattr("tabletopic_kernel.table.sweep._CHUNK", 1)
    storage = stubborn(table, left[0])
    with pytest.raises(RetryableError, match=r"could not delete .*: StorageLibraryError: AccessDenied"):
        sweep(table.table, after_epoch=0, before_epoch=2)
    assert on_disk([*files, *left]) == [True, True, False, False]
    storage.kept = ()
    assert sweep(table.table, after_epoch=0, before_epoch=2) == 1


def test_a_storage_that_deletes_nothing_is_not_asked_for_each_file(owned: Any) -> None:
    """After ten files that stay it is at fault."""
    table, ledger = owned
    _, left, _ = taken_over(table, ledger)
    for _ in range(12):
        left += write_rows(table, 1, epoch=1)
    stubborn(table, *left)
    with pytest.raises(RetryableError, match="and 9 more"):
        sweep(table.table, after_epoch=0, before_epoch=2)


def test_staged_files_that_cannot_be_deleted_stop_no_topic(rig: Rig) -> None:
    """The batch is dropped, the topic goes on, and its next owner's sweep has the files."""
    coordinator = rig.running()
    rig.staged(coordinator, 0, 3)
    owner = coordinator.owner
    assert owner.table is not None
    [staged] = coordinator.staged
    stubborn(owner.table, *staged.files)
    coordinator._actions.perform(Action.DISCARD, coordinator.state)
    assert on_disk(staged.files) == [True]


def test_a_snapshot_that_is_expired_meanwhile_is_no_obstacle(owned: Any) -> None:
    """Somebody expires a snapshot and takes its manifest list away while the sweep reads."""
    table, ledger = owned
    files, left, _ = taken_over(table, ledger)
    stale = table.table.catalog.load_table(table.table.name())
    expired = stale.metadata.snapshots[0]
    expire_all(table.table)
    place_of(expired.manifest_list).unlink()
    catalog = FlakyCatalog(table.table.catalog)
    answers = [stale]
    catalog.load_table = lambda name: answers.pop() if answers else catalog.real.load_table(name)  # type: ignore[method-assign]
    assert sweep(stale, after_epoch=0, before_epoch=2, catalog=catalog) == 1  # type: ignore[arg-type]
    assert on_disk([*files, *left]) == [True, False]


@pytest.mark.parametrize("what", ["dropped", "replaced", "not owned"])
def test_nothing_goes_of_a_table_that_is_not_the_same(owned: Any, catalog: Any, what: str) -> None:
    """The table is another one by now, or its epochs are not over."""
    table, ledger = owned
    _, left, _ = taken_over(table, ledger)
    if what != "not owned":
        catalog.drop_table(table.table.name())
    if what == "replaced":
        catalog.create_table(table.table.name(), table.table.schema())
    before = 3 if what == "not owned" else 2
    with pytest.raises(StartOverError, match=r"no longer|another one"):
        sweep(table.table, after_epoch=0, before_epoch=before)
    assert on_disk(left) == [True]


def test_folders_of_older_versions_stay(owned: Any) -> None:
    """A folder of an epoch that carries no uuid may be any table's."""
    table, ledger = owned
    taken_over(table, ledger)
    old = place_of(data_root(table.table.metadata)) / "epoch-00000001" / "x.parquet"
    old.parent.mkdir(parents=True)
    old.write_bytes(b"x")
    assert sweep(table.table, after_epoch=0, before_epoch=2) == 1
    assert old.exists()


# --- who may still commit ---------------------------------------------------------------------------------


def test_an_older_epoch_never_commits_after_a_rollback(owned: Any, catalog: Any) -> None:
    """A rollback takes the newest claim out of the head's history; the old owner stays fenced (I5)."""
    table, ledger = owned
    _, after = committed(table, ledger)
    zombie = TopicTable(catalog.load_table(table.table.name()))
    staged = batch(table, 3, 5, epoch=1)
    before = table.table.metadata.current_snapshot_id
    table.claim(after.claimed(2, "second"), after)
    table.table.manage_snapshots().set_current_snapshot(snapshot_id=before).commit()
    with pytest.raises(LostOwnershipError, match="epoch 2"):
        commit_staged(zombie, after, staged)
    with pytest.raises(LostOwnershipError, match="epoch 2"):
        zombie.evolve(None, {}, epoch=1)


def test_a_request_that_was_under_way_never_arrives_after_a_rollback(owned: Any, catalog: Any) -> None:
    """The head is again what the request was made on, but the tag is not (I5)."""
    table, ledger = owned
    _, after = committed(table, ledger)
    flaky = FlakyCatalog(catalog)
    zombie = TopicTable(flaky.load_table(table.table.name()))
    staged = batch(table, 3, 5, epoch=1)

    def meanwhile(commit: Any) -> Any:
        before = table.table.metadata.current_snapshot_id
        table.claim(after.claimed(2, "second"), after)
        table.table.manage_snapshots().set_current_snapshot(snapshot_id=before).commit()
        return commit()

    flaky.faults = [meanwhile]
    with pytest.raises(HeadMovedError):
        commit_staged(zombie, after, staged)


def test_the_next_owner_after_a_rollback_has_a_higher_epoch_than_any(rig: Rig) -> None:
    """The folder of an epoch belongs to one owner, also where its claim was rolled back (I5)."""
    rig.running()
    first = rig.table.table.metadata.current_snapshot_id
    rig.running()
    table = rig.catalog.real.load_table(rig.table.table.name())
    table.manage_snapshots().set_current_snapshot(snapshot_id=first).commit()
    rig.running()
    assert rig.table.ledger.epoch == 3


# --- what goes without a scan -----------------------------------------------------------------------------


def test_files_of_a_commit_that_was_sent_stay(rig: Rig) -> None:
    """What the catalog was asked to commit may be in the table, whatever the owner knows of it."""
    coordinator = rig.running(commit_interval_ms="1h")
    rig.staged(coordinator, 0, 4)
    owner = coordinator.owner
    rig.catalog.faults = [answer_lost]
    owner.plan_commit(coordinator.staged)
    with pytest.raises(OutcomeUnknownError):
        owner.send()
    owner.drop(coordinator.staged)
    assert len(rig.table.table.scan().to_arrow()) == 4
