"""The interface of other threads to an owner: questions to the coordinator's thread, and staged batches."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Queue
from typing import Any, Final, TypeVar

from pyiceberg.manifest import DataFile

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.host.owner import Owner, delete_file_counts
from tabletopic_kernel.host.ownership.cut_log import compare
from tabletopic_kernel.host.ownership.staged_batches import StagedBatches
from tabletopic_kernel.host.report import Reporter
from tabletopic_kernel.host.resume_point import check_same_topic
from tabletopic_kernel.model.commit_cycle import Event
from tabletopic_kernel.model.errors import (
    ActionNeededError,
    RetryableError,
    StartOverError,
    TableTopicError,
    UsageError,
)
from tabletopic_kernel.pipeline.plan import Needs, StagedBatch, StagePlan

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

INTERRUPTED: Final = "interrupted, as the topic was altered, disabled, restarted or handed over; ask again"

# What a coordinator's thread takes in: events with their payload; None: there is a new question.
Inbox = Queue[tuple[Event, object] | None]


class Ownership:
    """Lets other threads use an owner; the worker's listener.

    ``_lock`` guards the open questions and ``_is_over``. ``_commits`` belongs to the coordinator's thread:
    batches that a job has staged, each with the future of its commit.
    """

    def __init__(
        self,
        owner: Owner,
        broker: Broker,
        report: Reporter,
        inbox: Inbox,
        batches: StagedBatches,
        commit_bytes: int,
        stage: Callable[[StagedBatch, bool], None],
    ) -> None:
        self.owner = owner
        self.batches = batches
        self._stage = stage
        self._broker, self._report, self._inbox = broker, report, inbox
        self._commit_bytes = commit_bytes
        self._last_records = dict(owner.ledger.last_records)  # of what was staged, for the worker's thread
        self._lock = threading.Lock()
        self._questions: deque[tuple[Callable[[Owner], Any], Future[Any]]] = deque()
        self._is_over = False
        self._commits: list[tuple[StagedBatch, Future[tuple[int, int]]]] = []

    # -- from any thread

    def ask(self, do: Callable[[Owner], _T]) -> Future[_T]:
        """Have ``do`` called by the coordinator's thread between commits, in order.

        The future has its result or error, or StartOverError if the ownership ended before.
        """
        answer: Future[_T] = Future()
        with self._lock:
            is_over = self._is_over
            if not is_over:
                self._questions.append((do, answer))
        if is_over:
            answer.set_exception(StartOverError(INTERRUPTED))
        else:
            self._inbox.put(None)
        return answer

    @property
    def has_questions(self) -> bool:
        with self._lock:
            return bool(self._questions)

    def staged(self, batch: StagedBatch) -> None:
        """Queue a staged batch; waits while too much is uncommitted.

        Raises ActionNeededError if the topic was re-created before or while the batch was read (I8): Spark
        knows topics by name, and would continue at the old offset once the new topic has grown beyond it.
        """
        ledger = self.owner.ledger
        try:
            topic_id = self._broker.topic_id(ledger.topic)
            check_same_topic(ledger.topic, ledger.topic_id, topic_id)
            self._check_not_cut(batch)
        except TableTopicError:
            self.discard(batch.own_files, batch.dead_letters)
            raise
        self._report.staged(batch)
        self._inbox.put((Event.STAGE, batch))
        self.batches.wait_for_room(self._commit_bytes, lambda: self._is_over)

    def _check_not_cut(self, batch: StagedBatch) -> None:
        """Raise RetryableError, so that take-over decides, if the log lost records before this batch (I8)."""
        offsets = batch.offsets
        moved = {p for p, end in offsets.end.items() if end > offsets.start[p]}
        below = {p: last for p, last in self._last_records.items() if p in moved}
        topic = self.owner.ledger.topic
        if other := compare(topic, below, self._broker).other:
            raise RetryableError(
                f"the log of {topic} was cut before {other}; the topic restarts from its ledger"
            )
        self._last_records |= offsets.last_records

    def plan_for(self, needs: Needs, *, recheck: bool = False) -> StagePlan:
        """A plan that satisfies ``needs``; raises as ``Owner.satisfy``, and as ``ask``."""
        return self.ask(lambda owner: owner.satisfy(needs, recheck=recheck)).result()

    def discard(self, files: Sequence[DataFile], dead_letters: Sequence[DataFile]) -> None:
        """Delete files that will never be committed; the next owner sweeps what cannot be deleted."""
        try:
            self.owner.files.discard(files, dead_letters)
        except RetryableError as error:
            _LOG.warning("%s: %s", self.owner.ledger.topic, error)

    def ended(self, error: TableTopicError | None) -> None:
        """Note that the query is over; errors count unless the worker was asked to stop."""
        if error is not None and not self._is_over:
            is_refused = isinstance(error, ActionNeededError | UsageError)
            self._inbox.put((Event.REFUSED if is_refused else Event.WORKER_DIED, error))

    # -- in the coordinator's thread

    def answer(self) -> None:
        """Answer the oldest question, if there is one."""
        with self._lock:
            if not self._questions:
                return
            do, answer = self._questions.popleft()
        try:
            result = do(self.owner)
        except Exception as error:  # raised by the asking thread
            answer.set_exception(error)
            return
        self._report.progress.sync(self.owner)
        answer.set_result(result)

    def stage(self, batch: StagedBatch, *, at_once: bool) -> Future[tuple[int, int]]:
        """Stage a job's batch, as part of an answer; ``at_once``: its commit does not wait for the interval.

        The future of its commit has ``delete_file_counts``; OutdatedError: other writers changed the files
        that it replaces, and it was dropped; StartOverError: the next owner decides.
        """
        answer: Future[tuple[int, int]] = Future()
        self._commits.append((batch, answer))
        self._stage(batch, at_once)
        return answer

    def committed(self, batches: Sequence[StagedBatch], error: Exception | None = None) -> None:
        """Note that these batches are in the table, or why they never will be."""
        done = [commit for commit in self._commits if any(batch is commit[0] for batch in batches)]
        self._commits = [commit for commit in self._commits if commit not in done]
        for _, answer in done:
            if error is None:
                answer.set_result(delete_file_counts(self.owner.table))
            else:
                answer.set_exception(error)

    def end(self) -> None:
        """Answer no more questions, because the worker stops; staged batches may still be committed."""
        with self._lock:
            self._is_over, unanswered = True, list(self._questions)
            self._questions.clear()
        for _, answer in unanswered:
            answer.set_exception(StartOverError(INTERRUPTED))

    def close(self) -> None:
        """Commit nothing more."""
        self.end()
        self.committed([batch for batch, _ in self._commits], StartOverError(INTERRUPTED))
