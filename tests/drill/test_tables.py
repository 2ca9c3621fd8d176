"""The drill's view of its tables while they change."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from tests.drill import foreign
from tests.drill.tables import ledger_before

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """An empty table of a catalog in a file."""
    catalog = SqlCatalog(
        "drill", uri=f"sqlite:///{tmp_path / 'catalog.db'}", warehouse=f"file://{tmp_path}/wh"
    )
    catalog.create_namespace("default")
    return catalog.create_table("default.orders", SCHEMA)


def commit(table: Table, end: int, replay_id: str = "") -> None:
    """Rows with a ledger, as an owner commits them."""
    told = {
        "tabletopic.offsets": f'{{"0": {end}}}',
        "tabletopic.commit-id": str(end),
        "tabletopic.epoch": "1",
        **({"tabletopic.replay-id": replay_id} if replay_id else {}),
    }
    table.append(pa.table({"id": [end]}, SCHEMA), snapshot_properties=told)


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


def test_what_a_rollback_could_bring_back_is_kept(table: Table) -> None:
    """Retention stops at the oldest ledger that the table may have again."""
    assert ledger_before(table, 3) is None
    for end in (10, 20, 30, 40):
        commit(table, end)
        table.append(pa.table({"id": [0]}, SCHEMA))
    found = [ledger_before(table, snapshots) for snapshots in (0, 1, 3, 100)]
    assert [one and one.offsets for one in found] == [40, 40, 30, 10]
