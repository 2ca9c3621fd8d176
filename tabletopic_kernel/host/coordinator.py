"""The coordinator of one table topic: owns the table, and commits what the worker stages.

The thread is a loop of ``step()``. A step takes one event, decides under the lock by the protocol in
``model/commit_cycle.py``, releases it, acts, and feeds each action's outcome back as an event.

Why this is safe: one thread makes every change of the table, so this process never has two commits under way.
Other threads only put events into the inbox, and ask questions that this thread answers between commits
(``Ownership.ask``). A batch counts as staged once this thread has taken it from the inbox, and stays staged
until its commit is known to be in the table: a commit whose outcome is unknown is kept with its id, and
retried as the same commit (I4). An unexpected exception ends this topic alone; the next owner sweeps what it
staged (I8, I10).
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Sequence
from functools import partial

from tabletopic_kernel.clients.spark.java_errors import reason_of
from tabletopic_kernel.host.maintenance.maintenance import Maintenance
from tabletopic_kernel.host.maintenance.sweep import sweep_earlier_epochs
from tabletopic_kernel.host.owner import Owner
from tabletopic_kernel.host.ownership.actions import Actions
from tabletopic_kernel.host.ownership.ownership import Inbox, Ownership
from tabletopic_kernel.host.report import Reporter
from tabletopic_kernel.host.schedule import BETWEEN_COMMITS, Schedule
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.model.commit_cycle import (
    CLOSED_EVENT,
    Action,
    Event,
    Goal,
    State,
    next_goal,
    transition,
)
from tabletopic_kernel.model.errors import InternalError, TableTopicError
from tabletopic_kernel.model.progress.events import CommitRequested, Progress
from tabletopic_kernel.model.settings.desired import Request
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.plan import StagedBatch

_LOG = logging.getLogger(__name__)


class Coordinator:
    """One table topic on this host. Public methods may be called from any thread.

    ``_lock`` guards state and goal. The owner's state belongs to the thread that runs ``step``.
    """

    def __init__(
        self, topic: str, settings: TopicSettings, services: Services, inbox: Inbox | None = None
    ) -> None:
        self.topic = topic
        self.settings = settings
        self._services = services
        self._inbox = queue.Queue() if inbox is None else inbox
        self._lock = threading.Lock()
        self._state = State.STOPPED
        self._goal = Goal.RETRY
        self._report = Reporter(topic, settings, services)
        self._maintenance = Maintenance(topic, settings, services, self._report)
        self._may_have_recovered = False  # the cause of the reported error may be gone
        self._schedule = Schedule(services.elapsed_ms)
        self._actions = Actions(
            topic,
            settings,
            services,
            self._report,
            self._schedule,
            self._maintenance,
            self._inbox,
            self._stage,
        )
        self._ending = self._crashed = False
        self._thread = threading.Thread(target=self._run, name=f"coordinator {topic}", daemon=True)

    def __repr__(self) -> str:
        return f"<Coordinator {self.topic} {self.state} staged={len(self._actions.staged)}>"

    # -- orders and questions, from any thread

    def start(self, *, paused: bool = False) -> None:
        """Start; the first step takes ownership of the table, or pauses at once."""
        self.order(Event.PAUSE if paused else Event.START)
        self._thread.start()

    def order(self, event: Event) -> None:
        """START, PAUSE, RESUME, STOP, or COMMIT_DUE: now, without waiting for the interval."""
        self._inbox.put((event, None))

    def commit_now(self) -> None:
        self.order(Event.COMMIT_DUE)
        self._report.write(CommitRequested(**self._report.stamp()))

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
        # At once: otherwise this thread also waits for batches that begin before it takes the order.
        if (worker := self._actions.worker) is not None:
            worker.wind_down()
        self._thread.join(timeout_s)
        self._maintenance.end()  # even if the thread does not end
        return not self._thread.is_alive()

    @property
    def state(self) -> State:
        with self._lock:
            return self._state

    @property
    def owner(self) -> Owner | None:
        """This host's last ownership of the table; None before the first."""
        return self._actions.owner

    @property
    def staged(self) -> tuple[StagedBatch, ...]:
        """The batches that wait for the next commit."""
        return self._actions.staged.now()

    @property
    def has_died(self) -> bool:
        """Whether a bug ended the thread; then a new coordinator is needed."""
        return self._crashed

    def progress(self) -> Progress:
        worker = self._actions.worker
        if worker is None:
            return self._report.progress.now(self.state, self.staged)
        return self._report.progress.now(
            self.state, self.staged, worker.waits_s, worker.cluster_waits, worker.staging_records
        )

    def notice(self, text: str | None) -> None:
        """Report this text while there is no error; None removes it."""
        self._report.progress.notice = text

    # -- the loop

    def _run(self) -> None:
        try:
            while not (self._ending and self.state is State.STOPPED):
                self.step()
        except Exception as error:  # a bug of ours: keep it for people, stop this topic alone
            _LOG.exception("coordinator of %s", self.topic)
            self._crash(error)
        finally:
            self._actions.close()
            self._maintenance.end()

    def step(self) -> None:
        """Take one event (or one due by time) and act until nothing follows from it."""
        try:
            item = self._inbox.get(timeout=self._wait_s())
        except queue.Empty:
            item = None
        if item is not None:
            if item[0] is Event.COMMIT_DUE:  # requested: commits due by time are not in the inbox
                self._actions.read_up_to_now()
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
        owner_has_work = ownership is not None and (
            ownership.has_questions or (not self._ending and self._maintenance.has_work(ownership))
        )
        return owner_has_work or not self._inbox.empty() or self._due() is not None or self._can_sweep()

    @property
    def _free(self) -> Ownership | None:
        """The ownership between commits: none is under way or in doubt, so its tables may be changed."""
        ownership = self._actions.ownership
        if ownership is None or ownership.owner.pending is not None or self.state not in BETWEEN_COMMITS:
            return None
        return ownership

    def _wait_s(self) -> float:
        if self._due() is not None or ((ownership := self._free) is not None and ownership.has_questions):
            return 0.0
        return self._schedule.wait_s(self.state, self.settings)

    def _due(self) -> Event | None:
        due = self._schedule.due(self.state, self._actions.staged.bytes, self.settings)
        # While stopping, one commit takes everything that is staged.
        return None if due is Event.COMMIT_DUE and self._ending else due

    def _can_sweep(self) -> bool:
        """Whether to sweep now; a sweep must not delay the first commit, if any comes soon."""
        return not self._ending and self._schedule.is_time_to_sweep(self.state)

    def _sweep_if_due(self) -> None:
        owner = self.owner
        if owner is None or not self._can_sweep():
            return
        self._schedule.swept()
        # With its own catalog: this thread uses the owner's.
        self._services.spawn("sweep", partial(sweep_earlier_epochs, owner, self._services.catalog))

    def _fire(self, event: Event, payload: object = None) -> None:
        pending: deque[tuple[Event, object]] = deque([(event, payload)])
        while pending:
            event, payload = pending.popleft()
            if event in (Event.WORKER_DIED, Event.REFUSED) and isinstance(payload, TableTopicError):
                self._actions.report_error(payload, waits=event is Event.WORKER_DIED)
            if isinstance(payload, StagedBatch):
                self._actions.staged.add(payload)
                self._schedule.staged()
            with self._lock:
                before = self._state
                self._goal = next_goal(self._goal, event)
                self._state, actions = transition(before, event)
                after = self._state
            if event is Event.RESUME:
                self._schedule.retries.resume()
            self._report.moved(event, before, after)
            for action in actions:
                outcome = self._actions.perform(action, after)
                if action is Action.FINISH:
                    outcome = self._finish()
                if outcome is not None:
                    pending.append((outcome, None))
            if after is State.RUNNING and event in (Event.OWNED, Event.COMMITTED):
                self._may_have_recovered = True

    def _finish(self) -> Event:
        with self._lock:
            goal, self._goal = self._goal, Goal.RETRY
        return CLOSED_EVENT[goal]

    def _stage(self, batch: StagedBatch, at_once: bool) -> None:
        """Stage the batch of a maintenance job, as part of an answer."""
        if at_once:
            self._schedule.ask_commit()
        self._fire(Event.STAGE, batch)

    def _crash(self, error: Exception) -> None:
        self._crashed = True
        self._actions.close()
        with self._lock:
            self._state = State.FAILED
        bug = InternalError(
            f"a bug in this program stopped the topic ({type(error).__name__}: {reason_of(error)}); the "
            "host's log has its trace. Resume the topic to try again"
        )
        self._report.error(bug, waits=False)
        if self._actions.worker is not None:
            self._actions.worker.stop()
