"""Compaction of a table: the same rows, in fewer files, whatever others do in the meantime."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tabletopic_kernel.model.errors import ActionNeededError, LostOwnershipError, OutdatedError, UsageError
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.pipeline.write import REWRITTEN
from tabletopic_kernel.table.changes.ledger_history import summary
from tabletopic_kernel.table.topic_table import TopicTable
from tests.table.foreign_deletes import delete_rows
from tests.table.lake import Lake, Rows, read_file

ALL = Schema(
    NestedField(1, "n", IntegerType(), required=True),
    NestedField(2, "l", LongType(), required=False),
    NestedField(3, "f", FloatType(), required=False),
    NestedField(4, "d", DoubleType(), required=False),
    NestedField(5, "b", BooleanType(), required=False),
    NestedField(6, "dec", DecimalType(20, 4), required=False),
    NestedField(7, "day", DateType(), required=False),
    NestedField(8, "t", TimeType(), required=False),
    NestedField(9, "ts", TimestampType(), required=False),
    NestedField(10, "tz", TimestamptzType(), required=False),
    NestedField(11, "s", StringType(), required=False),
    NestedField(12, "raw", BinaryType(), required=False),
    NestedField(13, "fix", FixedType(3), required=False),
    NestedField(14, "u", UUIDType(), required=False),
    NestedField(
        15,
        "people",
        ListType(
            16,
            StructType(
                NestedField(17, "name", StringType(), required=True),
                NestedField(18, "ages", ListType(19, IntegerType(), False), required=False),
            ),
            False,
        ),
        required=False,
    ),
    NestedField(20, "m", MapType(21, StringType(), 22, LongType(), False), required=False),
    NestedField(
        23, "at", StructType(NestedField(24, "x", DoubleType(), required=True)), required=False, doc="where"
    ),
)


def _all_types(at: int) -> Rows:
    """Three rows: full, null wherever that may be, and empty."""
    utc = dt.UTC
    full = {
        "l": 2**40 + at, "f": 1.5, "d": 2.5, "b": True, "dec": Decimal("12.3400"), "day": dt.date(2026, 1, 1),
        "t": dt.time(1, 2, 3), "ts": dt.datetime(2026, 1, 1), "tz": dt.datetime(2026, 1, 1, tzinfo=utc),
        "s": f"ä{at}", "raw": b"\0\1", "fix": b"abc", "u": uuid.UUID(int=at).bytes,
        "people": [{"name": "a", "ages": None}, None, {"name": "b", "ages": []}], "m": {"k": None}.items(),
        "at": {"x": 1.0},
    }  # fmt: skip
    empty = {"s": "", "raw": b"", "people": [], "m": {}.items()}
    rows: list[dict[str, Any]] = [full, {}, empty]
    names = [field.name for field in ALL.fields]
    found: Rows = {
        name: [list(v) if name == "m" and (v := row.get(name)) is not None else row.get(name) for row in rows]
        for name in names
    }
    return {**found, "n": [at, at + 1, at + 2]}


def test_every_type_and_every_null_is_the_same(catalog: Catalog) -> None:
    """Null lists of structs stay null, empty ones empty, and required fields below null structs are none."""
    lake = Lake(catalog, ALL)
    for at in range(5):
        lake.append(_all_types(10 * at))
    before, raw = lake.rows(), lake.raw()
    assert any(row["people"] is None for row in raw)
    plan = lake.compact()
    assert [len(group.files) for group in plan.groups] == [5]
    (file,) = lake.files()
    assert lake.rows() == before
    assert lake.raw() == raw
    assert file.file_path.endswith(REWRITTEN)
    assert file.record_count == 15
    assert (file.lower_bounds[1], file.upper_bounds[1]) == (b"\0\0\0\0", b"\x2a\0\0\0")


SIMPLE = Schema(NestedField(1, "a", IntegerType(), required=False))


def test_a_compaction_is_no_commit_of_rows(catalog: Catalog) -> None:
    """Operation ``replace``; the ledger is in the head as it was, under an id of its own; totals add up."""
    lake = Lake(catalog, SIMPLE)
    for at in range(4):
        lake.append({"a": [at, None]})
    before = lake.ledger
    lake.compact()
    table = lake.table
    head = table.current_snapshot()
    assert head.summary.operation.value == "replace"
    ledger = Ledger.from_summary(summary(head))
    assert ledger == replace(before, commit_id=lake.ledger.commit_id)
    assert lake.ledger.commit_id != before.commit_id
    assert table.metadata.refs["tabletopic-ledger"].snapshot_id == head.snapshot_id
    told = summary(head)
    assert (told["total-records"], told["total-data-files"]) == ("8", "1")
    lake.append({"a": [9]})
    assert [row["a"] for row in lake.rows()].count(9) == 1


@pytest.mark.parametrize("upgraded", [False, True])
def test_files_of_format_version_1_are_data_files(catalog: Catalog, upgraded: bool) -> None:
    """Their manifests do not say so; deletes of rows come with version 2."""
    lake = Lake(catalog, SIMPLE, table_properties={"format-version": "1"})
    for at in range(4):
        lake.append({"a": [2 * at, 2 * at + 1]})
    if upgraded:
        with lake.table.transaction() as change:
            change.upgrade_table_version(2)
        delete_rows(lake.table, {lake.files()[0].file_path: [0]})
        lake.append({"a": [8, 9]})
    before = lake.rows()
    assert len(before) == (9 if upgraded else 8)
    plan = lake.compact()
    assert (plan.files, len(plan.delete_files), plan.left) == (5 if upgraded else 4, int(upgraded), {})
    assert (len(lake.files()), lake.rows()) == (1, before)


def test_rows_stand_in_the_order_of_their_commits(catalog: Catalog) -> None:
    """Neighbours stay together; what was put together is put together again with more, nothing twice."""
    lake = Lake(catalog, SIMPLE)
    for at in range(6):
        lake.append({"a": [2 * at, 2 * at + 1]})
    lake.compact()
    assert read_file(lake.files()[0].file_path)["a"].to_pylist() == list(range(12))


@pytest.mark.parametrize(
    "by",
    [
        ("a",), ("bucket(3, s)",), ("truncate(2, s)",), ("day(tz)",), ("hour(tz)",), ("month(tz)",),
        ("year(tz)",), ("day", "bucket(2, a)"), ("s",), ("dec",),
    ],
)  # fmt: skip
def test_rows_stay_in_their_partitions(catalog: Catalog, by: tuple[str, ...]) -> None:
    """Each partition by itself, null ones too, with the same partition values as before."""
    fields = [NestedField(1, "a", IntegerType(), required=False)] + [
        field for field in ALL.fields if field.name in ("s", "tz", "day", "dec")
    ]
    lake = Lake(catalog, Schema(*fields), by)
    start = dt.datetime(2025, 12, 31, 23, tzinfo=dt.UTC)
    for at in range(4):
        days = [dt.date(2026, 1, 1), dt.date(1969, 12, 31), None]
        lake.append(
            {
                "a": [0, 1, None], "s": ["abc", "xyz", None], "day": days,
                "dec": [Decimal("1.5000"), Decimal("-3.0000"), None],
                "tz": [start, start + dt.timedelta(hours=2, seconds=at), None],
            }
        )  # fmt: skip
    before = lake.rows()
    partitions = {str(file.partition) for file in lake.files()}
    lake.compact()
    assert lake.rows() == before
    assert len(lake.files()) == len(partitions) < 12
    assert {str(file.partition) for file in lake.files()} == partitions


def test_a_file_in_the_wrong_partition_stops_its_compaction(catalog: Catalog) -> None:
    """What others have put where it does not belong is not moved, nor mended."""
    lake = Lake(catalog, SIMPLE, ("a",))
    lake.append({"a": [1]})
    lake.append({"a": [1]})
    (group,) = lake.plan().groups
    for file in group.files:
        file[3] = Record(2)
    with pytest.raises(ActionNeededError, match="belong to"):
        lake.rewrite(group)


def test_versions_of_the_schema_are_put_together_apart(catalog: Catalog) -> None:
    """Added, renamed, widened, dropped columns: each file keeps the schema that it was written with."""
    lake = Lake(catalog, Schema(*SIMPLE.fields, NestedField(2, "old", StringType(), required=False)))
    lake.append({"a": [1], "old": ["x"]})
    lake.append({"a": [2], "old": ["y"]})
    with lake.table.update_schema() as change:
        change.add_column("c", StringType())
        change.rename_column("old", "new")
    for at in (3, 4):
        lake.append({"a": [at], "new": ["z"], "c": ["c"]})
    with lake.table.update_schema() as change:
        change.update_column("a", LongType())
        change.delete_column("c")
    for at in (2**40, 2**41):
        lake.append({"a": [at], "new": ["w"]})
    with lake.table.update_schema() as change:
        change.add_column("c", StringType())  # of the name of before, and another column
    before = lake.rows()
    lake.compact()
    assert lake.rows() == before
    assert sorted(file.record_count for file in lake.files()) == [2, 2, 2]
    names = sorted(tuple(read_file(file.file_path).schema.names) for file in lake.files())
    assert names == [("a", "new"), ("a", "new", "c"), ("a", "old")]


def test_fields_inside_maps_are_completed(catalog: Catalog) -> None:
    """A single file gets the fields that its map lacks, of a request alone, unless one was renamed; once."""
    inner = StructType(NestedField(4, "a", IntegerType(), required=True))
    people = NestedField(1, "m", MapType(2, StringType(), 3, inner, False), required=False)
    lake = Lake(catalog, Schema(people, NestedField(5, "t", StringType(), required=False)))
    lake.append({"m": [[("p", {"a": 1}), ("q", None)], [], None], "t": ["x", None, "y"]})
    with lake.table.update_schema() as change:
        change.add_column(("m", "b"), StringType())
        change.add_column("c", LongType())
    before, (old,) = lake.rows(), lake.files()
    assert not lake.plan(due_only=True).groups
    lake.topic.reload()
    assert [len(group.files) for group in lake.compact().groups] == [1]
    (file,) = lake.files()
    assert file.column_sizes.keys() - old.column_sizes.keys() == {6, 7}
    assert lake.rows() == before
    assert [row["m"] for row in lake.raw()] == [None, [("p", {"a": 1, "b": None}), ("q", None)], []]
    assert not lake.plan().groups
    with lake.table.update_schema() as change:
        change.add_column(("m", "d"), StringType())
        change.rename_column("t", "text")
    assert not lake.plan().groups


def test_files_of_no_version_stay(catalog: Catalog) -> None:
    """Another engine's strings are of another kind: not sure, so not touched."""
    lake = Lake(catalog, Schema(NestedField(1, "s", StringType(), required=False)))
    lake.append({"s": ["ours"]})
    lake.append({"s": ["ours"]})
    foreign = pa.schema([pa.field("s", pa.string(), metadata={"PARQUET:field_id": "1"})])
    names = []
    for at in range(2):
        names.append(f"{lake.table.location()}/data/foreign-{at}.parquet")
        pq.write_table(
            pa.table({"s": ["theirs"]}, foreign), names[-1].removeprefix("file://"), store_schema=False
        )
    _append_files(lake.table, names)
    before = lake.rows()
    plan = lake.plan()
    made = lake.rewrite(plan.groups[0])
    assert made.left == {"written with a schema that the table never had": 2}
    lake.commit(plan.groups[0], made, plan.delete_files)
    assert lake.rows() == before
    assert {file.file_path for file in lake.files()} > set(names)


def _append_files(table: Table, paths: Iterable[str]) -> None:
    """As another engine does: files with field ids, which ``add_files`` does not take."""
    with table.transaction() as transaction:
        producer = transaction.update_snapshot().fast_append()
        assert isinstance(producer, _FastAppendFiles)
        for path in paths:
            size = len(table.io.new_input(path))
            file = DataFile.from_args(
                content=DataFileContent.DATA, file_path=path, file_format=FileFormat.PARQUET,
                partition=Record(), record_count=1, file_size_in_bytes=size,
            )  # fmt: skip
            file.spec_id = 0
            producer.append_data_file(file)
        producer.commit()


def test_what_is_due_is_put_together_by_tiers(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """32 of a tier become one that is not due with the next 31, and 1,024 rows are rewritten once each."""
    lake = Lake(catalog, SIMPLE)
    for at in range(31):
        lake.append({"a": [at]})
    assert lake.plan(due_only=True).groups == ()
    lake.append({"a": [31]})
    assert [len(group.files) for group in lake.compact(due_only=True).groups] == [32]
    for at in range(31):
        lake.append({"a": [at]})
    # The parts of a Parquet file that say what it is are larger than its rows here, so sizes are made up.
    sizes = {file.file_path: 2_000_000 for file in lake.files() if file.file_path.endswith(REWRITTEN)}
    small = DataFile.file_size_in_bytes
    monkeypatch.setattr(
        DataFile,
        "file_size_in_bytes",
        property(lambda self: sizes.get(self.file_path, small.fget(self))),  # type: ignore[attr-defined]
    )
    assert lake.plan(due_only=True).groups == ()
    lake.append({"a": [31]})
    (group,) = lake.plan(due_only=True).groups
    assert [file.record_count for file in group.files] == [1] * 32


def test_where_limits_a_compaction(catalog: Catalog) -> None:
    """To files that may have such rows; what cannot be read is said at once."""
    lake = Lake(catalog, SIMPLE)
    for at in range(6):
        lake.append({"a": [at]})
    lake.compact("a >= 4")
    assert sorted(file.record_count for file in lake.files()) == [1, 1, 1, 1, 2]
    for wrong in ("b = 1", "a ==== 1"):
        with pytest.raises(UsageError, match="cannot read the condition"):
            lake.plan(wrong)


# -- others at work


def _copies(lake: Lake) -> None:
    """Some rows go, copy on write."""
    lake.table.delete("a = 1")


def _rolls_back(lake: Lake) -> None:
    table = lake.table
    head = table.current_snapshot()
    assert head.parent_snapshot_id is not None
    table.manage_snapshots().rollback_to_snapshot(head.parent_snapshot_id).commit()


def _overwrites(lake: Lake) -> None:
    lake.table.overwrite(lake.table.scan().to_arrow())


def _deletes_positions(lake: Lake, *, equality: bool = False) -> None:
    """Merge on read: the first row of the first file, by a file of deletes."""
    victim = next(iter(lake.table.scan().plan_files())).file
    delete_rows(lake.table, {victim.file_path: [0]}, equality=equality)


@pytest.fixture
def lake(catalog: Catalog) -> Lake:
    """A table with four files."""
    made = Lake(catalog, SIMPLE)
    for at in range(4):
        made.append({"a": [at, at]})
    return made


@pytest.mark.parametrize("act", [_copies, _overwrites])
def test_a_compaction_that_others_overtook_is_given_up(lake: Lake, act: Callable[[Lake], None]) -> None:
    """Rows that were deleted meanwhile do not come back, and none that was rewritten is there twice."""
    plan = lake.plan()
    made = lake.rewrite(plan.groups[0])
    act(lake)
    before = lake.rows()
    with pytest.raises(OutdatedError, match="another program"):
        lake.commit(plan.groups[0], made, plan.delete_files)
    assert lake.rows() == before
    assert lake.topic.ledger == lake.ledger
    lake.compact()
    assert lake.rows() == before
    assert len(lake.files()) == 1


def test_a_rollback_meanwhile_stops_the_topic_as_for_rows(lake: Lake) -> None:
    """It is the ledger that is gone, and only a person knows where to go on (I8)."""
    plan = lake.plan()
    made = lake.rewrite(plan.groups[0])
    _rolls_back(lake)
    with pytest.raises(ActionNeededError, match="rolled back"):
        lake.commit(plan.groups[0], made, plan.delete_files)


def test_a_foreign_append_makes_it_lose_nothing(lake: Lake) -> None:
    """The commit is planned anew on the head that it finds."""
    plan = lake.plan()
    made = lake.rewrite(plan.groups[0])
    lake.table.append(pa.table({"a": pa.array([77], pa.int32())}))
    before = lake.rows()
    lake.commit(plan.groups[0], made, plan.delete_files)
    assert lake.rows() == before
    assert len(lake.files()) == 2


def test_other_partitions_meanwhile(lake: Lake) -> None:
    """Files of the specs of before are no part of any compaction, and none of a new one is put into them."""
    plan = lake.plan()
    made = lake.rewrite(plan.groups[0])
    with lake.table.update_spec() as spec:
        spec.add_identity("a")
    with pytest.raises(OutdatedError, match="partitions"):
        lake.commit(plan.groups[0], made, plan.delete_files)
    assert lake.plan().groups == ()
    assert lake.plan().left == {"in partitions of an earlier spec": 4}


def test_an_older_epoch_never_commits(lake: Lake) -> None:
    """The next owner's claim is enough (I5)."""
    plan = lake.plan()
    made = lake.rewrite(plan.groups[0])
    TopicTable(lake.table).claim(lake.ledger.claimed(2, "next"), lake.ledger)
    with pytest.raises(LostOwnershipError):
        lake.commit(plan.groups[0], made, plan.delete_files)


def test_equality_deletes_stop_all_compaction(lake: Lake) -> None:
    """Which rows they delete depends on when a file came."""
    _deletes_positions(lake, equality=True)
    plan = lake.plan()
    assert plan.groups == ()
    assert plan.refused is not None
    assert "equality deletes" in plan.refused


def test_a_file_that_was_added_twice_stops_all_compaction(lake: Lake) -> None:
    """Its rows are there twice, and to replace it once would take both away; also where it comes late."""
    plan = lake.plan()
    made = lake.rewrite(plan.groups[0])
    lake.table.add_files([lake.files()[0].file_path], check_duplicate_files=False)
    before = lake.rows()
    with pytest.raises(OutdatedError, match="again during"):
        lake.commit(plan.groups[0], made, plan.delete_files)
    assert lake.rows() == before
    assert len(before) == 10
    assert lake.plan().groups == ()
    assert "a file twice" in (lake.plan().refused or "")


def test_null_is_not_the_text_null(catalog: Catalog) -> None:
    """Two partitions that read the same."""
    lake = Lake(catalog, Schema(NestedField(1, "s", StringType(), required=False)), ("s",))
    for _ in range(3):
        lake.append({"s": [None, "null", ""]})
    before = lake.rows()
    lake.compact()
    assert lake.rows() == before
    assert len(lake.files()) == 3


def test_partitions_that_equal_nothing_stay(catalog: Catalog) -> None:
    """Null is not the text null, and nobody can tell which deletes are of a partition of NaN."""
    lake = Lake(catalog, Schema(NestedField(1, "d", DoubleType(), required=False)), ("d",))
    for _ in range(2):
        lake.append({"d": [math.nan, 0.0, -0.0, None, math.inf]})
    before = lake.rows()
    plan = lake.compact()
    assert plan.left == {"in a partition of NaN": 2}
    assert str(lake.rows()) == str(before)
    assert len(lake.files()) == 6


def test_rows_that_do_not_add_up_are_not_committed(lake: Lake) -> None:
    """A file with other rows than the table says is nobody's to rewrite."""
    group = lake.plan().groups[0]
    group.files[1][4] = 3
    with pytest.raises(ActionNeededError, match="has 2 rows, but the table says 3"):
        lake.rewrite(group)
