"""A table's sort order: set, changed and kept by settings; respected in every file, also by compaction."""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from decimal import Decimal
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortOrder
from pyiceberg.table.update import SetDefaultSortOrderUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, ListType, LongType, NestedField, StringType, StructType

from tabletopic_kernel.model.columns.sort_orders import sort_order, sort_texts
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.arrange import permutation
from tabletopic_kernel.pipeline.conform import conform, file_schema
from tabletopic_kernel.table.layout import lay_out
from tests.table.lake import Lake, read_file
from tests.table.test_compaction import ALL

SMALL = Schema(
    NestedField(1, "a", LongType(), required=False),
    NestedField(2, "s", StringType(), required=False),
    NestedField(3, "x", DoubleType(), required=False),
    NestedField(4, "at", StructType(NestedField(5, "y", LongType(), required=False)), required=False),
    NestedField(
        6, "tags", ListType(7, StructType(NestedField(8, "k", StringType(), False)), False), required=False
    ),
)
# Each in its order: what Iceberg says is larger comes later.
RISING: dict[str, list[Any]] = {
    "n": [-(2**31), -1, 0, 2**31 - 1],
    "l": [-(2**63), 2**63 - 1],
    "f": [float("-inf"), -1.5, -0.0, 0.0, 2.5, float("inf"), float("nan")],
    "d": [float("-inf"), -1.5, -0.0, 0.0, 2.5, float("inf"), float("nan")],
    "b": [False, True],
    "dec": [Decimal("-9999999999999999.9999"), Decimal("-1.5"), Decimal("1.5"), Decimal("12.34")],
    "day": [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2026, 1, 1)],
    "t": [dt.time(0), dt.time(23, 59, 59, 999999)],
    "ts": [dt.datetime(1969, 1, 1), dt.datetime(2026, 1, 1)],
    "tz": [dt.datetime(1969, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)],
    "s": ["", "A", "a", "aa", "ä", "\uffff", "\U0001f600"],
    "raw": [b"", b"\0", b"\0\1", b"\x7f", b"\xff"],
    "fix": [b"\0\0\0", b"abc", b"\xff\0\0"],
    "u": [uuid.UUID(int=1).bytes, uuid.UUID(int=2**127).bytes, uuid.UUID(int=2**128 - 1).bytes],
    "at.x": [-2.0, -0.0, 0.0, 3.0, float("nan")],
}


@pytest.mark.parametrize("column", RISING)
@pytest.mark.parametrize("falls", [False, True])
@pytest.mark.parametrize("nulls", ["first", "last"])
def test_the_order_of_every_type(column: str, falls: bool, nulls: str) -> None:
    """Nulls stand where the order says, in rising and in falling order; floats as Iceberg has them."""
    rising = RISING[column]
    has_nulls = column != "n"
    values = rising[::2] + [None] * has_nulls + rising[1::2] + [None] * has_nulls
    target = file_schema(ALL)
    head, _, child = column.partition(".")
    cells = [{child: value} if value is not None else None for value in values] if child else values
    columns = {head: pa.array(cells, target.field(head).type)}
    if head != "n":
        columns["n"] = pa.array(range(len(values)), pa.int32())
    table = pa.Table.from_batches([conform(columns, len(values), target)])
    order = sort_order([f"{column}{' desc' if falls else ''} nulls {nulls}"], ALL)
    found = permutation(table, order, ALL)
    at = list(range(len(values))) if found is None else found.to_pylist()
    ordered = [values[index] for index in at]
    wanted = rising[::-1] if falls else rising
    missing = [None, None] if has_nulls else []
    expected = missing + wanted if nulls == "first" else wanted + missing
    assert list(map(_bits, ordered)) == list(map(_bits, expected))
    assert [index for index in at if values[index] is None] == sorted(
        index for index in at if values[index] is None
    )


def _bits(value: Any) -> Any:
    return struct.pack(">d", value) if isinstance(value, float) else value


def test_equal_rows_stay_as_they_stand_and_keys_have_nulls_of_their_own() -> None:
    """The second key decides within the first; a column that files do not have orders nothing."""
    target = file_schema(SMALL)
    columns = {"a": pa.array([2, None, 1, 2, None, 2]), "s": pa.array(["b", "z", None, None, None, "b"])}
    fitted = {name: values.cast(target.field(name).type) for name, values in columns.items()}
    table = pa.Table.from_batches([conform(fitted, 6, target)])
    order = sort_order(["a desc nulls first", "s nulls last"], SMALL)
    found = permutation(table, order, SMALL)
    assert found.to_pylist() == [1, 4, 0, 5, 3, 2]
    assert permutation(table.take(found), order, SMALL) is None
    older = Schema(SMALL.fields[0])
    table = pa.Table.from_batches([conform({"a": pa.array([2, 1])}, 2, file_schema(older))])
    found = permutation(table, sort_order(["s", "a"], SMALL), older)
    assert found.to_pylist() == [1, 0]


def _orders(lake: Lake) -> list[int | None]:
    return [file.sort_order_id for file in lake.files()]


@pytest.mark.parametrize("by", [(), ("bucket(2, a)",)])
def test_files_are_sorted_and_say_so(catalog: Catalog, by: tuple[str, ...]) -> None:
    """By partition, too; rows with null lists come through. Without an order, none is claimed."""
    lake = Lake(catalog, SMALL, by, sort_by=("s desc", "a"))
    rows = {"a": [3, 1, 2, None], "s": ["x", None, "y", "x"], "tags": [None, [], [None], [{"k": "v"}]]}
    lake.append(rows)
    assert set(_orders(lake)) == {1}
    assert (len(lake.files()) == 1) == (not by)
    for file in lake.files():
        _is_sorted(read_file(file.file_path).to_pylist())
    found = {(row["a"], row["s"], str(row["tags"])) for row in lake.raw()}
    assert found == {(a, s, str(t)) for a, s, t in zip(*rows.values(), strict=True)}
    assert [row["a"] for row in lake.raw()] != rows["a"]
    lake.topic.reload()
    lay_out(lake.topic, TopicSettings(sort_by=("none",)))
    lake.append(rows)
    assert set(_orders(lake)) == {1, None}


def _is_sorted(rows: list[dict[str, Any]]) -> None:
    """By ``s desc nulls last, a nulls first``."""
    keys = [
        ("" if row["s"] is None else row["s"], 0 if row["a"] is None else -1, -(row["a"] or 0))
        for row in rows
    ]
    assert keys == sorted(keys, reverse=True), rows


def test_the_settings_change_the_order_and_nothing_else_does(catalog: Catalog) -> None:
    """An order that the table had keeps its id, ``none`` is unsorted, without ``sort_by`` it stays."""
    table = Lake(catalog, SMALL, sort_by=("a",)).topic

    def laid_out(*sort_by: str) -> tuple[list[str], int]:
        changes = lay_out(table, TopicSettings(sort_by=sort_by))
        return changes, table.table.metadata.default_sort_order_id

    assert laid_out() == ([], 1)
    assert laid_out("a asc nulls first") == ([], 1)
    assert laid_out("s desc", "a") == (["sort by s desc, a, before by a"], 2)
    assert laid_out("a") == (["sort by a, before by s desc, a"], 1)
    assert laid_out("none") == (["sort by nothing, before by a"], 0)
    assert laid_out() == ([], 0)
    assert laid_out("bucket(2, s)")[1] == 3
    assert laid_out("none")[1] == 0
    ids = [order.order_id for order in table.table.metadata.sort_orders]
    assert sorted(ids) == [0, 1, 2, 3]


def test_an_order_of_others_is_kept_and_honoured_until_the_settings_name_one(catalog: Catalog) -> None:
    """A renamed column is the same column; the topic's own order wins."""
    lake = Lake(catalog, SMALL)
    with lake.table.update_sort_order() as update:
        update.desc("a", IdentityTransform(), NullOrder.NULLS_LAST)
    with lake.table.update_schema() as columns:
        columns.rename_column("a", "b")
    lake.topic.reload()
    assert lay_out(lake.topic, TopicSettings()) == []
    lake.append({"b": [1, None, 3, 2]})
    (file,) = lake.files()
    assert file.sort_order_id == 1
    assert read_file(file.file_path)["b"].to_pylist() == [3, 2, 1, None]
    assert lay_out(lake.topic, TopicSettings(sort_by=("s",))) == ["sort by s, before by b desc"]


def _dropped(lake: Lake, column: str) -> None:
    """As a writer may that does not check it; Iceberg's libraries for Java and Python do."""
    with (
        mock.patch.object(SortOrder, "check_compatible", return_value=None),
        lake.table.update_schema() as columns,
    ):
        columns.delete_column(column)


def test_a_column_of_the_order_that_others_drop_orders_nothing(catalog: Catalog) -> None:
    """Before, PyIceberg takes no commit at all; what is left of the order goes on, and so does the topic."""
    lake = Lake(catalog, SMALL, sort_by=("s", "a desc"))
    for _ in range(2):
        lake.append({"a": [1, 2], "s": ["y", "x"]})
    _dropped(lake, "s")
    lake.append({"a": [1, 2]})
    lake.topic.reload()
    assert sort_texts(lake.table.sort_order(), lake.table.schema()) == ["a desc"]
    lake.append({"a": [3, 4]})
    assert lay_out(lake.topic, TopicSettings(sort_by=("s", "a desc"))) == []
    assert not lake.compact().left
    assert sorted(read_file(file.file_path)["a"].to_pylist() for file in lake.files()) == [
        [2, 2, 1, 1],
        [4, 3, 2, 1],
    ]


def test_files_of_an_order_that_is_lost_are_put_together(catalog: Catalog) -> None:
    """Nobody wants them so any more; evolution and expiry find such a table, too."""
    lake = Lake(catalog, SMALL, sort_by=("s",))
    for _ in range(2):
        lake.append({"a": [1], "s": ["y"]})
    _dropped(lake, "s")
    lake.topic.reload()
    lake.topic.expire(lake.ledger, lambda _: [])
    assert lake.table.sort_order().is_unsorted
    with mock.patch.object(SortOrder, "check_compatible", return_value=None):
        lake.catalog.commit_table(lake.table, (), (SetDefaultSortOrderUpdate(sort_order_id=1),))
    lake.topic.reload()
    lake.topic.evolve(None, {}, 1)
    assert lake.table.sort_order().is_unsorted
    assert not lake.compact().left
    assert [file.record_count for file in lake.files()] == [2]


def test_a_column_of_the_order_that_others_rename_is_the_same(catalog: Catalog) -> None:
    """The settings know it by its name of before; a name that no column ever had is a mistake."""
    lake = Lake(catalog, SMALL, ("a",), sort_by=("s", "a"))
    with lake.table.update_schema() as columns:
        columns.rename_column("s", "town")
        columns.rename_column("a", "number")
    lake.topic.reload()
    assert lay_out(lake.topic, TopicSettings(sort_by=("s", "a"), partition_by=("a",))) == []
    changes = lay_out(lake.topic, TopicSettings(sort_by=("s desc",)))
    assert changes == ["sort by town desc, before by town, number"]
    with pytest.raises(UsageError, match="no column 'street'"):
        lay_out(lake.topic, TopicSettings(sort_by=("street", "a")))


_ROW = st.tuples(
    st.none() | st.integers(0, 3),
    st.none() | st.sampled_from("ab"),
    st.none() | st.lists(st.none(), max_size=2),
)


@settings(max_examples=6, deadline=None)
@given(batches=st.lists(st.lists(_ROW, min_size=1, max_size=6), min_size=2, max_size=5), sorts=st.booleans())
def test_a_compaction_sorts_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Any]], sorts: bool
) -> None:
    """Files of any order, or of none, become one of the order of now with exactly their rows."""
    folder = tmp_path_factory.mktemp("lake")
    made = load_catalog("lake", type="sql", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
    lake = Lake(made, SMALL, sort_by=("a",) if sorts else ())
    for number, batch in enumerate(batches):
        lake.append(dict(zip(("a", "s", "tags"), map(list, zip(*batch, strict=True)), strict=True)))
        if not number:
            lake.topic.reload()
            lay_out(lake.topic, TopicSettings(sort_by=("s desc", "a")))
    before = lake.raw()
    assert not lake.plan().left
    lake.compact()
    (file,) = lake.files()
    assert file.sort_order_id == lake.table.metadata.default_sort_order_id != 0
    assert lake.raw() == before
    _is_sorted(read_file(file.file_path).to_pylist())
    made.close()


def test_sorted_files_stay_where_the_table_has_no_order(catalog: Catalog) -> None:
    """Somebody wanted them so."""
    lake = Lake(catalog, SMALL, sort_by=("a",))
    for _ in range(2):
        lake.append({"a": [2, 1]})
    lay_out(lake.topic, TopicSettings(sort_by=("none",)))
    plan = lake.plan()
    assert (plan.groups, plan.left) == ((), {"sorted, unlike the table": 2})
