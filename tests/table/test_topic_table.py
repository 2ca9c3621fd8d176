"""The table's transactions: ledger and rows together, fenced, settled, swept."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import ManifestEntry, ManifestFile
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.types import LongType, NestedField, StringType

from tabletopic_kernel.model.columns.evolution import evolve
from tabletopic_kernel.model.errors import (
    ActionNeededError,
    HeadMovedError,
    LostOwnershipError,
    OutcomeUnknownError,
    RetryableError,
    StartOverError,
)
from tabletopic_kernel.model.ledger import TAG, Ledger
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.changes import commit, ledger_history
from tabletopic_kernel.table.changes.change import appended, rewritten
from tabletopic_kernel.table.schemas.covered import CoveredSchema, covered_schemas_property
from tabletopic_kernel.table.sweep import sweep
from tabletopic_kernel.table.topic_table import TopicTable
from tests.table.histories import place_of
from tests.table.samples import (
    IDENTIFIER,
    SCHEMA,
    TOPIC,
    FlakyCatalog,
    answer_lost,
    batch,
    never_arrived,
    next_commit,
    refused,
    sent_twice,
    write_rows,
)

Owned = tuple[TopicTable, Ledger]


def fresh(catalog: Catalog) -> TopicTable:
    """The table as another process sees it."""
    found = TopicTable.load(catalog, IDENTIFIER, TOPIC)
    assert found is not None
    return found


def test_rows_and_ledger_share_a_snapshot(owned: Owned, catalog: Catalog) -> None:
    """After a commit the newest snapshot has the rows and the ledger, and the tag points to it (I2)."""
    table, ledger = owned
    staged = batch(table, 0, 7)
    after = next_commit(ledger, staged)
    table.commit(ledger, appended(after, staged.files))
    found = fresh(catalog)
    assert found.ledger == after
    head = found.table.metadata.current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert head.summary["added-records"] == "7"
    assert found.table.metadata.refs[TAG].snapshot_id == head.snapshot_id
    assert found.table.scan().count() == 7
    assert found.figures()["rows"] == 7


def test_the_same_commit_twice_is_one(owned: Owned, catalog: Catalog) -> None:
    """A commit id that is in the history already is not committed again (I4)."""
    table, ledger = owned
    staged = batch(table, 0, 3)
    after = next_commit(ledger, staged)
    table.commit(ledger, appended(after, staged.files))
    table.commit(ledger, appended(after, staged.files))
    assert fresh(catalog).table.scan().count() == 3


def test_a_commit_reads_nothing_of_the_commits_before(
    owned: Owned, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither metadata, which it wrote itself, nor what the snapshots in it say, but for the newest."""
    table, ledger = owned
    staged = [batch(table, number, number + 1) for number in range(4)]
    asked, parsed = list[int](), list[str]()
    mark, parse = ledger_history._mark, TableMetadataUtil.parse_raw
    monkeypatch.setattr(ledger_history, "_mark", lambda one: asked.append(one.snapshot_id) or mark(one))
    monkeypatch.setattr(TableMetadataUtil, "parse_raw", lambda text: parsed.append(text) or parse(text))
    for one in staged:
        after = next_commit(ledger, one)
        table.commit(ledger, appended(after, one.files))
        ledger = after
    assert parsed == []
    assert len(asked) == len(set(asked)) == 4  # the claim's and three of the commits'
    other = fresh(catalog)
    other.claim(ledger.claimed(2, "theirs"), ledger)
    assert (table.has_commit("theirs"), table.newest_epoch) == (False, 1)
    table.reload()
    assert (table.has_commit("theirs"), table.newest_epoch) == (True, 2)
    assert all(table.has_commit(one) for one in ("claim", ledger.commit_id))


def test_a_clock_that_is_set_back_leaves_times_in_order(
    owned: Owned, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg's Java library, and so Spark, reads no table whose logs go back, whoever wrote them so."""
    table, ledger = owned
    clock = [0.0]
    moments = SimpleNamespace(time=lambda: time.time() + clock[0])
    monkeypatch.setattr("pyiceberg.table.snapshots.time", moments)
    for at, ahead_s in enumerate((3_600.0, 0.0, 3_600.0, 0.0)):
        clock[0] = ahead_s
        if at == 2:  # by a program whose clock is ahead, in PyIceberg's own way
            catalog.load_table(IDENTIFIER).append(table.table.scan().to_arrow())
        staged = batch(table, at, at + 1)
        after = next_commit(ledger, staged)
        table.commit(ledger, appended(after, staged.files))
        ledger = after
        with catalog.load_table(IDENTIFIER).transaction() as change:
            change.set_properties({"at": str(at)})
    metadata = TableMetadataUtil.parse_raw(place_of(fresh(catalog).table.metadata_location).read_text())
    for log in (metadata.snapshot_log, metadata.metadata_log, metadata.snapshots):
        times = [entry.timestamp_ms for entry in log]
        assert times == sorted(times)
        assert times[-1] <= metadata.last_updated_ms
    assert metadata.snapshots[-1].timestamp_ms > time.time() * 1000 + 3_000_000


def test_a_commit_needs_the_ledger_it_was_planned_on(owned: Owned) -> None:
    """A second commit planned on the same ledger is refused, not appended (I1, I3)."""
    table, ledger = owned
    first, second = batch(table, 0, 3), batch(table, 0, 3)
    table.commit(ledger, appended(next_commit(ledger, first), first.files))
    with pytest.raises(ActionNeededError, match="has moved"):
        table.commit(ledger, appended(next_commit(ledger, second), second.files))


def test_an_older_epoch_never_commits(owned: Owned, catalog: Catalog) -> None:
    """Once a new owner has claimed the table, the old one is fenced (I5)."""
    table, ledger = owned
    other = fresh(catalog)
    other.claim(ledger.claimed(2, "second owner"), ledger)
    staged = batch(table, 0, 3)
    with pytest.raises(LostOwnershipError, match="epoch 2"):
        table.commit(ledger, appended(next_commit(ledger, staged), staged.files))
    with pytest.raises(LostOwnershipError):
        table.evolve(None, {}, epoch=1)
    assert fresh(catalog).table.scan().count() == 0


def test_two_owners_cannot_claim_the_same_epoch(owned: Owned, catalog: Catalog) -> None:
    """Of two claims planned on the same ledger only one goes through (I5)."""
    table, ledger = owned
    other = fresh(catalog)
    table.claim(ledger.claimed(2, "one"), ledger)
    with pytest.raises(LostOwnershipError):
        other.claim(ledger.claimed(2, "two"), ledger)
    assert fresh(catalog).ledger == ledger.claimed(2, "one")


def test_who_takes_over_while_the_owner_commits_plans_again(owned: Owned, catalog: Catalog) -> None:
    """A last commit of the owner of before, after its ledger was read, is no rollback (I5)."""
    table, ledger = owned
    other = fresh(catalog)
    staged = batch(table, 0, 3)
    after = next_commit(ledger, staged)
    table.commit(ledger, appended(after, staged.files))
    with pytest.raises(HeadMovedError, match="during the takeover"):
        other.claim(ledger.claimed(2, "too early"), ledger)
    other.claim(after.claimed(2, "planned again"), after)
    assert fresh(catalog).ledger == after.claimed(2, "planned again")


def test_foreign_snapshots_are_skipped(owned: Owned, catalog: Catalog) -> None:
    """Snapshots of other writers between ours do no harm to the ledger."""
    table, ledger = owned
    staged = batch(table, 0, 3)
    after = next_commit(ledger, staged)
    table.commit(ledger, appended(after, staged.files))
    foreign = catalog.load_table(IDENTIFIER)
    foreign.append(foreign.scan().to_arrow())
    assert fresh(catalog).ledger == after
    more = batch(table, 3, 5)
    table.commit(after, appended(next_commit(after, more), more.files))
    assert fresh(catalog).table.scan().count() == 8


def test_changes_by_others_are_counted_and_own_ones_are_not(owned: Owned, catalog: Catalog) -> None:
    """Each commit that finds the table other than this owner left it: rows, tags, columns of somebody's."""
    table, ledger = owned

    def commit(first: int) -> int:
        nonlocal ledger
        staged = batch(table, first, first + 2)
        after = next_commit(ledger, staged)
        table.commit(ledger, appended(after, staged.files))
        ledger = after
        return table.foreign_changes

    assert commit(0) == 0
    table.evolve(None, {}, ledger.epoch)
    assert commit(2) == 0
    foreign = catalog.load_table(IDENTIFIER)
    foreign.append(foreign.scan().to_arrow())
    assert commit(4) == 1
    head = catalog.load_table(IDENTIFIER).metadata.current_snapshot_id
    assert head is not None
    catalog.load_table(IDENTIFIER).manage_snapshots().create_tag(head, "theirs").commit()
    assert commit(6) == 2
    with catalog.load_table(IDENTIFIER).update_schema() as update:
        update.add_column("note", StringType())
    assert commit(8) == 3
    assert commit(10) == 3


def test_the_tag_keeps_the_ledger_when_its_snapshot_is_expired(owned: Owned, catalog: Catalog) -> None:
    """Expiry by somebody else cannot take the ledger away."""
    table, ledger = owned
    staged = batch(table, 0, 3)
    after = next_commit(ledger, staged)
    table.commit(ledger, appended(after, staged.files))
    foreign = catalog.load_table(IDENTIFIER)
    foreign.append(foreign.scan().to_arrow())
    ours = [s.snapshot_id for s in foreign.metadata.snapshots[:-1]]
    tagged = foreign.metadata.refs[TAG].snapshot_id
    foreign.maintenance.expire_snapshots().by_ids([one for one in ours if one != tagged]).commit()
    assert fresh(catalog).ledger == after


@pytest.mark.parametrize("appends", [False, True])
def test_a_rollback_to_where_the_ledger_was_expired_stops(
    owned: Owned, catalog: Catalog, appends: bool
) -> None:
    """The tag has kept a newer ledger, whose rows are gone: who went on there would lose them (I8).

    Also where somebody has appended to the table since, and its head is the newest snapshot of all.
    """
    table, ledger = owned
    first, more = batch(table, 0, 3), batch(table, 3, 5)
    middle = next_commit(ledger, first)
    table.commit(ledger, appended(middle, first.files))
    foreign = catalog.load_table(IDENTIFIER)
    foreign.append(foreign.scan().to_arrow())
    theirs = foreign.metadata.current_snapshot_id
    assert theirs is not None
    after = next_commit(middle, more)
    fresh(catalog).commit(middle, appended(after, more.files))
    foreign.refresh()
    others = [s.snapshot_id for s in foreign.metadata.snapshots[:-1] if s.snapshot_id != theirs]
    foreign.maintenance.expire_snapshots().by_ids(others).commit()
    foreign.refresh().manage_snapshots().rollback_to_snapshot(theirs).commit()
    if appends:
        foreign.refresh().append(foreign.scan().to_arrow())
    head = foreign.refresh().metadata.current_snapshot_id
    found = fresh(catalog)
    assert found.ledger == after
    with pytest.raises(ActionNeededError, match="rolled back"):
        found.claim(after.claimed(9, "next owner"), after)
    assert catalog.load_table(IDENTIFIER).metadata.current_snapshot_id == head


@pytest.mark.parametrize(("fault", "there"), [(answer_lost, True), (never_arrived, False)])
def test_an_unknown_outcome_is_settled_by_the_history(
    owned: Owned, catalog: Catalog, fault: object, there: bool
) -> None:
    """The answer is lost: the commit id in the history tells, and trying again is safe (I4)."""
    _, ledger = owned
    flaky = FlakyCatalog(catalog)
    table = fresh(flaky)  # type: ignore[arg-type]
    staged = batch(table, 0, 3)
    after = next_commit(ledger, staged)
    flaky.faults = [fault]  # type: ignore[list-item]
    with pytest.raises(OutcomeUnknownError):
        table.commit(ledger, appended(after, staged.files))
    table.reload()
    assert table.has_commit(after.commit_id) is there
    table.commit(ledger, appended(after, staged.files))
    assert fresh(catalog).table.scan().count() == 3
    assert fresh(catalog).ledger == after


def test_a_conflict_is_not_retried_blindly(owned: Owned, catalog: Catalog) -> None:
    """PyIceberg's own retry is off: one conflict is one HeadMovedError (I3)."""
    _, ledger = owned
    flaky = FlakyCatalog(catalog, [refused])
    table = fresh(flaky)  # type: ignore[arg-type]
    staged = batch(table, 0, 3)
    with pytest.raises(HeadMovedError):
        table.commit(ledger, appended(next_commit(ledger, staged), staged.files))
    assert flaky.faults == []
    assert "commit.retry.num-retries" not in fresh(catalog).table.properties


def test_a_request_that_was_sent_twice_keeps_its_manifests(owned: Owned, catalog: Catalog) -> None:
    """A commit that is refused because it went through before is no reason to tidy (I4)."""
    _, ledger = owned
    table = fresh(FlakyCatalog(catalog, [sent_twice]))  # type: ignore[arg-type]
    staged = batch(table, 0, 3)
    after = next_commit(ledger, staged)
    table.commit(ledger, appended(after, staged.files))
    assert fresh(catalog).ledger == after
    assert fresh(catalog).table.scan().to_arrow().num_rows == 3


def test_a_refused_commit_leaves_no_manifests(owned: Owned, catalog: Catalog, tmp_path: Path) -> None:
    """What was written for a commit that the catalog refused is deleted."""
    _, ledger = owned
    there = set(tmp_path.rglob("*.avro"))
    table = fresh(FlakyCatalog(catalog, [refused]))  # type: ignore[arg-type]
    staged = batch(table, 0, 3)
    with pytest.raises(HeadMovedError):
        table.commit(ledger, appended(next_commit(ledger, staged), staged.files))
    assert set(tmp_path.rglob("*.avro")) == there


def test_a_storage_that_fails_while_manifests_are_merged_is_waited_for(
    owned: Owned, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is down, whatever PyIceberg says of the manifest that it could not fill (I9)."""
    table, ledger = owned
    for first in (0, 3):
        staged = batch(table, first, first + 3)
        after = next_commit(ledger, staged)
        table.commit(ledger, appended(after, staged.files))
        ledger = after
    with table.table.transaction() as change:
        change.set_properties({TableProperties.MANIFEST_MIN_MERGE_COUNT: "2"})
    more = batch(table, 6, 7)

    def away(*_: object, **__: object) -> list[ManifestEntry]:
        raise OSError("connection reset")

    with monkeypatch.context() as patch:
        patch.setattr(ManifestFile, "fetch_manifest_entry", away)
        with pytest.raises(RetryableError, match="connection reset"):
            table.commit(ledger, appended(next_commit(ledger, more), more.files))
    table.commit(ledger, appended(next_commit(ledger, more), more.files))
    assert fresh(catalog).table.scan().to_arrow().num_rows == 7


def test_files_that_others_took_away_are_planned_again(
    owned: Owned, catalog: Catalog, tmp_path: Path
) -> None:
    """Somebody compacts what a commit was to remove: nothing is committed, and no manifest is left."""
    table, ledger = owned
    staged = batch(table, 0, 3)
    after = next_commit(ledger, staged)
    table.commit(ledger, appended(after, staged.files))
    read = list(table.table.scan().plan_files())
    foreign = catalog.load_table(IDENTIFIER)
    foreign.overwrite(foreign.scan().to_arrow())
    there = set(tmp_path.rglob("*.avro"))
    with pytest.raises(HeadMovedError, match="rewritten"):
        table.commit(after, rewritten(next_commit(after, batch(table, 3, 4)), read, ()))
    assert set(tmp_path.rglob("*.avro")) == there
    assert fresh(catalog).ledger == after


def test_a_changed_partition_spec_starts_over(owned: Owned, catalog: Catalog) -> None:
    """Files of another partition spec are not committed under the new one."""
    table, ledger = owned
    staged = batch(table, 0, 3)
    with catalog.load_table(IDENTIFIER).update_spec() as update:
        update.add_identity("a")
    with pytest.raises(StartOverError, match="partition spec"):
        table.commit(ledger, appended(next_commit(ledger, staged), staged.files))


def test_a_dropped_column_starts_over(owned: Owned, catalog: Catalog) -> None:
    """Its values in staged files could not be read, not even if a column of that name comes back."""
    table, ledger = owned
    staged = batch(table, 0, 3)
    with catalog.load_table(IDENTIFIER).update_schema() as update:
        update.add_column("b", LongType())
        update.delete_column("a")
    with catalog.load_table(IDENTIFIER).update_schema() as update:
        update.add_column("a", LongType())
    with pytest.raises(StartOverError, match="dropped a column"):
        table.commit(ledger, appended(next_commit(ledger, staged), staged.files))
    assert fresh(catalog).ledger == ledger


def test_a_renamed_and_wider_column_is_the_same(owned: Owned, catalog: Catalog) -> None:
    """Files have field ids, so their rows are committed."""
    table, ledger = owned
    staged = batch(table, 0, 3)
    with catalog.load_table(IDENTIFIER).update_schema() as update:
        update.update_column("a", LongType())
        update.rename_column("a", "b")
    table.commit(ledger, appended(next_commit(ledger, staged), staged.files))
    assert fresh(catalog).table.scan().to_arrow()["b"].to_pylist() == [0, 1, 2]


def test_a_newer_format_version_is_no_bug(
    owned: Owned, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyIceberg cannot write it: the topic says so and stops."""
    table, ledger = owned
    staged = batch(table, 0, 3)
    monkeypatch.setattr(commit, "VERSION", 1)
    with pytest.raises(ActionNeededError, match=r"format version 2.* another --table"):
        table.commit(ledger, appended(next_commit(ledger, staged), staged.files))
    with pytest.raises(ActionNeededError, match="format version 2"):
        table.check_writable(())
    assert fresh(catalog).ledger == ledger


def test_a_column_that_came_and_went_meanwhile_is_another_writer(owned: Owned, catalog: Catalog) -> None:
    """The current schema is what it was, but its next ids are taken: the change is planned again."""
    table, _ = owned
    wider = Schema(*SCHEMA.fields, NestedField(2, "b", LongType(), required=False))
    with catalog.load_table(IDENTIFIER).update_schema() as update:
        update.add_column("note", LongType())
    with catalog.load_table(IDENTIFIER).update_schema() as update:
        update.delete_column("note")
    assert fresh(catalog).table.metadata.current_schema_id == table.table.metadata.current_schema_id
    with pytest.raises(HeadMovedError):
        table.evolve(wider, {}, epoch=1)
    ids = [schema.schema_id for schema in fresh(catalog).table.metadata.schemas]
    assert len(ids) == len(set(ids))


def test_a_column_that_was_renamed_and_back_meanwhile_is_another_writer(
    owned: Owned, catalog: Catalog
) -> None:
    """The current schema and its ids are what they were, but the next schema's id is taken."""
    table, _ = owned
    wider = Schema(*SCHEMA.fields, NestedField(2, "b", LongType(), required=False))
    for old, new in (("a", "z"), ("z", "a")):
        with catalog.load_table(IDENTIFIER).update_schema() as update:
            update.rename_column(old, new)
    assert fresh(catalog).table.metadata.current_schema_id == table.table.metadata.current_schema_id
    with pytest.raises(HeadMovedError):
        table.evolve(wider, {}, epoch=1)
    ids = [schema.schema_id for schema in fresh(catalog).table.metadata.schemas]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("how", ["dropped", "replaced", "rolled back"])
def test_a_table_that_is_not_the_same_any_more_stops(owned: Owned, catalog: Catalog, how: str) -> None:
    """Dropped, replaced and rolled back tables are noticed, with a reason (I8)."""
    table, ledger = owned
    staged = batch(table, 0, 3)
    after = next_commit(ledger, staged)
    table.commit(ledger, appended(after, staged.files))
    more = batch(table, 3, 5)
    if how == "rolled back":
        current = catalog.load_table(IDENTIFIER)
        first = current.metadata.snapshots[0].snapshot_id
        current.manage_snapshots().set_current_snapshot(first).commit()
    else:
        catalog.drop_table(IDENTIFIER)
        if how == "replaced":
            catalog.create_table(IDENTIFIER, SCHEMA, properties={"tabletopic.topic": TOPIC})
    with pytest.raises(ActionNeededError, match=r"no longer exists|replaced|has moved"):
        table.commit(after, appended(next_commit(after, more), more.files))


def test_evolution_is_a_commit_of_its_own(owned: Owned, catalog: Catalog) -> None:
    """Columns and the note of the covered schema change together; no snapshot is made."""
    table, _ = owned
    wider = SCHEMA.model_copy(
        update={"fields": (SCHEMA.fields[0].model_copy(update={"field_type": LongType()}),)}
    )
    outcome = evolve(table.table.schema(), wider, table.table.metadata.last_column_id)
    before = len(table.table.metadata.snapshots)
    covered = CoveredSchema(7, "clicks-value", 2, table.next_schema_id)
    table.evolve(outcome.schema, covered_schemas_property([covered]), epoch=1)
    found = fresh(catalog)
    assert found.table.schema().find_field("a").field_type == LongType()
    assert found.registered_schemas()[7].version == 2
    assert found.registered_schemas()[7].table_schema_id == found.table.metadata.current_schema_id
    assert len(found.table.metadata.snapshots) == before


def test_two_evolutions_at_once(owned: Owned, catalog: Catalog) -> None:
    """An evolution planned on an older schema is refused and can be planned again."""
    table, _ = owned
    other = catalog.load_table(IDENTIFIER)
    with other.update_schema() as update:
        update.add_column("b", LongType())
    outcome = evolve(table.table.schema(), SCHEMA, 1)
    with pytest.raises(HeadMovedError):
        table.evolve(outcome.schema, {}, epoch=1)


def test_staging_metadata_is_equal_while_nothing_changes(owned: Owned) -> None:
    """Commits do not change what tasks are sent, so they keep what they made of it."""
    table, ledger = owned
    before = table.plan().metadata
    staged = batch(table, 0, 3)
    table.commit(ledger, appended(next_commit(ledger, staged), staged.files))
    assert table.plan().metadata == before
    assert "snapshot-id" not in json.loads(before).get("refs", {})


def test_a_foreign_table_is_not_taken(catalog: Catalog) -> None:
    """A table that no table topic made, or another topic's, is refused by name."""
    catalog.create_namespace("default")
    catalog.create_table(IDENTIFIER, SCHEMA)
    with pytest.raises(ActionNeededError, match="was not created by a table topic"):
        TopicTable.load(catalog, IDENTIFIER, TOPIC)
    catalog.drop_table(IDENTIFIER)
    catalog.create_table(IDENTIFIER, SCHEMA, properties={"tabletopic.topic": "orders"})
    with pytest.raises(ActionNeededError, match="'orders'"):
        TopicTable.load(catalog, IDENTIFIER, TOPIC)


def test_user_properties_reach_the_table_but_never_ours(catalog: Catalog) -> None:
    """Table properties are settings; the owner's mark is not."""
    settings = TopicSettings(table_properties={"write.b": "c"})
    table = TopicTable.create(catalog, IDENTIFIER, SCHEMA, table_spec(), TOPIC, settings)
    assert table.table.properties["write.b"] == "c"
    assert table.table.properties["tabletopic.topic"] == TOPIC


def table_spec() -> object:
    """No partitions."""
    from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC

    return UNPARTITIONED_PARTITION_SPEC


def test_sweep_removes_only_what_nobody_refers_to(owned: Owned, catalog: Catalog, tmp_path: Path) -> None:
    """Files of finished epochs go unless some snapshot has them; the own epoch's and others' stay (I10)."""
    table, ledger = owned
    committed = batch(table, 0, 3, epoch=1)
    after = next_commit(ledger, committed)
    table.commit(ledger, appended(after, committed.files))
    left = write_rows(table, 2, epoch=1)
    claimed = after.claimed(2, "second")
    table.claim(claimed, after)
    own = write_rows(table, 2, epoch=2)
    foreign = tmp_path / "warehouse" / "default" / "clicks" / "data" / "foreign.parquet"
    foreign.write_bytes(b"x")
    assert sweep(table.table, after_epoch=0, before_epoch=2) == len(left)
    for file in (*committed.files, *own):
        assert Path(file.file_path.removeprefix("file://")).exists()
    assert foreign.exists()
    assert not any(Path(file.file_path.removeprefix("file://")).exists() for file in left)
    assert sweep(table.table, after_epoch=0, before_epoch=2) == 0


def test_sweep_keeps_files_of_older_snapshots(owned: Owned, catalog: Catalog) -> None:
    """A file that compaction replaced is still there for time travel."""
    table, ledger = owned
    staged = batch(table, 0, 3, epoch=1)
    after = next_commit(ledger, staged)
    table.commit(ledger, appended(after, staged.files))
    current = catalog.load_table(IDENTIFIER)
    current.overwrite(current.scan().to_arrow())
    table.reload()
    table.claim(replace(after, epoch=2, commit_id="second"), after)
    assert sweep(table.table, after_epoch=0, before_epoch=2) == 0
    assert Path(staged.files[0].file_path.removeprefix("file://")).exists()


def test_columns_that_others_chose_to_identify_rows_still_do(catalog: Catalog) -> None:
    """Like Spark's ``SET IDENTIFIER FIELDS``: it outlasts our changes, until a column becomes optional."""
    columns = [NestedField(at, name, LongType(), required=True) for at, name in enumerate("ab", 1)]
    table = TopicTable.create(
        catalog, IDENTIFIER, Schema(*columns), UNPARTITIONED_PARTITION_SPEC, TOPIC, TopicSettings()
    )
    with table.table.update_schema() as update:
        update.set_identifier_fields("a", "b")
    table.reload()
    wider = Schema(*columns, NestedField(3, "c", LongType(), required=False))
    table.evolve(wider, {}, epoch=1)
    assert table.table.schema().identifier_field_names() == {"a", "b"}
    relaxed = Schema(columns[0], columns[1].model_copy(update={"required": False}))
    table.evolve(relaxed, {}, epoch=1)
    assert table.table.schema().identifier_field_names() == {"a"}


def as_s3_tables(monkeypatch: pytest.MonkeyPatch, *catalogs: Catalog) -> None:
    """Let the catalogs be known as S3 Tables'."""
    for one in catalogs:
        monkeypatch.setitem(one.properties, "rest.signing-name", "s3tables")


def test_where_a_tag_stops_expiry_a_property_keeps_the_ledger(
    owned: Owned, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 Tables expire no snapshots of a table whose tags are kept: it has none, and the ledger outlives all.

    The tag of an earlier version goes with the next commit.
    """
    table, ledger = owned
    as_s3_tables(monkeypatch, catalog, table.table.catalog)
    staged = batch(table, 0, 3)
    after = next_commit(ledger, staged)
    table.commit(ledger, appended(after, staged.files))
    foreign = catalog.load_table(IDENTIFIER)
    assert set(foreign.metadata.refs) == {"main"}
    foreign.append(foreign.scan().to_arrow())
    foreign.maintenance.expire_snapshots().by_ids(
        [s.snapshot_id for s in foreign.metadata.snapshots[:-1]]
    ).commit()
    left = fresh(catalog)
    assert len(left.table.metadata.snapshots) == 1
    assert left.ledger == after
    claimed = after.for_next_owner(left.newest_epoch)
    left.claim(claimed, after)
    assert fresh(catalog).ledger == claimed


def test_a_property_tells_of_a_rollback_behind_it(
    owned: Owned, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that was rolled back to another program's old snapshot takes no commit (I8)."""
    table, ledger = owned
    as_s3_tables(monkeypatch, catalog, table.table.catalog)
    foreign = catalog.load_table(IDENTIFIER)
    foreign.append(foreign.scan().to_arrow())
    old = foreign.current_snapshot()
    assert old is not None
    staged = batch(table, 0, 3)
    after = next_commit(ledger, staged)
    table.commit(ledger, appended(after, staged.files))
    foreign.refresh()
    foreign.manage_snapshots().rollback_to_snapshot(old.snapshot_id).commit()
    gone = [s.snapshot_id for s in foreign.metadata.snapshots if s.snapshot_id != old.snapshot_id]
    foreign.maintenance.expire_snapshots().by_ids(gone).commit()
    with pytest.raises(ActionNeededError, match="rolled back"):
        fresh(catalog).claim(after.for_next_owner(1), after)
