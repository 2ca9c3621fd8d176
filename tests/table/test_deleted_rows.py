"""Compaction of rows deleted by others by position: none comes back, none is lost, whenever it happens."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.clients.catalog.pyiceberg_seams.snapshots import DELETES
from tabletopic_kernel.model.errors import HeadMovedError, OutdatedError
from tabletopic_kernel.pipeline import rewrite
from tabletopic_kernel.pipeline.rewrite import RewriteResult
from tabletopic_kernel.query.duckdb import DuckLake
from tabletopic_kernel.table.changes import commit, way_back
from tabletopic_kernel.table.changes.ledger_history import live_rows, summary
from tabletopic_kernel.table.changes.lineage import has_newest_rows
from tabletopic_kernel.table.compaction import plan as compaction
from tabletopic_kernel.table.compaction.plan import CompactionPlan
from tests.table.foreign_deletes import delete_files, delete_rows, remove_delete_file
from tests.table.lake import Lake
from tests.table.samples import FlakyCatalog, refused

SCHEMA = Schema(
    NestedField(1, "n", LongType(), required=True), NestedField(2, "part", IntegerType(), required=False)
)


def _lake(catalog: Catalog, sizes: tuple[int, ...] = (4, 4, 4), by: tuple[str, ...] = ()) -> Lake:
    """Files of so many rows, numbered from 0."""
    lake, start = Lake(catalog, SCHEMA, by), 0
    for size in sizes:
        lake.append({"n": list(range(start, start + size)), "part": [0] * size})
        start += size
    return lake


@pytest.fixture
def lake(catalog: Catalog) -> Lake:
    """Three files of four rows."""
    return _lake(catalog)


def _numbers(lake: Lake) -> list[int]:
    """Of the rows that are there, as PyIceberg reads them."""
    return sorted(lake.table.scan().to_arrow()["n"].to_pylist())


def _paths(lake: Lake) -> list[str]:
    """Data files in the order of their rows."""
    return sorted((file.file_path for file in lake.files()), key=_first)


def _first(path: str) -> int:
    return int(pq.read_table(path.removeprefix("file://"))["n"][0].as_py())


def _rewritten(lake: Lake) -> tuple[CompactionPlan, RewriteResult]:
    """Planned and rewritten, not committed."""
    plan = lake.plan()
    return plan, lake.rewrite(plan.groups[0])


def test_deleted_rows_are_left_out_and_their_delete_files_go(lake: Lake) -> None:
    """The same position in two delete files counts once, and one that no row has for nothing."""
    first, second, _ = _paths(lake)
    delete_rows(lake.table, {first: [1, 2], second: [0]})
    delete_rows(lake.table, {first: [2, 99]})
    before = _numbers(lake)
    plan, made = _rewritten(lake)
    assert plan.left == {}
    assert sum(one.dropped_rows for one in made.moved) == 3
    lake.commit(plan.groups[0], made, plan.delete_files)
    assert _numbers(lake) == before == [0, 3, 5, 6, 7, 8, 9, 10, 11]
    assert [file.record_count for file in lake.files()] == [9]
    assert delete_files(lake.table) == []
    head = lake.table.current_snapshot()
    told = summary(head)
    assert head.summary.operation.value == "replace"
    names = ("total-records", "total-delete-files", "total-position-deletes", "removed-delete-files")
    assert [told[name] for name in names] == ["9", "0", "0", "2"]
    lake.append({"n": [50], "part": [0]})
    assert _numbers(lake) == [*before, 50]


def _live(lake: Lake) -> int:
    """The rows that are there, as `status` counts them."""
    return live_rows(summary(lake.table.current_snapshot()))


@pytest.mark.parametrize("with_bounds", [False, True])
def test_a_delete_file_keeps_the_positions_of_files_that_stay(lake: Lake, with_bounds: bool) -> None:
    """It is written again without those of rewritten files, with those that come meanwhile; then it goes."""
    first, second, third = _paths(lake)
    delete_rows(lake.table, {first: [0], second: [0], third: [3]}, with_bounds=with_bounds)
    plan = lake.plan("n < 8")
    made = lake.rewrite(plan.groups[0])
    delete_rows(lake.table, {second: [2], third: [1]})
    lake.commit(plan.groups[0], made, plan.delete_files)
    assert _numbers(lake) == [1, 2, 3, 5, 7, 8, 10]
    duck = DuckLake(lake.catalog).sql("select n from lake.default.clicks order by n")
    assert duck["n"].to_pylist() == _numbers(lake)
    assert [file.record_count for file in delete_files(lake.table)] == [3]
    assert _live(lake) == 7
    assert has_newest_rows(lake.table, lake.table.snapshots()[-2])
    lake.compact()
    assert (_numbers(lake), _live(lake), delete_files(lake.table)) == ([1, 2, 3, 5, 7, 8, 10], 7, [])


def test_a_delete_file_that_is_older_than_a_file_that_stays(lake: Lake) -> None:
    """Not all readers apply it there, and all would apply a new one: it stays as it is."""
    first, second, third = _paths(lake)
    (again,) = [file for file in lake.files() if file.file_path == third]
    old = delete_rows(lake.table, {first: [0], second: [0], third: [3]})
    with lake.table.transaction() as change, change.update_snapshot().overwrite() as removes:
        removes.delete_data_file(again)
    with lake.table.transaction() as change, change.update_snapshot().fast_append() as adds:
        adds.append_data_file(again)
    lake.compact("n < 8")
    assert len(lake.files()) == 2
    assert [file.file_path for file in delete_files(lake.table)] == [old.file_path]


def test_a_file_of_which_nothing_is_left_goes(lake: Lake) -> None:
    """Alone, or with all others: then no new file comes."""
    paths = _paths(lake)
    delete_rows(lake.table, {paths[0]: range(4)})
    lake.compact("n < 4")
    assert (_numbers(lake), len(lake.files()), delete_files(lake.table)) == (list(range(4, 12)), 2, [])
    delete_rows(lake.table, {path: range(4) for path in paths[1:]})
    lake.compact()
    assert (_numbers(lake), lake.files(), delete_files(lake.table)) == ([], [], [])
    lake.append({"n": [7], "part": [0]})
    assert _numbers(lake) == [7]


def test_a_delete_that_comes_meanwhile_is_carried_over(lake: Lake) -> None:
    """Its positions are translated, past rows that were left out; readers of other kinds see the same."""
    first, second, third = _paths(lake)
    delete_rows(lake.table, {first: [0, 2], third: [1]})
    plan, made = _rewritten(lake)
    delete_rows(lake.table, {first: [2, 3], second: [1]})
    delete_rows(lake.table, {third: [0, 1]})
    before = _numbers(lake)
    lake.commit(plan.groups[0], made, plan.delete_files)
    assert _numbers(lake) == before == [1, 4, 6, 7, 10, 11]
    duck = DuckLake(lake.catalog)
    assert sorted(duck.sql("select n from lake.default.clicks").to_pydict()["n"]) == before
    (late,) = delete_files(lake.table)
    (file,) = lake.files()
    assert late.file_path.endswith(DELETES)
    assert late.file_path.rpartition("/")[0] == file.file_path.rpartition("/")[0]
    assert (late.record_count, file.record_count) == (3, 9)
    lake.compact()
    assert (_numbers(lake), delete_files(lake.table)) == (before, [])
    assert [file.record_count for file in lake.files()] == [6]


def test_partitions_have_deletes_of_their_own(catalog: Catalog) -> None:
    """Before and meanwhile: what is carried over is of the partition of the new file."""
    lake = Lake(catalog, SCHEMA, ("part",))
    for at in range(4):
        lake.append({"n": [10 * at, 10 * at + 1, 10 * at + 2], "part": [1, 1, None]})
    ones = [path for path in _paths(lake) if _first(path) % 10 == 0]
    nulls = [path for path in _paths(lake) if _first(path) % 10 == 2]
    delete_rows(lake.table, {ones[0]: [0], ones[1]: [1]})
    plan = lake.plan()
    made = [lake.rewrite(group) for group in plan.groups]
    delete_rows(lake.table, {ones[1]: [0], ones[3]: [1]})
    delete_rows(lake.table, {nulls[2]: [0]})
    before = _numbers(lake)
    for group, one in zip(plan.groups, made, strict=True):
        lake.commit(group, one, plan.delete_files)
    assert _numbers(lake) == before
    assert (len(lake.files()), len(delete_files(lake.table))) == (2, 2)


def test_in_a_sorted_table_rows_are_followed_to_their_places(catalog: Catalog) -> None:
    """Those deleted before are left out, also of a file alone; deletes that come meanwhile go along."""
    lake = Lake(catalog, SCHEMA, sort_by=("n desc",))
    for at in range(3):
        lake.append({"n": [4 * at, 4 * at + 1, 4 * at + 2, 4 * at + 3], "part": [0] * 4})
    first, second, _ = _paths(lake)
    delete_rows(lake.table, {first: [0], second: [3]})
    plan, made = _rewritten(lake)
    delete_rows(lake.table, {second: [0]})
    before = _numbers(lake)
    lake.commit(plan.groups[0], made, plan.delete_files)
    assert (_numbers(lake), len(delete_files(lake.table)), len(lake.files())) == (before, 1, 1)
    lake.compact()
    assert (_numbers(lake), delete_files(lake.table), len(lake.files())) == (before, [], 1)
    delete_rows(lake.table, {lake.files()[0].file_path: [0]})
    before = _numbers(lake)
    lake.compact()
    assert (_numbers(lake), delete_files(lake.table), len(lake.files())) == (before, [], 1)
    assert pq.read_table(lake.files()[0].file_path.removeprefix("file://"))["n"].to_pylist() == before[::-1]


def test_deletes_that_somebody_takes_back_meanwhile_end_it(lake: Lake) -> None:
    """The rows that were left out are there again."""
    base = lake.table.current_snapshot()
    delete_rows(lake.table, {_paths(lake)[0]: [0]})
    plan, made = _rewritten(lake)
    lake.table.manage_snapshots().rollback_to_snapshot(base.snapshot_id).commit()
    with pytest.raises(OutdatedError, match="undone deletes"):
        lake.commit(plan.groups[0], made, plan.delete_files)
    assert _numbers(lake) == list(range(12))


@pytest.mark.parametrize("takes_back", [False, True])
def test_deletes_that_are_rewritten_meanwhile(lake: Lake, takes_back: bool) -> None:
    """Spark puts older deletes of a file into the delete file that it adds, and takes the older one away."""
    first, second, _ = _paths(lake)
    old = delete_rows(lake.table, {first: [1, 2]})
    delete_rows(lake.table, {second: [3]})
    plan, made = _rewritten(lake)
    delete_rows(lake.table, {first: [1, 3] if takes_back else [0, 1, 2]})
    remove_delete_file(lake.table, old)
    before = _numbers(lake)
    if takes_back:
        with pytest.raises(OutdatedError, match="undone deletes"):
            lake.commit(plan.groups[0], made, plan.delete_files)
        lake.compact()
    else:
        lake.commit(plan.groups[0], made, plan.delete_files)
        assert [file.record_count for file in delete_files(lake.table)] == [1]
    assert _numbers(lake) == before


def _spelt_otherwise(lake: Lake) -> None:
    path = _paths(lake)[0]
    delete_rows(lake.table, {path.replace("file://", "file:"): [0]}, with_bounds=False)


def _as_avro(lake: Lake) -> None:
    delete_rows(lake.table, {_paths(lake)[0]: [0]}, file_format=FileFormat.AVRO)


@pytest.mark.parametrize("act", [_spelt_otherwise, _as_avro])
def test_what_not_all_readers_apply_is_left_alone(lake: Lake, act: Callable[[Lake], None]) -> None:
    """Deletes before: the file stays with them. Deletes meanwhile: the compaction is given up."""
    plan, made = _rewritten(lake)
    act(lake)
    with pytest.raises(OutdatedError, match="deleted rows"):
        lake.commit(plan.groups[0], made, plan.delete_files)
    again = lake.plan()
    assert (again.left, [len(group.files) for group in again.groups]) == (
        {"with deletes that not all readers apply": 1},
        [2],
    )
    lake.compact()
    assert (len(lake.files()), len(delete_files(lake.table))) == (2, 1)


def test_equality_deletes_meanwhile_end_it(lake: Lake) -> None:
    """Which rows they delete depends on when a file came."""
    plan, made = _rewritten(lake)
    delete_rows(lake.table, {_paths(lake)[0]: [0]}, equality=True)
    with pytest.raises(OutdatedError, match="equality deletes"):
        lake.commit(plan.groups[0], made, plan.delete_files)


def test_a_file_of_many_deleted_rows_is_due(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a fifth of its rows, also where it is not small, or larger than the target."""
    lake = _lake(catalog, (10, 10, 10, 10))
    first, second, third, fourth = _paths(lake)
    _sized(monkeypatch, {first: 60_000_000, second: 60_000_000, third: 1_000_000_000, fourth: 1_000_000_000})
    delete_rows(lake.table, {first: [0, 1], second: [0, 1, 2], third: [5, 6, 7], fourth: [1, 2]})
    plan = lake.plan(due_only=True)
    assert [[file.file_path for file in group.files] for group in plan.groups] == [[second], [third]]
    assert (plan.left, lake.plan().groups) == ({}, plan.groups)
    assert [group.deleted_rows for group in plan.groups] == [3, 3]
    before = _numbers(lake)
    lake.compact(due_only=True)
    assert _numbers(lake) == before
    assert lake.plan(due_only=True).groups == ()


def _sized(monkeypatch: pytest.MonkeyPatch, sizes: dict[str, int]) -> None:
    small = DataFile.file_size_in_bytes
    sized = property(lambda self: sizes.get(self.file_path, small.fget(self)))  # type: ignore[attr-defined]
    monkeypatch.setattr(DataFile, "file_size_in_bytes", sized)
    for module in (commit, way_back):  # they would find the files too short
        monkeypatch.setattr(module, "unreadable", lambda *_, **__: {})


def test_more_than_eight_delete_files_of_a_partition_are_due(catalog: Catalog) -> None:
    """However few rows they delete."""
    lake = _lake(catalog, (50, 50))
    first, second = _paths(lake)
    for at in range(compaction.MAX_DELETE_FILES):
        delete_rows(lake.table, {first: [at]})
    assert lake.plan(due_only=True).groups == ()
    delete_rows(lake.table, {second: [0]})
    (group,) = lake.plan(due_only=True).groups
    assert (len(group.files), group.deleted_rows) == (2, 9)
    lake.compact(due_only=True)
    assert (_numbers(lake), delete_files(lake.table)) == ([*range(8, 50), *range(51, 100)], [])


def test_what_a_refused_commit_has_written_goes(lake: Lake, tmp_path: Path) -> None:
    """With its manifests; the next try writes it anew, for the head that it finds."""
    plan, made = _rewritten(lake)
    paths = _paths(lake)
    delete_rows(lake.table, {paths[0]: [0]})
    lake.topic.table.catalog = FlakyCatalog(lake.catalog, [refused])  # type: ignore[assignment]
    with pytest.raises(HeadMovedError):
        lake.commit(plan.groups[0], made, plan.delete_files)
    assert _carried_over(tmp_path) == []
    delete_rows(lake.table, {paths[1]: [0]})
    lake.commit(plan.groups[0], made, plan.delete_files)
    assert _numbers(lake) == [1, 2, 3, 5, 6, 7, 8, 9, 10, 11]
    assert len(_carried_over(tmp_path)) == 1


def _carried_over(folder: Path) -> list[Path]:
    """Delete files that compactions have written."""
    return [path for path in folder.rglob(f"*{DELETES}") if "foreign" not in path.name]


# -- any files, any deletes, at any time

_SIZES = st.lists(st.integers(2, 6), min_size=1, max_size=4)
_ORDERS: list[tuple[str, ...]] = [(), ("n desc",), ("part", "n")]
_DELETES = st.lists(st.tuples(st.integers(0, 10**6), st.booleans()), max_size=6)


@pytest.mark.integration
@settings(max_examples=40, deadline=None)
@given(_SIZES, _DELETES, _DELETES, st.sampled_from([(), ("part",)]), st.sampled_from(_ORDERS), st.data())
def test_the_rows_that_are_there_stay_the_same(
    sizes: list[int],
    before: list[tuple[int, bool]],
    meanwhile: list[tuple[int, bool]],
    by: tuple[str, ...],
    order: tuple[str, ...],
    data: Any,
) -> None:
    """Through two compactions in a row, whatever was deleted before, between and during them."""
    with tempfile.TemporaryDirectory() as folder:
        properties = {"name": "lake", "type": "sql", "uri": f"sqlite:///{folder}/catalog.db"}
        catalog = open_catalog({**properties, "warehouse": f"file://{folder}/warehouse"})
        lake, start = Lake(catalog, SCHEMA, by, sort_by=order), 0
        for size in sizes:
            numbers = list(range(start, start + size))
            lake.append({"n": numbers, "part": pa.array([n % 2 for n in numbers], pa.int32())})
            start += size
        _delete(lake, before, start)
        for _ in range(2):
            plan = lake.plan()
            event(f"{len(plan.groups)} groups")
            room = data.draw(st.sampled_from([10**9, 150, 120]))
            with mock.patch.multiple(rewrite, _PART_ROWS=data.draw(st.integers(1, 5)), _SORTED_BYTES=room):
                made = [lake.rewrite(group) for group in plan.groups]
            event(f"{max((len(one.files) for one in made), default=0)} files of a group")
            # What memory does not take is left as it is.
            pairs = [(group, one) for group, one in zip(plan.groups, made, strict=True) if one.moved]
            for group, one in pairs:
                _delete(lake, meanwhile, start)
                rows = _numbers(lake)
                lake.commit(group, one, plan.delete_files)
                assert _numbers(lake) == rows
                lake.append({"n": [1000 + len(rows)], "part": [0]})
            _delete(lake, data.draw(_DELETES), start)
        catalog.close()


def _delete(lake: Lake, chosen: list[tuple[int, bool]], rows: int) -> None:
    """Of the first rows some by number, deleted or not, where they lie now; True: in a file of its own."""
    together: dict[str, dict[str, list[int]]] = {}
    for file in lake.files():
        numbers = pq.read_table(file.file_path.removeprefix("file://"))["n"].to_pylist()
        places = {number: at for at, number in enumerate(numbers)}
        for number, alone in ((number % rows, alone) for number, alone in chosen):
            if number in places:
                key = file.file_path if alone else str(file.partition)
                together.setdefault(key, {}).setdefault(file.file_path, []).append(places[number])
    for positions in together.values():
        delete_rows(lake.table, positions)
