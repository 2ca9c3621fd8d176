"""Operations that set the desired state: plan, enable, alter, commit, drop."""

# Imports are deferred: `tabletopic status` must respond at once.
# ruff: noqa: PLC0415

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from tabletopic_kernel.faces.operations.operation import (
    Arguments,
    Message,
    Option,
    Route,
    SettingOptions,
    Topic,
    draws,
    operation,
    says,
)
from tabletopic_kernel.faces.operations.patterns import (
    Enablings,
    Exclude,
    Standing,
    Topics,
    Yes,
    enable_each,
    enabled_each,
    is_pattern,
)
from tabletopic_kernel.model.errors import UsageError

if TYPE_CHECKING:
    from tabletopic_kernel.model.settings.desired import DesiredTopic
    from tabletopic_kernel.table.files.drop import TableDrop
    from tabletopic_kernel.workbench.plan import Plan
    from tabletopic_kernel.workbench.topics.drop import Drop
    from tabletopic_kernel.workbench.workbench import Workbench

PANEL = "Table topics"
AllSettings = Annotated[dict[str, Any], SettingOptions()]
ChangeableSettings = Annotated[dict[str, Any], SettingOptions(changeable=True)]
SOON = "The topic's host carries it out, usually within a second."


@dataclass(frozen=True)
class Asked:
    """A commit that was requested."""

    topic: str
    commit: str = "asked"


@operation(
    PANEL,
    draws("plan_table"),
    has_failed=lambda plan: bool(plan.refused or plan.incompatible),
    button="Settings and Plan…",
    route=Route(
        "post", "topics/{topic}/plan", notes="Enable would be refused if `refused` contains a reason."
    ),
)
def plan(
    workbench: Workbench,
    topic: Topic,
    settings: AllSettings,
    schema: Annotated[
        str | None, Option("Show what this schema would change: .avsc, .proto or .json", metavar="FILE")
    ] = None,
    schema_type: Annotated[
        str | None,
        Option("Type of the schema, if the extension differs", metavar="avro|protobuf|json"),
    ] = None,
) -> Plan:
    """Show what enable, or a new schema, would do; nothing is changed.

    With --schema: which columns a schema that is not registered yet would add,
    relax, widen or rename, and what does not fit. The exit code is 1 if enable
    would be refused, or if the schema does not fit.

    Example:  tabletopic plan clicks --schema clicks-v2.avsc
    """
    return workbench.topic(topic).plan(settings, schema=schema, schema_type=schema_type)


def table_of(desired: DesiredTopic) -> str:
    """The dotted table name of a topic that was just enabled."""
    from tabletopic_kernel.model.settings.table_names import table_name

    return table_name(desired.topic, desired.settings)


def _enabled(desired: DesiredTopic, _: Arguments) -> list[Message]:
    from tabletopic_kernel.render.words import clock, interval

    settings = desired.settings
    begin = settings.start if isinstance(settings.start, str) else clock(settings.start)
    by = f", partitioned by {', '.join(settings.partition_by)}" if settings.partition_by else ""
    by += f", sorted by {', '.join(settings.sort_by)}" if settings.sort_by else ""
    values = {"topic": desired.topic, "table": table_of(desired)}
    rhythm = {"every": interval(settings.commit_interval_ms), "begin": begin, "by": by}
    return [
        Message("{topic} is enabled; its table is {table}", values),
        Message("  commits every {every} while records arrive; a new table starts at {begin}{by}", rhythm),
    ]


def _enabled_any(outcome: DesiredTopic | Enablings, arguments: Arguments) -> list[Message]:
    return enabled_each(outcome) if isinstance(outcome, Enablings) else _enabled(outcome, arguments)


@operation(
    PANEL,
    _enabled_any,
    starts_host=True,
    has_failed=lambda outcome: (
        isinstance(outcome, Enablings)
        and outcome.done
        and any(enabling.refused for enabling in outcome.topics)
    ),
    aliases=("start",),
    button="Settings and Plan…",
)
def enable(
    workbench: Workbench,
    topic: Topics,
    settings: AllSettings,
    exclude: Exclude = "",
    yes: Yes = False,
    standing: Standing = False,
) -> DesiredTopic | Enablings:
    """Make a Kafka topic a table topic: ingest it into an Iceberg table.

    A pattern, such as 'shop.*', shows which topics would be enabled with which table,
    and which cannot be; with --yes it enables those that are not enabled yet. With
    --standing, hosts also enable those that come later.

    Checks everything first (topic, settings, schema, table), so nothing is left
    half done. A running host, here or elsewhere, takes the topic at once.
    Settings without an option come from tabletopic.toml. --timeout limits --wait.

    Example:  tabletopic enable clicks --commit-interval 5s --partition-by 'hour(event_time)'
    """
    if is_pattern(topic):
        return enable_each(workbench, topic, settings, exclude, yes=yes, standing=standing)
    if exclude or yes or standing:
        raise UsageError("--exclude, --yes and --standing go with a pattern, such as 'shop.*'")
    return workbench.topic(topic).enable(settings)


@operation(
    PANEL,
    says("{topic} has new settings; see `tabletopic events {topic}`"),
    button="Settings and Plan…",
)
def alter(workbench: Workbench, topic: Topic, settings: ChangeableSettings) -> DesiredTopic:
    """Change settings of a table topic; other settings stay as they are.

    Its host commits what is staged and resumes with the new settings within
    seconds. New partitions apply to new rows; existing rows keep theirs. An
    empty value unsets an optional setting: --projection ''.

    Example:  tabletopic alter clicks --partition-by 'day(event_time)' --commit-interval 1s
    """
    return workbench.topic(topic).alter(settings)


@operation(
    PANEL,
    says("requested a commit of {topic}; see `tabletopic history {topic}`"),
    button="Commit Now",
    route=Route("post", "topics/{topic}/commit", 202, notes=SOON),
)
def commit(workbench: Workbench, topic: Topic) -> Asked:
    """Commit what the topic contains now, without waiting for the interval.

    Example:  tabletopic commit clicks
    """
    workbench.topic(topic).commit()
    return Asked(topic)


def _of_table(table: TableDrop) -> Message:
    from tabletopic_kernel.render.words import size

    files = table.note or f"{table.files:,} files, {size(table.bytes)}"
    stay = f"; {table.outside:,} files outside its own folders stay" if table.outside else ""
    values = {"table": table.table, "rows": f"{table.rows:,}", "files": f"{files}{stay}"}
    return Message("{table}: {rows} rows, {files}", values)


def _dropped(outcome: Drop, _: Arguments) -> list[Message]:
    topic = {"topic": outcome.topic}
    head = "{topic} is dropped" if outcome.done else "this would go with {topic}:"
    stay = "its records in Kafka and its schemas in the registry stay"
    if not outcome.done:
        stay += "; nothing is removed yet: `tabletopic drop {topic} --yes` does it, and cannot be undone"
    return [Message(head, topic), *map(_of_table, outcome.tables), Message(stay, topic)]


@operation(PANEL, _dropped)
def drop(
    workbench: Workbench,
    topic: Topic,
    table: Annotated[
        str | None, Option("The topic's table, as in a query; needed if it is not enabled", metavar="TABLE")
    ] = None,
    yes: Annotated[bool, Option("Do it; there is no way back")] = False,
    dry_run: Annotated[bool, Option("Show what would go; change nothing, as without --yes")] = False,
) -> Drop:
    """Remove a table topic with its data: settings, table, dead letters, files.

    Shows what would go. With --yes, the topic is disabled, and once its host has
    released it, its table and its dead-letter table are dropped, with the files
    in their own folders. The records in Kafka stay: enabled again, the topic is
    read from `start` into a new table.

    Example:  tabletopic drop clicks --yes
    """
    return workbench.topic(topic).drop(table, dry_run=dry_run or not yes)
