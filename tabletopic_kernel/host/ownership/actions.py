"""What a topic's coordinator does, action by action; the protocol says when (``model/commit_cycle.py``)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tabletopic_kernel.clients.spark.java_errors import error_of_trouble
from tabletopic_kernel.host.maintenance.maintenance import Maintenance
from tabletopic_kernel.host.owner import Owner
from tabletopic_kernel.host.ownership.ownership import Inbox, Ownership
from tabletopic_kernel.host.ownership.staged_batches import StagedBatches
from tabletopic_kernel.host.ownership.take_over import take_over
from tabletopic_kernel.host.report import Reporter
from tabletopic_kernel.host.resume_point import source_spec
from tabletopic_kernel.host.schedule import LOST_WAIT_MS, REFUSED_WAIT_MS, Schedule
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.model.commit_cycle import Action, Event, State, event_of
from tabletopic_kernel.model.errors import (
    GapError,
    HeadMovedError,
    LoginRefusedError,
    MissingFilesError,
    OutcomeUnknownError,
    OutdatedError,
    RetryableError,
    StartOverError,
    TableTopicError,
    UnreadableFilesError,
)
from tabletopic_kernel.model.progress.events import Enabled
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.steps import Step, reach
from tabletopic_kernel.pipeline.plan import OwnCommit, ReplayedBatch, StagedBatch
from tabletopic_kernel.pipeline.worker.worker import Worker
from tabletopic_kernel.table.changes.commit import check_head

_LOG = logging.getLogger(__name__)


class Actions:
    """One topic's owner, worker and staged batches; changed by its coordinator's thread alone."""

    def __init__(
        self,
        topic: str,
        settings: TopicSettings,
        services: Services,
        report: Reporter,
        schedule: Schedule,
        maintenance: Maintenance,
        inbox: Inbox,
        stage: Callable[[StagedBatch, bool], None],
    ) -> None:
        self._topic, self._settings, self._services = topic, settings, services
        self._report, self._schedule, self._maintenance = report, schedule, maintenance
        self._inbox, self._stage = inbox, stage
        self.owner: Owner | None = None
        self.ownership: Ownership | None = None
        self.worker: Worker | None = None
        self.staged = StagedBatches()

    def perform(self, action: Action, state: State) -> Event | None:
        """Perform an action in the state after its event; returns the event that follows."""
        match action:
            case Action.TAKE_OWNERSHIP:
                return self._take_ownership()
            case Action.START_WORKER:
                return self._start_worker()
            case Action.STOP_WORKER:
                return self._stop_worker()
            case Action.COMMIT:
                return self._commit(state)
            case Action.SETTLE:
                return self._settle(state)
            case Action.DISCARD:
                self._discard()
            case Action.ARM_RETRY:
                self._schedule.retries.back_off()
            case Action.FINISH:
                self.close()
        return None

    def close(self) -> None:
        """Commit nothing more, and answer no more questions."""
        if self.ownership is not None:
            self.ownership.close()

    def _take_ownership(self) -> Event | None:
        try:
            owner = take_over(self._topic, self._settings, self._services, self.owner)
        except TableTopicError as error:
            if isinstance(error, GapError):
                self._report.gap(error.missing, skipped=False)
            return self._classify(error)
        is_news = self.owner is None or owner.took_from(self.owner)
        self.owner = owner
        self.staged.remove()  # an earlier run's, with an unconfirmed commit: the sweep decides
        self.ownership = Ownership(
            owner,
            self._services.broker,
            self._report,
            self._inbox,
            self.staged,
            self._settings.commit_bytes,
            self._stage,
        )
        self._report.progress.sync(owner)
        if owner.mended:
            self._report.error(MissingFilesError(owner.mended), waits=True)
        if owner.gap:
            self._report.gap(owner.gap, skipped=True)
        if owner.truncated:
            self._report.gap(owner.truncated, on_truncation=self._settings.on_truncation)
        if is_news:  # retries during an outage of an hour would fill the control topic
            epoch, offsets = owner.ledger.epoch, dict(owner.ledger.next_offsets)
            self._report.write(Enabled(**self._report.stamp(), epoch=epoch, next_offsets=offsets))
        self._schedule.owned(sweeps=owner.files.is_sweep_due)
        self._maintenance.owned()
        return Event.OWNED

    def _start_worker(self) -> Event | None:
        ownership, services = self.ownership, self._services
        assert ownership is not None
        owner = ownership.owner
        spec = source_spec(self._topic, self._settings, services.broker, owner.start)
        try:
            worker = Worker(
                services.spark(),
                spec,
                owner.plan(),
                ownership,
                services.broker,
                services.ends,
                services.batches,
                services.starts,
            )
            self.worker = worker
            worker.start()
            if self._schedule.asked:
                worker.read_up_to(self._schedule.asked)
        except Exception as error:  # Py4J's errors too: Spark's JVM may be gone
            if not isinstance(error, TableTopicError):
                error = error_of_trouble(f"Spark did not start the worker of {self._topic}", error)
            self.report_error(error, waits=True)
            self.worker = None
            return Event.WORKER_DIED
        self._schedule.started()
        return None

    def _stop_worker(self) -> Event | None:
        """Stop the worker from another thread: its current batch may still be staged."""
        worker, self.worker = self.worker, None
        if self.ownership is not None:
            self.ownership.end()  # so that its batch waits for no answer
        if worker is None:
            return Event.WORKER_STOPPED

        def stop() -> None:
            reach(Step.DRAIN)
            worker.stop()
            self._inbox.put((Event.WORKER_STOPPED, None))

        self._services.spawn(f"stop {self._topic}", stop)
        return None

    def _commit(self, state: State) -> Event | None:
        """Commit until nothing is staged, beginning with a commit planned earlier."""
        owner = self.owner
        assert owner is not None
        while owner.plan_commit(self.staged.now(), self._services.now_ms()) is not None:
            began, cpu_ms = self._services.elapsed_ms(), self._services.cpu_ms()
            try:
                owner.send()
            except OutdatedError as error:
                if (event := self._give_up_compaction(error)) is not None:
                    return event
                continue
            except TableTopicError as error:
                return self._classify_commit(error)
            self._take_over(owner, began, state, self._services.cpu_ms() - cpu_ms)
            try:
                for written in filter(None, (owner.dead_letters.table, owner.table)):
                    check_head(written, metadata_only=True)
            except TableTopicError as error:
                return self._classify(error)
        return Event.COMMITTED

    def _classify_commit(self, error: TableTopicError) -> Event:
        """Like ``_classify``; ten conflicts in a row count as unknown: the pause then lets orders in."""
        assert self.owner is not None
        if isinstance(error, HeadMovedError) and self._schedule.retries.overtaken():
            doing = "the catalog refuses each commit; it is asked again later: "
            error = OutcomeUnknownError(error.behind(doing))
        event = self._classify(error)
        if event is Event.ANSWER_LOST:
            self.owner.answer_lost()
        self._report.commit_failed(error)
        return event

    def _take_over(self, owner: Owner, began_ms: int, state: State, cpu_ms: int = 0) -> None:
        """Adopt a commit that is in the table: its ledger is ours, its batches are no longer staged."""
        assert self.ownership is not None
        done = owner.done()
        if any(isinstance(batch, ReplayedBatch) for batch in done.batches):
            reach(Step.REPLAYED)
            try:
                owner.settle_letters()
            except TableTopicError as error:
                _LOG.warning("%s: replayed dead letters could not be removed yet: %s", self._topic, error)
        self._schedule.committed(began_ms, owner.ledger.next_offsets, self._settings, cpu_ms)
        self._report.progress.stretched = self._schedule.stretched(self._settings)
        self.staged.remove(len(done.batches))
        self.ownership.committed(done.batches)
        if state is State.COMMITTING:  # while stopping, the error is still the reason for it
            self._report.clear_error()
        waits_ms = 1000 * ((self.worker.waits_s if self.worker else None) or 0.0)
        if isinstance(done.batches[0], OwnCommit):
            self._maintenance.committed()
            self._report.progress.sync(owner)
            return
        self._maintenance.appended(done.batches, waits=waits_ms > 2 * self._settings.commit_interval_ms)
        self._report.committed(done.batches, owner, began_ms)
        if self.worker is not None:
            self.worker.rest(self._schedule.rest_ms / 1000)
            if self._schedule.asked:
                self.worker.read_up_to(self._schedule.asked)  # one batch did not suffice

    def _give_up_compaction(self, error: OutdatedError) -> Event | None:
        """Discard a compaction whose files other writers changed."""
        assert self.owner is not None
        assert self.ownership is not None
        try:
            files = self.owner.give_up()
        except StartOverError as start_over:
            return self._classify(start_over)
        # Before its files are deleted: no deleted file may be staged.
        dropped = self.staged.remove(1)
        self.ownership.committed(dropped, error)
        try:
            self.owner.files.discard(files, ())
        except RetryableError as trouble:
            _LOG.warning("%s: %s", self._topic, trouble)  # swept at the next start
        return None

    def read_up_to_now(self) -> None:
        """Make a commit due for all records that the topic has now, as soon as they are staged."""
        if self.worker is None:
            return  # a request resumes no topic
        try:
            ends = self._services.broker.facts(self._topic).end
        except TableTopicError as error:
            _LOG.warning("%s: %s", self._topic, error)
            ends = {}  # what is staged can still be committed
        self._schedule.ask_commit(ends)
        self.worker.read_up_to(ends)

    def _settle(self, state: State) -> Event | None:
        owner = self.owner
        assert owner is not None
        if owner.pending is None:
            return Event.SETTLED
        try:
            if not owner.is_in_table():
                if state is State.CLOSING_SETTLING:
                    if self._schedule.retries.has_given_up:
                        return Event.GAVE_UP
                    self._schedule.retries.back_off()
                else:
                    self._schedule.retries.absent()
                return Event.ABSENT
        except TableTopicError as error:
            return self._classify(error)
        self._take_over(owner, self._services.elapsed_ms(), state)
        return Event.SETTLED

    def _discard(self) -> None:
        batches = self.staged.remove()
        self.close()
        if self.owner is not None:
            try:
                self.owner.drop(batches)
            except RetryableError as error:
                _LOG.warning("%s: %s", self._topic, error)  # swept at the next start

    def _classify(self, error: TableTopicError) -> Event:
        """Report an action's error to users; returns the event that follows from it."""
        event = event_of(error)
        if event is not Event.HEAD_MOVED:
            self.report_error(error, waits=event is not Event.REFUSED)
        if event is Event.START_OVER and not isinstance(error, UnreadableFilesError | MissingFilesError):
            self._schedule.retries.pause(LOST_WAIT_MS)
        return event

    def report_error(self, error: TableTopicError, *, waits: bool) -> None:
        """Report why the topic stopped or waits; a refused login is not tried again soon."""
        self._report.error(error, waits=waits)
        if isinstance(error, LoginRefusedError):
            self._schedule.retries.pause(REFUSED_WAIT_MS)
