"""Text for users: counts, sizes, durations, times, and one-line descriptions of events."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.progress.events import ControlEvent, SchemaVersion
from tabletopic_kernel.render.states import Tone

if TYPE_CHECKING:
    from tabletopic_kernel.query.answer import TableRead

_FEW_PARTITIONS: Final = 4


def number(value: float | None) -> str:
    """A count with commas; a dash if unknown."""
    if value is None:
        return "-"
    return f"{value:,.0f}"


def many(count: int, noun: str) -> str:
    """A number of things.

    >>> many(1, "file"), many(2_000, "file")
    ('1 file', '2,000 files')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size(count: float) -> str:
    """A size in bytes as text.

    >>> size(512), size(131072)
    ('512 B', '128.0 KiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def seconds(value: float | None) -> str:
    """A duration as text.

    >>> seconds(0.25), seconds(75), seconds(7300), seconds(None)
    ('0.2 s', '1 m 15 s', '2 h 1 m', '-')
    """
    if value is None:
        return "-"
    if value < 60:
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    whole = int(value)
    for unit, next_unit, length, part in (("m", "s", 60, 1), ("h", "m", 3600, 60), ("d", "h", 86400, 3600)):
        if whole < length * (60 if unit == "m" else 24 if unit == "h" else 10**9):
            return f"{whole // length} {unit} {whole % length // part} {next_unit}"
    return str(value)


def interval(milliseconds: float) -> str:
    """A configured duration, as short as possible.

    >>> interval(500), interval(5_000), interval(90_000)
    ('0.5 s', '5 s', '1 m 30 s')
    """
    return f"{milliseconds / 1000:g} s" if milliseconds < 60_000 else seconds(milliseconds / 1000)


def age(moment_ms: int | None) -> str:
    """The age of a time, in its largest unit."""
    if moment_ms is None:
        return "-"
    span = seconds(max(0.0, time.time() - moment_ms / 1000)).split()
    return f"{' '.join(span[:2])} ago"


def recent(moment_ms: int) -> str:
    """The age of a time, within the last second in ms."""
    ms = max(0.0, time.time() * 1000 - moment_ms)
    return f"{ms:.0f} ms ago" if ms < 1000 else age(moment_ms)


def freshness(read: TableRead) -> str:
    """How fresh a table was when a query read it, and how far the query read behind it."""
    if (live := read.live) is None:
        at_ms = read.snapshot_ms
        snapshot = "no snapshot yet" if at_ms is None else f"snapshot {read.snapshot_id} of {clock(at_ms)}"
        return f"{read.table}: {snapshot}" + ("" if at_ms is None else f", {age(at_ms)}")
    return (
        f"{read.table}: table to offset {_by_partition(live.table_to)} of snapshot {read.snapshot_id}, "
        f"live to {_by_partition(live.live_to)}, {many(live.records, 'record')}"
        + ("" if live.newest_ms is None else f", newest {recent(live.newest_ms)}")
        + (f"; refused: {_by_reason(live.refused)}" if live.refused else "")
        + (f"; ignored: {_by_reason(live.passed_over)}" if live.passed_over else "")
        + (f"; {number(live.unread)} more are left out by [live] {live.cut_by}" if live.cut_by else "")
        + (f"; the table alone: {live.missing}" if live.missing else "")
    )


def _by_partition(offsets: Mapping[int, int]) -> str:
    """Offsets in the order of partitions, or their sum if they are many."""
    if len(offsets) > _FEW_PARTITIONS:
        return f"{sum(offsets.values()):,} over {len(offsets)} partitions"
    return " + ".join(f"{offsets[p]:,}" for p in sorted(offsets))


def _by_reason(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number(count)} {reason}" for reason, count in counts.items())


def clock(moment_ms: int) -> str:
    """A time in local time with its zone, to the millisecond; an out-of-range number is kept."""
    try:
        local = datetime.fromtimestamp(moment_ms / 1000).astimezone()
    except (ValueError, OverflowError, OSError):  # a record's timestamp, which may be any number
        return f"{moment_ms} ms"
    return f"{local.strftime('%Y-%m-%d %H:%M:%S.%f')[:-3]} {local.strftime('%Z')}"


def clock_today(moment_ms: int) -> str:
    """Like ``clock``, without the zone; for today only the time."""
    text = clock(moment_ms).rpartition(" ")[0]
    return text.removeprefix(datetime.now().strftime("%Y-%m-%d ")) if moment_ms else text


def event_text(event: ControlEvent) -> str:  # noqa: PLR0911, PLR0912 - one line for each kind
    """The text of an event, without time and topic."""
    # Longer than other functions: a sentence for each event.
    match event:
        case events.Enabled():
            offset = f"{sum(event.next_offsets.values()):,} over {len(event.next_offsets)} partitions"
            return f"taken over by {event.host}, epoch {event.epoch}, at offset {offset}"
        case events.FilesStaged():
            return f"{_amount(event.rows, event.files, event.bytes)} in {seconds(event.seconds)}"
        case events.Committed():
            amount = _amount(event.rows, event.files, event.bytes)
            return f"{amount} in {seconds(event.seconds)}, snapshot {event.snapshot_id}"
        case events.CommitFailed() | events.Failed():
            waits = "; waiting to retry" if isinstance(event, events.Failed) and event.waits else ""
            return event.reason + waits
        case events.EnableRefused():
            return f"{event.reason} (the pattern {event.pattern} matches it)"
        case events.SchemaEvolved():
            return f"{'; '.join(event.changes)}{_cause(event.cause)}"
        case events.SchemaRefused():
            refused = "; ".join(f"{column} {why}" for column, why in event.refused.items())
            return f"{refused}{_cause(event.cause)}"
        case events.DeadLettered():
            where = f" to {event.table}" if event.table else " skipped"
            return f"{_counts(event.counts)}{where}"
        case events.Replayed():
            stayed = f", still dead letters: {_counts(event.stayed)}" if event.stayed else ""
            ended = f"; ended early: {event.error}" if event.error else ""
            return f"{event.rows:,} dead letters became rows{stayed}{ended}"
        case events.LettersDropped():
            count = f"{sum(event.letters.values()):,} dead letters dropped"
            ended = f"; ended early: {event.error}" if event.error else ""
            return f"{count} by {event.by}: {event.note}; {_counts(event.letters)}{ended}"
        case events.Compacted() | events.Expired() | events.OrphansRemoved():
            return _maintenance_text(event)
        case events.RowsDeleted() | events.Erased():
            return _deletion_text(event)
        case events.GapDetected() if event.on_truncation:
            ranges = (f"partition {p}: {first:,} to {end - 1:,}" for p, (first, end) in event.missing.items())
            rows = "stay, marked in the ledger" if event.on_truncation == "mark" else "were deleted"
            return f"the log lost {'; '.join(ranges)}, and is read again from there; their rows {rows}"
        case events.GapDetected():
            text = "; ".join(
                f"partition {partition}: next offset was {wanted:,}, the first available is {first:,}"
                for partition, (wanted, first) in event.missing.items()
            )
            return f"{text}; the topic continues after the gap" if event.skipped else text
        case events.Heartbeat():
            progress, rate = event.progress, f"{event.progress.rows_per_second:,.0f} rows/s"
            return f"{progress.state}, {many(progress.rows, 'row')}, {rate}, {progress.staged_rows:,} staged"
        case events.HostHeartbeat():
            memory = "" if event.memory_bytes is None else f", {size(event.memory_bytes)}"
            return f"{event.host} runs {', '.join(event.topics) or 'no topic'}{memory}"
        case events.Stopped():
            return f"released by {event.host}"
        case events.Paused() | events.Resumed() | events.CommitRequested():
            return ""


_NAMES: Mapping[type[ControlEvent], str] = {
    events.Enabled: "taken over",
    events.Failed: "error",
    events.GapDetected: "gap",
    events.Stopped: "released",
    events.Expired: "snapshots expired",
}


def event_name(event: ControlEvent) -> str:
    """The kind of an event in words, such as ``commit failed``."""
    return _NAMES.get(type(event)) or re.sub(r"(?<!^)(?=[A-Z])", " ", event.type).lower()


_TONES: Mapping[type[ControlEvent], Tone] = {
    events.Committed: "good",
    events.Enabled: "good",
    events.Resumed: "good",
    events.SchemaEvolved: "note",
    events.CommitFailed: "warn",
    events.DeadLettered: "warn",
    events.SchemaRefused: "bad",
    events.EnableRefused: "bad",
    events.GapDetected: "bad",
}


def event_tone(event: ControlEvent) -> Tone:
    """How much attention an event needs."""
    if isinstance(event, events.Failed):
        return "warn" if event.waits else "bad"
    if hasattr(event, "error"):  # the end of a request
        return "good" if event.error is None else "bad"
    return _TONES.get(type(event), "quiet")


def _deletion_text(event: events.RowsDeleted | events.Erased) -> str:
    files = f"{many(event.files, 'file')} removed, {event.rewritten:,} rewritten"
    ended = f"; ended early: {event.error}" if event.error else ""
    if isinstance(event, events.RowsDeleted):
        old = f" with {event.column} before {clock(event.before_ms)}" if event.column else ""
        return f"deleted {many(event.rows, 'row')}{old}: {files}{ended}"
    letters = many(sum(event.letters.values()), "dead letter")
    left = f"; not whole: {'; '.join(event.left)}" if event.left else ""
    return f"erased {many(event.rows, 'row')} and {letters} for {event.by}: {files}{left}{ended}"


def _maintenance_text(event: events.Compacted | events.Expired | events.OrphansRemoved) -> str:
    ended = f"; ended early: {event.error}" if event.error else ""
    if isinstance(event, events.Compacted) and not event.files_before:
        return event.error or "no small files to compact"
    if isinstance(event, events.Compacted):
        sizes = f"{size(event.bytes_before)} to {size(event.bytes)}"
        of = " of dead letters" if event.dead_letters else ""
        deleted = f" without {event.deleted_rows:,} deleted rows" if event.deleted_rows else ""
        files = f"{many(event.files_before, 'file')}{of} to {event.files:,}"
        return f"{files}, {many(event.rows, 'row')}{deleted}, {sizes} in {seconds(event.seconds)}{ended}"
    removed = f"{many(event.files, 'file')}, {size(event.bytes)}"
    if isinstance(event, events.OrphansRemoved):
        return f"removed orphans: {removed}{ended}"
    of = " of the dead-letter table" if event.dead_letters else ""
    back = ""
    if event.reaches_back_to_ms is not None:
        back = f", {seconds((event.at_ms - event.reaches_back_to_ms) / 1000)} back"
    snapshots = f"{many(event.snapshots, 'snapshot')}{of} expired, {event.kept:,} kept"
    return f"{snapshots}{back}; removed {removed}{ended}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{reason}: {count:,}" for reason, count in counts.items())


def _amount(rows: int, files: int, size_bytes: int) -> str:
    return f"{many(rows, 'row')} in {many(files, 'file')} ({size(size_bytes)})"


def _cause(cause: SchemaVersion | None) -> str:
    return "" if cause is None else f" (by {cause.subject} v{cause.version}, id {cause.id})"
