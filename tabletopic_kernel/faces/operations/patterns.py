"""Several topics at once: those that a pattern matches, such as ``shop.*``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from tabletopic_kernel.faces.operations.operation import Message, Option
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError, UsageError
from tabletopic_kernel.model.topic_names import check_topic_name, stands_for

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.workbench import Workbench

Topics = Annotated[
    str, Option("Name of the Kafka topic, or a pattern", metavar="TOPIC", positional=True, names="topics")
]
Exclude = Annotated[str, Option("With a pattern: leave out topics of these, with commas", metavar="PATTERNS")]
Yes = Annotated[bool, Option("With a pattern: enable them; without, only the plan is shown")]
Standing = Annotated[bool, Option("With a pattern: enable topics that come later, too, as they come")]


@dataclass(frozen=True)
class Enabling:
    """A topic that is to be a table topic, and its table; ``refused``: why it cannot be.

    ``warnings``: why its records may not become rows.
    """

    topic: str
    table: str
    refused: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Enablings:
    """The topics of a pattern that are not enabled yet; ``done`` is false in a plan.

    ``standing``: topics that come later are enabled, too.
    """

    topics: list[Enabling]
    done: bool
    standing: bool = False


def is_pattern(topic: str) -> bool:
    """Whether a text stands for several topics; no topic's name has these characters."""
    return not {"*", "?"}.isdisjoint(topic)


def enable_each(
    workbench: Workbench,
    pattern: str,
    settings: dict[str, Any],
    exclude: str,
    *,
    yes: bool,
    standing: bool = False,
) -> Enablings:
    """Plan to enable the topics of a pattern, or do it; one that cannot be enabled keeps no other out."""
    if "table" in settings:
        raise UsageError(f"--table is for one topic; the topics of {pattern!r} get tables of their own names")
    excluded = [text.strip() for text in exclude.split(",") if text.strip()]
    if standing:
        check_topic_name(pattern.replace("*", "x").replace("?", "x"))
    names = [name for name in sorted(workbench.kafka_topics()) if stands_for(pattern, excluded, name)]
    if not names and not standing:
        raise UsageError(f"Kafka has no topic for the pattern {pattern!r}, or all are excluded")
    topics: list[Enabling] = []
    taken: dict[str, str] = {}  # of topics of this plan, by table: not even their plans know of them
    enabled = workbench.desired_topics()
    for name in (name for name in names if name not in enabled):
        topic = workbench.topic(name)
        table, refused, warnings = "", [], []
        try:
            plan = topic.plan(settings)
            table, refused, warnings = plan.table, plan.refused, plan.warnings
            if table in taken and not refused:
                refused = [
                    f"the table {table} will be that of {taken[table]}: enable it with another --table"
                ]
            if yes and not refused:
                topic.enable(settings)
        except (UsageError, ActionNeededError, RetryableError) as error:
            refused = [str(error)]
        if not refused:
            taken[table] = name
        topics.append(Enabling(name, table, refused, warnings))
    if standing and yes:
        _keep(workbench, pattern, settings, excluded)
    return Enablings(topics, yes, standing)


def _keep(workbench: Workbench, pattern: str, settings: dict[str, Any], exclude: list[str]) -> None:
    # Loaded where they are needed: they load Kafka's client.
    from tabletopic_kernel.host.topics.standing_patterns import keep_pattern  # noqa: PLC0415
    from tabletopic_kernel.model.settings.desired import StandingPattern  # noqa: PLC0415
    from tabletopic_kernel.model.settings.options import validated  # noqa: PLC0415
    from tabletopic_kernel.workbench.topics.orders import user_name  # noqa: PLC0415

    given = validated(workbench.servers.in_default_catalog(settings))
    kept = StandingPattern(pattern=pattern, exclude=tuple(exclude), settings=given, requested_by=user_name())
    keep_pattern(workbench.broker, kept)


def enabled_each(outcome: Enablings) -> list[Message]:
    """The topics of a pattern with their tables, then those that cannot be enabled."""
    usable = [enabling for enabling in outcome.topics if not enabling.refused]
    verb = "enabled" if outcome.done else "would be enabled"
    count = f"{len(usable)} topic{'s' * (len(usable) != 1)}"
    lines = [Message("{count} {verb}", {"count": count, "verb": verb})]
    for enabling in usable:
        names = {"topic": enabling.topic, "table": enabling.table}
        lines.append(Message("  {topic} → {table}", names))
        lines += [Message("    {why}", {"why": why}) for why in enabling.warnings]
    for enabling in outcome.topics:
        if enabling.refused:
            why = {"topic": enabling.topic, "why": "; ".join(enabling.refused)}
            lines.append(Message("  {topic} cannot be enabled: {why}", why))
    if outcome.standing and outcome.done:
        lines.append(Message("a host enables others as they come; `tabletopic patterns` shows it"))
    elif outcome.standing:
        lines.append(Message("nothing is changed yet; with --yes, these and all that come later are enabled"))
    elif usable and not outcome.done:
        lines.append(Message("nothing is changed yet; the same command with --yes enables them"))
    return lines
