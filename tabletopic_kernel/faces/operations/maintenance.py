"""Maintenance of a table by its owner: replay, compact and expire; their plans, and rebase."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, Field

from tabletopic_kernel.faces.operations.operation import (
    Arguments,
    Message,
    Option,
    Topic,
    Wait,
    line,
    operation,
    plain,
)
from tabletopic_kernel.faces.operations.topics import PANEL
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError
from tabletopic_kernel.model.progress.events import Compacted, Expired, OrphansRemoved, Replayed
from tabletopic_kernel.render.words import clock, event_text, seconds, size

if TYPE_CHECKING:
    from tabletopic_kernel.host.replay.dry_run import ReplayPlan
    from tabletopic_kernel.table.compaction.plan import CompactionPlan
    from tabletopic_kernel.table.expiry import ExpiryPlan
    from tabletopic_kernel.workbench.topics.rebase import Rebase
    from tabletopic_kernel.workbench.workbench import Workbench

T = TypeVar("T")
_MOST_GROUPS = 20  # displayed at most


def _outcome(outcome: T | None, work: str, topic: str, timeout: float) -> T:
    """What a host has done. Raises RetryableError if it has not yet."""
    if outcome is None:
        raise RetryableError(
            f"after {timeout:g} s the {work} of {topic} is still running; see `tabletopic events {topic}`"
        )
    return outcome


# --- dead letters -------------------------------------------------------------------------------------------


def _replay_text(outcome: Replayed | ReplayPlan, _: Arguments) -> list[Message]:
    text, changes = f"{outcome.rows:,} dead letters became rows", list[str]()
    if not isinstance(outcome, Replayed):
        text = f"{outcome.rows:,} of {outcome.letters:,} dead letters would become rows"
        changes = [f"  the table would change: {change}" for change in outcome.changes]
    stay = [f"  {count:,} stay dead letters: {reason}" for reason, count in sorted(outcome.stayed.items())]
    return list(map(line, [text, *stay, *changes]))


def _fields(*names: str) -> Callable[[Any], Any]:
    """The JSON of an outcome: these fields of an event, or a plan whole."""
    return lambda outcome: (
        outcome.model_dump(include={*names}) if isinstance(outcome, BaseModel) else plain(outcome)
    )


@operation(PANEL, _replay_text, json=_fields("topic", "rows", "stayed"), button="Replay Dead Letters…")
def replay(
    workbench: Workbench,
    topic: Topic,
    where: Annotated[str | None, Option("Only dead letters matching this condition", metavar="SQL")] = None,
    dry_run: Annotated[bool, Option("Report what would happen; change nothing")] = False,
    timeout: Wait = 300.0,
) -> Replayed | ReplayPlan:
    """Replay the dead letters of a topic: each becomes a row, or stays a dead letter.

    The topic's host replays them with the current settings and schemas.
    Conditions refer to columns of the dead-letter table: partition, offset,
    timestamp, schema_id, reason, message, at.

    Example:  tabletopic replay clicks --where "reason = 'unknown_schema'"
    """
    if dry_run:
        return workbench.topic(topic).plan_replay(where)
    outcome = _outcome(workbench.topic(topic).replay(where, timeout), "replay", topic, timeout)
    if outcome.error is not None:
        raise ActionNeededError(f"{outcome.error} ({outcome.rows:,} dead letters became rows)")
    return outcome


# --- compaction ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CompactionGroup:
    """Files of one partition that would be merged."""

    partition: Annotated[str, Field(description="Such as `day=2026-01-01`; empty without partitions")]
    files: int
    rows: Annotated[int, Field(description="Including deleted rows")]
    deleted_rows: Annotated[int, Field(description="Deleted rows that would be dropped; an upper bound")]
    bytes: int


@dataclass(frozen=True)
class CompactionPlanAnswer:
    """What a compaction would merge."""

    files: Annotated[int, Field(description="Data files of the table")]
    delete_files: Annotated[int, Field(description="Delete files of the table")]
    groups: list[CompactionGroup]
    left: Annotated[dict[str, int], Field(description="Files that would stay as they are, by reason")]
    refused: Annotated[str | None, Field(description="Why none of the table's files may be compacted")]


def counts_of(plan: CompactionPlan) -> CompactionPlanAnswer:
    """The plan with counts of files."""
    groups = [
        CompactionGroup(group.partition, len(group.files), group.rows, group.deleted_rows, group.bytes)
        for group in plan.groups
    ]
    return CompactionPlanAnswer(plan.files, len(plan.delete_files), groups, plan.left, plan.refused)


def _compact_text(outcome: Compacted | CompactionPlanAnswer, _: Arguments) -> list[Message]:
    if isinstance(outcome, CompactionPlanAnswer):
        return list(map(line, _compaction_plan_text(outcome)))
    if not outcome.files_before:
        return [line("no small files to compact, and none with deleted rows")]
    sizes = f"{size(outcome.bytes_before)} to {size(outcome.bytes)} in {seconds(outcome.seconds)}"
    files = f"{outcome.files_before:,} files became {outcome.files:,}"
    lines = [line(f"{files}: {outcome.rows:,} rows, {sizes}")]
    if outcome.deleted_rows or outcome.delete_files:
        deleted, files = f"{outcome.deleted_rows:,}", f"{outcome.delete_files:,}"
        new = f", {outcome.new_delete_files:,} written" if outcome.new_delete_files else ""
        lines.append(line(f"{deleted} deleted rows dropped, {files} delete files removed{new}"))
    return lines


def _compaction_plan_text(plan: CompactionPlanAnswer) -> Iterator[str]:
    if plan.refused is not None:
        yield f"nothing to compact: {plan.refused}"
        return
    chosen = sum(group.files for group in plan.groups)
    due = f"{chosen:,} of {plan.files:,} files would become {len(plan.groups):,}"
    yield due if plan.groups else f"nothing to compact in {plan.files:,} files"
    for group in plan.groups[:_MOST_GROUPS]:
        deleted = f" ({group.deleted_rows:,} deleted)" if group.deleted_rows else ""
        partition = f": {group.partition}" if group.partition else ""
        yield f"  {group.files:,} files, {group.rows:,} rows{deleted}, {size(group.bytes)}{partition}"
    if (more := len(plan.groups) - _MOST_GROUPS) > 0:
        yield f"  … and {more:,} more"
    yield from (f"  {count:,} files stay: {why}" for why, count in sorted(plan.left.items()))


_COMPACTED = ("topic", "files_before", "files", "bytes_before", "bytes", "rows", "deleted_rows")


@operation(PANEL, _compact_text, json=_fields(*_COMPACTED, "delete_files", "new_delete_files", "seconds"))
def compact(
    workbench: Workbench,
    topic: Topic,
    where: Annotated[
        str | None, Option("Only files that may contain rows matching this condition", metavar="SQL")
    ] = None,
    dry_run: Annotated[bool, Option("Report which files would be merged; change nothing")] = False,
    timeout: Wait = 600.0,
) -> Compacted | CompactionPlanAnswer:
    """Merge small files of a table and drop deleted rows, so that queries read fewer files.

    The topic's host compacts all partitions with at least two small files, not
    only those that are due, while ingestion continues. It compacts partitions
    that are due automatically, unless maintenance is off. The table of a topic
    that is not enabled has no host: this program compacts it. Conditions refer
    to columns of the table.

    Example:  tabletopic compact clicks --where "event_time >= '2026-01-01T00:00:00+00:00'"
    """
    if dry_run:
        return counts_of(workbench.topic(topic).plan_compaction(where))
    outcome = _outcome(workbench.topic(topic).compact(where, timeout), "compaction", topic, timeout)
    if outcome.error is not None:
        raise ActionNeededError(
            f"{outcome.error} (before that, {outcome.files_before:,} files became {outcome.files:,})"
        )
    return outcome


# --- expiry -------------------------------------------------------------------------------------------------


def _expire_text(outcome: Sequence[Expired | OrphansRemoved | ExpiryPlan], _: Arguments) -> list[Message]:
    lines: list[Message] = []
    for result in outcome:
        if isinstance(result, Expired | OrphansRemoved):
            lines.append(line(event_text(result)))
        else:
            lines += _expiry_plan_text(result)
    return lines


def _expiry_plan_text(plan: ExpiryPlan) -> Iterator[Message]:
    removed = f"{len(plan.files):,} files, {size(sum(plan.files.values()))}"
    snapshots = f"{len(plan.snapshots):,} snapshots would expire, {plan.kept:,} would stay"
    values = {"table": plan.table, "snapshots": snapshots, "removed": removed}
    yield Message("{table}: {snapshots}; {removed} would be removed", values)
    if plan.snapshots:
        times = plan.snapshots.values()
        yield line(f"  they are from {clock(min(times))} to {clock(max(times))}")
    if plan.snapshots and plan.reaches_back_to_ms is not None:
        yield line(f"  time travel would reach back to {clock(plan.reaches_back_to_ms)}")
    if plan.outside:
        yield line(f"  {plan.outside:,} files stay because they are outside the table's own folders")
    if plan.orphans:
        orphans = f"{len(plan.orphans):,} orphans, {size(sum(plan.orphans.values()))}"
        yield line(f"  {orphans} would be removed")


_EXPIRED = {"dead_letters", "snapshots", "kept", "reaches_back_to_ms", "files", "bytes", "outside"}


def _expire_json(outcome: Sequence[Expired | OrphansRemoved | ExpiryPlan]) -> Any:
    if plans := [result for result in outcome if not isinstance(result, Expired | OrphansRemoved)]:
        return {"tables": plain(plans)}
    expired = [result.model_dump(include=_EXPIRED) for result in outcome if isinstance(result, Expired)]
    orphans = next((result for result in outcome if isinstance(result, OrphansRemoved)), None)
    return {"tables": expired, "orphans": orphans and orphans.model_dump(include={"files", "bytes"})}


@operation(PANEL, _expire_text, json=_expire_json)
def expire(
    workbench: Workbench,
    topic: Topic,
    orphans: Annotated[
        bool, Option("Also remove orphan files; those of other programs only if older than 3 days")
    ] = False,
    dry_run: Annotated[bool, Option("Report what would be removed; change nothing")] = False,
    timeout: Wait = 600.0,
) -> Sequence[Expired | OrphansRemoved | ExpiryPlan]:
    """Expire old snapshots of a table now, and remove the files that only they needed.

    The topic's host expires them, and keeps what time_travel_ms, max_snapshots,
    keep_snapshots, branches and tags require. It also does so every hour, unless
    maintenance is off. The table of a topic that is not enabled has no host: this
    program expires it, with the settings of tabletopic.toml.

    Example:  tabletopic expire clicks --orphans --dry-run
    """
    if dry_run:
        return workbench.topic(topic).plan_expiry(orphans=orphans)
    outcome = workbench.topic(topic).expire(orphans=orphans, timeout_s=timeout)
    done = _outcome(outcome, "expiry", topic, timeout)
    if error := next((result.error for result in done if result.error), None):
        raise ActionNeededError(error)
    return done


# --- a copy of the topic ------------------------------------------------------------------------------------


def _rebase_text(outcome: Rebase, _: Arguments) -> list[Message]:
    topic = {"topic": outcome.topic}
    head = "{table}: from {topic} of cluster {before} to that of cluster {after} (topic id {id})"
    ids = {"before": outcome.cluster_id_before, "after": outcome.cluster_id, "id": outcome.topic_id}
    lines = [Message(head, {**topic, **ids, "table": outcome.table})]
    for move in outcome.partitions:
        text = "  partition {p}: offset {before} becomes {after}; the {n} records before it are equal"
        if not move.compared:
            text = "  partition {p}: offset {before} becomes {after}, its first"
        if move.without_rows:
            text += "; {w} offsets before the former had no row, and such records are read again"
        counts = {"p": move.partition, "before": move.before, "after": move.after}
        counts |= {"n": move.compared, "w": move.without_rows}
        lines.append(Message(text, {name: f"{number:,}" for name, number in counts.items()}))
    planned = "nothing is changed yet: `tabletopic rebase {topic} --yes` writes these offsets"
    done = "the ledger has these offsets; `tabletopic resume {topic}` reads from there"
    return [*lines, Message(done if outcome.done else planned, topic)]


@operation(PANEL, _rebase_text)
def rebase(
    workbench: Workbench,
    topic: Topic,
    records: Annotated[
        int, Option("How many of the last committed records of each partition to compare", least=1)
    ] = 1_000,
    yes: Annotated[bool, Option("Write the offsets, if they are proved")] = False,
    dry_run: Annotated[bool, Option("Show and prove the offsets; change nothing, as without --yes")] = False,
) -> Rebase:
    """Let a table continue with a copy of its topic, on another cluster or re-created.

    Finds the last committed records of each partition in the topic as it is now,
    decoded with the current registry, and shows where its offsets would continue.
    Refused unless the records are equal, in their order and in one place only.
    With --yes, one commit gives the table the new offsets; then resume the topic.

    Example:  tabletopic rebase clicks --yes
    """
    return workbench.topic(topic).rebase(records=records, dry_run=dry_run or not yes)
