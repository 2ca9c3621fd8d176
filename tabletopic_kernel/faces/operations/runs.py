"""Operations that have topics run or pause: one, or those of a pattern."""

# Imports are deferred: `tabletopic status` must respond at once.
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from tabletopic_kernel.faces.operations.operation import Arguments, Message, Option, Route, operation
from tabletopic_kernel.faces.operations.patterns import Topics, is_pattern
from tabletopic_kernel.faces.operations.topics import PANEL, SOON

if TYPE_CHECKING:
    from tabletopic_kernel.model.settings.desired import DesiredTopic
    from tabletopic_kernel.workbench.workbench import Workbench


@dataclass(frozen=True)
class Run:
    """Whether a topic's host shall read it: ``on`` or ``paused``."""

    topic: str
    run: str


@dataclass(frozen=True)
class Runs:
    """The topics of a pattern; ``done`` is false in a dry run."""

    topics: list[Run]
    done: bool


DryRun = Annotated[bool, Option("Show which topics a pattern matches; change nothing")]


def _of_each(
    workbench: Workbench,
    topic: str,
    run: str,
    change: Callable[[str], DesiredTopic],
    *,
    dry_run: bool,
) -> Run | Runs:
    """Have one topic, or those of a pattern that are not so yet, run or pause."""
    from fnmatch import fnmatchcase

    from tabletopic_kernel.model.errors import UsageError

    if not is_pattern(topic) and not dry_run:
        return Run(topic, change(topic).run)
    matching = {n: each for n, each in workbench.desired_topics().items() if fnmatchcase(n, topic)}
    if not matching:
        raise UsageError(f"no enabled topic matches {topic!r}; `tabletopic status` lists them")
    failed = set()
    if run == "on":
        failed = {each.topic for each in workbench.statuses(matching) if each.state == "failed"}
    names = sorted(name for name, each in matching.items() if each.run != run or name in failed)
    return Runs([Run(name, run if dry_run else change(name).run) for name in names], not dry_run)


def _ran(word: str, template: str) -> Callable[[Run | Runs, Arguments], list[Message]]:
    def text(outcome: Run | Runs, _: Arguments) -> list[Message]:
        if isinstance(outcome, Run):
            return [Message(template, {"topic": outcome.topic})]
        verb = word if outcome.done else f"would be {word}"
        count = len(outcome.topics)
        head = Message("{count} {verb}", {"count": f"{count} topic{'s' * (count != 1)}", "verb": verb})
        return [head, *(Message("  {topic}", {"topic": each.topic}) for each in outcome.topics)]

    return text


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
    return _of_each(workbench, topic, "paused", lambda name: workbench.topic(name).pause(), dry_run=dry_run)


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
    return _of_each(
        workbench, topic, "on", lambda name: workbench.topic(name).resume(on_truncation), dry_run=dry_run
    )
