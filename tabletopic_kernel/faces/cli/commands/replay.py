"""``replay``: dead letters once more through today's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import Call, JsonOption, command, duration_ms, not_in_time
from tabletopic_kernel.faces.cli.commands.topics import TopicArgument
from tabletopic_kernel.model.errors import ActionNeededError

if TYPE_CHECKING:
    from tabletopic_kernel.host.replay.plan import ReplayPlan
    from tabletopic_kernel.model.progress.events import Replayed


def add_to(app: typer.Typer) -> None:
    """Add this group's commands."""
    command(app, "Table topics")(replay)


def replay(
    call: Call,
    topic: TopicArgument,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Only letters of which this is true.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would happen; change nothing.")
    ] = False,
    wait: Annotated[
        str, typer.Option(metavar="DURATION", help="Wait so long for the outcome, e.g. 30s.")
    ] = "2m",
    as_json: JsonOption = False,
) -> None:
    """Try the dead letters of a topic again: each becomes a row, or stays a letter.

    The topic's host does it, with the settings and schemas of today. Conditions
    are on the columns of the dead-letter table: partition, offset, timestamp,
    schema_id, reason, message, at.

    Example:  tabletopic replay clicks --where "reason = 'unknown_schema'"
    """
    workbench = call.workbench
    if dry_run:
        _show_plan(workbench.plan_replay(topic, where), as_json)
        return
    wait_s = duration_ms("--wait", wait) / 1000
    outcome = workbench.replay(topic, where, timeout_s=wait_s)
    if outcome is None:
        raise not_in_time(f"the replay of {topic} goes on", wait_s)
    if outcome.error is not None:
        raise ActionNeededError(f"{outcome.error} ({outcome.rows:,} letters are rows now)")
    _show_outcome(outcome, as_json)


def _show_plan(plan: ReplayPlan, as_json: bool) -> None:
    if as_json:
        screen.show_json(plan.to_json())
        return
    screen.show(f"{plan.rows:,} of {plan.letters:,} letters would become rows")
    _show_stayed(plan.stayed)
    for change in plan.changes:
        screen.show(f"  the table would change: {screen.plain(change)}")


def _show_outcome(outcome: Replayed, as_json: bool) -> None:
    if as_json:
        screen.show_json({"topic": outcome.topic, "rows": outcome.rows, "stayed": outcome.stayed})
        return
    screen.show(f"{outcome.rows:,} letters are rows now")
    _show_stayed(outcome.stayed)


def _show_stayed(stayed: dict[str, int]) -> None:
    for reason, count in sorted(stayed.items()):
        screen.show(f"  {count:,} stay letters: {screen.plain(reason)}")
