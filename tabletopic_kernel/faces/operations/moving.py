"""The operation that lets a table go on with a copy of its topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from tabletopic_kernel.faces.operations.operation import Message, Option, Topic, operation
from tabletopic_kernel.faces.operations.topics import PANEL

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.topics.rebase import Rebase
    from tabletopic_kernel.workbench.workbench import Workbench


def _rebase_text(outcome: Rebase, _: Mapping[str, Any]) -> list[Message]:
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
    """Let a table go on with a copy of its topic: on another cluster, or made anew.

    Finds the last committed records of each partition in the topic as it is now,
    decoded with the registry of now, and shows where its offsets would continue.
    Refused unless the records are equal, in their order and in one place only.
    With --yes, one commit gives the table the new offsets; then resume the topic.

    Example:  tabletopic rebase clicks --yes
    """
    return workbench.topic(topic).rebase(records=records, dry_run=dry_run or not yes)
