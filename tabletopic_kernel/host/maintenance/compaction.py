"""Compaction beside the worker: small files of a table are merged, and their deleted rows dropped.

A Spark task rewrites each group of files, while the host's thread of maintenance waits for it. New files of
the topic's table then queue with the staged batches, and are committed between two appends, as a batch that
moves no offsets: fencing, settling and discarding work as for batches. New files of the dead letters are
committed at once. If other writers change a group's files meanwhile, files are chosen anew.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pyiceberg.table import Table
from pyspark.sql import SparkSession

from tabletopic_kernel.clients.spark.java_errors import error_of_trouble
from tabletopic_kernel.host.maintenance.jobs import Job
from tabletopic_kernel.host.maintenance.outcomes import Outcomes
from tabletopic_kernel.host.owner import Owner
from tabletopic_kernel.host.ownership.ownership import Ownership
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.model.errors import ActionNeededError, OutdatedError, StartOverError, TableTopicError
from tabletopic_kernel.model.ledger import StagedOffsets
from tabletopic_kernel.model.progress.events import Compacted
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
from tabletopic_kernel.table.health import idle_because
from tabletopic_kernel.table.sweep import load_same, remove_unsent
from tabletopic_kernel.table.topic_table import TopicTable

_LOG = logging.getLogger(__name__)
_POOL: Final = "compaction"  # of Spark's scheduler: all topics of a host share it
_SCAN_MS: Final = 60_000  # between two scans of a table's files
_TRIES: Final = 3  # if other writers change its files first, or groups cannot be rewritten
# A batch with fewer records began because its interval was over: the topic is not behind.
_FEW_RECORDS: Final = 200_000


def run_task(spark: SparkSession, topic: str, task: RewriteTask) -> RewriteResult:
    """Rewrite a group as one Spark task, and wait for it; raises Spark's version of the task's error."""
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", _POOL)
    spark.sparkContext.setLocalProperty("spark.job.description", f"compaction of {topic}")
    function: Any = task  # the stubs want a function of any iterable
    (row,) = spark.range(0, 1, 1, 1).mapInArrow(function, RESULT_SCHEMA).collect()
    return read_result(row["result"])


@dataclass
class Scan:
    """The last scan of a table's files: what it found, and when the next may begin."""

    files: int = 0
    deletes: tuple[int, int] = (0, 0)  # delete files, and positions in them
    next_ms: int = 0


class CompactionSchedule:
    """When to scan a topic's table (False) and dead letters (True); for the coordinator's thread."""

    def __init__(self, settings: TopicSettings, services: Services) -> None:
        self._settings, self._services = settings, services
        self._scans = {False: Scan(), True: Scan()}
        self._keeps_up = False  # True: the last commit gave no sign that the topic is behind

    def appended(self, batches: Sequence[StagedBatch], *, waits: bool) -> None:
        """Note a commit of rows; ``waits``: the worker waits for a turn longer than it should."""
        self._keeps_up = not waits and all(batch.offsets.records < _FEW_RECORDS for batch in batches)

    def due(self, owner: Owner) -> bool | None:
        """The table to scan: dead letters (True) or the topic's (False); None: neither, or not now."""
        now = self._services.elapsed_ms()
        if owner.table is None or not self._keeps_up or now < self._services.jobs.rests_until_ms:
            return None
        if idle_because(owner.table.table, self._settings, "compact", self._services.now_ms()) is not None:
            return None
        changed = (
            letters for letters, scan in self._scans.items() if _has_changed(owner, letters, scan, now)
        )
        return next(changed, None)

    def begin(self, owner: Owner, *, dead_letters: bool) -> Scan:
        """Note that a scan of a table begins; the compaction updates the returned record."""
        if (table := _table(owner, dead_letters)) is not None:
            next_ms = self._services.elapsed_ms() + _SCAN_MS
            self._scans[dead_letters] = Scan(_files(table), _deletes(table), next_ms)
        return self._scans[dead_letters]


class Compaction:
    """A compaction of one table for one ownership; ``request``: None if it was due."""

    name = "a compaction"

    def __init__(
        self,
        topic: str,
        services: Services,
        ownership: Ownership,
        scan: Scan,
        outcomes: Outcomes,
        request: MaintenanceRequest | None,
        *,
        dead_letters: bool,
    ) -> None:
        table = _table(ownership.owner, dead_letters)
        self._topic, self._services, self._ownership = topic, services, ownership
        self._scan, self._outcomes, self._request = scan, outcomes, request
        self._dead_letters = dead_letters
        self._table = table.table if table is not None else None
        self._began_ms = services.elapsed_ms()
        # A request's outcome has the figures of the topic's table alone.
        self._figures = outcomes.figures(None if dead_letters else request)

    def run(self) -> Job:
        """Choose files, and rewrite one group after the other."""
        if self._table is None:
            if self._dead_letters:
                return
            raise ActionNeededError("there is no table yet: the first records create it")
        for attempt in range(1, _TRIES + 1):
            try:
                yield from self._compact(self._table)
            except OutdatedError:
                self._scan.files = 0
                if self._request is None or attempt == _TRIES:
                    raise
            else:
                return

    def report(self, error: TableTopicError | None) -> None:
        """Report what was done; for the dead letters, which no request names, only if anything was."""
        if self._figures or (self._request is not None and (error or not self._dead_letters)):
            self._outcomes.report(
                Compacted,
                error,
                request_id=self._request.id if self._request else None,
                dead_letters=self._dead_letters,
                seconds=(self._services.elapsed_ms() - self._began_ms) / 1000,
                **self._figures,
            )

    def _compact(self, table: Table) -> Job:
        plan = self._choose(table)
        if plan.refused is not None:
            if self._request is None:
                return
            raise ActionNeededError(plan.refused)
        failures: list[TableTopicError] = []
        for group in plan.groups:
            epoch = yield self._ownership.ask(lambda owner: owner.ledger.epoch)
            try:
                batch = self._rewrite(table, group, plan.delete_files, epoch)
            except TableTopicError as error:  # perhaps of this group's files alone
                failures.append(error)
                if len(failures) == _TRIES:
                    break
            else:
                yield from self._commit(batch)
        if failures:
            raise failures[0]

    def _choose(self, table: Table) -> CompactionPlan:
        fresh, request = load_same(table, self._services.catalog()), self._request
        where = rows_where(request.where, fresh.schema()) if request is not None else None
        plan = plan_compaction(fresh, where=where, due_only=request is None)
        reach(Step.COMPACT)
        return plan

    def _rewrite(
        self, table: Table, group: Group, delete_files: frozenset[str], epoch: int
    ) -> CompactedBatch:
        began, fresh = self._services.elapsed_ms(), load_same(table, self._services.catalog())
        task = RewriteTask(TopicTable(fresh).plan(), epoch, group.to_read(), group.files[0].partition)
        try:
            result = self._run_task(task)
        except TableTopicError:
            raise
        except Exception as error:  # Spark's
            _LOG.exception("%s: compaction", self._topic)
            raise error_of_trouble("small files could not be compacted", error) from error
        self._services.jobs.rest(result.cpu_s)
        reach(Step.COMPACTED)
        replaced = group.replaced(result.moved, delete_files)
        rows = sum(file.record_count for file in result.files)
        failure = result.error
        if failure is None and rows + replaced.dropped_rows != sum(
            file.record_count for file in replaced.files
        ):
            failure = ActionNeededError(
                f"{len(replaced.files)} files became one, and {rows} rows were not theirs"
            )
        if failure is not None:
            self._give_up(fresh, result.begun)
            raise failure
        seconds = (self._services.elapsed_ms() - began) / 1000
        return CompactedBatch(StagedOffsets({}, {}), tuple(result.files), 0, seconds, replaced=replaced)

    def _run_task(self, task: RewriteTask) -> RewriteResult:
        if (rewrite := self._services.rewrite) is not None:
            return rewrite(self._topic, task)
        return run_task(self._services.spark(), self._topic, task)

    def _give_up(self, table: Table, locations: Sequence[str]) -> None:
        """Remove the files that a failed task began; the rest is swept once its epoch is over."""
        try:
            remove_unsent(table, locations)
        except TableTopicError as error:
            _LOG.warning("%s: files of a rewrite that failed stay for now: %s", self._topic, error)

    def _commit(self, batch: CompactedBatch) -> Job:
        replaced = batch.replaced.files
        if not replaced:
            return
        try:
            answer = yield self._ownership.ask(partial(self._hand_over, batch))
        except StartOverError:  # the files were not handed over
            data, letters = ((), batch.files) if self._dead_letters else (batch.files, ())
            self._ownership.discard(data, letters)
            raise
        removed, added = answer if self._dead_letters else (yield answer)
        self._scan.files -= len(replaced) - len(batch.files)
        for name, figure in (
            ("files_before", len(replaced)),
            ("files", len(batch.files)),
            ("bytes_before", sum(file.file_size_in_bytes for file in replaced)),
            ("bytes", batch.bytes),
            ("rows", sum(file.record_count for file in batch.files)),
            ("deleted_rows", batch.replaced.dropped_rows),
            ("delete_files", removed),
            ("new_delete_files", added),
        ):
            self._figures[name] = self._figures.get(name, 0) + figure

    def _hand_over(self, batch: CompactedBatch, owner: Owner) -> Any:
        """In the coordinator's thread: ``delete_file_counts`` of its commit, or their future."""
        if self._dead_letters:
            return owner.commit_letters_compaction(batch)
        return self._ownership.stage(batch, at_once=self._request is not None)


def _has_changed(owner: Owner, dead_letters: bool, scan: Scan, now_ms: int) -> bool:
    table = _table(owner, dead_letters)
    if table is None or now_ms < scan.next_ms:
        return False
    has_new_files = _files(table) >= scan.files + compaction.MIN_FILES
    return has_new_files or _deletes(table) not in (scan.deletes, (0, 0))


def _files(table: TopicTable) -> int:
    """The number of data files in the head, as the table was last loaded."""
    return _total(table, "total-data-files")


def _deletes(table: TopicTable) -> tuple[int, int]:
    """The numbers of delete files in the head and of positions in them, as the table was last loaded."""
    return _total(table, "total-delete-files"), _total(table, "total-position-deletes")


def _total(table: TopicTable, name: str) -> int:
    head = table.table.metadata.current_snapshot()
    return int(summary(head).get(name, 0)) if head else 0


def _table(owner: Owner, dead_letters: bool) -> TopicTable | None:
    return owner.dead_letters.table if dead_letters else owner.table
