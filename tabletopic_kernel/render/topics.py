"""Table topics as tables: status, plan, schema, snapshots, events, newest records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tabletopic_kernel.render.grid import Cell, Grid
from tabletopic_kernel.render.states import UNKNOWN, need_of, words_of
from tabletopic_kernel.render.words import age, clock, event_text, interval, many, number, seconds, size

if TYPE_CHECKING:
    from tabletopic_kernel.model.progress.events import ControlEvent
    from tabletopic_kernel.table.health import FileSizes, TableHealth
    from tabletopic_kernel.table.history import TableSnapshot, TopicSchema
    from tabletopic_kernel.workbench.hosts import HostStatus
    from tabletopic_kernel.workbench.plan import Plan
    from tabletopic_kernel.workbench.topics.topic_status import TopicStatus

_MARKS = {"good": "good", "quiet": "", "bad": "bad"}  # of a cell; other tones warn
_MANY_SMALL = 32  # files; a compaction begins with as many
_SHOWN_NAMES = 3  # topics with the same delay; the others are counted


def facts(title: str, pairs: Mapping[str, str | Cell]) -> Grid:
    """Names and values, one pair per line."""
    return Grid(("name", "value"), list(pairs.items()), title, headed=False)


def state_cell(standing: str) -> Cell:
    """A state, or why a topic is late or waits, in words, marked."""
    words = words_of(standing)
    return Cell(words.word, _MARKS.get(words.tone, "warn"))


def status_table(statuses: Sequence[TopicStatus], notes: Sequence[str] = ()) -> Grid:
    """One line per table topic, those that need a person first; errors below."""
    statuses = sorted(statuses, key=lambda status: need_of(status.standing))
    numbers = ("lag", "behind", "rows", "rows/s")
    columns = ("topic", "table", "state", *numbers, "schema", "committed")
    rows = [
        (
            status.topic,
            status.table,
            state_cell(status.standing),
            number(status.lag_records),
            seconds(status.lag_seconds),
            number(status.rows),
            number(status.rows_per_second),
            ", ".join(f"v{version['version']}" for version in status.schema_versions) or "-",
            age(status.last_commit_ms),
        )
        for status in statuses
    ]
    troubles = [f"{status.topic}: {status.error}" for status in statuses if status.error]
    troubles += [f"{names}: {reason}" for names, reason in delays(statuses)]
    return Grid(columns, rows, "", [*troubles, *notes], frozenset(numbers))


def delays(statuses: Sequence[TopicStatus]) -> list[tuple[str, str]]:
    """Names of the topics that are late, with the reason, once per reason."""
    late: dict[str, list[str]] = {}
    for status in statuses:
        if status.delay_reason and not status.error:
            late.setdefault(status.delay_reason, []).append(status.topic)
    return [(_first_names(names), reason) for reason, names in late.items()]


def _first_names(names: Sequence[str]) -> str:
    hidden = len(names) - _SHOWN_NAMES
    return ", ".join(names[:_SHOWN_NAMES]) + (f" and {hidden} more" if hidden > 0 else "")


def status_facts(status: TopicStatus) -> Grid:
    """Everything about one table topic."""
    committed = "none yet"
    if status.last_commit_ms is not None:
        committed = f"{clock(status.last_commit_ms)} ({age(status.last_commit_ms)})"
    pairs: dict[str, str | Cell] = {
        "state": state_cell(status.standing),
        "table": status.table,
        "lag": f"{number(status.lag_records)} records, {seconds(status.lag_seconds)}{_waiting(status)}",
        "rate": f"{number(status.rows_per_second)} rows/s",
        "rows": f"{number(status.rows)} in {many(status.files, 'file')}, {number(status.staged_rows)} staged"
        + (f", {number(status.staging_records)} being staged" if status.staging_records else ""),
        "commits": f"{number(status.commits)}, every {interval(status.commit_interval_ms)}",
        "last commit": committed,
        "snapshot": str(status.snapshot_id or "none yet"),
        "schemas": ", ".join(
            f"{version['subject']} v{version['version']}" for version in status.schema_versions
        )
        or "none yet",
        "host": f"{status.host or 'none'}, epoch {status.epoch}",
        "offsets": _partitions(status),
    }
    pairs |= {"paused by": status.paused_by} if status.paused_by else {}
    if status.caught_up_s is not None:
        pairs["caught up"] = f"in about {seconds(status.caught_up_s)} at this rate"
    pairs |= not_rows(status)
    if reason := status.error or status.delay_reason:
        pairs["reason"] = Cell(reason, "bad" if status.state == "failed" else "warn")
    if section := words_of(status.state, status.delay).section:
        pairs["help"] = f"`tabletopic docs trouble {section}`"
    return facts(status.topic, pairs)


def _waiting(status: TopicStatus) -> str:
    return f"; {number(status.waiting_records)} more in open transactions" if status.waiting_records else ""


def _partitions(status: TopicStatus) -> str:
    """The next offset of each partition, and its end; ``-`` if unknown."""
    next_offsets, ends = status.next_offsets, status.end_offsets
    pairs = [
        f"{partition}: {number(next_offsets.get(partition))} of {number(ends.get(partition))}"
        for partition in sorted(ends.keys() | next_offsets.keys())
    ]
    return ", ".join(pairs) or "-"


def not_rows(status: TopicStatus) -> dict[str, str | Cell]:
    """Records that did not become rows: rejected, kept as dead letters, skipped, lost; and doubtful ones."""
    pairs: dict[str, str | Cell] = {}
    if status.refused:
        counts = ", ".join(f"{reason}: {count:,}" for reason, count in status.refused.items())
        kept = (
            f"; {number(status.dead_letters)} in {status.dead_letter_table}"
            if status.dead_letter_table
            else ""
        )
        pairs["refused"] = Cell(f"{counts}{kept}", "warn")
    if status.expectation_failures:
        counts = ", ".join(f"{name}: {count:,}" for name, count in status.expectation_failures.items())
        pairs["expectations"] = Cell(f"rows that fail {counts}", "warn")
    if status.changes:
        pairs["changes"] = ", ".join(f"{change}: {count:,}" for change, count in status.changes.items())
    if status.passed_over:
        pairs["no row"] = ", ".join(f"{why}: {count:,}" for why, count in status.passed_over.items())
    if status.outliers:
        places = ", ".join(
            f"partition {p}: {number(outliers.records)}, the last at offset {number(outliers.offset)} "
            f"({clock(outliers.timestamp_ms)})"
            for p, outliers in sorted(status.outliers.items())
        )
        count = sum(outliers.records for outliers in status.outliers.values())
        pairs["future"] = Cell(
            f"{number(count)} records ahead of the clock, not in the watermark ({places})", "warn"
        )
    if status.lost:
        places = ", ".join(f"partition {p}: {number(count)}" for p, count in sorted(status.lost.items()))
        pairs["lost"] = Cell(f"{number(sum(status.lost.values()))} records, by retention ({places})", "bad")
    return pairs


def plan_table(plan: Plan) -> Grid:
    """What enable would do, with the reasons against it first."""
    verb = "creates" if plan.creates else "resumes with"
    by = f", partitioned by {', '.join(plan.partition_by)}" if plan.partition_by else ""
    by += f", sorted by {', '.join(plan.sort_by)}" if plan.sort_by else ""
    rows = [
        (
            column.name,
            column.type,
            "required" if column.required else "optional",
            column.change,
            column.doc or "",
        )
        for column in plan.columns
    ]
    refused = [f"refused: {reason}" for reason in plan.refused]
    registry = [plan.registry] if plan.registry else []
    title = f"{plan.topic} {verb} the table {plan.table}{by}"
    notes = [*refused, *plan.notes, *registry]
    return Grid(("column", "type", "presence", "change", "doc"), rows, title, notes)


def schema_table(schema: TopicSchema) -> Grid:
    """Columns, and the registered versions below."""
    rows = [
        (column.name, column.type, "required" if column.required else "optional", column.doc or "")
        for column in schema.columns
    ]
    versions = [
        f"{version.subject} v{version.version} (id {version.id})"
        + ("" if version.table_schema_id is not None else ": not in the table yet")
        for version in schema.versions
    ]
    title = f"version {schema.version} of the schema of {schema.topic}" if schema.version else schema.table
    return Grid(
        ("column", "type", "presence", "doc"),
        rows,
        title,
        [*schema.reused_ids, *schema.encrypted, *(versions or ["no registered versions yet"])],
    )


def history_table(title: str, snapshots: Sequence[TableSnapshot]) -> Grid:
    """Snapshots, newest first."""
    numbers = ("added rows", "rows", "added files", "files", "bytes")
    rows = [
        (
            str(snapshot.snapshot_id),
            clock(snapshot.at_ms),
            snapshot.operation,
            number(snapshot.added_rows),
            number(snapshot.rows),
            number(snapshot.added_files),
            number(snapshot.files),
            size(snapshot.added_bytes),
            "-" if snapshot.epoch is None else str(snapshot.epoch),
            "-" if snapshot.next_offsets is None else _offsets(snapshot.next_offsets),
        )
        for snapshot in snapshots
    ]
    columns = ("snapshot", "time", "operation", *numbers, "epoch", "ledger: next offsets")
    return Grid(columns, rows, title, () if rows else ("no snapshots yet",), frozenset(numbers))


def health_facts(health: TableHealth) -> Grid:
    """A table's health."""
    small = f"{number(health.small_files)} below {size(health.target_bytes / 4)}, {health.small_share:.0%}"
    many_small = health.small_files > _MANY_SMALL and health.small_share > 0.5
    spread = f" in {number(health.partitions)} partitions" if health.partitions > 1 else ""
    back = health.reaches_back_to_ms
    oldest = f", time travel reaches back to {age(back)}" if back is not None else ""
    kept = f"; kept by {', '.join(health.refs)}" if health.refs else ""
    metadata = f"{size(health.metadata_bytes)}, {number(health.metadata_files)} versions"
    pairs: dict[str, str | Cell] = {
        "rows": f"{number(health.rows)} in {many(health.files, 'file')}{spread}, {size(health.bytes)}",
        "small files": Cell(small, "warn" if many_small else "good"),
        "file sizes": ", ".join(map(_bar, health.sizes)) or "-",
        "deletes": f"{number(health.deleted_rows)} rows by {many(health.delete_files, 'file')}"
        if health.delete_files
        else "none",
        "snapshots": f"{number(health.snapshots)}{oldest}{kept}",
        "manifests": f"{number(health.manifests)}, {size(health.manifest_bytes)}",
        "metadata": metadata,
    }
    if health.doubts:
        pairs["doubts"] = Cell("; ".join(health.doubts), "warn")
    pairs |= {work.work: Cell(work.why, "warn" if work.due else "") for work in health.next_work}
    return facts(health.table, pairs)


def _bar(sizes: FileSizes) -> str:
    bound = "larger" if sizes.up_to_bytes is None else f"to {size(sizes.up_to_bytes)}"
    return f"{number(sizes.files)} {bound}"


def _offsets(offsets: Mapping[int, int]) -> str:
    return ", ".join(f"{partition}: {offset:,}" for partition, offset in sorted(offsets.items()))


def events_table(title: str, events: Sequence[ControlEvent]) -> Grid:
    """Events, newest first."""
    rows = [(clock(event.at_ms), event.type, event.topic, event_text(event)) for event in events]
    return Grid(("time", "event", "topic", "what"), rows, title, () if rows else ("no events yet",))


def hosts_table(hosts: Sequence[HostStatus]) -> Grid:
    """One line per live host; unknown if an older version does not report it."""
    rows = [
        (
            host.host,
            str(len(host.topics)),
            ", ".join(host.topics) or "-",
            _known(clock, host.started_ms),
            host.version or UNKNOWN,
            _known(size, host.memory_bytes),
        )
        for host in hosts
    ]
    notes = () if rows else ("no host runs; start one with `tabletopic serve`",)
    columns = ("host", "topics", "runs", "since", "version", "memory")
    return Grid(
        columns, rows, "", notes, frozenset({"topics", "memory"}), unbroken=frozenset({"host", "since"})
    )


def _known(render: Callable[[int], str], value: int | None) -> str:
    return UNKNOWN if value is None else render(value)
