"""The drill from its first round to its verdict.

Longer than other modules, as a round is one story: what breaks, what is waited for, what is repaired.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from tabletopic_kernel.local.crash_points import Act, Order
from tabletopic_kernel.local.progress import Report
from tabletopic_kernel.model.dead_letter import SUFFIX
from tabletopic_kernel.model.errors import InternalError, TableTopicError
from tabletopic_kernel.model.steps import Step
from tests.drill import foreign
from tests.drill.arena import Arena, signal_tree
from tests.drill.faults import do, do_later
from tests.drill.outcome import STANDS_STILL_S, Outcome, Patience, StepHit
from tests.drill.schedule import (
    ALONE_EVERY,
    BESIDES,
    HEAVY_SHARE,
    PREPARED_BY,
    PROVOKED_BY,
    PROVOKED_OF,
    SHORT_BESIDES,
    SHORT_SPAN_S,
    SPAN_S,
    Fault,
    Round,
    rounds,
)
from tests.drill.tables import Sample, Sampler, commit_after, handed_over_after
from tests.drill.verdict import TopicVerdict, letters_of

_FIRST_COMMIT_S = 600.0  # two hosts start at once, perhaps on a busy machine
_STEP_S = 20.0  # how long a round waits for its step
_PROVOKE_EVERY_S = 6.0
_CAUGHT_UP_S = 240.0
_SETTLED_S = 60.0
_OWNERS = 20  # how many get the chance to sweep
_SWEEP_S = 6.0  # longer than an owner with nothing to commit delays its sweep
_REPLAYED_S, _REPLAYS = 60.0, 3
_OVERLAP = 5  # rounds, including the newest
_CALM_S = 3.0  # before a host is killed alone
_LOOK_EVERY_S = 0.05
_ASK_AFTER_S = 3.0
_THAW_AFTER_S = (1.0, 8.0)


class Drill:
    """One drill. ``say`` gets a line for people whenever something is done.

    Args:
        folder: an empty folder for the servers, tables and logs.
        seed: of the schedule and the records.
        faults: what may happen.
        most: the maximum number of rounds; None for no limit.
        minutes: begin no round after this many minutes; None for no limit.
        rate: records per second of each topic.
        is_over: whether to begin no more rounds; called before each.
        heavy, alone_every: see ``rounds``.
        short: rounds of half the length.
        temporary: remove the folder if this process dies.
        interval_ms: between two commits of a topic.
    """

    def __init__(
        self,
        folder: Path,
        seed: int,
        faults: frozenset[Fault],
        most: int | None,
        minutes: float | None,
        rate: float,
        say: Callable[[str], None],
        *,
        is_over: Callable[[], bool] = lambda: False,
        heavy: float = HEAVY_SHARE,
        alone_every: int = ALONE_EVERY,
        short: bool = False,
        temporary: bool = True,
        interval_ms: int = 500,
    ) -> None:
        self.outcome = Outcome(seed, began_s=time.time())
        self._schedule = rounds(
            seed,
            faults,
            besides=SHORT_BESIDES if short else BESIDES,
            span_s=SHORT_SPAN_S if short else SPAN_S,
            heavy=heavy,
            alone_every=alone_every,
            missed=self._missed,
        )
        self._dice = random.Random(f"{seed} play")  # only for this thread
        self._most = most
        self._seconds = None if minutes is None else minutes * 60
        self._say = say
        self._is_over = is_over
        self._arena = Arena(folder, seed, rate, temporary=temporary, interval_ms=interval_ms)
        self._threads: list[threading.Thread] = []
        self._began: deque[float] = deque(maxlen=_OVERLAP)  # of the last rounds

    def play(self, report: Report) -> Outcome:
        """Play all rounds, and judge.

        Raises:
            TableTopicError: the servers did not start, or nothing was committed at all.
        """
        arena, outcome = self._arena, self.outcome
        try:
            arena.up(report)
            with arena.sampler() as sampler:
                outcome.samples = sampler.samples
                self._wait_for_commits(sampler.samples, 0.0, _FIRST_COMMIT_S)
                for stream in arena.streams.values():
                    stream.go()
                began = time.monotonic()
                for round_ in itertools.islice(self._schedule, self._most):
                    late = self._seconds is not None and time.monotonic() - began > self._seconds
                    if late or self._is_over():
                        break
                    self._round(round_, sampler)
                self._calm_down(sampler)
                self._judge()
        finally:
            arena.close()
            outcome.happenings = arena.happenings
            outcome.ended_s = time.time()
        return outcome

    # -- a round

    def _round(self, round_: Round, sampler: Sampler) -> None:
        arena = self._arena
        self._say(f"{round_.number:4}  {round_}")
        if round_.alone is not None:
            self._alone(round_.alone, sampler)
            self.outcome.rounds += 1
            return
        arena.ensure_hosts()
        began_s = time.time()
        for seconds, fault in round_.besides:
            self._threads.append(do_later(fault, arena, self._some_topic(), seconds))
        if round_.step is not None and round_.act is not None:
            self._at_step(round_, round_.step, round_.act)
        for thread in self._threads:
            thread.join(120)
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self.outcome.rounds += 1
        arena.ensure_hosts()
        # The next round begins while topics still recover from this one: they may lag some light rounds.
        self._began.append(began_s)
        since_s = began_s if round_.is_heavy else self._began[0]
        self._wait_for_commits(sampler.samples, since_s, STANDS_STILL_S)

    def _alone(self, fault: Fault, sampler: Sampler) -> None:
        """Kill or stop the busiest host, and time the takeover by the standby.

        A new host is started only afterwards, as its start would take the standby's processors.
        """
        arena = self._arena
        arena.ensure_hosts()
        self._wait_until(arena.is_settled, _SETTLED_S, "each host has its Spark", sampler)
        self._wait_for_commits(sampler.samples, time.time() + _CALM_S, STANDS_STILL_S)
        with contextlib.suppress(TableTopicError):
            if (busiest := arena.busiest_host()) is not None:
                host, topics = busiest
                what = arena.note(fault, str(host), f"it ran {', '.join(topics)}", moved=topics)
                arena.end(host, signal.SIGKILL if fault is Fault.KILL_HOST else signal.SIGTERM)
                theirs = {topic: sampler.samples[topic] for topic in topics}
                self._wait_for_commits(theirs, what.at_s, STANDS_STILL_S, handed_over_after, hosts=False)
        arena.ensure_hosts()

    def _some_topic(self) -> str:
        return self._dice.choice(sorted(self._arena.streams))

    def _missed(self) -> Counter[Step]:
        return Counter(step.step for step in self.outcome.steps if not step.hit)

    def _at_step(self, round_: Round, step: Step, act: Act) -> None:
        """Arm the step, provoke it, and act while it is held."""
        arena = self._arena
        order = Order(str(round_.number), step, act)
        arena.points.arm(order)  # before its preparation: it may follow at once
        if step in PREPARED_BY:
            prepared, its_act = PREPARED_BY[step]
            first = Order(f"{round_.number}-before", prepared, its_act)
            arena.points.arm(first)
            if self._wait_for_hit(first, None, unless=order) is not None:
                arena.note(its_act, f"step {prepared}", f"to get to {step}")
        pid = self._wait_for_hit(order, PROVOKED_BY.get(step))
        self.outcome.steps.append(StepHit(round_.number, step, act, round_.held, hit=pid is not None))
        if pid is None:
            return
        arena.note(round_.held or act, f"step {step}", f"process {pid}: {act}")
        if act is Act.HOLD and round_.held is not None:
            do(round_.held, arena, self._some_topic())
            arena.points.release(order)
        elif act is Act.FREEZE:
            time.sleep(self._dice.choice(_THAW_AFTER_S))
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(pid).send_signal(signal.SIGCONT)

    def _wait_for_hit(self, order: Order, provoke: Fault | None, unless: Order | None = None) -> int | None:
        """The process that carried out the order; None if none reached the step in time.

        ``unless``: once this order is carried out, the wait ends.
        """
        arena, points = self._arena, self._arena.points
        patience = Patience(_STEP_S)
        provoke_at = time.monotonic()
        while not patience.is_over and (unless is None or points.hit(unless) is None):
            if (hit := points.hit(order)) is not None:
                return hit.pid
            if provoke is not None and time.monotonic() >= provoke_at:
                provoke_at = time.monotonic() + _PROVOKE_EVERY_S
                for topic in PROVOKED_OF.get(order.step, ()) or (self._some_topic(),):
                    self._threads.append(do_later(provoke, arena, topic, 0))
            time.sleep(_LOOK_EVERY_S)
            arena.ensure_hosts()
        points.disarm(order)
        hit = points.hit(order)
        return hit.pid if hit else None

    # -- waiting

    def _wait_for_commits(
        self,
        samples: Mapping[str, Sequence[Sample]],
        since_s: float,
        limit_s: float,
        seen: Callable[[Sequence[Sample], float], float | None] = commit_after,
        *,
        hosts: bool = True,
    ) -> None:
        """Wait until each topic has committed since then; do the user's part meanwhile.

        Args:
            seen: returns the time of the commit that is waited for.
            hosts: also start missing hosts.
        """
        patience = Patience(limit_s)
        ask_at = time.monotonic() + _ASK_AFTER_S
        while late := [topic for topic, some in samples.items() if seen(some, since_s) is None]:
            if dead := [stream for stream in self._arena.streams.values() if stream.error is not None]:
                raise InternalError(f"the producer of {dead[0].plan.topic} has ended: {dead[0].error}")
            if patience.is_over:
                for topic in late:
                    self.outcome.stood_still(topic, limit_s, self._state_of(topic))
                return
            if time.monotonic() > ask_at:
                self._help(late, hosts=hosts)
                ask_at = time.monotonic() + _ASK_AFTER_S
            time.sleep(_LOOK_EVERY_S)

    def _help(self, topics: list[str], *, hosts: bool = True) -> None:
        """Do the user's part: correct requests that crossed, resume a failed topic."""
        arena = self._arena
        if hosts or not arena.alive:
            arena.ensure_hosts()
        for host in arena.alive:
            signal_tree(host.pid, signal.SIGCONT)
        with contextlib.suppress(TableTopicError):
            if arena.server_pid("kafka") is None or arena.server_pid("registry") is None:
                arena.mend_servers()
            desired_topics = arena.workbench.desired_topics()
            for topic in topics:
                if topic not in desired_topics:
                    arena.enable(topic)
                    continue
                status = arena.workbench.status(topic)[0]
                if status.state == "failed":
                    self.outcome.failed(topic, status.error or "", arena.happenings)
                    arena.note("resume", topic, f"it had failed: {status.error}", is_fault=False)
                    if "Roll it forward" in (status.error or ""):
                        what = foreign.roll_forward(arena.load(topic))
                        arena.note("roll_forward", topic, what, is_fault=False)
                if status.state == "failed" or desired_topics[topic].run != "on":
                    arena.workbench.resume(topic)

    def _state_of(self, topic: str) -> str:
        with contextlib.suppress(TableTopicError):
            status = self._arena.workbench.status(topic)[0]
            return f"{status.state}: {status.error}"
        return "unknown: the broker does not respond"

    # -- the end

    def _calm_down(self, sampler: Sampler) -> None:
        """Stop sending; wait until the tables have everything and no stray files remain."""
        arena = self._arena
        self._say("the last records are sent; waiting until the tables contain them")
        arena.mend_servers()
        arena.ensure_hosts()
        for stream in arena.streams.values():
            stream.end()
        self._wait_until(self._caught_up, _CAUGHT_UP_S, "the tables contain all records", sampler)
        self._replay_the_last(sampler)
        # A new owner sweeps what earlier ones left; a disturbed one leaves it to the next.
        for interval in itertools.islice(itertools.cycle((550, 500)), _OWNERS):
            self._begin_anew(interval)
            if self._is_swept():
                return

    def _replay_the_last(self, sampler: Sampler) -> None:
        """Replay letters whose schema was only just registered: all of them become rows."""
        arena = self._arena
        for topic, stream in arena.streams.items():
            later = {(one.partition, one.offset) for one in stream.sent if one.held}

            def done(topic: str = topic, later: set[tuple[int, int]] = later) -> bool:
                letters = arena.catalog().load_table(f"{arena.table_name(topic)}{SUFFIX}")
                return later.isdisjoint(letters_of(letters))

            for _ in range(_REPLAYS if later else 0):  # an interrupted one is not continued
                with contextlib.suppress(TableTopicError):
                    stream.release()
                    arena.workbench.ask_for_replay(topic)
                if self._wait_until(done, _REPLAYED_S, f"the late dead letters of {topic} are rows", sampler):
                    break

    def _wait_until(self, done: Callable[[], bool], limit_s: float, what: str, sampler: Sampler) -> bool:
        """Wait; returns whether it was done in time."""
        patience = Patience(limit_s)
        ask_at = time.monotonic() + _ASK_AFTER_S
        while not done():
            if patience.is_over:
                self._say(f"gave up waiting until {what}")
                return False
            if time.monotonic() > ask_at:
                self._help(list(sampler.samples))
                ask_at = time.monotonic() + _ASK_AFTER_S
            time.sleep(0.5)
        return True

    def _caught_up(self) -> bool:
        arena = self._arena
        with contextlib.suppress(TableTopicError):
            found = arena.workbench.status()
            return len(found) == len(arena.streams) and all(one.lag_records == 0 for one in found)
        return False

    def _begin_anew(self, interval_ms: int) -> None:
        """Give every topic a new owner, and time to sweep."""
        for topic in self._arena.streams:
            with contextlib.suppress(TableTopicError):
                self._arena.workbench.alter(topic, {"commit_interval_ms": interval_ms})
        time.sleep(_SWEEP_S)

    def _is_swept(self) -> bool:
        return all(not verdict.orphans for verdict in self._verdicts())

    def _judge(self) -> None:
        self._say("comparing every acknowledged record with the tables")
        self.outcome.verdicts = list(self._verdicts())

    def _verdicts(self) -> Iterator[TopicVerdict]:
        arena = self._arena
        ends = arena.workbench.broker.end_offsets(list(arena.streams))
        for topic in arena.streams:
            yield arena.verdict(topic, ends[topic])
