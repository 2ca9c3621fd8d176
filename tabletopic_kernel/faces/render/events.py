"""What an event of the control topic says, in one line."""

from __future__ import annotations

from tabletopic_kernel.faces.render import amounts
from tabletopic_kernel.model.progress.events import (
    CommitFailed,
    CommitRequested,
    Committed,
    ControlEvent,
    DeadLettered,
    Enabled,
    Failed,
    FilesStaged,
    GapDetected,
    Heartbeat,
    HostHeartbeat,
    Paused,
    Replayed,
    Resumed,
    SchemaEvolved,
    SchemaRefused,
    SchemaVersion,
    Stopped,
)


def event_text(event: ControlEvent) -> str:  # noqa: PLR0911, PLR0912 - one line for each kind
    """What happened, without time and topic."""
    # Longer than other functions, as it is a sentence for each event.
    match event:
        case Enabled():
            return f"taken by {event.host}, epoch {event.epoch}, at {_offsets(event.next_offsets)}"
        case FilesStaged():
            return f"{_amount(event.rows, event.files, event.bytes)} in {amounts.seconds(event.seconds)}"
        case Committed():
            amount = _amount(event.rows, event.files, event.bytes)
            return f"{amount} in {amounts.seconds(event.seconds)}, snapshot {event.snapshot_id}"
        case CommitFailed() | Failed():
            waits = "; waits and tries again" if isinstance(event, Failed) and event.waits else ""
            return event.reason + waits
        case SchemaEvolved():
            return f"{'; '.join(event.changes)}{_cause(event.cause)}"
        case SchemaRefused():
            refused = "; ".join(f"{column} {why}" for column, why in event.refused.items())
            return f"{refused}{_cause(event.cause)}"
        case DeadLettered():
            where = f" to {event.table}" if event.table else " left out"
            return f"{_counts(event.counts)}{where}"
        case Replayed():
            stayed = f", still dead letters: {_counts(event.stayed)}" if event.stayed else ""
            ended = f"; ended early: {event.error}" if event.error else ""
            return f"{event.rows:,} dead letters became rows{stayed}{ended}"
        case GapDetected():
            gone = "; ".join(
                f"partition {partition}: next was {wanted:,}, first is {first:,}"
                for partition, (wanted, first) in event.missing.items()
            )
            return f"{gone}; the topic goes on behind them" if event.skipped else gone
        case Heartbeat():
            at = event.progress
            return (
                f"{at.state}, {at.rows:,} rows, {at.rows_per_second:,.0f} rows/s, {at.staged_rows:,} staged"
            )
        case HostHeartbeat():
            memory = "" if event.memory_bytes is None else f", {amounts.size(event.memory_bytes)}"
            return f"{event.host} runs {', '.join(event.topics) or 'no topic'}{memory}"
        case Stopped():
            return f"let go by {event.host}"
        case Paused() | Resumed() | CommitRequested():
            return ""


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{reason}: {count:,}" for reason, count in counts.items())


def _amount(rows: int, files: int, size_bytes: int) -> str:
    return f"{rows:,} rows in {files:,} file{'' if files == 1 else 's'} ({amounts.size(size_bytes)})"


def _offsets(next_offsets: dict[int, int]) -> str:
    total = sum(next_offsets.values())
    return f"offset {total:,} over {len(next_offsets)} partitions"


def _cause(cause: SchemaVersion | None) -> str:
    return "" if cause is None else f" (by {cause.subject} v{cause.version}, id {cause.id})"
