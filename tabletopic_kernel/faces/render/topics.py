"""Table topics as tables for people: status, plan, schema, snapshots, events, newest records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tabletopic_kernel.faces.render.grid import Cell, Grid
from tabletopic_kernel.faces.render.values import text
from tabletopic_kernel.faces.render.words import age, clock, event_text, interval, number, seconds, size

if TYPE_CHECKING:
    from tabletopic_kernel.model.progress.events import ControlEvent
    from tabletopic_kernel.table.health import FileSizes, TableHealth
    from tabletopic_kernel.table.history import TableSnapshot, TopicSchema
    from tabletopic_kernel.workbench.hosts import HostStatus
    from tabletopic_kernel.workbench.peek import PeekedRecord
    from tabletopic_kernel.workbench.plan import Plan
    from tabletopic_kernel.workbench.status import TopicStatus

_GOOD = frozenset({"running", "staged", "committing"})
_QUIET = frozenset({"paused", "stopped"})
_UNKNOWN = "unknown"
_MANY_SMALL = 32  # as many as a compaction waits for
_NAMED = 3  # topics that are late for the same reason; the others are counted


def facts(title: str, pairs: Mapping[str, str | Cell], notes: Sequence[str] = ()) -> Grid:
    """Names and values, one pair a line."""
    return Grid(("name", "value"), list(pairs.items()), title, notes, headed=False)


def state_cell(state: str, delay: str | None = None) -> Cell:
    """A state in words, marked; of a topic that is late, why."""
    if delay:
        return Cell(delay.replace("_", " "), "warn")
    mark = "good" if state in _GOOD else "" if state in _QUIET else "bad" if state == "failed" else "warn"
    return Cell(state.replace("_", " "), mark)


def status_table(found: Sequence[TopicStatus], notes: Sequence[str] = ()) -> Grid:
    """One line for each table topic; errors below."""
    numbers = ("lag", "behind", "rows", "rows/s")
    columns = ("topic", "table", "state", *numbers, "schema", "committed")
    rows = [
        (
            one.topic,
            one.table,
            state_cell(one.state, one.delay),
            number(one.lag_records),
            seconds(one.lag_seconds),
            number(one.rows),
            number(one.rows_per_second),
            ", ".join(f"v{version['version']}" for version in one.schema_versions) or "-",
            age(one.last_commit_ms),
        )
        for one in found
    ]
    troubles = [f"{one.topic}: {one.error}" for one in found if one.error]
    troubles += [f"{names}: {reason}" for names, reason in delays(found)]
    return Grid(columns, rows, "", [*troubles, *notes], frozenset(numbers))


def delays(found: Sequence[TopicStatus]) -> list[tuple[str, str]]:
    """Names of the topics that are late, and why, once for each reason."""
    late: dict[str, list[str]] = {}
    for one in found:
        if one.delay_reason and not one.error:
            late.setdefault(one.delay_reason, []).append(one.topic)
    return [(_some(names), reason) for reason, names in late.items()]


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def status_facts(one: TopicStatus, notes: Sequence[str] = ()) -> Grid:
    """Everything about one table topic."""
    committed = "none yet"
    if one.last_commit_ms is not None:
        committed = f"{clock(one.last_commit_ms)} ({age(one.last_commit_ms)})"
    pairs: dict[str, str | Cell] = {
        "state": state_cell(one.state, one.delay),
        "table": one.table,
        "lag": f"{number(one.lag_records)} records, {seconds(one.lag_seconds)}",
        "rate": f"{number(one.rows_per_second)} rows/s",
        "rows": f"{number(one.rows)} in {_files(one.files)}, {number(one.staged_rows)} staged",
        "commits": f"{number(one.commits)}, every {interval(one.commit_interval_ms)}",
        "last commit": committed,
        "snapshot": str(one.snapshot_id or "none yet"),
        "schemas": ", ".join(f"{each['subject']} v{each['version']}" for each in one.schema_versions)
        or "none yet",
        "host": f"{one.host or 'none'}, epoch {one.epoch}",
        "offsets": _partitions(one),
    }
    pairs |= not_rows(one)
    if reason := one.error or one.delay_reason:
        pairs["reason"] = Cell(reason, "bad" if one.state == "failed" else "warn")
    return facts(one.topic, pairs, notes)


def _partitions(one: TopicStatus) -> str:
    """The next offset of each partition, and its end; ``-`` is not known."""
    places = sorted(one.end_offsets.keys() | one.next_offsets.keys())
    pairs = [
        f"{place}: {number(one.next_offsets.get(place))} of {number(one.end_offsets.get(place))}"
        for place in places
    ]
    return ", ".join(pairs) or "-"


def not_rows(one: TopicStatus) -> dict[str, str | Cell]:
    """What became of records that are no rows: refused, kept as dead letters, skipped, lost."""
    pairs: dict[str, str | Cell] = {}
    if one.refused:
        counts = ", ".join(f"{reason}: {count:,}" for reason, count in one.refused.items())
        kept = f"; {number(one.dead_letters)} in {one.dead_letter_table}" if one.dead_letter_table else ""
        pairs["refused"] = Cell(f"{counts}{kept}", "warn")
    if one.passed_over:
        pairs["skipped"] = ", ".join(f"{why}: {count:,}" for why, count in one.passed_over.items())
    if one.lost:
        places = ", ".join(f"partition {p}: {number(count)}" for p, count in sorted(one.lost.items()))
        pairs["lost"] = Cell(f"{number(sum(one.lost.values()))} records, by retention ({places})", "bad")
    return pairs


def _files(count: int) -> str:
    return f"{number(count)} file{'' if count == 1 else 's'}"


def plan_table(plan: Plan) -> Grid:
    """What enable would do, its reasons against it first."""
    verb = "creates" if plan.creates else "goes on with"
    by = f", partitioned by {', '.join(plan.partition_by)}" if plan.partition_by else ""
    rows = [
        (one.name, one.type, "required" if one.required else "optional", one.change, one.doc or "")
        for one in plan.columns
    ]
    refused = [f"refused: {reason}" for reason in plan.refused]
    registry = [plan.registry] if plan.registry else []
    title = f"{plan.topic} {verb} the table {plan.table}{by}"
    notes = [*refused, *plan.notes, *registry]
    return Grid(("column", "type", "presence", "change", "doc"), rows, title, notes)


def schema_table(schema: TopicSchema) -> Grid:
    """Columns, and the registered versions below."""
    rows = [
        (one.name, one.type, "required" if one.required else "optional", one.doc or "")
        for one in schema.columns
    ]
    versions = [
        f"{one.subject} v{one.version} (id {one.id})"
        + ("" if one.table_schema_id is not None else ": not in the table yet")
        for one in schema.versions
    ]
    which = f"version {schema.version} of the schema of {schema.topic}" if schema.version else schema.table
    return Grid(
        ("column", "type", "presence", "doc"), rows, which, versions or ["no registered versions yet"]
    )


def history_table(title: str, snapshots: Sequence[TableSnapshot]) -> Grid:
    """Snapshots, newest first."""
    numbers = ("added rows", "rows", "added files", "files", "bytes")
    rows = [
        (
            str(one.snapshot_id),
            clock(one.at_ms),
            one.operation,
            number(one.added_rows),
            number(one.rows),
            number(one.added_files),
            number(one.files),
            size(one.added_bytes),
            "-" if one.epoch is None else str(one.epoch),
            "-" if one.next_offsets is None else _offsets(one.next_offsets),
        )
        for one in snapshots
    ]
    columns = ("snapshot", "time", "operation", *numbers, "epoch", "ledger: next offsets")
    return Grid(columns, rows, title, () if rows else ("no snapshots yet",), frozenset(numbers))


def health_facts(one: TableHealth) -> Grid:
    """How well a table can be read."""
    small = f"{number(one.small_files)} below {size(one.target_bytes / 4)}, {one.small_share:.0%}"
    many_small = one.small_files > _MANY_SMALL and one.small_share > 0.5
    spread = f" in {number(one.partitions)} partitions" if one.partitions > 1 else ""
    back = one.reaches_back_to_ms
    oldest = f", time travel reaches back to {age(back)}" if back is not None else ""
    kept = f"; kept by {', '.join(one.refs)}" if one.refs else ""
    metadata = f"{size(one.metadata_bytes)}, {number(one.metadata_files)} versions"
    pairs: dict[str, str | Cell] = {
        "rows": f"{number(one.rows)} in {_files(one.files)}{spread}, {size(one.bytes)}",
        "small files": Cell(small, "warn" if many_small else "good"),
        "file sizes": ", ".join(map(_bar, one.sizes)) or "-",
        "deletes": f"{number(one.deleted_rows)} rows by {_files(one.delete_files)}"
        if one.delete_files
        else "none",
        "snapshots": f"{number(one.snapshots)}{oldest}{kept}",
        "manifests": f"{number(one.manifests)}, {size(one.manifest_bytes)}",
        "metadata": metadata,
    }
    pairs |= {work.work: Cell(work.why, "warn" if work.due else "") for work in one.next_work}
    return facts(one.table, pairs)


def _bar(one: FileSizes) -> str:
    bound = "larger" if one.up_to_bytes is None else f"to {size(one.up_to_bytes)}"
    return f"{number(one.files)} {bound}"


def _offsets(offsets: Mapping[int, int]) -> str:
    return ", ".join(f"{partition}: {offset:,}" for partition, offset in sorted(offsets.items()))


def events_table(title: str, found: Sequence[ControlEvent]) -> Grid:
    """What happened, newest first."""
    rows = [(clock(one.at_ms), one.type, one.topic, event_text(one)) for one in found]
    return Grid(("time", "event", "topic", "what"), rows, title, () if rows else ("nothing happened yet",))


def hosts_table(found: Sequence[HostStatus]) -> Grid:
    """One line for each live host; what an older version does not report is unknown."""
    rows = [
        (
            one.host,
            str(len(one.topics)),
            ", ".join(one.topics) or "-",
            _known(clock, one.started_ms),
            one.version or _UNKNOWN,
            _known(size, one.memory_bytes),
        )
        for one in found
    ]
    notes = () if rows else ("no host runs; start one with `tabletopic serve`",)
    columns = ("host", "topics", "runs", "since", "version", "memory")
    return Grid(
        columns, rows, "", notes, frozenset({"topics", "memory"}), unbroken=frozenset({"host", "since"})
    )


def _known(render: Callable[[int], str], value: int | None) -> str:
    return _UNKNOWN if value is None else render(value)


def records_table(title: str, records: Sequence[PeekedRecord]) -> Grid:
    """The newest records: fields, or why a record cannot become a row."""
    names = list(dict.fromkeys(name for one in records for name in (one.value or ())))
    bad = any(one.error for one in records)
    keyed = any(one.key_value is not None for one in records)
    more = [*(["error"] if bad else []), *(["key"] if keyed else [])]
    columns = ("partition", "offset", "time", "schema id", *more, *names)
    rows: list[tuple[str | Cell, ...]] = [
        (
            str(one.partition),
            str(one.offset),
            clock(one.timestamp_ms),
            "-" if one.schema_id is None else str(one.schema_id),
            *([Cell(one.error or "", "bad")] if bad else []),
            *([text(one.key_value)] if keyed else []),
            *(text(one.value.get(name)) if one.value else "" for name in names),
        )
        for one in records
    ]
    notes = () if rows else ("the topic has no records",)
    return Grid(columns, rows, title, notes, frozenset({"partition", "offset"}))
