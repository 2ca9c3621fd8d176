"""Erasure of somebody's rows, dead letters, snapshots and files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from tabletopic_kernel.faces.operations.operation import (
    Arguments,
    Message,
    Option,
    Topic,
    Wait,
    line,
    operation,
)
from tabletopic_kernel.faces.operations.topics import PANEL
from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.render.words import event_text, many

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.peek.erasure import Erasure, InKafka
    from tabletopic_kernel.workbench.workbench import Workbench

_MOST = 20  # names and offsets in a line


def _erasure_text(outcome: Erasure, _: Arguments) -> Iterator[Message]:
    topic = {"topic": outcome.topic}
    if outcome.done is None:
        rows, files = many(outcome.rows, "row"), many(outcome.files, "file")
        yield line(f"{outcome.table}: {rows} in {files} would be erased")
        letters, snapshots = many(outcome.letters, "dead letter"), many(outcome.snapshots, "older snapshot")
        yield line(f"  {letters}, and {snapshots}, too")
        yield from (line(f"  stays: {text}") for text in outcome.pinned)
    else:
        yield line(event_text(outcome.done))
        yield from (line(f"  removed {name}") for name in outcome.done.gone[:_MOST])
    if outcome.undecoded:
        text = "  {n} other dead letters cannot be decoded: look at `tabletopic letters {topic} --raw`, "
        text += "and choose with `--letters`"
        yield Message(text, topic | {"n": f"{outcome.undecoded:,}"})
    yield from _kafka_text(outcome.kafka)
    if outcome.done is None:
        text = "nothing is erased yet: --yes does it, and there is no way back"
        yield line(text)
    elif not outcome.whole:
        yield line("it is not whole: remove what is named above, then erase again")


def _kafka_text(kafka: InKafka) -> Iterator[Message]:
    count = sum(map(len, kafka.offsets.values()))
    yield line(f"Kafka has {count:,} such records among {kafka.looked:,} of {kafka.records:,} that were read")
    for partition, offsets in sorted(kafka.offsets.items()):
        more = ", …" if len(offsets) > _MOST else ""
        yield line(f"  partition {partition}: offset {', '.join(map(str, offsets[:_MOST]))}{more}")
    if kafka.note:
        yield Message(f"  {kafka.note.replace('{', '{{').replace('}', '}}')}")


@operation(PANEL, _erasure_text, has_failed=lambda outcome: not outcome.whole)
def erase(
    workbench: Workbench,
    topic: Topic,
    where: Annotated[str, Option("The rows to erase, by the table's columns", metavar="SQL")],
    letters: Annotated[
        str | None, Option("Also dead letters matching this, by their table's columns", metavar="SQL")
    ] = None,
    yes: Annotated[bool, Option("Do it; there is no way back")] = False,
    timeout: Wait = 600.0,
) -> Erasure:
    """Erase somebody's rows and dead letters, with all snapshots and files that have them.

    Shows what would go, what stays, and what Kafka has. With --yes the topic's
    host, or this program if the topic is not enabled, rewrites files without the
    rows, and removes all older snapshots: time travel begins again. Those that
    branches and tags name stay. The exit code is 1 if such rows stay.

    Example:  tabletopic erase clicks --where "user_id = 'u-47'"
    """
    handle = workbench.topic(topic)
    if not yes:
        return handle.plan_erasure(where, letters)
    outcome = handle.erase(where, letters, timeout)
    if outcome is None:
        raise RetryableError(
            f"after {timeout:g} s the erasure of {topic} is still running; see `tabletopic events {topic}`"
        )
    return outcome
