"""Maintenance of the tables of a topic that is not enabled, in the asking process, without Spark.

Why this is safe: the process takes the next epoch, as a host that takes a topic over (I5), and then runs the
same works as a host. What another writer commits first is refused here; a host that is given the topic
meanwhile takes a higher epoch, which ends this maintenance and sweeps what it left (I10).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Final, TypeVar

from tabletopic_kernel.host.maintenance.jobs import Jobs
from tabletopic_kernel.host.maintenance.maintenance import Maintenance
from tabletopic_kernel.host.maintenance.outcomes import Outcomes
from tabletopic_kernel.host.owner import Owner
from tabletopic_kernel.host.ownership.ownership import Ownership
from tabletopic_kernel.host.ownership.staged_batches import StagedBatches
from tabletopic_kernel.host.report import Reporter
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.model.errors import (
    HeadMovedError,
    OutcomeUnknownError,
    RetryableError,
    TableTopicError,
    UsageError,
)
from tabletopic_kernel.model.settings.desired import MaintenanceRequest
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_names import table_identifier
from tabletopic_kernel.pipeline.plan import StagedBatch
from tabletopic_kernel.table.dead_letters import DeadLetters
from tabletopic_kernel.table.schemas.keeper import SchemaKeeper
from tabletopic_kernel.table.topic_table import TopicTable

_T = TypeVar("_T")
_TRIES: Final = 10  # of a commit, while other writers are first or no answer comes
_ALONE = threading.Lock()  # memory is bounded for one rewrite: a process has one maintenance at a time


def maintain(topic: str, settings: TopicSettings, services: Services, request: MaintenanceRequest) -> None:
    """Carry out a request; events are its outcome, whatever it is."""
    report = Reporter(topic, settings, services)
    at_once = Jobs(lambda _, work: work(), services.elapsed_ms)
    services = replace(services, jobs=at_once, rewrite=lambda _, task: task.run())
    maintenance = Maintenance(topic, settings, services, report)
    with _ALONE:
        try:
            ownership = _Ownership(_take(topic, settings, services), services, report)
        except TableTopicError as error:
            outcomes = Outcomes(report)
            outcomes.add(request)
            outcomes.ended(request, error)
            return
        maintenance.ask(request)
        while maintenance.has_work(ownership):
            maintenance.step(ownership)
        ownership.close()


def _take(topic: str, settings: TopicSettings, services: Services) -> Owner:
    """Take the table and its dead letters as the next owner, as they are: nothing is laid out or evolved.

    The steps are in the order of ``take_over``, for its reasons.
    """
    catalog, identifier = services.catalog(), table_identifier(topic, settings)
    table, letters = TopicTable.load(catalog, identifier, topic), DeadLetters(catalog, identifier, topic)
    before = table.ledger_of_rows() if table else None
    if table is None or before is None:
        raise UsageError(f"{topic} has no table with rows: there is nothing to maintain")
    letters.load()
    ledger = before.for_next_owner(max(table.newest_epoch, letters.epoch))
    try:
        table.claim(ledger, before)
    except OutcomeUnknownError:
        table.claim(ledger, before)  # looks for its id first (I4)
    except HeadMovedError as error:
        raise RetryableError(f"{error}; try again once nobody else writes it") from error
    letters.adopt(ledger)
    keeper = SchemaKeeper(catalog, identifier, topic, settings, services)
    keeper.take(table, ledger)
    owner = Owner(keeper, letters, ledger, ledger.next_offsets)
    owner.files.claim_once()
    return owner


class _Ownership(Ownership):
    """An ownership for one thread: questions are answered, and batches committed, at once."""

    def __init__(self, owner: Owner, services: Services, report: Reporter) -> None:
        batches = StagedBatches()
        super().__init__(owner, services.broker, report, queue.Queue(), batches, 0, self._commit)
        self._services = services

    def ask(self, do: Callable[[Owner], _T]) -> Future[_T]:
        """As an ownership's, and the answer is there."""
        answer: Future[_T] = super().ask(do)
        self.answer()
        return answer

    def _commit(self, batch: StagedBatch, _: bool) -> None:
        """Commit a compaction, or drop it; files that a request named are left to the next owner's sweep."""
        try:
            self.owner.plan_commit([batch], self._services.now_ms())
            self._send()
        except TableTopicError as error:
            self.owner.drop([batch])
            self.committed([batch], error)
        else:
            self.owner.done()
            self.committed([batch])

    def _send(self) -> None:
        """Send the commit until it is answered: whatever was lost on the way, it is the same commit (I4)."""
        for _ in range(_TRIES - 1):
            try:
                self.owner.send()
            except HeadMovedError:
                continue
            except OutcomeUnknownError:
                self.owner.answer_lost()
            else:
                return
        self.owner.send()
