"""The table's transactions: ledger and rows together, fenced, settled, swept."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.types import LongType, NestedField, StringType

from tabletopic_kernel.model.columns.evolution import evolve
from tabletopic_kernel.model.errors import (
    ActionNeededError,
    HeadMovedError,
    LostOwnershipError,
    OutcomeUnknownError,
    StartOverError,
)
from tabletopic_kernel.model.ledger import TAG, Ledger
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.changes import commit
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
    commit_staged,
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
    after = commit_staged(table, ledger, batch(table, 0, 7))
    found = fresh(catalog)
    assert found.ledger == after
    head = found.table.metadata.current_snapshot()
    assert head.summary["added-records"] == "7"
    assert found.table.metadata.refs[TAG].snapshot_id == head.snapshot_id
    assert found.table.scan().count() == 7
    assert found.figures()["rows"] == 7


def test_a_second_commit_of_one_ledger_is_refused(owned: Owned, catalog: Catalog) -> None:
    """The same id is one commit (I4), another one on the same ledger is not appended (I1, I3)."""
    table, ledger = owned
    staged = batch(table, 0, 3)
    after = commit_staged(table, ledger, staged)
    table.commit(ledger, appended(after, staged.files))
    assert fresh(catalog).table.scan().count() == 3
    with pytest.raises(ActionNeededError, match="has moved"):
        commit_staged(table, ledger, batch(table, 0, 3))


def test_times_stay_in_order(owned: Owned, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Iceberg's Java library, and so Spark, reads no table whose logs go back, whoever wrote them so."""
    table, ledger = owned
    clock = [0.0]
    moments = SimpleNamespace(time=lambda: time.time() + clock[0])
    monkeypatch.setattr("pyiceberg.table.snapshots.time", moments)
    for at, ahead_s in enumerate((3_600.0, 0.0, 3_600.0, 0.0)):
        clock[0] = ahead_s
        if at == 2:  # by a program whose clock is ahead, in PyIceberg's own way
            catalog.load_table(IDENTIFIER).append(table.table.scan().to_arrow())
        ledger = commit_staged(table, ledger, batch(table, at, at + 1))
        with catalog.load_table(IDENTIFIER).transaction() as change:
            change.set_properties({"at": str(at)})
    metadata = TableMetadataUtil.parse_raw(place_of(fresh(catalog).table.metadata_location).read_text())
    for log in (metadata.snapshot_log, metadata.metadata_log, metadata.snapshots):
        times = [entry.timestamp_ms for entry in log]
        assert times == sorted(times)
        assert times[-1] <= metadata.last_updated_ms
    assert metadata.snapshots[-1].timestamp_ms > time.time() * 1000 + 3_000_000


def test_an_older_epoch_never_commits(owned: Owned, catalog: Catalog) -> None:
    """Once a new owner has claimed the table, the old one is fenced (I5)."""
    table, ledger = owned
    other = fresh(catalog)
    other.claim(ledger.claimed(2, "second owner"), ledger)
    staged = batch(table, 0, 3)
    with pytest.raises(LostOwnershipError, match="epoch 2"):
        commit_staged(table, ledger, staged)
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
    after = commit_staged(table, ledger, batch(table, 0, 3))
    with pytest.raises(HeadMovedError, match="during the takeover"):
        other.claim(ledger.claimed(2, "too early"), ledger)
    other.claim(after.claimed(2, "planned again"), after)
    assert fresh(catalog).ledger == after.claimed(2, "planned again")


def test_foreign_snapshots_are_skipped(owned: Owned, catalog: Catalog) -> None:
    """Snapshots of other writers between ours do no harm to the ledger."""
    table, ledger = owned
    after = commit_staged(table, ledger, batch(table, 0, 3))
    foreign = catalog.load_table(IDENTIFIER)
    foreign.append(foreign.scan().to_arrow())
    assert fresh(catalog).ledger == after
    more = batch(table, 3, 5)
    commit_staged(table, after, more)
    assert fresh(catalog).table.scan().count() == 8


def test_changes_by_others_are_counted_and_own_ones_are_not(owned: Owned, catalog: Catalog) -> None:
    """Each commit that finds the table other than this owner left it: rows, tags, columns of somebody's."""
    table, ledger = owned

    def commit(first: int) -> int:
        nonlocal ledger
        ledger = commit_staged(table, ledger, batch(table, first, first + 2))
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
    after = commit_staged(table, ledger, batch(table, 0, 3))
    foreign = catalog.load_table(IDENTIFIER)
    foreign.append(foreign.scan().to_arrow())
    ours = [s.snapshot_id for s in foreign.metadata.snapshots[:-1]]
    tagged = foreign.metadata.refs[TAG].snapshot_id
    foreign.maintenance.expire_snapshots().by_ids([one for one in ours if one != tagged]).commit()
    assert fresh(catalog).ledger == after


@pytest.mark.parametrize("appends", [False, True])
def test_a_rollback_behind_the_ledger_stops(owned: Owned, catalog: Catalog, appends: bool) -> None:
    """The tag has kept a newer ledger, whose rows are gone: who went on there would lose them (I8)."""
    table, ledger = owned
    first, more = batch(table, 0, 3), batch(table, 3, 5)
    middle = commit_staged(table, ledger, first)
    foreign = catalog.load_table(IDENTIFIER)
    foreign.append(foreign.scan().to_arrow())
    theirs = foreign.metadata.current_snapshot_id
    assert theirs is not None
    after = commit_staged(fresh(catalog), middle, more)
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
def test_history_settles_unknown_outcomes(owned: Owned, catalog: Catalog, fault: object, there: bool) -> None:
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


@pytest.mark.parametrize("fault", [refused, sent_twice])
def test_another_writer_was_first(owned: Owned, catalog: Catalog, tmp_path: Path, fault: Any) -> None:
    """PyIceberg's own retry is off: one conflict is one HeadMovedError (I3), and leaves no manifests."""
    _, ledger = owned
    there = set(tmp_path.rglob("*.avro"))
    flaky = FlakyCatalog(catalog, [fault])
    table = fresh(flaky)  # type: ignore[arg-type]
    staged = batch(table, 0, 3)
    if fault is sent_twice:
        after = commit_staged(table, ledger, staged)
        assert fresh(catalog).ledger == after
        assert fresh(catalog).table.scan().to_arrow().num_rows == 3
        return
    with pytest.raises(HeadMovedError):
        commit_staged(table, ledger, staged)
    assert flaky.faults == []
    assert "commit.retry.num-retries" not in fresh(catalog).table.properties
    assert set(tmp_path.rglob("*.avro")) == there


def test_files_taken_away_are_planned_again(owned: Owned, catalog: Catalog, tmp_path: Path) -> None:
    """Somebody compacts what a commit was to remove: nothing is committed, and no manifest is left."""
    table, ledger = owned
    after = commit_staged(table, ledger, batch(table, 0, 3))
    read = list(table.table.scan().plan_files())
    foreign = catalog.load_table(IDENTIFIER)
    foreign.overwrite(foreign.scan().to_arrow())
    there = set(tmp_path.rglob("*.avro"))
    with pytest.raises(HeadMovedError, match="rewritten"):
        table.commit(after, rewritten(next_commit(after, batch(table, 3, 4)), read, ()))
    assert set(tmp_path.rglob("*.avro")) == there
    assert fresh(catalog).ledger == after


def _spec(table: Table) -> None:
    with table.update_spec() as update:
        update.add_identity("a")


def _drop_and_make(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("b", LongType())
        update.delete_column("a")
    with table.update_schema() as update:
        update.add_column("a", LongType())


@pytest.mark.parametrize(("act", "told"), [(_spec, "partition spec"), (_drop_and_make, "dropped a column")])
def test_unfit_files_start_over(
    owned: Owned, catalog: Catalog, act: Callable[[Table], None], told: str
) -> None:
    """Those of another spec, or of a dropped column, not even if one of that name comes back."""
    table, ledger = owned
    staged = batch(table, 0, 3)
    act(catalog.load_table(IDENTIFIER))
    with pytest.raises(StartOverError, match=told):
        commit_staged(table, ledger, staged)
    assert fresh(catalog).ledger == ledger


def test_a_renamed_and_wider_column_is_the_same(owned: Owned, catalog: Catalog) -> None:
    """Files have field ids, so their rows are committed."""
    table, ledger = owned
    staged = batch(table, 0, 3)
    with catalog.load_table(IDENTIFIER).update_schema() as update:
        update.update_column("a", LongType())
        update.rename_column("a", "b")
    commit_staged(table, ledger, staged)
    assert fresh(catalog).table.scan().to_arrow()["b"].to_pylist() == [0, 1, 2]


def test_a_newer_format_is_no_bug(owned: Owned, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyIceberg cannot write it: the topic says so and stops."""
    table, ledger = owned
    staged = batch(table, 0, 3)
    monkeypatch.setattr(commit, "VERSION", 1)
    with pytest.raises(ActionNeededError, match=r"format version 2.* another --table"):
        commit_staged(table, ledger, staged)
    with pytest.raises(ActionNeededError, match="format version 2"):
        table.check_writable(())
    assert fresh(catalog).ledger == ledger


def _come_and_go(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("note", LongType())
    with table.update_schema() as update:
        update.delete_column("note")


def _rename_and_back(table: Table) -> None:
    for old, new in (("a", "z"), ("z", "a")):
        with table.update_schema() as update:
            update.rename_column(old, new)


@pytest.mark.parametrize("act", [_come_and_go, _rename_and_back])
def test_schemas_that_came_and_went(owned: Owned, catalog: Catalog, act: Callable[[Table], None]) -> None:
    """The current schema is what it was, but the next ids are taken: the change is planned again."""
    table, _ = owned
    wider = Schema(*SCHEMA.fields, NestedField(2, "b", LongType(), required=False))
    act(catalog.load_table(IDENTIFIER))
    assert fresh(catalog).table.metadata.current_schema_id == table.table.metadata.current_schema_id
    with pytest.raises(HeadMovedError):
        table.evolve(wider, {}, epoch=1)
    ids = [schema.schema_id for schema in fresh(catalog).table.metadata.schemas]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("how", ["dropped", "replaced", "rolled back"])
def test_a_table_that_is_not_the_same_any_more_stops(owned: Owned, catalog: Catalog, how: str) -> None:
    """Dropped, replaced and rolled back tables are noticed, with a reason (I8)."""
    table, ledger = owned
    after = commit_staged(table, ledger, batch(table, 0, 3))
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
        commit_staged(table, after, more)


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
    commit_staged(table, ledger, staged)
    assert table.plan().metadata == before
    assert "snapshot-id" not in json.loads(before).get("refs", {})


def test_a_table_is_a_topics_own(catalog: Catalog) -> None:
    """A table of nobody or of another topic is refused by name; user properties reach it, never ours."""
    catalog.create_namespace("default")
    catalog.create_table(IDENTIFIER, SCHEMA)
    with pytest.raises(ActionNeededError, match="was not created by a table topic"):
        TopicTable.load(catalog, IDENTIFIER, TOPIC)
    catalog.drop_table(IDENTIFIER)
    catalog.create_table(IDENTIFIER, SCHEMA, properties={"tabletopic.topic": "orders"})
    with pytest.raises(ActionNeededError, match="'orders'"):
        TopicTable.load(catalog, IDENTIFIER, TOPIC)


def test_sweep_removes_only_what_nobody_refers_to(owned: Owned, catalog: Catalog, tmp_path: Path) -> None:
    """Files of finished epochs go unless some snapshot has them; the own epoch's and others' stay (I10)."""
    table, ledger = owned
    committed = batch(table, 0, 3, epoch=1)
    after = commit_staged(table, ledger, committed)
    left = write_rows(table, 2, epoch=1)
    claimed = after.claimed(2, "second")
    table.claim(claimed, after)
    own = write_rows(table, 2, epoch=2)
    foreign = tmp_path / "warehouse" / "default" / "clicks" / "data" / "foreign.parquet"
    foreign.write_bytes(b"x")
    assert sweep(table.table, after_epoch=0, before_epoch=2) == len(left)
    for file in (*committed.files, *own):
        assert place_of(file.file_path).exists()
    assert foreign.exists()
    assert not any(place_of(file.file_path).exists() for file in left)
    assert sweep(table.table, after_epoch=0, before_epoch=2) == 0


def test_sweep_keeps_files_of_older_snapshots(owned: Owned, catalog: Catalog) -> None:
    """A file that compaction replaced is still there for time travel."""
    table, ledger = owned
    staged = batch(table, 0, 3, epoch=1)
    after = commit_staged(table, ledger, staged)
    current = catalog.load_table(IDENTIFIER)
    current.overwrite(current.scan().to_arrow())
    table.reload()
    table.claim(replace(after, epoch=2, commit_id="second"), after)
    assert sweep(table.table, after_epoch=0, before_epoch=2) == 0
    assert place_of(staged.files[0].file_path).exists()


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
    assert table.table.schema().identifier_field_names() == set()


def as_s3_tables(monkeypatch: pytest.MonkeyPatch, *catalogs: Catalog) -> None:
    """Let the catalogs be known as S3 Tables'."""
    for catalog in catalogs:
        monkeypatch.setitem(catalog.properties, "rest.signing-name", "s3tables")


def test_where_a_tag_stops_expiry_a_property_keeps_the_ledger(
    owned: Owned, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 Tables expire no snapshot of a table with kept tags: it has none, and the ledger outlives all."""
    table, ledger = owned
    as_s3_tables(monkeypatch, catalog, table.table.catalog)
    after = commit_staged(table, ledger, batch(table, 0, 3))
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


def test_a_property_tells_of_rollbacks(
    owned: Owned, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that was rolled back to another program's old snapshot takes no commit (I8)."""
    table, ledger = owned
    as_s3_tables(monkeypatch, catalog, table.table.catalog)
    foreign = catalog.load_table(IDENTIFIER)
    foreign.append(foreign.scan().to_arrow())
    old = foreign.current_snapshot()
    after = commit_staged(table, ledger, batch(table, 0, 3))
    foreign.refresh()
    foreign.manage_snapshots().rollback_to_snapshot(old.snapshot_id).commit()
    gone = [s.snapshot_id for s in foreign.metadata.snapshots if s.snapshot_id != old.snapshot_id]
    foreign.maintenance.expire_snapshots().by_ids(gone).commit()
    with pytest.raises(ActionNeededError, match="rolled back"):
        fresh(catalog).claim(after.for_next_owner(1), after)
