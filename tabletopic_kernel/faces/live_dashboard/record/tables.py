"""What the metadata of a table says, for the pages; reads no data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabletopic_kernel.faces.live_dashboard.record.view import SnapshotFacts, TableFacts
from tabletopic_kernel.model.ledger import Ledger, Offsets
from tabletopic_kernel.model.progress.progress_view import Commit

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

_SHOWN = 50


def facts_of(table: Table) -> TableFacts:
    """The table's figures and its newest snapshots."""
    snapshots = sorted(table.metadata.snapshots, key=lambda one: one.timestamp_ms, reverse=True)
    head = table.metadata.current_snapshot()
    totals = _summary(head) if head else {}
    return TableFacts(
        table=".".join(table.name()),
        rows=int(totals.get("total-records", 0)),
        files=int(totals.get("total-data-files", 0)),
        bytes=int(totals.get("total-files-size", 0)),
        snapshots_in_all=len(snapshots),
        snapshots=tuple(map(_snapshot, snapshots[:_SHOWN])),
    )


def commits_of(table: Table, before: int | None) -> list[tuple[Commit, Offsets]]:
    """Commits of records that the snapshots tell of, numbered below ``before`` (None: all of them).

    Each with the ledger after it.
    """
    found = []
    for snapshot in table.metadata.snapshots:
        facts, ledger = _snapshot(snapshot), Ledger.from_summary(_summary(snapshot))
        if ledger is None or facts.added_files == 0:
            continue
        if before is None or ledger.commits < before:
            told = (facts.added_rows, facts.added_files, facts.added_bytes, 0.0)
            found.append((Commit(facts.at_ms, facts.snapshot_id, *told), ledger.next_offsets))
    return found


def _snapshot(snapshot: Snapshot) -> SnapshotFacts:
    summary = _summary(snapshot)
    ledger = Ledger.from_summary(summary)
    return SnapshotFacts(
        snapshot_id=snapshot.snapshot_id,
        at_ms=snapshot.timestamp_ms,
        operation=str(snapshot.summary.operation.value) if snapshot.summary else "",
        added_rows=int(summary.get("added-records", 0)),
        added_files=int(summary.get("added-data-files", 0)),
        added_bytes=int(summary.get("added-files-size", 0)),
        total_rows=int(summary.get("total-records", 0)),
        commit_number=ledger.commits if ledger else None,
        epoch=ledger.epoch if ledger else None,
        records=sum(ledger.next_offsets.values()) if ledger else None,
    )


def _summary(snapshot: Snapshot) -> dict[str, str]:
    return dict(snapshot.summary.additional_properties) if snapshot.summary else {}
