"""Figures from a real table's metadata."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from tabletopic_kernel.faces.live_dashboard.polls import facts_of
from tabletopic_kernel.model.ledger import Ledger


def test_snapshots_of_ours_and_of_others(tmp_path: Path) -> None:
    """Figures come from the snapshots' summaries; only commits of ours carry a ledger."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("default")
    rows = pa.table({"n": [1, 2, 3]})
    table = catalog.create_table("default.clicks", rows.schema)
    for number in (1, 2):
        ledger = Ledger("clicks", "c", "t", {0: 2 * number, 1: number}, 4, f"id-{number}", commits=number)
        table.append(rows, snapshot_properties=ledger.to_summary())
    table.append(rows)  # somebody else's

    facts = facts_of(table)
    assert (facts.table, facts.rows, facts.files, facts.snapshots_in_all) == ("default.clicks", 9, 3, 3)
    newest, second, first = facts.snapshots
    assert (newest.epoch, newest.next_offsets) == (None, None)
    assert (second.epoch, second.next_offsets, second.rows) == (4, {0: 4, 1: 2}, 6)
    assert (first.operation, first.added_rows, first.added_files) == ("append", 3, 1)
    assert first.added_bytes > 0
