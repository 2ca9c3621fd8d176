"""The drill's verdict finds every error, and none where all is well."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from tabletopic_kernel.model import dead_letter
from tabletopic_kernel.pipeline import write
from tests.drill import foreign
from tests.drill.streams import Fate, Sent, value_of
from tests.drill.verdict import TopicVerdict, judge, unsorted_files
from tests.table.lake import Lake

PLACE = StructType(
    NestedField(7, "partition", IntegerType()),
    NestedField(8, "offset", LongType()),
    NestedField(9, "timestamp", TimestamptzType()),
)
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "text", StringType()),
    NestedField(3, "count", LongType()),
    NestedField(4, "extra", DoubleType()),
    NestedField(5, "_kafka_metadata", PLACE),
    NestedField(6, "_kafka_key", StringType()),
)
LETTERS = Schema(NestedField(1, "partition", IntegerType()), NestedField(2, "offset", LongType()))
SENT = [
    *(Sent(0, n, n, 1 + n % 2, Fate.ROW) for n in range(10)),
    Sent(0, 10, 10, 1, Fate.NULLS),
    Sent(0, 11, 11, 1, Fate.LETTER),
]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """A catalog of its own."""
    found = load_catalog(
        "lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w"
    )
    found.create_namespace("default")
    return found


def rows_of(sent: Sequence[Sent]) -> list[dict[str, Any]]:
    """The expected rows of records."""
    found = []
    for one in sent:
        if one.fate is not Fate.LETTER:
            place = {"partition": one.partition, "offset": one.offset, "timestamp": datetime.now(UTC)}
            found.append({**one.value, "_kafka_metadata": place})
    return found


def fill(
    catalog: Catalog, rows: list[dict[str, Any]], letters: list[dict[str, int]], end: int = 12, lost: int = 0
) -> None:
    """Tables with these rows and dead letters, and a ledger that ends at ``end`` with this many lost."""
    table = catalog.create_table("default.t", SCHEMA)
    summary = {
        "tabletopic.offsets": json.dumps({"0": end}),
        "tabletopic.commit-id": "c",
        "tabletopic.epoch": "1",
        "tabletopic.lost": json.dumps({"0": lost}),
    }
    table.append(pa.Table.from_pylist(rows, schema=SCHEMA.as_arrow()), snapshot_properties=summary)
    stays = catalog.create_table("default.t__dead_letters", LETTERS)
    stays.append(pa.Table.from_pylist(letters, schema=LETTERS.as_arrow()))


def verdict(catalog: Catalog, sent: Sequence[Sent] = SENT) -> TopicVerdict:
    """The findings in the tables."""
    return judge(catalog, "default.t", "t", sent, {0: 12}, ())


LETTER = {"partition": 0, "offset": 11}


def test_all_is_well(catalog: Catalog) -> None:
    """Every record once, with its value; rows and letters of others count for nothing."""
    fill(catalog, rows_of(SENT), [LETTER, {"partition": foreign.FOREIGN_PARTITION, "offset": 3}])
    foreign.append(catalog.load_table("default.t"), random.Random(1))
    found = verdict(catalog)
    assert found.ok, found.differences
    assert (found.acknowledged, found.rows, found.letters) == (12, 11, 1)


def changed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Change one value."""
    return [rows[0] | {"count": 999_999}, *rows[1:]]


@pytest.mark.parametrize(
    ("spoil", "letters", "end", "told"),
    [
        (lambda rows: rows[1:], [LETTER], 12, "1 acknowledged records are lost: (0, 0)"),
        (lambda rows: [*rows, rows[3]], [LETTER], 12, "1 records are rows more than once: (0, 3)"),
        (changed, [LETTER], 12, "1 rows have other values than their records: (0, 0)"),
        (lambda rows: rows, [], 12, "1 acknowledged records are lost: (0, 11)"),
        (lambda rows: rows, [LETTER, LETTER], 12, "1 records are dead letters more than once: (0, 11)"),
        (
            lambda rows: rows,
            [LETTER, {"partition": 0, "offset": 4}],
            12,
            "a row and a dead letter: (0, 4)",
        ),
        (lambda rows: rows[1:], [LETTER, {"partition": 0, "offset": 0}], 12, "or vice versa: (0, 0)"),
        (lambda rows: rows, [LETTER, {"partition": 3, "offset": 4}], 12, "no acknowledged record: (3, 4)"),
        (lambda rows: rows, [LETTER], 11, "the ledger is at {0: 11}, the topic ends at {0: 12}"),
    ],
)
def test_what_is_wrong_is_told(
    catalog: Catalog,
    spoil: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
    letters: list[dict[str, int]],
    end: int,
    told: str,
) -> None:
    """Lost, twice, changed, in the wrong place, or not counted by the ledger."""
    fill(catalog, spoil(rows_of(SENT)), letters, end)
    found = verdict(catalog)
    assert any(told in difference for difference in found.differences), found.differences


def test_a_letter_that_should_be_a_row_by_now(catalog: Catalog) -> None:
    """Its schema is registered and it was replayed: a letter is wrong now, a row is right."""
    sent = [*SENT[:10], Sent(0, 10, 10, 2, Fate.LATER, held=1), SENT[11]]
    fill(catalog, rows_of(SENT[:10]), [LETTER, LETTER | {"offset": 10}])
    assert ["or vice versa: (0, 10)" in difference for difference in verdict(catalog, sent).differences] == [
        True
    ]
    with catalog.load_table("default.t").update_schema() as update:
        update.add_column("held_0", StringType())
    table = catalog.load_table("default.t")
    catalog.drop_table("default.t__dead_letters")
    letters = catalog.create_table("default.t__dead_letters", LETTERS)
    letters.append(pa.Table.from_pylist([LETTER], schema=LETTERS.as_arrow()))
    place = {"partition": 0, "offset": 10, "timestamp": datetime.now(UTC)}
    row = value_of(10, 2, 1) | {"_kafka_metadata": place}
    table.append(pa.Table.from_pylist([row], schema=table.schema().as_arrow()))
    found = verdict(catalog, sent)
    assert found.ok, found.differences


def test_a_table_with_one_row_per_key_is_a_dict(catalog: Catalog) -> None:
    """A row that a newer record replaced or deleted is wrong, and so is a missing newest one."""
    fates = [(1, Fate.ROW), (1, Fate.ROW), (2, Fate.ROW), (2, Fate.NULLS), (1, Fate.LETTER), (3, Fate.ROW)]
    sent = [Sent(0, at, at, 1, fate, key=key) for at, (key, fate) in enumerate(fates)]
    rows = rows_of(sent)
    fill(catalog, [rows[1]], [{"partition": 0, "offset": 4}])
    table = catalog.load_table("default.t")
    assert judge(catalog, "default.t", "t", sent[:5], {0: 12}, ()).ok
    table.append(pa.Table.from_pylist([rows[0], rows[2], rows[3]], schema=table.schema().as_arrow()))
    found = judge(catalog, "default.t", "t", sent, {0: 12}, ())
    assert (found.lost, found.changed) == (1, 3), found.differences


def test_what_is_wrong_is_counted(catalog: Catalog) -> None:
    """One record lost, one there twice, one with another value."""
    rows = changed(rows_of(SENT))
    fill(catalog, [*rows[:4], rows[3], *rows[5:]], [LETTER])
    found = verdict(catalog)
    assert (found.lost, found.twice, found.changed) == (1, 1, 1)


@pytest.mark.parametrize(
    ("lost", "below", "differs"), [(2, 6, []), (1, 6, ["counts 1"]), (2, 5, ["lost: (0, 5)", "counts 2"])]
)
def test_what_retention_took_is_counted_exactly(
    catalog: Catalog, lost: int, below: int, differs: list[str]
) -> None:
    """Records 4 and 5 are gone: the ledger says so, and there was a reason for both."""
    rows = rows_of(SENT)
    fill(catalog, [*rows[:4], *rows[6:]], [LETTER], lost=lost)
    found = judge(catalog, "default.t", "t", SENT, {0: 12}, (), {0: below})
    assert len(found.differences) == len(differs)
    assert all(told in one for told, one in zip(differs, found.differences, strict=True))
    assert found.skipped == below - 4


@pytest.mark.parametrize("below", [0, 6])
def test_a_transaction_of_unknown_outcome_was_not_lost_by_retention(catalog: Catalog, below: int) -> None:
    """Its records are rows or none, and no ledger counts them, wherever the topic begins by now."""
    sent = [replace(one, fate=Fate.UNSURE) if one.offset in (4, 5) else one for one in SENT]
    rows = rows_of(SENT)
    fill(catalog, [*rows[:4], *rows[6:]], [LETTER])
    found = judge(catalog, "default.t", "t", sent, {0: 12}, (), {0: below})
    assert (found.differences, found.skipped) == ([], 0)


def test_others_append_a_letter_as_the_product_would(catalog: Catalog) -> None:
    """It fits the columns of a dead-letter table, and is of no record."""
    table = catalog.create_table("default.letters", dead_letter.SCHEMA)
    foreign.append_letter(table, random.Random(1))
    (row,) = table.scan().to_arrow().to_pylist()
    assert row["partition"] == foreign.FOREIGN_PARTITION


def test_a_data_file_that_is_gone(catalog: Catalog) -> None:
    """The snapshot that refers to it cannot be read any more."""
    fill(catalog, rows_of(SENT), [LETTER])
    (file,) = foreign.reachable_files(catalog.load_table("default.t"))
    Path(file.removeprefix("file://")).unlink()
    told = verdict(catalog).differences
    assert any("data files of rows that a snapshot refers to are gone" in one for one in told)


def test_a_data_file_that_nobody_needs(catalog: Catalog) -> None:
    """In a folder of ours it should have been removed; what others left is their business."""
    fill(catalog, rows_of(SENT), [LETTER])
    data = Path(catalog.load_table("default.t").location().removeprefix("file://")) / "data"
    for folder in ("epoch-00000001", "by-others"):
        (data / folder).mkdir(parents=True)
        (data / folder / "orphan.parquet").write_bytes(b"PAR1")
    found = verdict(catalog)
    assert found.orphans == 1
    assert "epoch-00000001/orphan.parquet" in found.differences[0]


@pytest.mark.parametrize(
    "order", [("count desc", "id"), ("extra desc nulls first", "id desc"), ("bucket(2, id)",)]
)
@pytest.mark.parametrize("lies", [False, True])
def test_a_file_that_is_not_in_the_order_that_it_says(
    catalog: Catalog, order: tuple[str, ...], lies: bool
) -> None:
    """What others wrote may say what it likes; what is made of a column is not looked at."""
    lake = Lake(catalog, SCHEMA, sort_by=order)
    names = [field.name for field in SCHEMA.fields]
    rows = [{name: row.get(name) for name in names} for row in rows_of(SENT)]
    dice = random.Random(1)
    dice.shuffle(rows)
    with ExitStack() as patches:
        if lies:
            patches.enter_context(mock.patch.object(write, "permutation", return_value=None))
        lake.append({name: [row[name] for row in rows] for name in names})
    assert len(unsorted_files(lake.table)) == (lies and "bucket" not in order[0])


def test_others_change_the_order(catalog: Catalog) -> None:
    """To one that the table had, too, and to none."""
    lake = Lake(catalog, SCHEMA, sort_by=("id",))
    dice = random.Random(2)
    told = {foreign.order(lake.table, dice) for _ in range(30)}
    assert "sorted by nothing" in told
    assert len(told) > 5
    ids = [order.order_id for order in lake.table.metadata.sort_orders]
    assert len(ids) == len(set(ids)) <= 31
