"""The coordinator of one table topic: owns the table, and commits what the worker stages.

The thread is a loop of ``step()``. A step takes one event, decides under the lock by the protocol in
``model/commit_cycle.py``, releases it, acts, and feeds each action's outcome back as an event.

Why this is safe: one thread makes every change of the table, so this process never has two commits under way.
Other threads only put events into the inbox, and ask questions that this thread answers between commits
(``Ownership.ask``). A batch counts as staged once this thread has taken
it from there, and stays staged until its commit is known to be in the table: a commit whose outcome is
unknown is kept with its id, and retried as the same commit (I4). An unexpected exception ends this topic
alone; the next owner sweeps what it staged (I8, I10).
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Sequence
from functools import partial

from tabletopic_kernel.clients.spark.java_errors import error_of_trouble, reason_of
from tabletopic_kernel.host.maintenance.maintenance import Maintenance
from tabletopic_kernel.host.owner import Owner
from tabletopic_kernel.host.ownership.ownership import Inbox, Ownership
from tabletopic_kernel.host.ownership.staged_batches import StagedBatches
from tabletopic_kernel.host.ownership.take_over import take_over
from tabletopic_kernel.host.report import Reporter
from tabletopic_kernel.host.resume_point import source_spec
from tabletopic_kernel.host.schedule import BETWEEN_COMMITS, Schedule
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.model.commit_cycle import (
    CLOSED_EVENT,
    Action,
    Event,
    Goal,
    State,
    event_of,
    next_goal,
    transition,
)
from tabletopic_kernel.model.errors import (
    GapError,
    HeadMovedError,
    LoginRefusedError,
    OutcomeUnknownError,
    OutdatedError,
    RetryableError,
    StartOverError,
    TableTopicError,
    UnreadableFilesError,
)
from tabletopic_kernel.model.progress.events import Progress
from tabletopic_kernel.model.settings.sections import Request, TopicSettings
from tabletopic_kernel.model.steps import Step, reach
from tabletopic_kernel.pipeline.plan import CompactedBatch, ReplayedBatch, StagedBatch
from tabletopic_kernel.pipeline.worker.worker import Worker

_LOG = logging.getLogger(__name__)


class Coordinator:
    """One table topic on this host. Public methods may be called from any thread.

    Under ``_lock``: state and goal. What the owner holds belongs to the thread that runs
    ``step``.
    """

    def __init__(self, topic: str, settings: TopicSettings, services: Services) -> None:
        self.topic = topic
        self.settings = settings
        self._services = services
        self._inbox: Inbox = queue.Queue()
        self._lock = threading.Lock()
        self._state = State.STOPPED
        self._goal = Goal.RETRY
        self._staged = StagedBatches()
        self._report = Reporter(topic, settings, services)
        self._owner: Owner | None = None
        self._ownership: Ownership | None = None
        self._maintenance = Maintenance(topic, settings, services, self._report)
        self._worker: Worker | None = None
        self._may_have_recovered = False  # the cause of the reported error may be gone
        self._schedule = Schedule(services.elapsed_ms)
        self._ending = self._crashed = False
        self._thread = threading.Thread(target=self._run, name=f"coordinator {topic}", daemon=True)

    def __repr__(self) -> str:
        return f"<Coordinator {self.topic} {self.state} staged={len(self._staged)}>"

    # -- orders and questions, from any thread

    def start(self, *, paused: bool = False) -> None:
        """Start; the first step takes ownership of the table, or pauses at once."""
        self.order(Event.PAUSE if paused else Event.START)
        self._thread.start()

    def order(self, event: Event) -> None:
        """START, PAUSE, RESUME, STOP, or COMMIT_DUE: now, without waiting for the interval."""
        self._inbox.put((event, None))

    def commit_now(self) -> None:
        """Commit what the topic contains now."""
        self.order(Event.COMMIT_DUE)
        self._report.commit_asked()

    def carry_out(self, request: Request) -> None:
        """Replay dead letters or maintain the table, as soon as the topic runs; one event is the outcome."""
        self._maintenance.ask(request)
        self._inbox.put(None)

    def inherit(self, requests: Sequence[Request]) -> None:
        """Carry out the requests, oldest first, that the topic's last owner left without an outcome."""
        if requests:
            self._services.spawn(f"requests {self.topic}", partial(self._maintenance.inherit, requests))

    def leave_requests(self) -> None:
        """Report no outcomes any more: another host runs the topic already, and carries out its requests."""
        self._maintenance.forget()

    def close(self, timeout_s: float | None = None) -> bool:
        """Commit staged files, stop, end the thread; returns whether it ended in time."""
        self._ending = True
        self.order(Event.STOP)
        # At once: each batch that began before this thread gets the order would be one more to wait for.
        if (worker := self._worker) is not None:
            worker.wind_down()
        self._thread.join(timeout_s)
        self._maintenance.end()  # also of a thread that does not end
        return not self._thread.is_alive()

    @property
    def state(self) -> State:
        """The topic's state."""
        with self._lock:
            return self._state

    @property
    def has_died(self) -> bool:
        """Whether a bug ended the thread; then a new coordinator is needed."""
        return self._crashed

    def progress(self) -> Progress:
        """The current progress record."""
        worker = self._worker
        waits_s, cluster_waits = (worker.waits_s, worker.cluster_waits) if worker else (None, None)
        return self._report.progress(self.state, self._staged.now(), waits_s, cluster_waits)

    def notice(self, text: str | None) -> None:
        """Report this instead of an error while there is none; None: nothing."""
        self._report.notice = text

    # -- the loop

    def _run(self) -> None:
        try:
            while not (self._ending and self.state is State.STOPPED):
                self.step()
        except Exception as error:  # a bug of ours: keep it for people, stop this topic alone
            _LOG.exception("coordinator of %s", self.topic)
            self._crash(error)
        finally:
            if self._ownership is not None:
                self._ownership.close()
            self._maintenance.end()

    def step(self) -> None:
        """Take one event (or one due by time) and act until nothing follows from it."""
        try:
            item = self._inbox.get(timeout=self._wait_s())
        except queue.Empty:
            item = None
        if item is not None:
            if item[0] is Event.COMMIT_DUE:  # by request: what is due by time is no item
                self._read_up_to_now()
            self._fire(*item)
        if (due := self._due()) is not None:
            self._fire(due)
        elif (ownership := self._free) is not None:
            ownership.answer()
        self._sweep_if_due()
        if (ownership := self._free) is not None and not self._ending:
            self._maintenance.step(ownership)
        if self._may_have_recovered and self.state is State.RUNNING and not self._schedule.is_in_doubt:
            self._may_have_recovered = False
            self._report.clear_error()

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything now."""
        ownership = self._free
        asked = ownership is not None and (
            ownership.has_questions or (not self._ending and self._maintenance.has_work(ownership))
        )
        return asked or not self._inbox.empty() or self._due() is not None or self._can_sweep()

    @property
    def _free(self) -> Ownership | None:
        """The ownership between commits: none is under way or in doubt, so its tables may be changed."""
        ownership = self._ownership
        if ownership is None or ownership.owner.pending is not None or self.state not in BETWEEN_COMMITS:
            return None
        return ownership

    def _wait_s(self) -> float:
        if self._due() is not None or ((ownership := self._free) is not None and ownership.has_questions):
            return 0.0
        return self._schedule.wait_s(self.state, self.settings)

    def _due(self) -> Event | None:
        due = self._schedule.due(self.state, self._staged.bytes, self.settings)
        # While stopping, one commit takes everything that is staged.
        return None if due is Event.COMMIT_DUE and self._ending else due

    def _can_sweep(self) -> bool:
        """Whether to sweep now: not before the first commit, if one comes, as that would be delayed."""
        return not self._ending and self._schedule.is_time_to_sweep(self.state)

    def _sweep_if_due(self) -> None:
        owner = self._owner
        if owner is None or not self._can_sweep():
            return
        self._schedule.swept()
        # With its own catalog: this thread uses the owner's.
        self._services.spawn("sweep", partial(owner.sweep, self._services.catalog))

    def _fire(self, event: Event, payload: object = None) -> None:
        pending: deque[tuple[Event, object]] = deque([(event, payload)])
        while pending:
            event, payload = pending.popleft()
            if event in (Event.WORKER_DIED, Event.REFUSED) and isinstance(payload, Exception):
                self._report_error(payload, waits=event is Event.WORKER_DIED)
            if isinstance(payload, StagedBatch):
                self._staged.add(payload)
            with self._lock:
                before = self._state
                self._goal = next_goal(self._goal, event)
                self._state, actions = transition(before, event)
                after = self._state
            if event is Event.RESUME:
                self._schedule.resume()
            self._report.moved(event, before, after)
            for action in actions:
                outcome = self._perform(action)
                if outcome is not None:
                    pending.append((outcome, None))
            if after is State.RUNNING and event in (Event.OWNED, Event.COMMITTED):
                self._may_have_recovered = True

    def _perform(self, action: Action) -> Event | None:
        return {
            Action.TAKE_OWNERSHIP: self._take_ownership,
            Action.START_WORKER: self._start_worker,
            Action.STOP_WORKER: self._stop_worker,
            Action.COMMIT: self._commit,
            Action.SETTLE: self._settle,
            Action.DISCARD: self._discard_staged,
            Action.ARM_RETRY: self._arm_retry,
            Action.FINISH: self._finish,
        }[action]()

    def _sorted(self, error: Exception) -> Event:
        """Report an action's error to users; returns the event that follows from it."""
        event = event_of(error)
        if event is not Event.HEAD_MOVED:
            self._report_error(error, waits=event is not Event.REFUSED)
        if event is Event.START_OVER and not isinstance(error, UnreadableFilesError):
            self._schedule.lost()
        return event

    def _report_error(self, error: Exception, *, waits: bool) -> None:
        self._report.error(error, waits=waits)
        if isinstance(error, LoginRefusedError):
            self._schedule.refused()

    # -- actions

    def _take_ownership(self) -> Event | None:
        try:
            owner = take_over(self.topic, self.settings, self._services, self._owner)
        except TableTopicError as error:
            if isinstance(error, GapError):
                self._report.gap(error.missing, skipped=False)
            return self._sorted(error)
        is_news = self._owner is None or owner.took_from(self._owner)
        self._owner = owner
        self._staged.remove()  # of an earlier run whose commit stayed unknown: the sweep decides
        self._ownership = Ownership(
            owner,
            self._services.broker,
            self._report,
            self._inbox,
            self._staged,
            self.settings.commit_bytes,
            self._stage,
        )
        self._report.sync(owner)
        if owner.gap:
            self._report.gap(owner.gap, skipped=True)
        if is_news:  # an outage that is retried for an hour would fill the control topic
            self._report.owned(owner.ledger)
        self._schedule.owned(sweeps=owner.is_sweep_due)
        self._maintenance.owned()
        return Event.OWNED

    def _start_worker(self) -> Event | None:
        ownership, services = self._ownership, self._services
        assert ownership is not None
        owner = ownership.owner
        spec = source_spec(self.topic, self.settings, services.broker, owner.start)
        try:
            worker = Worker(services.spark(), spec, owner.plan(), ownership, services.turns, services.starts)
            self._worker = worker
            worker.start()
        except Exception as error:  # Py4J's errors too: Spark's JVM may be gone
            reason = error_of_trouble(f"Spark did not start the worker of {self.topic}", error)
            self._report_error(error if isinstance(error, TableTopicError) else reason, waits=True)
            self._worker = None
            return Event.WORKER_DIED
        self._schedule.started()
        return None

    def _stop_worker(self) -> Event | None:
        """Stop the worker from another thread: its current batch may still be staged."""
        worker, self._worker = self._worker, None
        if self._ownership is not None:
            self._ownership.end()  # its batch waits for no answer
        if worker is None:
            return Event.WORKER_STOPPED

        def stop() -> None:
            reach(Step.DRAIN)
            worker.stop()
            self._inbox.put((Event.WORKER_STOPPED, None))

        self._services.spawn(f"stop {self.topic}", stop)
        return None

    def _commit(self) -> Event | None:
        """Commit until nothing is staged: first a commit planned earlier, then what came since."""
        owner = self._owner
        assert owner is not None
        while owner.plan_commit(self._staged.now()) is not None:
            began = self._services.elapsed_ms()
            try:
                owner.send()
            except OutdatedError as error:
                if (event := self._give_up_compaction(error)) is not None:
                    return event
                continue
            except TableTopicError as error:
                return self._sorted_commit(error)
            self._take_over(owner, began)
        return Event.COMMITTED

    def _sorted_commit(self, error: TableTopicError) -> Event:
        """As ``_sorted``, for a commit.

        A catalog that refuses each commit for another writer's would be asked without a pause, and no order
        would be heard: then the outcome counts as unknown, as settling a commit waits.
        """
        assert self._owner is not None
        if isinstance(error, HeadMovedError) and self._schedule.overtaken():
            error = OutcomeUnknownError(f"the catalog refuses each commit; it is asked again later: {error}")
        event = self._sorted(error)
        if event is Event.ANSWER_LOST:
            self._owner.answer_lost()
        self._report.commit_failed(error)
        return event

    def _take_over(self, owner: Owner, began_ms: int) -> None:
        """Adopt a commit that is in the table: its ledger is ours, its batches are no longer staged."""
        done = owner.done()
        if any(isinstance(batch, ReplayedBatch) for batch in done.batches):
            owner.settle_letters()
        self._schedule.committed(began_ms, owner.ledger.next_offsets)
        self._staged.remove(len(done.batches))
        if self._ownership is not None:
            self._ownership.committed(done.batches)
        if self._state is State.COMMITTING:  # while stopping, the error is still the reason
            self._report.clear_error()
        waits_ms = 1000 * ((self._worker.waits_s if self._worker else None) or 0.0)
        if isinstance(done.batches[0], CompactedBatch):
            self._maintenance.committed()
            self._report.sync(owner)
            return
        self._maintenance.appended(done.batches, waits=waits_ms > 2 * self.settings.commit_interval_ms)
        self._report.committed(done.batches, owner, began_ms)
        if self._schedule.asked and self._worker is not None:
            self._worker.read_up_to(self._schedule.asked)  # more than one batch takes

    def _give_up_compaction(self, error: OutdatedError) -> Event | None:
        """Discard a compaction whose files other writers changed."""
        assert self._owner is not None
        try:
            files = self._owner.give_up()
        except StartOverError as over:
            return self._sorted(over)
        # Before its files are deleted: nobody may see them staged after that.
        dropped = self._staged.remove(1)
        if self._ownership is not None:
            self._ownership.committed(dropped, error)
        try:
            self._owner.discard(files, ())
        except RetryableError as trouble:
            _LOG.warning("%s: %s", self.topic, trouble)  # swept at the next start
        return None

    def _stage(self, batch: StagedBatch, at_once: bool) -> None:
        """Stage what a job of maintenance has made, as part of an answer."""
        if at_once:
            self._schedule.ask_commit()
        self._fire(Event.STAGE, batch)

    def _read_up_to_now(self) -> None:
        """Make a commit due for all records that the topic has now, as soon as they are staged."""
        if self._worker is None:
            return  # a request resumes no topic
        try:
            ends = self._services.broker.facts(self.topic).end
        except TableTopicError as error:
            _LOG.warning("%s: %s", self.topic, error)
            ends = {}  # what is staged can still be committed
        self._schedule.ask_commit(ends)
        self._worker.read_up_to(ends)

    def _settle(self) -> Event | None:
        owner = self._owner
        assert owner is not None
        if owner.pending is None:
            return Event.SETTLED
        try:
            if not owner.is_in_table():
                if self._state is State.CLOSING_SETTLING:
                    if self._schedule.has_given_up:
                        return Event.GAVE_UP
                    self._schedule.back_off()
                else:
                    self._schedule.absent()
                return Event.ABSENT
        except TableTopicError as error:
            return self._sorted(error)
        self._take_over(owner, self._services.elapsed_ms())
        return Event.SETTLED

    def _discard_staged(self) -> Event | None:
        batches = self._staged.remove()
        if self._ownership is not None:
            self._ownership.close()
        if self._owner is not None:
            try:
                self._owner.drop(batches)
            except RetryableError as error:
                _LOG.warning("%s: %s", self.topic, error)  # swept at the next start
        return None

    def _arm_retry(self) -> Event | None:
        self._schedule.back_off()
        return None

    def _finish(self) -> Event | None:
        if self._ownership is not None:
            self._ownership.close()
        with self._lock:
            goal, self._goal = self._goal, Goal.RETRY
        return CLOSED_EVENT[goal]

    def _crash(self, error: Exception) -> None:
        self._crashed = True
        if self._ownership is not None:
            self._ownership.close()
        with self._lock:
            self._state = State.FAILED
        self._report.error(
            f"a bug in this program stopped the topic ({type(error).__name__}: {reason_of(error)}); the "
            "host's log has its trace. Resume the topic to try again",
            waits=False,
        )
        if self._worker is not None:
            self._worker.stop()
