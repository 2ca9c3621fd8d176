"""Operations that have topics run, pause or end: one, or those of a pattern; and standing patterns."""

# Imports are deferred: `tabletopic status` must respond at once.
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tabletopic_kernel.faces.operations.operation import (
    Arguments,
    Message,
    Option,
    Route,
    operation,
    says,
)
from tabletopic_kernel.faces.operations.patterns import Topics, is_pattern
from tabletopic_kernel.faces.operations.topics import PANEL, SOON

if TYPE_CHECKING:
    from tabletopic_kernel.model.settings.desired import StandingPattern
    from tabletopic_kernel.workbench.workbench import Workbench


@dataclass(frozen=True)
class Run:
    """Whether a topic's host shall read it: ``on``, ``paused`` or ``off``."""

    topic: str
    run: str


@dataclass(frozen=True)
class Disabled(Run):
    """A topic that was disabled, and the table that stays."""

    table: str


@dataclass(frozen=True)
class Runs:
    """The topics of a pattern; ``done`` is false in a dry run."""

    topics: Sequence[Run]
    done: bool


_MOST_NAMES = 20
DryRun = Annotated[bool, Option("Show which topics a pattern matches; change nothing")]


def _of_each(
    workbench: Workbench,
    topic: str,
    run: str,
    change: Callable[[str], Run],
    *,
    dry_run: bool,
) -> Run | Runs:
    """Have one topic, or those of a pattern that are not so yet, run, pause or end."""
    from fnmatch import fnmatchcase

    from tabletopic_kernel.model.errors import UsageError

    if not is_pattern(topic) and not dry_run:
        return change(topic)
    enabled = workbench.desired_topics()
    matching = {name: desired for name, desired in enabled.items() if fnmatchcase(name, topic)}
    if not matching:
        raise UsageError(f"no enabled topic matches {topic!r}; `tabletopic status` lists them")
    failed = set()
    if run == "on":
        failed = {status.topic for status in workbench.statuses(matching) if status.state == "failed"}
    names = sorted(name for name, desired in matching.items() if desired.run != run or name in failed)
    return Runs([Run(name, run) if dry_run else change(name) for name in names], not dry_run)


def _ran(word: str, template: str) -> Callable[[Run | Runs, Arguments], list[Message]]:
    def text(outcome: Run | Runs, _: Arguments) -> list[Message]:
        if isinstance(outcome, Run):
            return [Message(template, vars(outcome))]
        verb = word if outcome.done else f"would be {word}"
        count = len(outcome.topics)
        head = Message("{count} {verb}", {"count": f"{count} topic{'s' * (count != 1)}", "verb": verb})
        return [head, *(Message("  {topic}", {"topic": run.topic}) for run in outcome.topics)]

    return text


@operation(
    PANEL,
    _ran("disabled", "{topic} is disabled; the table {table} and its ledger stay"),
    aliases=("stop",),
    button="Disable",
    route=Route(
        "delete",
        "topics/{topic}",
        204,
        notes="Staged files are committed. The table and its ledger stay.",
    ),
)
def disable(workbench: Workbench, topic: Topics, dry_run: DryRun = False) -> Run | Runs:
    """Disable a table topic; its table and its ledger stay.

    The host commits what is staged and releases the topic. Enabled again, the
    topic resumes where the table ends. A pattern, such as 'shop.*', disables all
    enabled topics that it matches.

    Example:  tabletopic disable 'shop.*' --dry-run
    """

    def disabled(name: str) -> Run:
        table = workbench.table_of(name)
        workbench.topic(name).disable()
        return Disabled(name, "off", table)

    return _of_each(workbench, topic, "off", disabled, dry_run=dry_run)


@operation(
    PANEL,
    _ran("paused", "{topic} is pausing; resume with `tabletopic resume {topic}`"),
    button="Pause",
    route=Route("post", "topics/{topic}/pause", 202, notes=SOON),
)
def pause(workbench: Workbench, topic: Topics, dry_run: DryRun = False) -> Run | Runs:
    """Pause reading a table topic; staged files are committed first.

    A pattern, such as 'shop.*', pauses all enabled topics that it matches.

    Example:  tabletopic pause 'shop.*' --dry-run
    """

    def paused(name: str) -> Run:
        return Run(name, workbench.topic(name).pause().run)

    return _of_each(workbench, topic, "paused", paused, dry_run=dry_run)


@operation(
    PANEL,
    _ran("resumed", "{topic} resumes"),
    starts_host=True,
    button="Resume",
    route=Route("post", "topics/{topic}/resume", 202, notes=SOON),
)
def resume(
    workbench: Workbench,
    topic: Topics,
    on_truncation: Annotated[
        Literal["stop", "mark", "rewind"] | None,
        Option("Set on_truncation: what becomes of rows whose records the topic's log lost"),
    ] = None,
    dry_run: DryRun = False,
) -> Run | Runs:
    """Resume after a pause, or after fixing the cause of a failure.

    A pattern, such as 'shop.*', resumes those that are paused or failed.

    If the topic's log was cut and has grown again, --on-truncation mark keeps the
    rows of the lost records and notes them in the ledger, rewind deletes them. It
    stays the topic's setting.

    Example:  tabletopic resume clicks
    """

    def resumed(name: str) -> Run:
        return Run(name, workbench.topic(name).resume(on_truncation).run)

    return _of_each(workbench, topic, "on", resumed, dry_run=dry_run)


@dataclass(frozen=True)
class PatternTopics:
    """A standing pattern, with the settings that were given for it, and the topics that it matches now.

    ``disabled``: by somebody, so it leaves them off; ``others`` are new, or cannot be enabled.
    """

    pattern: str
    exclude: list[str]
    settings: dict[str, Any]
    requested_by: str
    enabled: list[str]
    disabled: list[str]
    others: list[str]


def _patterns_text(patterns: list[PatternTopics], _: Arguments) -> list[Message]:
    """A line for each pattern, then those of its topics that are not enabled."""
    lines = []
    for standing in patterns:
        left_out = f", without {', '.join(standing.exclude)}" if standing.exclude else ""
        settings = "".join(f", {name} = {value}" for name, value in standing.settings.items())
        about = f"{left_out}: {len(standing.enabled):,} enabled, set by {standing.requested_by}{settings}"
        lines.append(Message("{pattern}{about}", {"pattern": standing.pattern, "about": about}))
        why = "  {topic} is new, or cannot be enabled: `tabletopic plan {topic}` says why"
        for template, names in (
            ("  {topic} was disabled, and stays so", standing.disabled),
            (why, standing.others),
        ):
            lines += [Message(template, {"topic": name}) for name in names[:_MOST_NAMES]]
            if (more := len(names) - _MOST_NAMES) > 0:
                lines.append(Message("  and {more} others", {"more": f"{more:,}"}))
    return lines


@operation(
    PANEL,
    _patterns_text,
    empty="there is no standing pattern; `tabletopic enable PATTERN --standing` plans one",
    button="Enable by Pattern…",
    route=Route("get", "patterns", key="patterns"),
)
def patterns(workbench: Workbench) -> list[PatternTopics]:
    """List the standing patterns, and those of their topics that are not enabled.

    `tabletopic enable PATTERN --standing --yes` makes one. A topic that somebody
    disabled stays so; one that cannot be enabled is reported once, as an event.

    Example:  tabletopic patterns
    """
    from tabletopic_kernel.host.topics.standing_patterns import read_standing

    (patterns, marked), on = read_standing(workbench.broker), workbench.desired_topics()
    all_topics = sorted(workbench.kafka_topics()) if patterns else []
    standing = []
    for text, pattern in patterns.items():
        names = set(filter(pattern.matches, all_topics))
        off = names - on.keys()
        settings = pattern.settings.model_dump(mode="json", exclude_unset=True)
        topics = map(sorted, (names - off, off & marked, off - marked))
        standing.append(PatternTopics(text, list(pattern.exclude), settings, pattern.requested_by, *topics))
    return standing


@operation(
    PANEL,
    says("{pattern} enables no more topics; those that are enabled stay so"),
    route=Route("delete", "patterns/{pattern}", 204),
)
def forget(
    workbench: Workbench,
    pattern: Annotated[str, Option("The standing pattern", metavar="PATTERN", positional=True)],
) -> StandingPattern:
    """End a standing pattern; topics that are enabled stay so.

    Example:  tabletopic forget 'shop.*'
    """
    from tabletopic_kernel.host.topics.standing_patterns import forget_pattern

    return forget_pattern(workbench.broker, pattern)
