"""Expiry: which snapshots are removed, and that no file is deleted that anything still needs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.statistics import BlobMetadata, PartitionStatisticsFile, StatisticsFile
from pyiceberg.table.update import SetPartitionStatisticsUpdate, SetSnapshotRefUpdate

from tabletopic_kernel.clients.storage.locations import normal_location
from tabletopic_kernel.model.errors import (
    ActionNeededError,
    HeadMovedError,
    LostOwnershipError,
    RetryableError,
    StartOverError,
)
from tabletopic_kernel.model.ledger import TAG, Ledger
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table import sweep as door
from tabletopic_kernel.table.expiry import (
    Retention,
    only_reached_by,
    plan_expiry,
    reaches_back_to,
    to_expire,
    without,
)
from tabletopic_kernel.table.files.own import UnreachableFiles
from tabletopic_kernel.table.sweep import Removed, remove_expired
from tabletopic_kernel.table.topic_table import TopicTable
from tests.table.histories import place_of
from tests.table.samples import FlakyCatalog, answer_lost, never_arrived, refused, sent_twice, write_rows
from tests.table.test_sweep import committed

_NONE = Retention(0, 1)
_LATER = 10**15  # ms; everything is old then


class Life:
    """A table with some commits, and what its owner expires."""

    def __init__(self, table: TopicTable, ledger: Ledger, commits: int = 6) -> None:
        self.table, self.ledger = table, ledger
        for _ in range(commits):
            self.commit()

    def commit(self) -> None:
        """One more batch."""
        _, self.ledger = committed(self.table, self.ledger)

    def foreign(self) -> Table:
        """The same table in other hands."""
        return self.table.table.catalog.load_table(self.table.table.name())

    def metadata(self) -> TableMetadata:
        """As it is now."""
        return self.foreign().metadata

    def expirable(self, retention: Retention = _NONE, now_ms: int = _LATER) -> set[int]:
        """Sequence numbers of what would go."""
        metadata = self.metadata()
        gone = to_expire(metadata, retention, now_ms)
        return {
            snapshot.sequence_number or 0 for snapshot in metadata.snapshots if snapshot.snapshot_id in gone
        }

    def expire(self, retention: Retention = _NONE) -> Removed:
        """As the owner does: collect, commit, remove."""
        found = self.collect(retention)
        self.commit_expiry(found)
        return remove_expired(self.table.table, found)

    def commit_expiry(self, found: UnreachableFiles) -> Any:
        """Take the snapshots out; their files are still there."""
        return self.table.expire(self.ledger, lambda _: sorted(found.ids))

    def change(self, **properties: str) -> None:
        """As somebody else does."""
        with self.foreign().transaction() as change:
            change.set_properties({name.replace("_", "."): text for name, text in properties.items()})

    def drop_rows(self) -> UnreachableFiles:
        """Somebody rewrites all rows, so that all files before are those of old snapshots, which would go."""
        table = self.foreign()
        table.overwrite(table.scan().to_arrow())
        self.commit()
        return self.collect()

    def collect(self, retention: Retention = _NONE) -> UnreachableFiles:
        """What would go."""
        fresh = self.foreign()
        return only_reached_by(fresh, to_expire(fresh.metadata, retention, _LATER))

    def judge(self) -> None:
        """Every file that any snapshot reaches is there, with its lists and manifests."""
        table = self.foreign()
        for path in reached(table):
            assert place_of(path).exists(), path


def reached(table: Table) -> set[str]:
    """Whatever snapshots of the table name."""
    found = {
        one.statistics_path for one in (*table.metadata.statistics, *table.metadata.partition_statistics)
    }
    for snapshot in table.metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            found.update(entry.data_file.file_path for entry in entries)
    return found


def files_below(table: Table) -> set[Path]:
    """All that lies in the table's folder, but for metadata.json."""
    folder = place_of(table.location())
    return {path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".json")}


@pytest.fixture
def life(owned: tuple[TopicTable, Ledger]) -> Life:
    """A claim and six commits: sequence numbers 1 to 7."""
    return Life(*owned)


# -- which snapshots


def test_the_old_go_and_the_newest_stay(life: Life) -> None:
    """By age, as many as are to be kept; the young, one from the future and those of refs stay."""
    assert life.expirable() == {1, 2, 3, 4, 5, 6}
    assert life.expirable(Retention(0, 3)) == {1, 2, 3, 4}
    assert life.expirable(Retention(0, 100)) == set()
    times = sorted(snapshot.timestamp_ms for snapshot in life.metadata().snapshots)
    now = times[-1] + 1_000
    assert life.expirable(Retention(now - times[2] + 1, 1), now) == {
        number for number, at in enumerate(times, 1) if at < times[2]
    }
    assert life.expirable(now_ms=times[0] - 1) == set()
    snapshots = life.metadata().snapshots
    manage = life.foreign().manage_snapshots()
    manage.create_tag(snapshots[1].snapshot_id, "kept").commit()
    life.foreign().manage_snapshots().create_branch(snapshots[4].snapshot_id, "audit").commit()
    assert life.expirable() == {1, 3, 4, 6}
    assert life.expirable(Retention(0, 2)) == {1, 3}
    chosen = life.metadata().snapshots[1].snapshot_id
    life.foreign().manage_snapshots().create_tag(chosen, "kept", max_ref_age_ms=1).commit()
    assert 2 not in life.expirable()


def test_of_the_young_the_newest_stay(life: Life) -> None:
    """As many as the settings keep; what else keeps one does, and a limit spares what a query reads."""
    young = life.metadata().snapshots[0].timestamp_ms
    long = _LATER - young + 1
    assert life.expirable(Retention(long, 1)) == set()
    assert life.expirable(Retention(long, 1, at_most=7)) == set()
    assert life.expirable(Retention(long, 1, at_most=3)) == {1, 2, 3, 4}
    assert life.expirable(Retention(long, 5, at_most=3)) == {1, 2}
    assert life.expirable(Retention(0, 1, at_most=3)) == {1, 2, 3, 4, 5, 6}
    metadata = life.metadata()
    newest = metadata.snapshots[-1].timestamp_ms
    few = Retention(5 * 86_400_000, 1, at_most=3)
    assert to_expire(metadata, few, newest + 1_000) == ()
    assert to_expire(metadata, few, newest + 16 * 60_000) == tuple(
        snapshot.snapshot_id for snapshot in metadata.snapshots[:4]
    )
    tagged = life.metadata().snapshots[1].snapshot_id
    life.foreign().manage_snapshots().create_tag(tagged, "kept").commit()
    assert life.expirable(Retention(long, 1, at_most=3)) == {1, 3, 4}


def test_the_way_back_stays_whole(life: Life) -> None:
    """Iceberg's log has every snapshot that stays, so engines find that of any time; a tag's is apart."""
    tagged, *_ = life.metadata().snapshots
    life.foreign().manage_snapshots().create_tag(tagged.snapshot_id, "kept").commit()
    long = _LATER - tagged.timestamp_ms + 1
    life.expire(Retention(long, 1, at_most=3))
    after = life.metadata()
    left = [snapshot for snapshot in after.snapshots if snapshot.snapshot_id != tagged.snapshot_id]
    assert [one.sequence_number for one in left] == [5, 6, 7]
    logged = [one.snapshot_id for one in after.snapshot_log]
    assert logged[-3:] == [one.snapshot_id for one in left]
    assert reaches_back_to(after) == left[0].timestamp_ms
    life.judge()
    life.commit()


def test_a_branch_keeps_what_it_says(life: Life) -> None:
    """Its own number and age, where these are more than the settings'."""
    head = life.metadata().snapshots[5].snapshot_id
    number = SetSnapshotRefUpdate(ref_name="b", type="branch", snapshot_id=head, min_snapshots_to_keep=3)
    table = life.foreign()
    table.catalog.commit_table(table, (), (number,))
    assert life.expirable() == {1, 2, 3}
    age = SetSnapshotRefUpdate(
        ref_name="b", type="branch", snapshot_id=head, max_snapshot_age_ms=2 * _LATER, min_snapshots_to_keep=1
    )
    table.catalog.commit_table(table, (), (age,))
    assert life.expirable() == set()


@pytest.mark.parametrize(
    ("name", "value", "gone"),
    [
        ("history.expire.min-snapshots-to-keep", "4", {1, 2, 3}),
        ("history.expire.max-snapshot-age-ms", str(2 * _LATER), set()),
        ("history.expire.max-snapshot-age-ms", "", {1, 2, 3, 4, 5, 6}),
        ("gc.enabled", "False", set()),
        ("gc.enabled", "no", set()),  # Iceberg's Java library takes everything else than "true" for false
    ],
)
def test_properties_of_the_table_keep_more(life: Life, name: str, value: str, gone: set[int]) -> None:
    """What the table was told, by whomever, holds as well."""
    with life.foreign().transaction() as change:
        change.set_properties({name: value})
    assert life.expirable() == gone


def append(table: Table) -> None:
    """Somebody else's rows."""
    table.append(pa.table({"a": pa.array([1], pa.int32())}))


def test_the_way_to_the_ledger_stays(life: Life) -> None:
    """Foreign heads keep their ancestors down to the ledger, which tell that nobody rolled the table back."""
    for _ in range(3):
        append(life.foreign())
    life.foreign().manage_snapshots().remove_tag(TAG).commit()
    assert life.expirable() == {1, 2, 3, 4, 5, 6}
    life.expire()
    assert life.table.ledger == life.ledger
    life.commit()


def test_the_highest_epoch_stays(life: Life) -> None:
    """Also where a rollback took it out of the head's ancestors: who lost the table must see that (I5)."""
    before = life.ledger
    head = life.metadata().current_snapshot_id
    assert head is not None
    life.ledger = life.ledger.claimed(2, "second")
    life.table.claim(life.ledger, before)
    life.foreign().manage_snapshots().set_current_snapshot(snapshot_id=head).commit()
    life.foreign().manage_snapshots().remove_tag(TAG).commit()
    assert 8 not in life.expirable()


# -- the commit


def test_the_commit_takes_them_out(life: Life) -> None:
    """What is left has the rows and the ledger, and the files of the others are gone."""
    rows = len(life.foreign().scan().to_arrow())
    removed = life.expire()
    assert [snapshot.sequence_number for snapshot in life.metadata().snapshots] == [7]
    assert removed.files > 5
    assert removed.bytes > 0
    assert len(life.foreign().scan().to_arrow()) == rows
    life.judge()
    life.commit()


def test_everything_that_is_left_is_reached(life: Life) -> None:
    """Lists, manifests and files that a rewrite left behind go; nothing that is reached does."""
    table = life.foreign()
    table.overwrite(table.scan().to_arrow())
    life.expire()
    life.commit()
    life.expire()
    assert files_below(life.foreign()) == {place_of(path) for path in reached(life.foreign())}


@pytest.mark.parametrize("fault", [answer_lost, sent_twice])
def test_a_lost_answer_is_settled_by_a_look(life: Life, fault: Callable[..., Any]) -> None:
    """The snapshots are gone: that is what counts."""
    _flaky(life, fault)
    assert life.expire().files > 0
    assert len(life.metadata().snapshots) == 1
    life.judge()


@pytest.mark.parametrize(("fault", "error"), [(never_arrived, RetryableError), (refused, HeadMovedError)])
def test_what_is_lost_removes_nothing(life: Life, fault: Callable[..., Any], error: type[Exception]) -> None:
    """Nothing is done; next time."""
    files = files_below(life.foreign())
    _flaky(life, fault)
    with pytest.raises(error):
        life.expire()
    assert len(life.metadata().snapshots) == 7
    assert files_below(life.foreign()) == files


def _flaky(life: Life, *faults: Callable[..., Any]) -> None:
    flaky = FlakyCatalog(life.table.table.catalog, list(faults))
    found = TopicTable.load(flaky, life.table.table.name(), life.ledger.topic)  # type: ignore[arg-type]
    assert found is not None
    life.table = found


def test_a_catalog_that_cannot_says_so(life: Life) -> None:
    """A catalog that lacks this change is named, with what to do."""

    def lacks(_: Any) -> Any:
        raise NotImplementedError("remove-snapshots")

    _flaky(life, lacks)
    with pytest.raises(ActionNeededError, match=r"does not expire snapshots .*maintenance to off"):
        life.expire()


def _id(table: Table, at: int) -> int:
    return table.metadata.snapshots[at].snapshot_id


@pytest.mark.parametrize(
    "act",
    [
        append,
        lambda table: table.manage_snapshots().create_tag(_id(table, 1), "new").commit(),
        lambda table: table.maintenance.expire_snapshots().by_id(_id(table, 0)).commit(),
        lambda table: table.manage_snapshots().set_current_snapshot(snapshot_id=_id(table, 3)).commit(),
    ],
    ids=["rows", "tag", "expiry", "rollback"],
)
def test_who_comes_in_between_is_seen(life: Life, act: Callable[[Table], None]) -> None:
    """The request does not fit any more, and does nothing."""

    def between(commit: Callable[[], Any]) -> Any:
        act(life.foreign())
        return commit()

    _flaky(life, between)
    with pytest.raises(HeadMovedError):
        life.expire()
    life.judge()
    assert len(life.metadata().snapshots) >= 6


def test_an_owner_that_was_replaced_expires_nothing(life: Life) -> None:
    """As it commits nothing."""
    found = life.collect()
    life.table.claim(life.ledger.claimed(2, "second"), life.ledger)
    with pytest.raises(LostOwnershipError):
        life.commit_expiry(found)


def test_a_table_that_was_rolled_back_is_left_alone(life: Life) -> None:
    """A person decides first."""
    back = life.metadata().snapshots[2].snapshot_id
    life.foreign().manage_snapshots().set_current_snapshot(snapshot_id=back).commit()
    with pytest.raises(ActionNeededError, match="ledger"):
        life.expire()


# -- the files


def test_metadata_is_looked_at_again_before_files_go(life: Life) -> None:
    """A file that somebody has put into the table again since is kept, as is the snapshot that came back."""
    found = life.drop_rows()
    back = max(found.data)
    life.commit_expiry(found)
    life.foreign().add_files([back], check_duplicate_files=False)
    remove_expired(life.table.table, found)
    assert place_of(back).exists()
    assert not any(place_of(path).exists() for path in found.data if path != back)
    life.judge()


def test_files_go_on_the_word_of_the_metadata_alone(life: Life) -> None:
    """Not of a commit that it does not show, of a table that shares them, or of one made anew."""
    found, before = life.drop_rows(), life.foreign()
    with pytest.raises(StartOverError, match="were to expire"):
        remove_expired(life.table.table, found)
    life.commit_expiry(found)
    life.change(gc_enabled="false")
    with pytest.raises(StartOverError, match=r"gc\.enabled"):
        remove_expired(life.table.table, found)
    before.catalog.drop_table(before.name())
    before.catalog.create_table(before.name(), before.schema())
    with pytest.raises(StartOverError, match="another one"):
        remove_expired(before, found)
    before.catalog.drop_table(before.name())
    with pytest.raises(StartOverError, match="no longer exists"):
        remove_expired(before, found)
    assert all(place_of(path).exists() for path in found.data)


def test_a_catalog_with_own_versions_keeps_files(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nessie's branches and history need files that metadata does not tell of."""
    found = life.drop_rows()
    life.commit_expiry(found)
    catalog = life.table.table.catalog
    life.table.claim(life.ledger.claimed(2, "second"), life.ledger)
    with monkeypatch.context() as patch:
        patch.setitem(catalog.properties, "nessie.is-nessie-catalog", "true")
        with pytest.raises(StartOverError, match="keeps versions"):
            remove_expired(life.table.table, found)
        assert door.sweep_finished(life.foreign(), before_epoch=2, catalog=catalog) == Removed()
    assert all(place_of(path).exists() for path in found.data)
    assert door.sweep_finished(life.foreign(), before_epoch=2, catalog=catalog).files > 0
    life.judge()
    life.change(nessie_commit_id="1")
    assert life.expirable() == set()


def test_files_elsewhere_stay(life: Life, tmp_path: Path) -> None:
    """Rows that were added with the files of other tables, in a folder of theirs or in a shared one."""
    taken = place_of(write_rows(life.table, 2, epoch=1)[0].file_path)
    shared = tmp_path / "shared"
    other = "0f8fad5b-d9cb-469f-a165-70867728950e"
    place = place_of(life.metadata().location)
    names = [
        tmp_path / "elsewhere.parquet",
        shared / other / "epoch-00000001" / "x.parquet",
        shared / "00000-0-other.parquet",
        place / "copy" / "data" / "00000-0-other.parquet",
    ]
    own = [
        place / "data" / "00000-0-own.parquet",
        shared / str(life.metadata().table_uuid) / "epoch-00000001" / "y.parquet",
    ]
    with life.foreign().transaction() as change:
        change.set_properties({"write.data.path": f"file://{shared}"})
    for path in (*names, *own):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(taken.read_bytes())
    life.foreign().add_files([f"file://{path}" for path in (*names, *own)])
    life.drop_rows()
    removed = life.expire()
    assert removed.outside == len(names)
    assert all(path.exists() for path in names)
    assert not any(path.exists() for path in own)


def test_metadata_elsewhere_stays(life: Life, tmp_path: Path) -> None:
    """Manifests go where the table has its metadata now, and nowhere else."""
    found = life.drop_rows()
    with life.foreign().transaction() as change:
        change.set_properties({"write.metadata.path": f"file://{tmp_path}/moved"})
    life.commit_expiry(found)
    removed = remove_expired(life.table.table, found)
    assert removed.outside == len(found.metadata)
    assert all(place_of(path).exists() for path in found.metadata)


def test_a_manifest_that_cannot_be_read_keeps_all(life: Life) -> None:
    """Before, so that nothing expires; and after, so that nothing is removed."""
    found = life.drop_rows()
    manifest = place_of(max(path for path in found.metadata if "-m" in path))
    content = manifest.read_bytes()
    manifest.unlink()
    with pytest.raises(RetryableError):
        life.collect()
    manifest.write_bytes(content)
    life.commit_expiry(found)
    head = life.foreign().current_snapshot()
    place_of(head.manifests(life.foreign().io)[0].manifest_path).unlink()
    from tabletopic_kernel.clients.catalog.pyiceberg_seams.manifests import clear_manifest_cache

    clear_manifest_cache()
    with pytest.raises(RetryableError):
        remove_expired(life.table.table, found)
    assert all(place_of(path).exists() for path in found.data)


def test_staged_files_are_none_of_these(life: Life) -> None:
    """What the owner has staged was in no snapshot; it can be committed after the expiry."""
    life.drop_rows()
    staged = write_rows(life.table, 3, epoch=1)
    life.expire()
    assert all(place_of(file.file_path).exists() for file in staged)


@pytest.mark.parametrize("spelling", ["{}", "file:{}", "file:///{}"])
def test_however_a_file_is_spelt(life: Life, spelling: str) -> None:
    """A snapshot that names the file in another way keeps it."""
    file = max(life.foreign().inspect.files()["file_path"].to_pylist())
    life.drop_rows()
    elsewhere = place_of(file).with_name("spelt.parquet")
    elsewhere.write_bytes(place_of(file).read_bytes())
    life.foreign().add_files([f"file://{elsewhere}"])
    life.drop_rows()
    life.foreign().add_files([spelling.format(elsewhere)], check_duplicate_files=False)
    life.commit()
    life.expire()
    assert elsewhere.exists()
    assert normal_location(spelling.format(elsewhere)) == normal_location(f"file://{elsewhere}")


def test_statistics_go_with_their_snapshot(life: Life) -> None:
    """Those of a snapshot that is kept stay."""
    files, table = {}, life.foreign()
    for index, one in ((0, life.metadata().snapshots[0]), (-1, life.metadata().snapshots[-1])):
        for kind in ("stats", "parts"):
            path = place_of(table.location()) / "metadata" / f"{one.snapshot_id}-{kind}.puffin"
            path.write_bytes(b"x" * 7)
            files[index, kind] = path
        blob = BlobMetadata(
            type="apache-datasketches-theta-v1", snapshot_id=one.snapshot_id, sequence_number=1, fields=[1]
        )
        statistics = StatisticsFile(
            snapshot_id=one.snapshot_id,
            statistics_path=f"file://{files[index, 'stats']}",
            file_size_in_bytes=7,
            file_footer_size_in_bytes=1,
            blob_metadata=[blob],
        )
        with table.update_statistics() as change:
            change.set_statistics(statistics)
        partitions = PartitionStatisticsFile(
            snapshot_id=one.snapshot_id,
            statistics_path=f"file://{files[index, 'parts']}",
            file_size_in_bytes=7,
        )
        update = SetPartitionStatisticsUpdate(partition_statistics=partitions)
        table.catalog.commit_table(table, (), (update,))
        table.refresh()
    life.expire()
    assert {key for key, path in files.items() if path.exists()} == {(-1, "stats"), (-1, "parts")}
    assert len(life.metadata().partition_statistics) == 1


def test_a_dry_run_tells_the_same(life: Life) -> None:
    """What would go, and nothing goes; staged files are none of these."""
    found, there = life.drop_rows(), files_below(life.foreign())
    told = door.removable(without(life.foreign(), found.ids), found)
    assert files_below(life.foreign()) == there
    removed = life.expire()
    assert (told.files, told.bytes) == (removed.files, removed.bytes)
    assert sorted(told.paths) == sorted(removed.paths)


def test_a_plan_of_an_expiry_reads_only(life: Life) -> None:
    """By the topic's settings, for the table that the catalog has; none where there is no table."""
    life.drop_rows()
    table, there = life.foreign(), files_below(life.foreign())
    old = place_of(table.location()) / "metadata" / "x-m0.avro"
    left = write_rows(life.table, 2, epoch=1)
    old.write_bytes(b"abc")
    os.utime(old, (1, 1))
    life.table.claim(life.ledger.claimed(2, "second"), life.ledger)
    settings = TopicSettings(time_travel_ms=60_000, keep_snapshots=1)
    now = table.metadata.last_updated_ms + 3_600_000
    plan = plan_expiry(table.catalog, table.name(), settings, now, orphans=True)
    assert len(plan.snapshots) + plan.kept == len(life.metadata().snapshots)
    assert plan.kept == 1
    assert set(map(place_of, plan.files)) < there
    assert sum(plan.files.values()) == sum(place_of(path).stat().st_size for path in plan.files)
    assert set(map(place_of, plan.orphans)) == {old, *(place_of(one.file_path) for one in left)}
    assert files_below(life.foreign()) > there
    assert plan_expiry(table.catalog, ("default", "none"), settings, now, orphans=False) is None
