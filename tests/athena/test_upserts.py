"""Tables kept by key: Trino reads the rows that DuckDB and PyIceberg read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.athena.trino import Trino
from tests.table.samples import sqlite_catalog
from tests.table.test_upsert import Event, Upserts, played

pytestmark = [pytest.mark.integration, pytest.mark.servers]


def _in_trino(trino: Trino, table: Upserts, at: int | None = None) -> list[tuple[int, int]]:
    """The rows of the head or of a snapshot."""
    name = f"upserts_{table.lake.table.metadata.table_uuid.hex}"
    if [name] not in trino.ask("SHOW CATALOGS"):
        trino.add_catalog(name, dict(table.catalog.properties) | {"name": "lake"})
    version = f" FOR VERSION AS OF {at}" if at else ""
    return sorted(
        (key, value) for key, value in trino.ask(f"SELECT id, value FROM clicks{version}", name, "default")
    )


@pytest.mark.parametrize("seed", range(6))
def test_any_history(seed: int, trino: Trino, tmp_path: Path) -> None:
    """Writes, deletes and truncates, compactions, conflicts; in partitions by key, by value, or in none."""
    table = played(seed, sqlite_catalog(tmp_path))
    assert _in_trino(trino, table) == table.rows_of_duckdb() == table.rows() == table.expected()
    snapshots = table.lake.table.metadata.snapshots[:: 1 + len(table.lake.table.metadata.snapshots) // 4]
    for snapshot in snapshots[1:]:
        assert _in_trino(trino, table, snapshot.snapshot_id) == table.rows(snapshot.snapshot_id)


@pytest.mark.parametrize("by", [(), ("bucket(2, id)",)])
def test_a_key_moves(by: tuple[str, ...], trino: Trino, tmp_path: Path) -> None:
    """Its delete and its insert have one order; before and after a compaction that leaves a file alone."""
    table = Upserts(sqlite_catalog(tmp_path), by)
    table.commit([Event(key, key, key, 0, key, 1) for key in range(50)])
    table.commit([Event(key, key, key, 0, key, 2) for key in range(50, 100)])
    moves = [(5, None, 200), (500, 5, 200), (6, 60, 201), (60, None, 202), (600, 60, 202)]
    table.commit([Event(key, value, lsn, 0, 100 + at, 3) for at, (key, value, lsn) in enumerate(moves)])
    for where in ("id < 50", None, None):
        assert _in_trino(trino, table) == table.rows_of_duckdb() == table.rows() == table.expected()
        table.check()
        table.lake.compact(where)
