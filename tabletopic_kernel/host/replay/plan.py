"""What a replay would do, found out by doing it without writing anything."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, cast

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile
from pyiceberg.table.update import TableUpdate, update_table_metadata

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.clients.registry import Registry
from tabletopic_kernel.host.control_topic import ControlLog
from tabletopic_kernel.host.replay.replay import letters_that, stage_letters
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.local.clock import now_ms
from tabletopic_kernel.model.errors import ActionNeededError, UsageError
from tabletopic_kernel.model.ledger import Ledger, added
from tabletopic_kernel.model.progress.events import ControlEvent, SchemaEvolved
from tabletopic_kernel.model.settings.sections import TopicSettings, table_identifier
from tabletopic_kernel.pipeline.decode.loaded import LoadedPlan
from tabletopic_kernel.pipeline.plan import Needs, StagePlan
from tabletopic_kernel.pipeline.write.data_files import DataFileWriter
from tabletopic_kernel.table.dead_letters import DeadLetters
from tabletopic_kernel.table.schemas.keeper import SchemaKeeper
from tabletopic_kernel.table.snapshot import TopicTable


@dataclass
class ReplayPlan:
    """What a replay would do: letters that become rows, those that stay by reason, changes of the table."""

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
    broker: Broker,
    registry: Registry,
    catalog: Catalog,
) -> ReplayPlan:
    """What a replay with these settings would do; writes nothing.

    Raises:
        UsageError: ``where`` cannot be read, or the topic has no letters.
        RetryableError: registry, catalog or storage do not answer.
        ActionNeededError: the settings say that such letters stop the topic.
    """
    chosen = letters_that(where, now_ms())
    identifier = table_identifier(topic, settings)
    letters = DeadLetters(catalog, identifier, topic)
    found = TopicTable.load(catalog, identifier, topic)
    ledger = found.ledger if found else None
    if not letters.load() or found is None or ledger is None:
        raise UsageError(f"{topic} has no dead letters")
    plan, heard = ReplayPlan(topic), _Heard()
    services = Services(
        catalog=lambda: catalog,
        spark=_no_spark,
        broker=broker,
        registry=registry,
        control=cast(ControlLog, heard),
        host="",
    )
    keeper = SchemaKeeper(catalog, identifier, topic, settings, services)
    keeper.adopt(_Unwritten(found.table), ledger)
    keeper.cover(Needs(), recheck=True)
    for task in letters.tasks(chosen):
        _try(plan, keeper, letters.read(task, chosen))
    plan.changes = heard.changes
    return plan


def _try(plan: ReplayPlan, keeper: SchemaKeeper, letters: pa.Table) -> None:
    while True:
        tried = stage_letters(letters, _without_files(keeper.plan()))
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


class _Unwritten(TopicTable):
    """A table whose changes of columns stay in this process."""

    def _change(self, updates: tuple[TableUpdate, ...], epoch: int) -> None:
        self.table.metadata = update_table_metadata(self.table.metadata, updates)

    def claim(self, ledger: Ledger, planned: Ledger | None) -> None:
        """Nobody is fenced by a plan."""


class _NoFiles(DataFileWriter):
    def write(self, table: pa.Table) -> list[DataFile]:
        """Nothing is written."""
        return []


def _without_files(plan: StagePlan) -> LoadedPlan:
    loaded = LoadedPlan(replace(plan.with_settings(errors="skip"), patient=True))
    if plan.table is not None:
        loaded.writer = _NoFiles(plan.table.metadata, plan.table.io_properties, plan.epoch)
    return loaded


class _Heard:
    """Takes the place of the control topic: keeps the changes of columns."""

    def __init__(self) -> None:
        self.changes: list[str] = []

    def write(self, event: ControlEvent) -> None:
        """Keep what a plan tells."""
        if isinstance(event, SchemaEvolved):
            self.changes += event.changes


def _no_spark() -> Any:
    raise AssertionError("a plan needs no Spark")
