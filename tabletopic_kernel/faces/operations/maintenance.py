"""Operations that a topic's host carries out on request: replay, compact, expire; and their dry runs."""

# Imports are deferred: `tabletopic status` must respond at once.
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import Field

from tabletopic_kernel.faces.operations.operation import Message, Option, Topic, Wait, operation, plain
from tabletopic_kernel.faces.operations.topics import PANEL
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError

if TYPE_CHECKING:
    from tabletopic_kernel.host.replay.dry_run import ReplayPlan
    from tabletopic_kernel.model.progress.events import Compacted, Expired, OrphansRemoved, Replayed
    from tabletopic_kernel.table.compaction.plan import CompactionPlan
    from tabletopic_kernel.table.expiry import ExpiryPlan
    from tabletopic_kernel.workbench.workbench import Workbench

T = TypeVar("T")
Arguments = Mapping[str, Any]
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
    from tabletopic_kernel.host.replay.dry_run import ReplayPlan

    rows = f"{outcome.rows:,}"
    if isinstance(outcome, ReplayPlan):
        counts = {"rows": rows, "letters": f"{outcome.letters:,}"}
        first = Message("{rows} of {letters} dead letters would become rows", counts)
        changes = [Message("  the table would change: {text}", {"text": text}) for text in outcome.changes]
    else:
        first = Message("{rows} dead letters became rows", {"rows": rows})
        changes = []
    stay = [
        Message("  {count} stay dead letters: {reason}", {"count": f"{count:,}", "reason": reason})
        for reason, count in sorted(outcome.stayed.items())
    ]
    return [first, *stay, *changes]


def _replay_json(outcome: Replayed | ReplayPlan) -> Any:
    from tabletopic_kernel.model.progress.events import Replayed

    if isinstance(outcome, Replayed):
        return outcome.model_dump(include={"topic", "rows", "stayed"})
    return plain(outcome)


@operation(PANEL, _replay_text, json=_replay_json, button="Replay Dead Letters…")
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
    from tabletopic_kernel.render.words import seconds, size

    if isinstance(outcome, CompactionPlanAnswer):
        return list(_compaction_plan_text(outcome))
    if not outcome.files_before:
        return [Message("no small files to compact, and none with deleted rows")]
    values = {
        "before": f"{outcome.files_before:,}",
        "after": f"{outcome.files:,}",
        "rows": f"{outcome.rows:,}",
        "sizes": f"{size(outcome.bytes_before)} to {size(outcome.bytes)}",
        "seconds": seconds(outcome.seconds),
    }
    lines = [Message("{before} files became {after}: {rows} rows, {sizes} in {seconds}", values)]
    if outcome.deleted_rows or outcome.delete_files:
        gone = {"rows": f"{outcome.deleted_rows:,}", "files": f"{outcome.delete_files:,}"}
        lines.append(Message("{rows} deleted rows dropped, {files} delete files removed", gone))
    return lines


def _compaction_plan_text(plan: CompactionPlanAnswer) -> Iterator[Message]:
    from tabletopic_kernel.render.words import size

    if plan.refused is not None:
        yield Message("nothing to compact: {why}", {"why": plan.refused})
        return
    chosen = sum(group.files for group in plan.groups)
    counts = {"chosen": f"{chosen:,}", "files": f"{plan.files:,}", "groups": f"{len(plan.groups):,}"}
    due = "{chosen} of {files} files would become {groups}"
    yield Message(due if plan.groups else "nothing to compact in {files} files", counts)
    for group in plan.groups[:_MOST_GROUPS]:
        values = {
            "count": f"{group.files:,}",
            "rows": f"{group.rows:,}",
            "deleted": f" ({group.deleted_rows:,} deleted)" if group.deleted_rows else "",
            "size": size(group.bytes),
            "partition": f": {group.partition}" if group.partition else "",
        }
        yield Message("  {count} files, {rows} rows{deleted}, {size}{partition}", values)
    if (more := len(plan.groups) - _MOST_GROUPS) > 0:
        yield Message("  … and {more} more", {"more": f"{more:,}"})
    for why, count in sorted(plan.left.items()):
        yield Message("  {count} files stay: {why}", {"count": f"{count:,}", "why": why})


_COMPACTED = ("topic", "files_before", "files", "bytes_before", "bytes", "rows", "deleted_rows")


def _compact_json(outcome: Compacted | CompactionPlanAnswer) -> Any:
    if isinstance(outcome, CompactionPlanAnswer):
        return plain(outcome)
    return {name: getattr(outcome, name) for name in (*_COMPACTED, "delete_files", "seconds")}


@operation(PANEL, _compact_text, json=_compact_json)
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
    that are due automatically, unless maintenance is off. Conditions refer to
    columns of the table.

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
    from tabletopic_kernel.render.words import event_text
    from tabletopic_kernel.table.expiry import ExpiryPlan

    lines: list[Message] = []
    for result in outcome:
        if isinstance(result, ExpiryPlan):
            lines += _expiry_plan_text(result)
        else:
            lines.append(Message("{text}", {"text": event_text(result)}))
    return lines


def _expiry_plan_text(plan: ExpiryPlan) -> Iterator[Message]:
    from tabletopic_kernel.render.words import clock, size

    removed = f"{len(plan.files):,} files, {size(sum(plan.files.values()))}"
    values = {"table": plan.table, "count": f"{len(plan.snapshots):,}", "kept": f"{plan.kept:,}"}
    yield Message(
        "{table}: {count} snapshots would expire, {kept} would stay; {removed} would be removed",
        values | {"removed": removed},
    )
    if plan.snapshots:
        times = plan.snapshots.values()
        yield Message(
            "  they are from {first} to {last}", {"first": clock(min(times)), "last": clock(max(times))}
        )
    if plan.snapshots and plan.reaches_back_to_ms is not None:
        moment = clock(plan.reaches_back_to_ms)
        yield Message("  time travel would reach back to {moment}", {"moment": moment})
    if plan.outside:
        outside = f"{plan.outside:,}"
        yield Message(
            "  {outside} files stay because they are outside the table's own folders", {"outside": outside}
        )
    if plan.orphans:
        orphans = f"{len(plan.orphans):,} orphans, {size(sum(plan.orphans.values()))}"
        yield Message("  {orphans} would be removed", {"orphans": orphans})


_EXPIRED = {"dead_letters", "snapshots", "kept", "reaches_back_to_ms", "files", "bytes", "outside"}


def _expire_json(outcome: Sequence[Expired | OrphansRemoved | ExpiryPlan]) -> Any:
    from tabletopic_kernel.model.progress.events import Expired, OrphansRemoved
    from tabletopic_kernel.table.expiry import ExpiryPlan

    if plans := [result for result in outcome if isinstance(result, ExpiryPlan)]:
        return {"tables": plain(plans)}
    expired = [result.model_dump(include=_EXPIRED) for result in outcome if isinstance(result, Expired)]
    orphans = next((result for result in outcome if isinstance(result, OrphansRemoved)), None)
    return {"tables": expired, "orphans": orphans and orphans.model_dump(include={"files", "bytes"})}


@operation(PANEL, _expire_text, json=_expire_json)
def expire(
    workbench: Workbench,
    topic: Topic,
    orphans: Annotated[
        bool, Option("Also remove orphan files; those of other writers only if older than 3 days")
    ] = False,
    dry_run: Annotated[bool, Option("Report what would be removed; change nothing")] = False,
    timeout: Wait = 600.0,
) -> Sequence[Expired | OrphansRemoved | ExpiryPlan]:
    """Expire old snapshots of a table now, and remove the files that only they needed.

    The topic's host expires them, and keeps what time_travel_ms, max_snapshots,
    keep_snapshots, branches and tags require. It also does so every hour, unless
    maintenance is off.

    Example:  tabletopic expire clicks --orphans --dry-run
    """
    if dry_run:
        return workbench.topic(topic).plan_expiry(orphans=orphans)
    outcome = workbench.topic(topic).expire(orphans=orphans, timeout_s=timeout)
    done = _outcome(outcome, "expiry", topic, timeout)
    if error := next((result.error for result in done if result.error), None):
        raise ActionNeededError(error)
    return done
