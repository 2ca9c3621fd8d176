"""The operation that compacts small files of a table, and its plan."""

# Imports are deferred: `tabletopic status` must respond at once.
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tabletopic_kernel.faces.operations import rest_bodies
from tabletopic_kernel.faces.operations.operation import (
    JSON,
    REST,
    TOPIC,
    TYPED,
    Argument,
    Kind,
    Message,
    Operation,
    Route,
    time_limit,
)
from tabletopic_kernel.faces.operations.topics import PANEL
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError

if TYPE_CHECKING:
    from tabletopic_kernel.model.progress.events import Compacted
    from tabletopic_kernel.table.compaction.plan import CompactionPlan
    from tabletopic_kernel.workbench.workbench import Workbench

_WHERE = Argument(
    "where", "Only files that may contain rows matching this condition", metavar="SQL", faces=TYPED | REST
)
_MOST_GROUPS = 20  # displayed at most


def _compact(
    workbench: Workbench, topic: str, where: str | None, dry_run: bool, timeout: float
) -> Compacted | CompactionPlan:
    if dry_run:
        return workbench.plan_compaction(topic, where)
    outcome = workbench.compact(topic, where, timeout_s=timeout)
    if outcome is None:
        raise RetryableError(
            f"after {timeout:g} s the compaction of {topic} is still running; see `tabletopic events {topic}`"
        )
    if outcome.error is not None:
        raise ActionNeededError(
            f"{outcome.error} (before that, {outcome.files_before:,} files became {outcome.files:,})"
        )
    return outcome


def _lines(outcome: Compacted | CompactionPlan, _: Mapping[str, Any]) -> list[Message]:
    """What a compaction did, or what it would do."""
    from tabletopic_kernel.model.progress.events import Compacted
    from tabletopic_kernel.render.words import seconds, size

    if isinstance(outcome, Compacted):
        if not outcome.files_before:
            return [Message("no small files to compact, and none with deleted rows")]
        values = {
            "before": f"{outcome.files_before:,}",
            "after": f"{outcome.files:,}",
            "rows": f"{outcome.rows:,}",
            "sizes": f"{size(outcome.bytes_before)} to {size(outcome.bytes)}",
            "seconds": seconds(outcome.seconds),
        }
        told = [Message("{before} files became {after}: {rows} rows, {sizes} in {seconds}", values)]
        if outcome.deleted_rows or outcome.delete_files:
            gone = {"rows": f"{outcome.deleted_rows:,}", "files": f"{outcome.delete_files:,}"}
            told.append(Message("{rows} deleted rows dropped, {files} delete files removed", gone))
        return told
    return _plan_lines(outcome)


def _plan_lines(plan: CompactionPlan) -> list[Message]:
    from tabletopic_kernel.render.words import size

    if plan.refused is not None:
        return [Message("nothing to compact: {why}", {"why": plan.refused})]
    chosen = sum(len(group.files) for group in plan.groups)
    counts = {"chosen": f"{chosen:,}", "files": f"{plan.files:,}", "groups": f"{len(plan.groups):,}"}
    first = Message("{chosen} of {files} files would become {groups}", counts)
    groups = [
        Message(
            "  {count} files, {rows} rows{deleted}, {size}{partition}",
            {
                "count": f"{len(group.files):,}",
                "rows": f"{group.rows:,}",
                "deleted": f" ({group.deleted_rows:,} deleted)" if group.deleted_rows else "",
                "size": size(group.bytes),
                "partition": f": {group.partition}" if group.partition else "",
            },
        )
        for group in plan.groups[:_MOST_GROUPS]
    ]
    if (more := len(plan.groups) - _MOST_GROUPS) > 0:
        groups.append(Message("  … and {more} more", {"more": f"{more:,}"}))
    left = [
        Message("  {count} files stay: {why}", {"count": f"{count:,}", "why": why})
        for why, count in sorted(plan.left.items())
    ]
    return [first, *groups, *left]


def _json(outcome: Compacted | CompactionPlan) -> dict[str, Any]:
    from tabletopic_kernel.model.progress.events import Compacted

    if not isinstance(outcome, Compacted):
        return outcome.to_json()
    told = ("topic", "files_before", "files", "bytes_before", "bytes", "rows")
    deletes = ("deleted_rows", "delete_files")
    return {name: getattr(outcome, name) for name in (*told, *deletes, "seconds")}


OPERATIONS = (
    Operation(
        "compact",
        "Merge small files of a table and drop deleted rows, so that queries read fewer files",
        _compact,
        (
            TOPIC,
            _WHERE,
            Argument("dry_run", "Report which files would be merged; change nothing", Kind.FLAG, False),
            time_limit("10m", "--wait"),
            JSON,
        ),
        changes=True,
        render=_lines,
        to_json=_json,
        returns="`topic`, `files_before`, `files`, `bytes_before`, `bytes`, `rows`, `deleted_rows`, "
        "`delete_files`, `seconds`; with `--dry-run` `files`, `delete_files`, `groups` (`partition`, "
        "`files`, `rows`, `deleted_rows`, `bytes`), `left` (reason → count), `refused`",
        panel=PANEL,
        details="""\
The topic's host compacts all partitions with at least two small files, not
only those that are due, while ingestion continues. It compacts partitions
that are due automatically, unless maintenance is off. Conditions refer to
columns of the table.""",
        example="tabletopic compact clicks --where \"event_time >= '2026-01-01T00:00:00+00:00'\"",
        magic="%topic compact",
        route=Route(
            "post",
            "topics/{topic}/compact",
            202,
            lambda: rest_bodies.RequestId,
            notes="The topic's host compacts; a `Compacted` event with this id reports the outcome.",
        ),
    ),
    Operation(
        "plan-compact",
        "Show what a compaction would merge; nothing is changed",
        lambda workbench, topic, where: workbench.plan_compaction(topic, where),
        (TOPIC, _WHERE),
        to_json=_json,
        route=Route("post", "topics/{topic}/compact/plan", answer=lambda: rest_bodies.CompactionPlanAnswer),
    ),
)
