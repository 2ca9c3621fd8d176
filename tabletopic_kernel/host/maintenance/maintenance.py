"""The maintenance of one topic: what users request and what is due, one work after the other.

A work is a job of the host's one thread (``jobs.py``). It reads and writes files there, and asks the
coordinator's thread for each change of a table, with ``Ownership.ask``. A topic has one work at a time: so
nothing compacts the letters that a replay has chosen, and nothing expires between its two commits (I7).
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from tabletopic_kernel.clients.spark.java_errors import error_of_trouble
from tabletopic_kernel.host.maintenance.compaction import Compaction, CompactionSchedule
from tabletopic_kernel.host.maintenance.erasure import Erasure
from tabletopic_kernel.host.maintenance.expiry import Expiry, ExpirySchedule
from tabletopic_kernel.host.maintenance.jobs import Job
from tabletopic_kernel.host.maintenance.outcomes import Outcomes
from tabletopic_kernel.host.maintenance.row_deletes import OldRowsDeletion, OldRowsSchedule
from tabletopic_kernel.host.ownership.ownership import Ownership
from tabletopic_kernel.host.replay.drop import LetterDrop
from tabletopic_kernel.host.replay.replay import Replay
from tabletopic_kernel.host.report import Reporter
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.host.topics.control_topic import unreported
from tabletopic_kernel.model.commit_cycle import backoff_ms
from tabletopic_kernel.model.errors import RetryableError, TableTopicError
from tabletopic_kernel.model.settings.desired import MaintenanceRequest, ReplayRequest, Request
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.plan import StagedBatch
from tabletopic_kernel.table.expiry import ONLY_NAMED

_LOG = logging.getLogger(__name__)


class Work(Protocol):
    """Maintenance or a replay, for one ownership."""

    name: str

    def run(self) -> Job:
        """The job; raises what ends it early."""
        ...

    def report(self, error: TableTopicError | None) -> None:
        """Report the end: early with ``error``, or success with None."""


class Maintenance:
    """Only for the coordinator's thread, except ``ask``, ``inherit``, ``forget`` and ``end``."""

    def __init__(self, topic: str, settings: TopicSettings, services: Services, report: Reporter) -> None:
        self._topic, self._services = topic, services
        self._outcomes = Outcomes(report)
        self._requested: deque[Callable[[Ownership], Work]] = deque()
        self._current: Work | None = None
        self._has_ended = False
        self._expiry = ExpirySchedule(settings, services)
        self._compaction = CompactionSchedule(settings, services)
        self._old_rows = OldRowsSchedule(settings, services)

    def ask(self, request: Request) -> None:
        """Carry out a request as soon as there is time; one event is its outcome."""
        self._outcomes.add(request)
        if isinstance(request, ReplayRequest):
            self._requested.append(lambda ownership: Replay(request, ownership, self._outcomes))
        elif request.work == "compact":
            self._requested.append(partial(self._compact, request, dead_letters=False))
            if request.where is None:  # a condition on the table's columns, which dead letters lack
                self._requested.append(partial(self._compact, request, dead_letters=True))
        elif request.work == "drop_letters":
            self._requested.append(lambda ownership: LetterDrop(request, ownership, self._outcomes))
        elif request.work == "erase":
            self._requested.append(partial(self._erase, request))
        else:
            self._requested.append(partial(self._expire, request))
        if self._has_ended:
            self._outcomes.interrupt()

    def inherit(self, requests: Sequence[Request]) -> None:
        """Carry out the requests, oldest first, that the topic's last owner left without an outcome."""
        attempt = 0
        while not self._has_ended:  # else the next owner inherits them
            try:
                for request in unreported(self._services.broker.properties, requests):
                    self.ask(request)
            except RetryableError as error:
                _LOG.warning("%s: the outcomes of its requests: %s", self._topic, error)
                time.sleep(backoff_ms(attempt) / 1000)
                attempt += 1
            else:
                return

    def forget(self) -> None:
        """Report no outcomes any more: another host runs the topic already, and carries out its requests."""
        self._outcomes.forget()

    def end(self) -> None:
        """Report requests without an outcome as interrupted, now and later."""
        self._has_ended = True
        self._outcomes.interrupt()

    def owned(self) -> None:
        """Note that an ownership begins. Work for the last ownership can change nothing more."""
        self._current = None
        self._expiry.owned()
        self._old_rows.owned()

    def committed(self) -> None:
        self._expiry.committed()

    def appended(self, batches: Sequence[StagedBatch], *, waits: bool) -> None:
        """Note a commit of rows; ``waits``: the worker waits for a turn longer than it should."""
        self.committed()
        self._compaction.appended(batches, waits=waits)

    def step(self, ownership: Ownership) -> None:
        """Begin what is requested or due, if nothing is under way."""
        self._services.jobs.attend()
        if self._current is None and (work := self._next(ownership)) is not None:
            self._current = work
            self._services.jobs.begin(self._run(work))

    def has_work(self, ownership: Ownership) -> bool:
        """Whether ``step`` would begin something."""
        owner = ownership.owner
        is_due = any(schedule.is_due(owner) for schedule in (self._old_rows, self._expiry))
        is_due = is_due or self._compaction.due(owner) is not None
        return self._current is None and (bool(self._requested) or is_due)

    def _next(self, ownership: Ownership) -> Work | None:
        if self._requested:
            return self._requested.popleft()(ownership)
        if self._old_rows.is_due(ownership.owner):  # before an expiry, which removes their files
            return OldRowsDeletion(self._old_rows, self._services, ownership, self._outcomes)
        if self._expiry.is_due(ownership.owner):
            return self._expire(None, ownership)
        if (dead_letters := self._compaction.due(ownership.owner)) is not None:
            return self._compact(None, ownership, dead_letters=dead_letters)
        return None

    def _compact(
        self, request: MaintenanceRequest | None, ownership: Ownership, *, dead_letters: bool
    ) -> Compaction:
        scan = self._compaction.begin(ownership.owner, dead_letters=dead_letters)
        return Compaction(
            self._topic, self._services, ownership, scan, self._outcomes, request, dead_letters=dead_letters
        )

    def _expire(self, request: MaintenanceRequest | None, ownership: Ownership) -> Expiry:
        return Expiry(self._expiry, self._services, ownership, self._outcomes, request)

    def _erase(self, request: MaintenanceRequest, ownership: Ownership) -> Erasure:
        expiry = Expiry(self._expiry, self._services, ownership, self._outcomes, request, ONLY_NAMED)
        return Erasure(request, self._services, ownership, self._outcomes, expiry)

    def _run(self, work: Work) -> Job:
        error: TableTopicError | None = None
        try:
            yield from work.run()
        except TableTopicError as trouble:
            error = trouble
        except Exception as trouble:  # Spark's, the storage's, or a bug of ours: the topic goes on
            _LOG.exception("%s: %s", self._topic, work.name)
            error = error_of_trouble(f"{work.name} of {self._topic} did not succeed", trouble)
        if error is not None:
            _LOG.info("%s: %s ended early: %s", self._topic, work.name, error)
        work.report(error)
        if self._current is work:
            self._current = None
