"""A row keeps the values that its change event leaves out, whatever the split into commits."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from pyiceberg.types import ListType, LongType, NestedField, StructType

from tabletopic_kernel.query.duckdb import DuckLake
from tests.pipeline.test_unavailable import TEXT
from tests.table.foreign_deletes import delete_files
from tests.table.samples import sqlite_catalog
from tests.table.test_upsert import Event, Upserts


def _history(dice: Random) -> tuple[list[list[Event]], dict[int, tuple[int, str]]]:
    """Batches of changes, each of which leaves the text out unless it changed, and the rows at the end."""
    rows: dict[int, tuple[int, str]] = {}
    batches: list[list[Event]] = []
    at = 0

    def event(key: int, value: int | None, lsn: int, text: str | None) -> Event:
        nonlocal at
        at += 1
        return Event(key, value, lsn, 0, at - 1, at, text)

    for lsn in range(0, 500, 10):
        key, value = dice.randrange(6), dice.randrange(9)
        kind = dice.choice(["write", "write", "write", "again", "delete", "move"])
        if kind in ("write", "again") or key not in rows:
            has_text = kind == "write" and dice.random() < 0.3
            text = f"text {lsn}" if has_text or key not in rows else rows[key][1]
            events = [event(key, value, lsn, text if has_text or key not in rows else TEXT)]
            rows[key] = value, text
        elif kind == "delete":
            events = [event(key, None, lsn, None)]
            del rows[key]
        else:
            other = dice.choice([number for number in range(6) if number != key])
            events = [event(other, None, lsn - 5, None)] if other in rows else []
            events += [event(key, None, lsn, None), event(other, value, lsn, TEXT)]
            rows[other] = value, rows.pop(key)[1]
        if not batches or dice.random() < 0.3:
            batches.append([])
        batches[-1] += events
    return batches, rows


@pytest.mark.parametrize("seed", range(2))
def test_left_out_values_stay(seed: int, tmp_path: Path) -> None:
    """Of the row before, also where the key changed, and through several changes in one commit."""
    dice = Random(seed)
    table = Upserts(sqlite_catalog(tmp_path), [(), ("bucket(2, id)",)][seed % 2])
    batches, expected = _history(dice)
    while batches:
        count = dice.choice([1, 1, 2])
        table.commit(*batches[:count])
        del batches[:count]
        if dice.random() < 0.2:
            table.lake.compact()
    rows = table.lake.table.scan().to_arrow().to_pylist()
    assert {row["id"]: (row["value"], row["text"]) for row in rows} == expected
    table.check()


def test_nothing_is_written_for_values_that_are_there(tmp_path: Path) -> None:
    """A row that lacks its value for want of an earlier one stays, too, as the event has it."""
    table = Upserts(sqlite_catalog(tmp_path))
    table.commit([Event(1, 1, 1, 0, 0, 0, "a"), Event(2, 1, 2, 0, 1, 1, "b")])
    assert len(table.lake.files()) == 1
    assert not delete_files(table.lake.table)
    table.commit([Event(1, 2, 3, 0, 2, 2, TEXT), Event(3, 1, 4, 0, 3, 3, TEXT)])
    rows = table.lake.table.scan().to_arrow().to_pylist()
    assert {row["id"]: row["text"] for row in rows} == {1: "a", 2: "b", 3: TEXT}


@pytest.mark.parametrize(
    "last",
    [
        [Event(1, 2, 20, 0, 2, 2, TEXT)],  # its own earlier row has the value
        [Event(2, None, 30, 0, 2, 2, "b"), Event(1, 2, 30, 0, 3, 3, TEXT)],  # of one transaction
        [Event(2, 2, 30, 0, 2, 2, "b"), Event(1, 2, 20, 0, 3, 3, TEXT)],
    ],
)
def test_equal_orders_mix_no_rows(last: list[Event], tmp_path: Path) -> None:
    """A row keeps its own value when its event is sent again, or another key is deleted at the same time."""
    table = Upserts(sqlite_catalog(tmp_path))
    table.commit([Event(1, 1, 10, 0, 0, 0, "a"), Event(2, 1, 11, 0, 0, 0, "b")])
    table.commit([Event(1, 2, 20, 0, 1, 1, TEXT)])
    table.commit(last)
    rows = table.lake.table.scan().to_arrow().to_pylist()
    assert {row["id"]: row["text"] for row in rows}[1] == "a"


def test_of_several_keys_that_may_have_been_changed_none_gives_its_value(tmp_path: Path) -> None:
    """The placeholder stays: another row's value would be worse."""
    table = Upserts(sqlite_catalog(tmp_path))
    table.commit([Event(1, 1, 10, 0, 0, 0, "a"), Event(2, 1, 11, 0, 1, 1, "b")])
    table.commit([*(Event(key, None, 20, 0, 1 + key, 2) for key in (1, 2)), Event(3, 1, 20, 0, 4, 4, TEXT)])
    (row,) = table.lake.table.scan().to_arrow().to_pylist()
    assert row["text"] == TEXT


def test_no_value_is_from_before_a_truncate(tmp_path: Path) -> None:
    """A changed key had a row that the truncate of the same commit deletes."""
    table = Upserts(sqlite_catalog(tmp_path))
    table.commit([Event(2, 1, 1, 0, 0, 0, "old")])
    again = [Event(None, None, 5, 0, 1, 1), Event(1, 1, 6, 0, 2, 2, "new")]
    table.commit([*again, Event(1, None, 7, 0, 3, 3), Event(2, 2, 7, 0, 4, 4, TEXT)])
    (row,) = table.lake.table.scan().to_arrow().to_pylist()
    assert (row["id"], row["text"]) == (2, "new")


def test_many_rows_keep_their_values_in_parts(tmp_path: Path) -> None:
    """More than are in memory at once; other columns stay as they are, also null lists."""
    table, count = Upserts(sqlite_catalog(tmp_path)), 8_200
    with table.lake.table.update_schema() as update:
        item = StructType(NestedField(99, "a", LongType(), required=False))
        update.add_column("more", ListType(98, item, element_required=False))
    table.commit([Event(at, 1, at, 0, at, at, f"text {at}") for at in range(count)])
    table.commit([Event(at, 2, count + at, 0, count + at, at, TEXT) for at in range(count)])
    counts = DuckLake(table.catalog).sql(
        "SELECT count(*), count(*) FILTER (text = 'text ' || id AND value = 2 AND more IS NULL) "
        "FROM lake.default.clicks"
    )
    assert [column[0] for column in counts.to_pydict().values()] == [count, count]
    assert len(table.lake.files()) == 1 + 1 + 2
