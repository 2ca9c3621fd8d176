"""Time travel: from a snapshot id or a time to the snapshot to read."""

from __future__ import annotations

from datetime import UTC, date, datetime

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tabletopic_kernel.model.errors import UsageError

AsOf = int | str | date  # a datetime is a date


def snapshot_at(table: Table, at: AsOf | None) -> Snapshot | None:
    """The snapshot to read; None for a table that never had one. Raises UsageError if it is missing."""
    if at is None:
        return table.current_snapshot()
    as_of = _parsed(at)
    if isinstance(as_of, int):
        if (snapshot := table.snapshot_by_id(as_of)) is None:
            known = ", ".join(str(entry.snapshot_id) for entry in table.history()[-3:]) or "none"
            raise UsageError(f"{_dotted(table)} has no snapshot {as_of}; its newest: {known}")
        return snapshot
    snapshot = table.snapshot_as_of_timestamp(int(as_of.timestamp() * 1000))
    if snapshot is None:
        first = min((snapshot.timestamp_ms for snapshot in table.snapshots()), default=None)
        oldest = "none at all" if first is None else datetime.fromtimestamp(first / 1000, UTC).isoformat()
        raise UsageError(
            f"{_dotted(table)} has no snapshot as old as {as_of.isoformat()}; its first: {oldest}"
        )
    return snapshot


def _parsed(at: AsOf) -> int | datetime:
    if isinstance(at, str):
        if at.strip().isdecimal():
            return int(at)
        try:
            at = datetime.fromisoformat(at.strip())
        except ValueError:
            raise UsageError(
                f"{at!r} is neither a snapshot id nor a time such as 2026-01-31T12:00:00Z"
            ) from None
    if isinstance(at, date) and not isinstance(at, datetime):  # from midnight on, as in a text
        at = datetime(at.year, at.month, at.day)
    if isinstance(at, datetime):
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at
    if isinstance(at, int) and not isinstance(at, bool):
        return at
    raise UsageError(f"{at!r} is neither a snapshot id nor a time such as 2026-01-31T12:00:00Z")


def _dotted(table: Table) -> str:
    return ".".join(table.name())
