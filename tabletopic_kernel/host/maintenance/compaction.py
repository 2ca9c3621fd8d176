"""Compaction beside the worker: when it runs, where, and what becomes of its files.

Longer than other modules, as a round is one thought: the coordinator takes here what its threads make.

A round chooses groups of small files. A Spark task rewrites each group, while a thread of the round waits for
it. The new files then queue with the staged batches, and the coordinator's thread commits them between two
appends, as a batch that moves no offsets. Fencing, settling and discarding work as for batches. A group that
other writers overtook is given up, and chosen again later.

Dead letters are compacted the same way, in rounds of their own. Their commit is not queued with the batches:
the coordinator makes it as soon as the files exist, as it does when it settles letters, and gives it up while
letters of a commit or of a replay are in flight (``Coordinator._commit_letters_compaction``).

One topic of a host rewrites at a time, and then rests, which keeps the average at a fifth of a core. A
compaction that somebody requested does not wait for the rest.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import thread_time
from typing import Any

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from tabletopic_kernel.clients.catalog.catalog import reachable
from tabletopic_kernel.clients.catalog.engine_properties import maintains_itself
from tabletopic_kernel.clients.spark.java_errors import explain_trouble
from tabletopic_kernel.host.owner import Owner
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.model.errors import ActionNeededError, StartOverError, TableTopicError
from tabletopic_kernel.model.ledger import StagedOffsets
from tabletopic_kernel.model.settings.desired import MaintenanceRequest
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.steps import Step, reach
from tabletopic_kernel.pipeline.plan import CompactedBatch, StagedBatch
from tabletopic_kernel.pipeline.rewrite import RewriteResult, RewriteTask, read_result
from tabletopic_kernel.pipeline.stage import RESULT_SCHEMA
from tabletopic_kernel.table.changes.ledger_history import summary
from tabletopic_kernel.table.compaction import plan as compaction
from tabletopic_kernel.table.compaction.group import Group
from tabletopic_kernel.table.compaction.plan import CompactionPlan, plan_compaction, rows_where
from tabletopic_kernel.table.sweep import remove_unsent
from tabletopic_kernel.table.topic_table import TopicTable

_LOG = logging.getLogger(__name__)
_POOL = "compaction"  # of Spark's scheduler: all topics of a host share it
_LOOK_MS = 60_000  # between two looks at the files of a table
_TRIES = 3  # of a round that other writers overtake, or whose groups cannot be rewritten
# A batch with fewer records began because its interval was over: the topic is not behind.
_CALM_RECORDS = 200_000


def run_task(spark: SparkSession, topic: str, task: RewriteTask) -> RewriteResult:
    """Rewrite a group as one Spark task, and wait for it; raises Spark's version of the task's error."""
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", _POOL)
    spark.sparkContext.setLocalProperty("spark.job.description", f"compaction of {topic}")
    function: Any = task  # the stubs want a function of any iterable
    (row,) = spark.range(0, 1, 1, 1).mapInArrow(function, RESULT_SCHEMA).collect()
    return read_result(row["result"])


@dataclass(frozen=True)
class Rewritten:
    """A thread's result for a round of ``owner``: a plan, a batch, or why there is neither.

    ``dead_letters``: it is for the dead-letter table.
    """

    owner: Owner
    dead_letters: bool
    plan: CompactionPlan | None = None
    batch: CompactedBatch | None = None
    error: str | None = None


@dataclass
class _Round:
    """A compaction of one table, with its results so far; ``groups`` is None until they are chosen."""

    request: MaintenanceRequest | None
    began_ms: int
    dead_letters: bool
    groups: deque[Group] | None = None
    delete_files: frozenset[str] = frozenset()
    tries: int = 0
    error: str | None = None  # of a group that could not be rewritten
    event: dict[str, Any] = field(default_factory=dict)

    def count(self, batch: CompactedBatch, delete_files: int) -> None:
        """Count a committed group and the delete files removed with it."""
        before = batch.replaced.files
        for name, more in (
            ("files_before", len(before)),
            ("files", len(batch.files)),
            ("bytes_before", sum(file.file_size_in_bytes for file in before)),
            ("bytes", batch.bytes),
            ("rows", sum(file.record_count for file in batch.files)),
            ("deleted_rows", batch.replaced.dropped_rows),
            ("delete_files", delete_files),
        ):
            self.event[name] = self.event.get(name, 0) + more


@dataclass
class _Look:
    """The last look at a table: what it contained, and when the next look may be."""

    files: int = 0
    deletes: tuple[int, int] = (0, 0)
    next_ms: int = 0


class Compactions:
    """The compactions of one topic, one after the other; used by the coordinator's thread alone."""

    def __init__(
        self,
        topic: str,
        settings: TopicSettings,
        services: Services,
        put: Callable[[Rewritten], None],
        report: Callable[..., None],
        letters_are_free: Callable[[], bool],
    ) -> None:
        """``letters_are_free``: whether no replay runs; a replay chooses letters by their files."""
        self._topic, self._settings, self._services = topic, settings, services
        self._put, self._report, self._letters_are_free = put, report, letters_are_free
        self._asked: deque[tuple[MaintenanceRequest, bool]] = deque()  # True: for the dead letters
        self._round: _Round | None = None
        self._busy = False  # a thread is at work, or its files wait for their commit
        self._last = {False: _Look(), True: _Look()}  # of the table, and of its dead letters
        self._calm = False  # True: the last commit gave no sign that the topic is behind

    def ask(self, request: MaintenanceRequest) -> None:
        """Compact when there is time; events with the request's id report the table, then the dead letters.

        A condition refers to the table's columns, so it excludes the dead letters, which have others.
        """
        self._asked.append((request, False))
        if request.where is None:
            self._asked.append((request, True))

    @property
    def is_awaited(self) -> bool:
        """Whether somebody asked for the compaction under way."""
        return self._round is not None and self._round.request is not None

    def is_due(self, owner: Owner | None) -> bool:
        """Whether ``step`` would do something."""
        if self._busy or owner is None:
            return False
        if owner.table is None:
            return bool(self._asked)  # to report it
        now, asked = self._services.elapsed_ms(), bool(self._asked)
        if self._round is None and not asked and self._looks(owner, now) is None:
            return False
        if self._round is not None:
            if self._round.groups is not None and not self._round.groups:
                return True  # to report it
            asked = self._round.request is not None
        return self._services.allowance.is_free(now, asked=asked)

    def _looks(self, owner: Owner, at_ms: int) -> bool | None:
        """Which table needs a look: True for the dead letters', False for the topic's; None: neither."""
        assert owner.table is not None
        if self._settings.maintenance == "off" or not self._calm:
            return None
        if self._settings.maintenance != "on" and maintains_itself(owner.table.table.catalog.properties):
            return None
        return next((which for which in self._last if self._has_changed(owner, which, at_ms)), None)

    def _has_changed(self, owner: Owner, dead_letters: bool, at_ms: int) -> bool:
        table, last = _table(owner, dead_letters), self._last[dead_letters]
        if table is None or at_ms < last.next_ms or (dead_letters and not self._letters_are_free()):
            return False
        has_more = _files(table) >= last.files + compaction.MIN_FILES
        return has_more or _deletes(table) not in (last.deletes, (0, 0))

    def step(self, owner: Owner) -> None:
        """Start a thread that chooses files or rewrites the next group, if that is due."""
        if not self.is_due(owner):
            return
        now = self._services.elapsed_ms()
        if self._round is None:
            request, which = self._asked.popleft() if self._asked else (None, bool(self._looks(owner, now)))
            self._round = _Round(request, now, which)
        current = self._round
        table = _table(owner, current.dead_letters)
        if table is None:
            self._end(None if current.dead_letters else "there is no table yet: the first records create it")
            return
        if current.dead_letters and not self._letters_are_free():
            self._end("dead letters are being replayed")
            return
        if current.groups is not None and not current.groups:
            self._end(current.error)
            return
        if not self._services.allowance.try_take(now, asked=current.request is not None):
            return  # another topic was faster
        if current.groups is None:
            self._last[current.dead_letters] = _Look(_files(table), _deletes(table), now + _LOOK_MS)
            work: Callable[[Table], Rewritten] = partial(self._plan, owner, current)
        else:
            work = partial(self._rewrite, owner, current, current.groups.popleft(), owner.ledger.epoch)
        self._busy = True
        failed = partial(Rewritten, owner, current.dead_letters)
        job = partial(self._work, failed, work, table.table.name(), str(table.table.metadata.table_uuid))
        self._services.spawn(f"compaction {self._topic}", job)

    def _end(self, error: str | None) -> None:
        """End the round; a request always gets a report."""
        current, self._round, self._busy = self._round, None, False
        if current is None:
            return
        if error is not None:
            _LOG.info("%s: compaction ended early: %s", self._topic, error)
        # The request was for the table: dead letters are reported only where something was done.
        if current.event or (current.request is not None and (error or not current.dead_letters)):
            seconds = (self._services.elapsed_ms() - current.began_ms) / 1000
            request_id = current.request.id if current.request else None
            self._report(
                request_id=request_id,
                dead_letters=current.dead_letters,
                seconds=seconds,
                error=error,
                **current.event,
            )

    # -- in a thread of its own

    def _work(
        self,
        failed: Callable[..., Rewritten],
        work: Callable[[Table], Rewritten],
        name: tuple[str, ...],
        table_uuid: str,
    ) -> None:
        began, cpu_s = thread_time(), 0.0
        try:
            done = work(self._load(name, table_uuid))
        except TableTopicError as error:
            done = failed(error=str(error))
        except Exception as error:  # Spark's, or a bug of ours: the topic goes on
            _LOG.exception("%s: compaction", self._topic)
            explained = explain_trouble("small files could not be compacted", error)
            done = failed(error=str(explained))
        cpu_s += thread_time() - began
        self._services.allowance.give_back(self._services.elapsed_ms(), cpu_s)
        self._put(done)

    def _load(self, name: tuple[str, ...], table_uuid: str) -> Table:
        """The table as it is now, with a catalog of this thread's own."""
        try:
            with reachable("the catalog"):
                table = self._services.catalog().load_table(name)
        except NoSuchTableError as error:
            raise StartOverError(f"the table {'.'.join(name)} is gone") from error
        if str(table.metadata.table_uuid) != table_uuid:
            raise StartOverError(f"the table {'.'.join(name)} was replaced by another one")
        return table

    def _plan(self, owner: Owner, current: _Round, table: Table) -> Rewritten:
        request = current.request
        where = rows_where(request.where, table.schema()) if request is not None else None
        plan = plan_compaction(table, where=where, due_only=request is None)
        reach(Step.COMPACT)
        return Rewritten(owner, current.dead_letters, plan=plan)

    def _rewrite(self, owner: Owner, current: _Round, group: Group, epoch: int, table: Table) -> Rewritten:
        began = self._services.elapsed_ms()
        task = RewriteTask(TopicTable(table).plan(), epoch, group.to_read(), group.files[0].partition)
        result = run_task(self._services.spark(), self._topic, task)
        self._services.allowance.charge(result.cpu_s)
        reach(Step.COMPACTED)
        replaced = group.replaced(result.moved, current.delete_files)
        rows = sum(file.record_count for file in result.files)
        error = result.error
        if error is None and rows + replaced.dropped_rows != sum(
            file.record_count for file in replaced.files
        ):
            error = ActionNeededError(
                f"{len(replaced.files)} files became one, and {rows} rows were not theirs"
            )
        if error is not None:
            self._give_up(table, result.begun)
            raise error
        seconds, nothing = (self._services.elapsed_ms() - began) / 1000, StagedOffsets({}, {})
        batch = CompactedBatch(nothing, tuple(result.files), 0, seconds, replaced=replaced)
        return Rewritten(owner, current.dead_letters, batch=batch)

    def _give_up(self, table: Table, locations: Sequence[str]) -> None:
        """Remove what a failed task had begun; the rest is swept once its epoch is over."""
        try:
            remove_unsent(table, locations)
        except TableTopicError as error:
            _LOG.warning("%s: files of a rewrite that failed stay for now: %s", self._topic, error)

    # -- what came of it, in the coordinator's thread

    def take(self, done: Rewritten) -> CompactedBatch | None:
        """Take a thread's result; returns the files to commit, if it is for this round and has some."""
        current = self._round
        if current is None:
            self._busy = False
            return None
        if done.error is not None:
            current.error, current.tries, self._busy = current.error or done.error, current.tries + 1, False
            if current.groups is None or current.tries >= _TRIES:  # else it may be that group's files alone
                self._end(current.error)
            return None
        if (plan := done.plan) is not None:
            current.groups, current.delete_files = deque(plan.groups), plan.delete_files
            if plan.refused is not None:
                self._end(plan.refused if current.request else None)
        # A group whose rows are all deleted loses its files and gets no new one.
        if done.batch is not None and done.batch.replaced.files:
            return done.batch
        self._busy = False
        return None

    def committed(self, batch: CompactedBatch, owner: Owner) -> None:
        """Record that a group's files are in the table."""
        if (current := self._round) is not None:
            self._last[current.dead_letters].files -= len(batch.replaced.files) - len(batch.files)
            current.count(batch, _removed_deletes(_table(owner, current.dead_letters)))
        self._busy = False

    def appended(self, batches: tuple[StagedBatch, ...], *, waits: bool) -> None:
        """Record a commit of rows; ``waits``: the worker waits for a turn longer than it should."""
        self._calm = not waits and all(batch.offsets.records < _CALM_RECORDS for batch in batches)

    def gave_up(self, reason: str) -> None:
        """Look at the table's files again: other writers changed what was read."""
        current, self._busy = self._round, False
        if current is None:
            return
        self._last[current.dead_letters].files = 0
        current.tries += 1
        current.groups = None
        if current.request is None or current.tries >= _TRIES:
            self._end(reason)

    def interrupt(self, error: str) -> None:
        """End with the ownership; results that a thread still produces for it are discarded."""
        self._end(error)


def _files(table: TopicTable) -> int:
    """The number of data files in the head, as the table was last loaded."""
    head = table.table.metadata.current_snapshot()
    return int(summary(head).get("total-data-files", 0)) if head else 0


def _deletes(table: TopicTable) -> tuple[int, int]:
    """The numbers of delete files in the head and of positions in them, as the table was last loaded."""
    head = table.table.metadata.current_snapshot()
    told = summary(head) if head else {}
    return int(told.get("total-delete-files", 0)), int(told.get("total-position-deletes", 0))


def _table(owner: Owner, dead_letters: bool) -> TopicTable | None:
    return owner.dead_letters.table if dead_letters else owner.table


def _removed_deletes(table: TopicTable | None) -> int:
    """The number of delete files that the owner's newest commit removed."""
    newest = table.ledger_snapshot() if table is not None else None
    return int(summary(newest[1]).get("removed-delete-files", 0)) if newest else 0
