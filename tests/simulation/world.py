"""One history: everything that exists, and the one thread that makes the moves of a schedule.

A move without meaning at its time does nothing, so any part of a schedule is a schedule: that lets ``shrink``
remove moves.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

from pyiceberg.table import Table, snapshots

from tabletopic_kernel.host.maintenance import compaction, expiry
from tabletopic_kernel.host.ownership import actions
from tabletopic_kernel.model.commit_cycle import State
from tabletopic_kernel.model.settings.desired import DesiredTopic, ReplayRequest
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline import rewrite
from tabletopic_kernel.pipeline.rewrite import RewriteResult, RewriteTask, read_result
from tabletopic_kernel.table.compaction import plan as table_compaction
from tests.simulation import foreign, keyed, people
from tests.simulation.coverage import Coverage, noting_steps
from tests.simulation.faults import Fault, Outside
from tests.simulation.kafka import _FIRST_MS, ACCEPTED, LEARNED, ModelRegistry, Refilled, Topic
from tests.simulation.lake import LETTERS, MAIN, Lake
from tests.simulation.one_thread import pyiceberg_in_one_thread
from tests.simulation.process import Process
from tests.simulation.reader import Reader
from tests.simulation.schedule import Move, Setting
from tests.simulation.worker import ModelWorker

_FINISH_ROUNDS = 400  # of a healthy host; a history that needs more does not come to an end


@dataclass
class Counts:
    """What a history amounts to."""

    commits: int = 0  # that a process made and the catalog took, of rows, letters, claims and columns
    foreign: int = 0
    faults: int = 0
    sweeps: int = 0


@dataclass
class World:
    """Made for a setting; ``run`` makes moves and raises BrokenError when a promise is broken."""

    setting: Setting
    coverage: Coverage = field(default_factory=Coverage)
    told: Callable[[str], None] = lambda _: None  # what happens, line by line, for who replays a history

    def __post_init__(self) -> None:
        setting = self.setting
        self.now_ms = _FIRST_MS
        self.acting: Process | None = None
        self.counts = Counts()
        self.topic = Topic()
        self.learned = {1, 2, 3}
        self.outside = Outside(self)
        self.lake = Lake(
            f"history-{id(self)}", setting.spelling, on_sqlite=setting.on_sqlite, lenient=setting.lenient
        )
        self.reader = Reader(self)
        self.lake.store.call, self.lake.store.written = self.outside.call, self.reader.written
        self.holder: str | None = None
        self.processes: dict[str, Process] = {}
        self._runs = 0
        self.table_is_foreign = False
        self.folder_moved = False
        self.rows_deleted = False  # by somebody, which is his right
        self.may_stop = False  # somebody did what only a person can decide on (I8)
        self.robbed: set[str] = set()  # files of snapshots that others deleted
        self._calls = 0
        self.lost: set[str] = set()  # staged files that circumstances took away
        self.refilled = Refilled()
        self.strays: set[str] = set()  # staged by processes that had lost the topic
        self.left_behind: set[str] = set()  # files of tables that foreign writers dropped
        self.shared_folder = f"{setting.spelling}/shared"
        self.settings = TopicSettings(
            commit_interval_ms=1_000,
            max_refused_share=1.0,
            key_format="none",
            metadata_columns=("metadata",),
            on_gap=setting.on_gap,
            table_properties={"write.data.path": self.shared_folder} if setting.shares_folder else {},
            keep_snapshots=1,
            sort_by=setting.sort_by,
        ).model_copy(update={"time_travel_ms": 3_000})  # less than people may: a history takes minutes
        if setting.keyed:
            self.settings = self.settings.model_copy(update=keyed.settings(setting.keyed))
        if setting.large_files:
            self.settings = self.settings.model_copy(update={"target_file_size_bytes": 64})
        self.wish: DesiredTopic | None = DesiredTopic(topic="clicks", settings=self.settings)
        self._moves: deque[Move] = deque()
        self._deletions = 0

    def registry_for(self, call: Any) -> ModelRegistry:
        """The registry as a process sees it."""
        return ModelRegistry(call, self.learned, self.refilled, self.setting.keyed == "order")

    # -- running

    @contextmanager
    def _alone(self) -> Iterator[None]:
        def make(_: Any, spec: Any, plan: Any, listener: Any, *_more: Any) -> ModelWorker:
            assert self.acting is not None
            return ModelWorker(self.acting, spec, plan, listener)

        with ExitStack() as patches:
            patches.enter_context(pyiceberg_in_one_thread(self.setting.seed))
            patches.enter_context(mock.patch.object(actions, "Worker", make))
            patches.enter_context(mock.patch.object(compaction, "run_task", self._rewrite))
            few = self.setting.many_letters  # which come in a few files in a history, and go with each replay
            patches.enter_context(mock.patch.object(table_compaction, "MIN_FILES", 2 if few else 6))
            patches.enter_context(mock.patch.object(compaction, "_SCAN_MS", 5_000 if few else 60_000))
            patches.enter_context(mock.patch.object(rewrite, "_PART_ROWS", 3))
            clock = SimpleNamespace(time=lambda: self.now_ms / 1000)
            patches.enter_context(mock.patch.object(snapshots, "time", clock))
            if self.setting.keyed:
                keyed.few_files(patches)
            if self.setting.expires:
                patches.enter_context(mock.patch.multiple(expiry, _FIRST_MS=8_000, _EVERY_MS=15_000))
            patches.enter_context(noting_steps(self))
            patches.enter_context(self._watched())
            try:
                yield
            finally:
                self.lake.close()

    def _rewrite(self, _spark: object, _topic: str, task: RewriteTask) -> RewriteResult:
        """As ``run_task``, whose task runs here."""
        self.outside.call("spark", lambda: None)
        (batch,) = task(iter(()))
        return read_result(batch["result"][0].as_py())

    def run(self, moves: Sequence[Move]) -> Counts:
        """Make the moves, then let a healthy host bring everything to an end; raises BrokenError."""
        with self._alone():
            self._moves = deque(moves)
            while self._moves:
                self._make(self._moves.popleft())
            self._finish()
        return self.counts

    def meanwhile(self, moves: int, ms: int) -> None:
        """Others go on for so many moves of the schedule, while a process waits for an answer."""
        before, self.acting = self.acting, None
        self.now_ms += ms
        self._calls += 1
        try:
            for _ in range(moves):
                if self._moves:
                    self._make(self._moves.popleft())
        finally:
            self.acting = before
            self._calls -= 1

    @property
    def is_within_a_call(self) -> bool:
        """Whether a process waits for an answer, or a request is still under way."""
        return bool(self._calls or self.outside.later)

    def _make(self, move: Move) -> None:
        self.told(str(move))
        dice = random.Random(move.seed)
        self.now_ms += dice.randint(1, 1500)
        removals, version = self.lake.store.removals, self.lake.catalog.version
        self.outside.tick()
        if move.actor in ("A", "B"):
            self._move_of_host(move, dice)
            self.reader.stopped(self.processes.get(move.actor))
        elif move.actor == "foreign":
            if foreign.do(self, LETTERS if move.of == "letters" else MAIN, move.verb, dice):
                self.counts.foreign += 1
                self.may_stop |= move.verb in foreign.STOPS
                self.rows_deleted |= move.verb in foreign.DELETES
                if self.setting.keyed and move.verb == "rewrite":  # without the rows that others deleted
                    self.may_stop |= self.rows_deleted
                self.folder_moved |= move.verb == "share the folder"
                self.coverage.acts[f"foreign, {move.of}", move.verb] += 1
            self.reader.look(foreign=True)
            return
        else:
            people.DO[move.verb](self, dice)
            self.may_stop |= move.verb in people.STOPS
            self.coverage.acts[move.actor, move.verb] += 1
        if self.lake.store.removals != removals or self.lake.catalog.version != version:
            self.reader.look()

    def _move_of_host(self, move: Move, dice: random.Random) -> None:
        host = self.processes.get(move.actor)
        if move.verb == "start":
            if host is None or not host.alive:
                self._runs += 1
                self.processes[move.actor] = Process(self, move.actor, self._runs)
        elif host is None or not host.alive:
            return
        elif move.verb == "kill":
            if not host.busy:
                host.die()
        elif move.verb == "fault":
            host.faults.append(Fault(move.call, move.kind, move.skip, move.others))
        elif move.verb == "run":
            for _ in range(dice.randint(1, 6)):
                verb = dice.choices(("poll", "step", "work", "task"), (2, 6, 4, 3))[0]
                host.act(self._verb(host, verb, dice))
        else:
            host.act(self._verb(host, move.verb, dice))

    def _verb(self, host: Process, verb: str, dice: random.Random) -> Callable[[], None]:
        if verb == "poll":
            return host.poll
        return {
            "step": lambda: host.step(dice),
            "work": lambda: host.work(dice),
            "task": lambda: host.task(dice),
        }[verb]

    # -- what the model is told of

    def struck(self, process: Process, fault: Fault) -> None:
        """A fault strikes."""
        self.counts.faults += 1
        self.coverage.faults[fault.call, fault.kind] += 1
        self.told(f"    {process.name}, after {process.at}: {fault}")

    def task(self, name: str, work: Callable[[], None]) -> None:
        """A thread's work, in this one."""
        work()
        self.counts.sweeps += name == "sweep"

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """The reader looks at each commit as soon as the catalog has it."""
        catalog = self.lake.catalog
        real = catalog.commit_table

        def commit_table(table: Table, requirements: Any, updates: Any) -> Any:
            before = self.lake.look(table.name())
            answer = real(table, requirements, updates)
            after = self.lake.look(table.name())
            process, self.acting = self.acting, None
            try:
                who = process.name if process else self.outside.sender
                if who is not None and after is not None:
                    self.counts.commits += 1
                    told = f", after {process.at}" if process else ", late"
                    self.told(f"    {who}{told}: a commit to {after.name()[-1]}")
                    self.reader.committed(before, after, who)
                    self.reader.look()
            finally:
                self.acting = process
            return answer

        with mock.patch.object(catalog, "commit_table", commit_table):
            yield

    # -- the end

    def _finish(self) -> None:
        """Everything works again: a new host must bring all records into the tables, and clean up."""
        self.told("everything is well again")
        self.outside.down.clear()
        self.outside.deliver()
        self.reader.look()
        if self.table_is_foreign:
            self.lake.catalog.drop_table(MAIN)
            self.table_is_foreign = False
        for process in self.processes.values():
            process.die()
        there = set(self.lake.store.files)
        self.holder = "C"
        settings = self.wish.settings if self.wish else self.settings
        if self.refilled.is_so:
            settings = settings.model_copy(update=ACCEPTED)
        self.wish = DesiredTopic(topic="clicks", settings=settings)
        last = Process(self, "C", 0)
        dice = random.Random(self.setting.seed)
        self._go_on(last, dice, lambda: self.reader.is_complete() and last.is_at_rest)
        self.reader.look()
        self.reader.at_the_end(last, there)
        if last.running is not None and last.running.state in (State.RUNNING, State.STAGED):
            self._replay(last, dice)

    def _go_on(self, last: Process, dice: random.Random, is_done: Callable[[], bool]) -> None:
        for turn in range(_FINISH_ROUNDS):
            self.now_ms += 1_000
            last.act(last.poll)
            while any(coordinator.has_work for coordinator in last.coordinators):
                last.act(lambda: last.step(dice))
            last.act(lambda: last.work(dice))
            last.act(lambda: last.task(dice))
            if last.running is not None and last.running.state is State.FAILED:
                break
            if turn % 4 == 3 and is_done():
                break

    def _replay(self, last: Process, dice: random.Random) -> None:
        """The registry now knows all schemas: each letter that can be a row must become one."""
        assert self.wish is not None
        self.learned |= set(LEARNED)
        self.wish = self.wish.model_copy(
            update={"replay": ReplayRequest(id="at the end", asked_ms=self.now_ms)}
        )
        self._go_on(last, dice, lambda: any(one.type == "Replayed" for one in last.control.written))
        self.reader.look()
        self.reader.replayed()
