"""The drill's view of its tables while they change."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from tests.drill import foreign
from tests.drill.tables import Sampler, ledger_before, newest_ledger

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """An empty table of a catalog in a file."""
    catalog = SqlCatalog(
        "drill", uri=f"sqlite:///{tmp_path / 'catalog.db'}", warehouse=f"file://{tmp_path}/wh"
    )
    catalog.create_namespace("default")
    return catalog.create_table("default.orders", SCHEMA)


def commit(table: Table, end: int, epoch: int = 1, replay_id: str = "") -> None:
    """Rows with a ledger, as an owner commits them."""
    told = {
        "tabletopic.offsets": f'{{"0": {end}}}',
        "tabletopic.commit-id": str(end),
        "tabletopic.epoch": str(epoch),
        **({"tabletopic.replay-id": replay_id} if replay_id else {}),
    }
    table.append(pa.table({"id": [end]}, SCHEMA), snapshot_properties=told)


def sampler(tmp_path: Path) -> Sampler:
    """Watches ``table``; the topic ends at 30."""
    return Sampler(tmp_path / "catalog.db", {"orders": "default.orders"}, lambda _: {0: 30})


def test_a_sample_is_the_newest_ledger(tmp_path: Path, table: Table) -> None:
    """Below the snapshots of other writers too, and the same that PyIceberg reads."""
    watching = sampler(tmp_path)
    watching.look()
    assert watching.samples["orders"] == []
    commit(table, 10)
    watching.look()
    commit(table, 25, epoch=2)
    table.append(pa.table({"id": [0]}, SCHEMA))
    watching.look()
    assert [(one.offsets, one.lag, one.epoch) for one in watching.samples["orders"]] == [
        (10, 20, 1),
        (25, 5, 2),
    ]
    ledger = newest_ledger(table)
    assert ledger is not None
    assert (ledger.offsets, ledger.epoch) == (25, 2)


def test_where_others_expired_the_ledger_its_tag_is_read(tmp_path: Path, table: Table) -> None:
    """As the next owner does it."""
    commit(table, 10)
    head = table.current_snapshot()
    assert head is not None
    table.manage_snapshots().create_tag(head.snapshot_id, "tabletopic-ledger").commit()
    between = None
    for _ in range(2):
        between = table.current_snapshot()
        table.append(pa.table({"id": [0]}, SCHEMA))
    assert between is not None
    table.maintenance.expire_snapshots().by_id(between.snapshot_id).commit()
    watching = sampler(tmp_path)
    watching.look()
    assert [one.offsets for one in watching.samples["orders"]] == [10]


def test_nobody_takes_rows_of_a_replay_back(table: Table) -> None:
    """Their letters are gone, so a rollback of the drill ends where the newest replay is in the table."""
    commit(table, 10)
    commit(table, 20, replay_id="first")
    replayed = table.current_snapshot()
    for _ in range(3):
        table.append(pa.table({"id": [0]}, SCHEMA))
    commit(table, 30, replay_id="first")
    for _ in range(9):
        foreign.rollback(table, random.Random(1))
        table.refresh()
    assert table.current_snapshot() == replayed


def test_a_locked_catalog_is_no_sample(tmp_path: Path, table: Table) -> None:
    """It says so at once, and does not wait for the lock."""
    commit(table, 10)
    database = sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)
    database.execute("BEGIN EXCLUSIVE")
    watching = sampler(tmp_path)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        watching.look()
    database.close()
    watching.look()
    assert len(watching.samples["orders"]) == 1


def test_what_a_rollback_could_bring_back_is_kept(table: Table) -> None:
    """Retention stops at the oldest ledger that the table may have again."""
    assert ledger_before(table, 3) is None
    for end in (10, 20, 30, 40):
        commit(table, end)
        table.append(pa.table({"id": [0]}, SCHEMA))
    found = [ledger_before(table, snapshots) for snapshots in (0, 1, 3, 100)]
    assert [one and one.offsets for one in found] == [40, 40, 30, 10]
