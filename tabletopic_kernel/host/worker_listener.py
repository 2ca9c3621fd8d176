"""The interface of a worker's threads to the coordinator, and the queue of staged batches."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field

from pyiceberg.manifest import DataFile

from tabletopic_kernel.host.maintenance.compaction import Rewritten
from tabletopic_kernel.host.owner import Owner
from tabletopic_kernel.host.report import Reporter
from tabletopic_kernel.host.resume_point import check_same_topic
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.model.commit_cycle import Event
from tabletopic_kernel.model.errors import (
    ActionNeededError,
    RetryableError,
    StartOverError,
    TableTopicError,
    UsageError,
)
from tabletopic_kernel.model.settings.desired import Request
from tabletopic_kernel.pipeline.plan import Needs, StagedBatch, StagePlan
from tabletopic_kernel.pipeline.worker.worker import Worker

_LOG = logging.getLogger(__name__)

# Limits of what is staged: beyond them the worker waits, so a catalog's outage fills no disk.
_MAX_BATCHES = 64
_MAX_COMMITS = 4  # times commit_bytes
# A worker that is stopping waits this much longer for a plan: whoever stops it waits a minute for its batch.
_LAST_PLAN_S = 10.0


class StagedBatches:
    """Staged batches in the order of their offsets. Thread-safe; ``_room`` guards the list."""

    def __init__(self) -> None:
        self._room = threading.Condition()
        self._batches: list[StagedBatch] = []

    def __len__(self) -> int:
        return len(self.now())

    def now(self) -> tuple[StagedBatch, ...]:
        """All waiting batches."""
        with self._room:
            return tuple(self._batches)

    @property
    def bytes(self) -> int:
        """Size of their files."""
        return sum(batch.bytes for batch in self.now())

    def add(self, batch: StagedBatch) -> None:
        """Put a batch at the end."""
        with self._room:
            self._batches.append(batch)

    def remove(self, count: int | None = None) -> list[StagedBatch]:
        """Take the first ``count`` batches out, or all."""
        with self._room:
            gone = self._batches[:count]
            self._batches = self._batches[len(gone) :]
            self._room.notify_all()
        return gone

    def wait_for_room(self, commit_bytes: int, stopping: Callable[[], bool]) -> None:
        """Wait while too much is uncommitted; returns at once if the worker is stopping."""
        limit = _MAX_COMMITS * commit_bytes
        with self._room:
            while not stopping() and (
                len(self._batches) > _MAX_BATCHES or sum(one.bytes for one in self._batches) > limit
            ):
                self._room.wait(0.5)


@dataclass(frozen=True)
class PlanRequest:
    """A worker needs another plan; the coordinator's thread sets the answer."""

    needs: Needs
    recheck: bool
    answer: Future[StagePlan] = field(default_factory=Future)


@dataclass(frozen=True)
class CommitRequest:
    """A request to commit everything that is in the topic now."""


# What a coordinator's thread takes in: events with what they carry, and requests.
Inbox = queue.Queue[tuple[Event, object] | PlanRequest | Request | CommitRequest | Rewritten]


@dataclass
class WorkerListener:
    """Listens to one worker of ``owner``; its end counts as an error unless it was stopped."""

    owner: Owner
    commit_bytes: int
    services: Services
    inbox: Inbox
    batches: StagedBatches
    report: Reporter
    worker: Worker | None = None

    def staged(self, batch: StagedBatch) -> None:
        """Queue a staged batch; waits while too much is uncommitted.

        Raises:
            ActionNeededError: the topic was re-created before or while the batch was read (I8). Spark knows
                topics by name, and would continue at the old offset once the new topic has grown beyond it.
            RetryableError: the broker does not respond.
        """
        ledger = self.owner.ledger
        try:
            topic_id = self.services.broker.topic_id(ledger.topic)
            check_same_topic(ledger.topic, ledger.topic_id, topic_id)
        except TableTopicError:
            self.discard(batch.files, batch.dead_letters)
            raise
        self.report.staged(batch)
        self.inbox.put((Event.STAGE, batch))
        self.batches.wait_for_room(self.commit_bytes, self._stopping)

    def plan_for(self, needs: Needs, *, recheck: bool = False) -> StagePlan:
        """A plan that satisfies ``needs``.

        Raises:
            StartOverError: the worker is stopping, and there is no answer: the coordinator may have ended.
            Exception: whatever keeps the coordinator from making one.
        """
        request = PlanRequest(needs, recheck)
        self.inbox.put(request)
        while True:
            was_stopping = self._stopping()
            if wait([request.answer], _LAST_PLAN_S).done:
                return request.answer.result()
            if was_stopping:
                raise StartOverError("the topic is being stopped")

    def discard(self, files: Sequence[DataFile], dead_letters: Sequence[DataFile]) -> None:
        """Delete files that will never be committed; the next owner sweeps what cannot be deleted."""
        try:
            self.owner.discard(files, dead_letters)
        except RetryableError as error:
            _LOG.warning("%s: %s", self.owner.ledger.topic, error)

    def ended(self, error: Exception | None) -> None:
        """Note that the query is over."""
        if error is not None and not self._stopping():
            refused = isinstance(error, ActionNeededError | UsageError)
            self.inbox.put((Event.REFUSED if refused else Event.WORKER_DIED, error))

    def _stopping(self) -> bool:
        return self.worker is None or self.worker.stopping
