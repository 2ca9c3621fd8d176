"""The dry run of a replay: stages dead letters on a draft of the table, without files."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pyiceberg.catalog import Catalog

from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.host.replay.letters import LetterSource, dead_letters_where
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_names import table_identifier
from tabletopic_kernel.pipeline.sinks import Count
from tabletopic_kernel.pipeline.source import Limits
from tabletopic_kernel.table.dead_letters import DeadLetters
from tabletopic_kernel.table.draft import TopicDraft, try_records
from tabletopic_kernel.table.topic_table import TopicTable


@dataclass
class ReplayPlan:
    """What a replay would do: ``rows`` of ``letters``, ``stayed`` by reason, ``changes`` of the table."""

    topic: str
    letters: int = 0
    rows: int = 0
    stayed: dict[str, int] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)


def plan_replay(
    topic: str,
    settings: TopicSettings,
    where: str | None,
    registry: Registry,
    catalog: Catalog,
) -> ReplayPlan:
    """What a replay with these settings would do; writes nothing.

    Raises UsageError if ``where`` cannot be read or there are no letters, ActionNeededError if letters stop
    the topic by the settings.
    """
    condition = dead_letters_where(where)
    identifier = table_identifier(topic, settings)
    letters = DeadLetters(catalog, identifier, topic)
    table = TopicTable.load(catalog, identifier, topic)
    if not letters.load() or table is None or table.ledger is None:
        raise UsageError(f"{topic} has no dead letters")
    plan = ReplayPlan(topic)
    draft, source = TopicDraft(table, topic, settings, registry), LetterSource(letters, condition)
    stayed = Counter[str]()
    for task in source.next(source.files(), Limits({})) or ():
        records = list(source.read([task]))
        staged, _ = try_records(draft, records, Count)
        plan.letters += sum(map(len, records))
        plan.rows += staged.count
        stayed.update(staged.refused.values())
    plan.stayed, plan.changes = dict(sorted(stayed.items())), draft.changes
    return plan
