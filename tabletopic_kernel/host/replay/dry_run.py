"""The dry run of a replay: stages dead letters without files, on a draft of the table.

Why nothing changes: this module has neither an owner nor a worker. The draft keeps its changes to itself and
accepts no commits, staging writes no files, and the draft's events are collected instead of sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.table.update import TableUpdate, update_table_metadata

from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.host.replay.replay import dead_letters_where, stage_dead_letters
from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.errors import ActionNeededError, InternalError, UsageError
from tabletopic_kernel.model.ledger import Ledger, added
from tabletopic_kernel.model.progress.events import ControlEvent, SchemaEvolved
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_names import table_identifier
from tabletopic_kernel.pipeline.plan import Needs
from tabletopic_kernel.table.changes.change import TableChange
from tabletopic_kernel.table.dead_letters import DeadLetters
from tabletopic_kernel.table.schemas.evolve import EventWriter
from tabletopic_kernel.table.schemas.keeper import SchemaKeeper
from tabletopic_kernel.table.topic_table import TopicTable


class TableDraft(TopicTable):
    """A copy of a table for planning: it evolves like the table, but accepts no commits."""

    @classmethod
    def of(cls, table: TopicTable) -> TableDraft:
        """A draft of the current table."""
        return cls(table.table)

    def _change(self, updates: tuple[TableUpdate, ...], epoch: int) -> None:
        self.table.metadata = update_table_metadata(self.table.metadata, updates)

    def commit(self, planned: Ledger | None, change: TableChange) -> None:
        """Raises InternalError: a draft has no snapshots of its own."""
        raise InternalError(f"a commit to a draft of {self.identifier}")


@dataclass
class ReplayPlan:
    """What a replay would do: new rows, letters that stay by reason, changes of the table."""

    topic: str
    letters: int = 0
    rows: int = 0
    stayed: dict[str, int] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return asdict(self)


def plan_replay(
    topic: str,
    settings: TopicSettings,
    where: str | None,
    registry: Registry,
    catalog: Catalog,
) -> ReplayPlan:
    """What a replay with these settings would do; writes nothing.

    Raises:
        UsageError: ``where`` cannot be read, or the topic has no letters.
        RetryableError: registry, catalog or storage do not respond.
        ActionNeededError: by the settings, such letters stop the topic.
    """
    chosen = dead_letters_where(where)
    identifier = table_identifier(topic, settings)
    letters = DeadLetters(catalog, identifier, topic)
    found = TopicTable.load(catalog, identifier, topic)
    ledger = found.ledger if found else None
    if not letters.load() or found is None or ledger is None:
        raise UsageError(f"{topic} has no dead letters")
    changes = _Changes()
    services = _PlanServices(registry, changes)
    keeper = SchemaKeeper(catalog, identifier, topic, settings, services)
    keeper.adopt(TableDraft.of(found), ledger)
    keeper.cover(Needs(), recheck=True)
    plan = ReplayPlan(topic)
    for task in letters.tasks(chosen):
        _try(plan, keeper, letters.read(task, chosen))
    plan.changes = changes.noted
    return plan


def _try(plan: ReplayPlan, keeper: SchemaKeeper, letters: pa.Table) -> None:
    while True:
        tried = stage_dead_letters(letters, keeper.plan(), writes=False)
        if tried.result.stopped is not None:
            raise ActionNeededError(tried.result.stopped)
        needs = tried.result.needs
        if not needs:
            break
        keeper.cover(needs)
    plan.letters += len(letters)
    plan.rows += tried.result.rows
    for reason in tried.stayed.values():
        plan.stayed = added(plan.stayed, {reason: 1})


class _Changes:
    """Collects a table's changes from the events of its draft, which are not sent."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    def write(self, event: ControlEvent) -> None:
        """Note the changes of columns."""
        if isinstance(event, SchemaEvolved):
            self.noted += event.changes


@dataclass(frozen=True)
class _PlanServices:
    """A schema keeper's services, for planning."""

    registry: Registry
    control: EventWriter
    host: str = ""
    now_ms: Callable[[], int] = now_ms
