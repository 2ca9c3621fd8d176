"""A table whose history others have expired: whether the ledger kept by the tag may be resumed from."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from tabletopic_kernel.model.columns.table_columns import metadata_columns
from tabletopic_kernel.model.errors import ActionNeededError
from tabletopic_kernel.model.ledger import PREFIX, TAG, Ledger, StagedOffsets
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.conform import conform, file_schema
from tabletopic_kernel.pipeline.plan import Replaced, StagedBatch
from tabletopic_kernel.pipeline.rewrite import RewriteTask, SmallFile
from tabletopic_kernel.pipeline.write import DataFileWriter
from tabletopic_kernel.table.changes.change import appended
from tabletopic_kernel.table.changes.ledger_history import summary
from tabletopic_kernel.table.compaction.plan import plan_compaction
from tabletopic_kernel.table.compaction.replace import compacted
from tabletopic_kernel.table.topic_table import TopicTable
from tests.drill import foreign
from tests.table.samples import IDENTIFIER, SCHEMA, TOPIC, next_commit

Act = Callable[[Table], object]


def _stage(table: TopicTable, start: int, end: int) -> StagedBatch:
    """Rows of offsets ``start`` to ``end`` of partition 0."""
    plan = table.plan()
    writer = DataFileWriter(plan.metadata, plan.io_properties, 1)
    target = file_schema(writer.schema)
    columns = {"a": pa.array(range(start, end), pa.int32())}
    if "_kafka_metadata" in target.names:
        places = [{"partition": 0, "offset": at, "timestamp": None} for at in range(start, end)]
        columns["_kafka_metadata"] = pa.array(places, target.field("_kafka_metadata").type)
    files = writer.write(pa.Table.from_batches([conform(columns, end - start, target)]))
    return StagedBatch(StagedOffsets({0: start}, {0: end}, {0: 1}), tuple(files), end - start, 0.1)


@pytest.fixture
def owned(catalog: Catalog, request: pytest.FixtureRequest) -> tuple[TopicTable, list[Ledger]]:
    """A table with three commits of ten rows, its places in a column unless the test wants none."""
    settings = TopicSettings(metadata_columns=() if getattr(request, "param", None) else ("metadata",))
    schema = Schema(*SCHEMA.fields, *metadata_columns(settings))
    spec = UNPARTITIONED_PARTITION_SPEC
    table = TopicTable.create(catalog, IDENTIFIER, schema, spec, TOPIC, settings)
    ledgers = [Ledger(TOPIC, "cluster", "topic-id", {0: 0}, 1, "claim")]
    table.claim(ledgers[0], None)
    for at in range(3):
        staged = _stage(table, 10 * at, 10 * at + 10)
        after = next_commit(ledgers[-1], staged)
        table.commit(ledgers[-1], appended(after, staged.files))
        ledgers.append(after)
    return table, ledgers


def _rolls_back(table: Table) -> None:
    """By one commit."""
    parent = table.metadata.snapshot_by_id(table.metadata.current_snapshot_id or 0)
    assert parent.parent_snapshot_id is not None
    table.manage_snapshots().rollback_to_snapshot(parent.parent_snapshot_id).commit()


def _appends(table: Table) -> None:
    table.append(pa.table({"a": pa.array([1], pa.int32())}))


def _rewrites(table: Table) -> None:
    """All rows, into one file."""
    table.overwrite(table.scan().to_arrow())


def _deletes_new_rows(table: Table) -> None:
    table.delete("a >= 25")


def _expires(table: Table) -> None:
    foreign.expire(table, random.Random(1))
    kept = {ref.snapshot_id for ref in table.refresh().metadata.refs.values()}
    assert {snapshot.snapshot_id for snapshot in table.metadata.snapshots} == kept


def _next_owner(catalog: Catalog, ledger: Ledger, acts: Sequence[Act]) -> None:
    """Claims the table after others did this, one after the other."""
    table = catalog.load_table(IDENTIFIER)
    for act in acts:
        act(table.refresh())
    found = TopicTable.load(catalog, IDENTIFIER, TOPIC)
    assert found.ledger == ledger
    found.claim(ledger.claimed(ledger.epoch + 1, "next owner"), ledger)
    assert catalog.load_table(IDENTIFIER).metadata.refs[TAG]


@pytest.mark.parametrize(
    "acts",
    [
        [_rolls_back, _appends, _expires],
        [_rolls_back, _appends, _appends, _expires],
        [_rolls_back, _rewrites, _expires],
        [_rolls_back, _appends, _rewrites, _expires],
        [_rewrites, _deletes_new_rows, _expires],  # nobody can tell that from a rollback
    ],
)
def test_rows_that_were_taken_back_are_missed(
    owned: tuple[TopicTable, list[Ledger]], catalog: Catalog, acts: Sequence[Act]
) -> None:
    """No snapshot tells of the rollback any more; who went on from the kept ledger would lose rows (I8)."""
    with pytest.raises(ActionNeededError, match=r"rolled back.*and delete again what others deleted"):
        _next_owner(catalog, owned[1][-1], acts)


@pytest.mark.parametrize(
    "acts",
    [
        [_appends, _appends, _expires],
        [_rewrites, _appends, _expires],
        [_appends, _rewrites, _rewrites, _expires],
        [_rewrites, _expires],
    ],
)
def test_who_only_appends_or_rewrites_stops_nobody(
    owned: tuple[TopicTable, list[Ledger]], catalog: Catalog, acts: Sequence[Act]
) -> None:
    """The rows of the newest commit are there, in whatever file: the topic goes on (I9)."""
    _next_owner(catalog, owned[1][-1], acts)


@pytest.mark.parametrize("owned", ["without places"], indirect=True)
def test_without_places_a_rewrite_needs_a_person(
    owned: tuple[TopicTable, list[Ledger]], catalog: Catalog
) -> None:
    """Nobody can tell whether the new files have the rows."""
    with pytest.raises(ActionNeededError, match="rolled back"):
        _next_owner(catalog, owned[1][-1], [_rewrites, _appends, _expires])


def _puts_together(found: TopicTable, ledger: Ledger) -> Ledger:
    """The owner's compaction of all but the newest file."""
    plan = plan_compaction(found.table, due_only=False)
    files = plan.groups[0].files[:-1]
    small = tuple(SmallFile(file.file_path, file.record_count) for file in files)
    made = RewriteTask(found.plan(), 1, small, files[0].partition).run()
    after = replace(ledger, commit_id="compaction")
    found.commit(ledger, compacted(after, made.files, Replaced(files, plan.delete_files)))
    return after


def _rolls_back_twice(table: Table) -> None:
    """Behind a compaction, and the commit of rows before it."""
    _rolls_back(table)
    _rolls_back(table.refresh())


@pytest.mark.parametrize("then", [_appends, _rewrites])
def test_merged_rows_prove_nothing(
    owned: tuple[TopicTable, list[Ledger]], catalog: Catalog, then: Act
) -> None:
    """The newest file of the kept ledger has old rows, which are there; the newest rows are not (I8)."""
    table, ledgers = owned
    table.reload()
    after = _puts_together(table, ledgers[-1])
    with pytest.raises(ActionNeededError, match="rolled back"):
        _next_owner(catalog, after, [_rolls_back_twice, then, _expires])


@pytest.mark.parametrize("acts", [[_appends, _expires], [_rewrites, _appends, _expires]])
def test_after_a_compaction_who_appends_or_rewrites_stops_nobody(
    owned: tuple[TopicTable, list[Ledger]], catalog: Catalog, acts: Sequence[Act]
) -> None:
    """The rows of the newest commit are there, and those that were put together."""
    table, ledgers = owned
    table.reload()
    after = _puts_together(table, ledgers[-1])
    _next_owner(catalog, after, acts)


def _rewrites_old_rows(table: Table) -> None:
    """All but those of the newest commit, into one file."""
    rows = table.scan(row_filter="a < 20").to_arrow()
    table.overwrite(rows, overwrite_filter="a < 20")


def _rolls_back_to(ledger: Ledger) -> Act:
    """To the snapshot of a commit of ours."""

    def act(table: Table) -> None:
        (snapshot,) = [
            one.snapshot_id
            for one in table.metadata.snapshots
            if summary(one).get(f"{PREFIX}commit-id") == ledger.commit_id
        ]
        table.manage_snapshots().set_current_snapshot(snapshot_id=snapshot).commit()

    return act


def _claims(table: TopicTable, ledger: Ledger) -> Ledger:
    """Another owner's, after what others did: the tag keeps its snapshot then."""
    table.reload()
    after = ledger.claimed(2, "claim after a rewrite")
    table.claim(after, ledger)
    return after


def _commits(table: TopicTable, ledger: Ledger) -> Ledger:
    """A commit without rows of ours, as of records that ask for none."""
    table.reload()
    after = next_commit(ledger, StagedBatch(StagedOffsets({0: 30}, {0: 31}, {0: 1}), (), 0, 0.1))
    table.commit(ledger, appended(after, ()))
    return after


@pytest.mark.parametrize("ours", [_claims, _commits])
@pytest.mark.parametrize("then", [_appends, _rewrites])
def test_rows_that_others_rewrote_prove_nothing(
    owned: tuple[TopicTable, list[Ledger]],
    catalog: Catalog,
    ours: Callable[[TopicTable, Ledger], Ledger],
    then: Act,
) -> None:
    """The newest file of the kept ledger is another program's, of old rows; the newest rows are gone (I8)."""
    table, ledgers = owned
    _rewrites_old_rows(catalog.load_table(IDENTIFIER))
    after = ours(table, ledgers[-1])
    with pytest.raises(ActionNeededError, match="rolled back"):
        _next_owner(catalog, after, [_rolls_back_to(ledgers[2]), then, _expires])


@pytest.mark.parametrize("ours", [_claims, _commits])
@pytest.mark.parametrize("acts", [[_appends, _expires], [_appends, _rewrites, _expires]])
@pytest.mark.parametrize("rewrites", [_rewrites, _rewrites_old_rows])
def test_after_a_rewrite_by_others_who_appends_or_rewrites_stops_nobody(
    owned: tuple[TopicTable, list[Ledger]],
    catalog: Catalog,
    rewrites: Act,
    acts: Sequence[Act],
    ours: Callable[[TopicTable, Ledger], Ledger],
) -> None:
    """Every row of the kept ledger is there, in whatever file (I9)."""
    table, ledgers = owned
    rewrites(catalog.load_table(IDENTIFIER))
    _next_owner(catalog, ours(table, ledgers[-1]), acts)
