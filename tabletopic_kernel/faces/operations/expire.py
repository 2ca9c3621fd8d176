"""The operation that expires old snapshots of a table, and its plan."""

# Imports are deferred: `tabletopic status` must respond at once.
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    from tabletopic_kernel.model.progress.events import Expired, OrphansRemoved
    from tabletopic_kernel.table.expiry import ExpiryPlan
    from tabletopic_kernel.workbench.workbench import Workbench

    Outcome = Sequence[Expired | OrphansRemoved] | Sequence[ExpiryPlan]

_ORPHANS = Argument(
    "orphans",
    "Also remove orphan files; those of other writers only if older than 3 days",
    Kind.FLAG,
    False,
    faces=TYPED | REST,
)


def _expire(workbench: Workbench, topic: str, orphans: bool, dry_run: bool, timeout: float) -> Outcome:
    if dry_run:
        return workbench.plan_expiry(topic, orphans=orphans)
    told = workbench.expire(topic, orphans=orphans, timeout_s=timeout)
    if told is None:
        raise RetryableError(
            f"after {timeout:g} s the expiry of {topic} is still running; see `tabletopic events {topic}`"
        )
    if error := next((one.error for one in told if one.error), None):
        raise ActionNeededError(error)
    return told


def _lines(outcome: Outcome, _: Mapping[str, Any]) -> list[Message]:
    """What an expiry did, or would do: a line or two per table."""
    from tabletopic_kernel.render.words import clock, event_text, size
    from tabletopic_kernel.table.expiry import ExpiryPlan

    lines = []
    for one in outcome:
        if not isinstance(one, ExpiryPlan):
            lines.append(Message("{text}", {"text": event_text(one)}))
            continue
        removed = f"{len(one.files):,} files, {size(sum(one.files.values()))}"
        values = {"table": one.table, "count": f"{len(one.snapshots):,}", "kept": f"{one.kept:,}"}
        lines.append(
            Message(
                "{table}: {count} snapshots would expire, {kept} would stay; {removed} would be removed",
                values | {"removed": removed},
            )
        )
        if one.snapshots:
            ends = {"first": clock(min(one.snapshots.values())), "last": clock(max(one.snapshots.values()))}
            lines.append(Message("  they are from {first} to {last}", ends))
        if one.snapshots and one.reaches_back_to_ms is not None:
            values = {"moment": clock(one.reaches_back_to_ms)}
            lines.append(Message("  time travel would reach back to {moment}", values))
        if one.outside:
            lines.append(
                Message(
                    "  {outside} files stay because they are outside the table's own folders",
                    {"outside": f"{one.outside:,}"},
                )
            )
        if one.orphans:
            orphans = f"{len(one.orphans):,} orphans, {size(sum(one.orphans.values()))}"
            lines.append(Message("  {orphans} would be removed", {"orphans": orphans}))
    return lines


def _json(outcome: Outcome) -> dict[str, Any]:
    from tabletopic_kernel.model.progress.events import Expired, OrphansRemoved
    from tabletopic_kernel.table.expiry import ExpiryPlan

    plans = [one.to_json() for one in outcome if isinstance(one, ExpiryPlan)]
    if plans:
        return {"tables": plans}
    told = {"dead_letters", "snapshots", "kept", "reaches_back_to_ms", "files", "bytes", "outside"}
    expired = [one.model_dump(include=told) for one in outcome if isinstance(one, Expired)]
    orphans = next((one for one in outcome if isinstance(one, OrphansRemoved)), None)
    found = orphans.model_dump(include={"files", "bytes"}) if orphans is not None else None
    return {"tables": expired, "orphans": found}


OPERATIONS = (
    Operation(
        "expire",
        "Expire old snapshots of a table now, and remove the files that only they needed",
        _expire,
        (
            TOPIC,
            _ORPHANS,
            Argument("dry_run", "Report what would be removed; change nothing", Kind.FLAG, False),
            time_limit("10m", "--wait"),
            JSON,
        ),
        changes=True,
        render=_lines,
        to_json=_json,
        returns="`tables`: for each `dead_letters`, `snapshots`, `kept`, `reaches_back_to_ms`, `files`, "
        "`bytes`, `outside`; `orphans`: `files`, `bytes`. With `--dry-run` `tables`: for each `table`, "
        "`snapshots` (id → ms), `kept`, `reaches_back_to_ms`, `files` and `orphans` (location → bytes), "
        "`outside`",
        panel=PANEL,
        details="""\
The topic's host expires them, and keeps what time_travel_ms, max_snapshots,
keep_snapshots, branches and tags require. It also does so every hour, unless
maintenance is off.""",
        example="tabletopic expire clicks --orphans --dry-run",
        magic="%topic expire",
        route=Route(
            "post",
            "topics/{topic}/expire",
            202,
            lambda: rest_bodies.RequestId,
            notes="The topic's host expires the snapshots; events with this id report the outcome: `Expired` "
            "for the dead letters, `Expired` for the topic's own table, and `OrphansRemoved` last.",
        ),
    ),
    Operation(
        "plan-expire",
        "Show which snapshots and files would be removed; nothing is changed",
        lambda workbench, topic, orphans: workbench.plan_expiry(topic, orphans=orphans),
        (TOPIC, _ORPHANS),
        to_json=_json,
        route=Route("post", "topics/{topic}/expire/plan", answer=lambda: rest_bodies.ExpiryPlanAnswer),
    ),
)
