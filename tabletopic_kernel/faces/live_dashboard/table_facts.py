"""Figures from a table's metadata, for the pages; reads no data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabletopic_kernel.faces.live_dashboard.view import SnapshotFacts, TableFacts
from tabletopic_kernel.model.ledger import Offsets
from tabletopic_kernel.model.progress.progress_view import Commit
from tabletopic_kernel.model.settings.sections import in_sql
from tabletopic_kernel.table.changes.ledger_history import ledger_of, live_rows, summary
from tabletopic_kernel.table.history import snapshot_of

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


_SHOWN = 50


def facts_of(table: Table, catalog: str | None = None) -> TableFacts:
    """The table's figures and its newest snapshots."""
    snapshots = sorted(table.metadata.snapshots, key=lambda one: one.timestamp_ms, reverse=True)
    head = table.metadata.current_snapshot()
    totals = summary(head) if head else {}
    return TableFacts(
        table=in_sql(table.name(), catalog),
        rows=live_rows(totals),
        files=int(totals.get("total-data-files", 0)),
        bytes=int(totals.get("total-files-size", 0)),
        snapshots_in_all=len(snapshots),
        snapshots=tuple(map(_snapshot, snapshots[:_SHOWN])),
    )


def commits_of(table: Table, before: int | None) -> list[tuple[Commit, Offsets]]:
    """Commits of records found in the snapshots, numbered below ``before`` (None: all of them).

    Each with the ledger after it.
    """
    found = []
    for snapshot in table.metadata.snapshots:
        facts, ledger = snapshot_of(snapshot), ledger_of(snapshot)
        if ledger is None or facts.added_files == 0 or facts.operation == "replace":
            continue
        if before is None or ledger.commits < before:
            figures = (facts.added_rows, facts.added_files, facts.added_bytes, 0.0)
            found.append((Commit(facts.at_ms, facts.snapshot_id, *figures), ledger.next_offsets))
    return found


def _snapshot(snapshot: Snapshot) -> SnapshotFacts:
    facts, ledger = snapshot_of(snapshot), ledger_of(snapshot)
    return SnapshotFacts(
        snapshot_id=facts.snapshot_id,
        at_ms=facts.at_ms,
        operation=facts.operation,
        added_rows=facts.added_rows,
        added_files=facts.added_files,
        added_bytes=facts.added_bytes,
        total_rows=facts.rows,
        commit_number=ledger.commits if ledger else None,
        epoch=facts.epoch,
        records=sum(ledger.next_offsets.values()) if ledger else None,
    )
