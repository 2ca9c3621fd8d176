"""Compaction beside the worker: when it runs, where, and what becomes of its files.

Longer than other modules, as a round is one thought: what a thread of it makes, the coordinator takes here.

A round chooses groups of small files; then each group is rewritten by a task of Spark that a thread of its
own waits for; then its files wait among the staged batches and are committed by the coordinator's thread,
between two appends, as a batch that moves no offsets. Fencing, settling and discarding are those of batches.
What was overtaken by others is given up, and chosen anew later.

Of a host's topics one rewrites at a time, and rests so that a fifth of a core is taken on average; what
somebody asked for does not rest.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from tabletopic_kernel.clients.catalog.catalog import reachable
from tabletopic_kernel.clients.catalog.engine_properties import maintains_itself
from tabletopic_kernel.host.owner import Owner
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.model.errors import ActionNeededError, StartOverError, TableTopicError
from tabletopic_kernel.model.ledger import StagedOffsets
from tabletopic_kernel.model.settings.sections import MaintenanceRequest, TopicSettings
from tabletopic_kernel.model.steps import Step, reach
from tabletopic_kernel.pipeline.plan import StagedBatch
from tabletopic_kernel.pipeline.rewrite import RewriteResult, RewriteTask, read_result
from tabletopic_kernel.pipeline.stage import RESULT_SCHEMA
from tabletopic_kernel.pipeline.worker.errors import explain_trouble
from tabletopic_kernel.table.compaction import plan as compaction
from tabletopic_kernel.table.compaction.plan import CompactionPlan, Group, plan_compaction, rows_where
from tabletopic_kernel.table.snapshot import TopicTable, summary
from tabletopic_kernel.table.sweep import remove_unsent

_LOG = logging.getLogger(__name__)
_POOL = "compaction"  # of Spark's scheduler: all topics of a host share it
_LOOK_MS = 60_000  # between two looks at the files of a table
_TRIES = 3  # of a round that others overtake, or whose groups cannot be rewritten
# Records of a batch by which the topic is not behind: its worker began it as its interval was over.
_CALM_RECORDS = 200_000


def run_task(spark: SparkSession, topic: str, task: RewriteTask) -> RewriteResult:
    """Rewrite a group as one task of Spark, and wait for it; raises what Spark makes of the task's error."""
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", _POOL)
    spark.sparkContext.setLocalProperty("spark.job.description", f"compaction of {topic}")
    function: Any = task  # the stubs want a function of any iterable
    (row,) = spark.range(0, 1, 1, 1).mapInArrow(function, RESULT_SCHEMA).collect()
    return read_result(row["result"])


@dataclass(frozen=True)
class Rewritten:
    """What a thread has done for a round of an ``owner``: a plan, or a batch, or why there is neither."""

    owner: Owner
    plan: CompactionPlan | None = None
    batch: StagedBatch | None = None
    error: str | None = None


@dataclass
class _Round:
    """A compaction under way, and what it has come to; ``groups`` is None before they are chosen."""

    request: MaintenanceRequest | None
    began_ms: int
    groups: deque[Group] | None = None
    delete_files: frozenset[str] = frozenset()
    tries: int = 0
    error: str | None = None  # of a group that could not be rewritten
    event: dict[str, Any] = field(default_factory=dict)

    def count(self, batch: StagedBatch, delete_files: int) -> None:
        """A group is in the table, and as many delete files went with it."""
        assert batch.replaced is not None
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


class Compactions:
    """The compactions of one topic, one after the other; used by the coordinator's thread alone."""

    def __init__(
        self,
        topic: str,
        settings: TopicSettings,
        services: Services,
        put: Callable[[Rewritten], None],
        report: Callable[..., None],
    ) -> None:
        self._topic, self._settings, self._services = topic, settings, services
        self._put, self._report = put, report
        self._asked: deque[MaintenanceRequest] = deque()
        self._round: _Round | None = None
        self._busy = False  # a thread is at work, or its files wait for their commit
        self._files_seen = 0  # in the table, at the last look
        self._deletes_seen = (0, 0)
        self._look_ms = 0  # not before that time
        self._calm = False  # the last commit did not show that the topic is behind

    def ask(self, request: MaintenanceRequest) -> None:
        """Compact when there is time; an event with the request's id follows."""
        self._asked.append(request)

    @property
    def is_awaited(self) -> bool:
        """Whether somebody asked for the compaction under way."""
        return self._round is not None and self._round.request is not None

    def is_due(self, owner: Owner | None) -> bool:
        """Whether ``step`` would do something."""
        if self._busy or owner is None or owner.table is None:
            return False
        now, asked = self._services.elapsed_ms(), bool(self._asked)
        if self._round is None and not asked and not self._looks(owner, now):
            return False
        if self._round is not None:
            if self._round.groups is not None and not self._round.groups:
                return True  # to tell of it
            asked = self._round.request is not None
        return self._services.allowance.is_free(now, asked=asked)

    def _looks(self, owner: Owner, at_ms: int) -> bool:
        if self._settings.maintenance == "off" or not self._calm or at_ms < self._look_ms:
            return False
        assert owner.table is not None
        has_more = _files(owner.table) >= self._files_seen + compaction.MIN_FILES
        if not has_more and _deletes(owner.table) in (self._deletes_seen, (0, 0)):
            return False
        itself = maintains_itself(owner.table.table.catalog.properties)
        return self._settings.maintenance == "on" or not itself

    def step(self, owner: Owner) -> None:
        """Let a thread choose files, or rewrite the next group, if that is due."""
        if not self.is_due(owner):
            return
        table = owner.table
        assert table is not None
        now = self._services.elapsed_ms()
        if self._round is None:
            self._round = _Round(self._asked.popleft() if self._asked else None, now)
        current = self._round
        if current.groups is None:
            self._look_ms, self._files_seen = now + _LOOK_MS, _files(table)
            self._deletes_seen = _deletes(table)
            work: Callable[[Table], Rewritten] = partial(self._plan, owner, current)
        elif current.groups:
            work = partial(
                self._rewrite, owner, current.groups.popleft(), current.delete_files, owner.ledger.epoch
            )
        else:
            self._end(current.error)
            return
        self._busy = True
        self._services.allowance.take()
        job = partial(self._work, owner, work, table.table.name(), str(table.table.metadata.table_uuid))
        self._services.spawn(f"compaction {self._topic}", job)

    def _end(self, error: str | None) -> None:
        """The round is over; who asked is told in any case."""
        current, self._round, self._busy = self._round, None, False
        if current is None:
            return
        if error is not None:
            _LOG.info("%s: compaction ended early: %s", self._topic, error)
        if current.request is not None or current.event:
            seconds = (self._services.elapsed_ms() - current.began_ms) / 1000
            request_id = current.request.id if current.request else None
            self._report(request_id=request_id, seconds=seconds, error=error, **current.event)

    # -- in a thread of its own

    def _work(
        self, owner: Owner, work: Callable[[Table], Rewritten], name: tuple[str, ...], table_uuid: str
    ) -> None:
        began, cpu_s = time.thread_time(), 0.0
        try:
            done = work(self._load(name, table_uuid))
        except TableTopicError as error:
            done = Rewritten(owner, error=str(error))
        except Exception as error:  # of Spark, or a fault of this program: the topic goes on
            _LOG.exception("%s: compaction", self._topic)
            explained = explain_trouble("small files could not be put together", error)
            done = Rewritten(owner, error=str(explained))
        cpu_s += time.thread_time() - began
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
            raise StartOverError(f"the table {'.'.join(name)} is another one now")
        return table

    def _plan(self, owner: Owner, current: _Round, table: Table) -> Rewritten:
        request = current.request
        where = rows_where(request.where, table.schema()) if request is not None else None
        plan = plan_compaction(table, where=where, due_only=request is None)
        reach(Step.COMPACT)
        return Rewritten(owner, plan=plan)

    def _rewrite(
        self, owner: Owner, group: Group, delete_files: frozenset[str], epoch: int, table: Table
    ) -> Rewritten:
        began = self._services.elapsed_ms()
        task = RewriteTask(TopicTable(table).plan(), epoch, group.to_read(), group.files[0].partition)
        result = run_task(self._services.spark(), self._topic, task)
        self._services.allowance.charge(result.cpu_s)
        reach(Step.COMPACTED)
        replaced = group.replaced(result.moved, delete_files)
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
        return Rewritten(
            owner, batch=StagedBatch(nothing, tuple(result.files), 0, seconds, replaced=replaced)
        )

    def _give_up(self, table: Table, locations: Sequence[str]) -> None:
        """Remove what a failed task had begun; what cannot be removed now goes with its epoch."""
        try:
            remove_unsent(table, locations)
        except TableTopicError as error:
            _LOG.warning("%s: files of a rewrite that failed stay for now: %s", self._topic, error)

    # -- what came of it, in the coordinator's thread

    def take(self, done: Rewritten) -> StagedBatch | None:
        """Files to commit, if a thread of this round has made some."""
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
        # Where all rows of a group were deleted, its files go, and no new one comes.
        if done.batch is not None and done.batch.replaced is not None and done.batch.replaced.files:
            return done.batch
        self._busy = False
        return None

    def committed(self, batch: StagedBatch, owner: Owner) -> None:
        """A group's files are in the table."""
        assert batch.replaced is not None
        self._files_seen -= len(batch.replaced.files) - len(batch.files)
        if self._round is not None:
            self._round.count(batch, _removed_deletes(owner))
        self._busy = False

    def appended(self, batches: tuple[StagedBatch, ...], *, waits: bool) -> None:
        """Rows were committed; ``waits``: the worker waits for a turn longer than it should."""
        self._calm = not waits and all(batch.offsets.records < _CALM_RECORDS for batch in batches)

    def gave_up(self, reason: str) -> None:
        """Others have changed what was read: the files of the table are looked at again."""
        current, self._busy, self._files_seen = self._round, False, 0
        if current is None:
            return
        current.tries += 1
        current.groups = None
        if current.request is None or current.tries >= _TRIES:
            self._end(reason)

    def interrupt(self, error: str) -> None:
        """This ownership is over; what a thread still makes for it is discarded."""
        self._end(error)


def _files(table: TopicTable) -> int:
    """Data files in the head, as the table was last loaded."""
    head = table.table.metadata.current_snapshot()
    return int(summary(head).get("total-data-files", 0)) if head else 0


def _deletes(table: TopicTable) -> tuple[int, int]:
    """Delete files in the head, and positions in them, as the table was last loaded."""
    head = table.table.metadata.current_snapshot()
    told = summary(head) if head else {}
    return int(told.get("total-delete-files", 0)), int(told.get("total-position-deletes", 0))


def _removed_deletes(owner: Owner) -> int:
    """Delete files that went with the newest commit of the owner."""
    newest = owner.table.ledger_snapshot() if owner.table is not None else None
    return int(summary(newest[1]).get("removed-delete-files", 0)) if newest else 0
