"""One line of text for each event of the control topic."""

from __future__ import annotations

from rich.text import Text

from tabletopic_kernel.cli import screen
from tabletopic_kernel.core.events import (
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
    Paused,
    Resumed,
    SchemaEvolved,
    SchemaRefused,
    SchemaVersion,
    Stopped,
)

_STYLE = {
    "Enabled": "cyan",
    "Committed": "green",
    "CommitFailed": "yellow",
    "SchemaEvolved": "magenta",
    "SchemaRefused": "bold red",
    "DeadLettered": "yellow",
    "GapDetected": "bold red",
    "Failed": "bold red",
    "FilesStaged": "dim",
    "Heartbeat": "dim",
}


def event_line(event: ControlEvent) -> Text:
    """Local time, kind, topic, and what happened."""
    style = _STYLE.get(event.type, "")
    if isinstance(event, Failed) and event.waits:
        style = "yellow"
    return Text.assemble(
        (screen.clock_today(event.at_ms), "dim"),
        "  ",
        (f"{event.type:<14}", style),
        "  ",
        (event.topic, "bold"),
        "  ",
        event_text(event),
    )


def event_text(event: ControlEvent) -> str:  # noqa: PLR0911 - one line for each kind
    """What happened, without time and topic."""
    match event:
        case Enabled():
            return f"taken by {event.host}, epoch {event.epoch}, at {_offsets(event.next_offsets)}"
        case FilesStaged():
            return f"{_amount(event.rows, event.files, event.bytes)} in {screen.seconds(event.seconds)}"
        case Committed():
            amount = _amount(event.rows, event.files, event.bytes)
            return f"{amount} in {screen.seconds(event.seconds)}, snapshot {event.snapshot_id}"
        case CommitFailed() | Failed():
            waits = "; waits and tries again" if isinstance(event, Failed) and event.waits else ""
            return event.reason + waits
        case SchemaEvolved():
            return f"{'; '.join(event.changes)}{_cause(event.cause)}"
        case SchemaRefused():
            refused = "; ".join(f"{column} {why}" for column, why in event.refused.items())
            return f"{refused}{_cause(event.cause)}"
        case DeadLettered():
            return ", ".join(f"{reason}: {count:,}" for reason, count in event.counts.items())
        case GapDetected():
            return "; ".join(
                f"partition {partition}: next was {wanted:,}, first is {first:,}"
                for partition, (wanted, first) in event.missing.items()
            )
        case Heartbeat():
            at = event.progress
            return (
                f"{at.state}, {at.rows:,} rows, {at.rows_per_second:,.0f} rows/s, {at.staged_rows:,} staged"
            )
        case Stopped():
            return f"let go by {event.host}"
        case Paused() | Resumed() | CommitRequested():
            return ""


def _amount(rows: int, files: int, size_bytes: int) -> str:
    return f"{rows:,} rows in {files:,} file{'' if files == 1 else 's'} ({screen.size(size_bytes)})"


def _offsets(next_offsets: dict[int, int]) -> str:
    total = sum(next_offsets.values())
    return f"offset {total:,} over {len(next_offsets)} partitions"


def _cause(cause: SchemaVersion | None) -> str:
    return "" if cause is None else f" (by {cause.subject} v{cause.version}, id {cause.id})"
