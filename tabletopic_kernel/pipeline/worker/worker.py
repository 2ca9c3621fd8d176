"""The worker of one table topic: a streaming query that stages batches.

The query says how far a batch goes; when it begins is decided here. A batch returns to Spark only once the
next one is to begin: a query that has nothing to read does nothing, and none starts before there is something
(ADR 0035).
"""

from __future__ import annotations

import threading
from dataclasses import replace

from pyspark.sql import SparkSession

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.clients.kafka.java_properties import portable_properties
from tabletopic_kernel.clients.spark.cluster import ExecutorWatch, processors_to_come
from tabletopic_kernel.clients.spark.java_errors import error_of_trouble
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError, TableTopicError
from tabletopic_kernel.model.ledger import Offsets, StagedOffsets
from tabletopic_kernel.model.steps import Step, reach
from tabletopic_kernel.pipeline.arrange import ROWS_PER_FILE, ScatteredError
from tabletopic_kernel.pipeline.plan import StagePlan, StageResult
from tabletopic_kernel.pipeline.source import MIN_RECORDS, KafkaRanges, Limits, SourceSpec, next_offsets
from tabletopic_kernel.pipeline.stage import StageTask
from tabletopic_kernel.pipeline.worker.ends import Ends
from tabletopic_kernel.pipeline.worker.jobs import Batches, GivenUpError, batch_of_result
from tabletopic_kernel.pipeline.worker.listener import Listener
from tabletopic_kernel.pipeline.worker.pace import Pace
from tabletopic_kernel.pipeline.worker.packing import Batch, first_part, shares
from tabletopic_kernel.pipeline.worker.query import EndedError, Query, RedactedError
from tabletopic_kernel.pipeline.worker.refused import Checks
from tabletopic_kernel.pipeline.worker.turns import Turns

_EXECUTORS_LOOK_S = 1
_STOP_WAIT_S = 60.0  # for the current batch; after that it is aborted, and read again later
# Seconds of a core, for a record of a topic that has staged none yet, and at least for a batch.
_RECORD_S, _LEAST_S = 20e-6, 1e-3


class Worker:
    """Runs from ``start`` to ``stop`` or to its first error; never restarted, but replaced by a new one."""

    def __init__(
        self,
        spark: SparkSession,
        spec: SourceSpec,
        plan: StagePlan,
        listener: Listener,
        broker: Broker,
        ends: Ends,
        batches: Batches,
        starts: Turns,
    ) -> None:
        self._spark = spark
        self._batches, self._starts = batches, starts
        self.staging_records = 0  # of the batch that is being staged
        self._since = self._jobs_s = 0.0  # when the batch began to wait, and how long its jobs took
        self._record_s = _RECORD_S  # of a core, for a record of the last batch
        self._is_behind = True  # there may be another batch at once
        self._rechecked = batches.clock()  # when the registry was last asked about known schemas
        self._spec = spec
        self._plan = plan
        self._listener = listener
        self._position: Offsets = dict(spec.start)
        self._checks = Checks(spec.topic, spec.settings)
        self._query = Query(spark, spec, self._on_batch)
        self._pace = Pace(spec, broker, ends, lambda: self.stopping)
        is_local = str(spark.sparkContext.master).startswith("local")
        properties = spec.librdkafka if is_local else portable_properties(spec.librdkafka)
        self._source = KafkaRanges(spec.topic, properties, spec.headers)
        self._executors = None if is_local else ExecutorWatch(spark)
        self._to_come = 0 if is_local else processors_to_come(spark)
        self._stopping = threading.Event()
        self._batch_lock = threading.Lock()  # held while a batch runs
        self._is_scattered = False  # each task of a batch made files of the same many partitions
        self._error: TableTopicError | None = None
        self._watcher = threading.Thread(target=self._watch, name=f"worker {spec.topic}", daemon=True)

    def start(self) -> None:
        """Start the query once there is something to read; notifies the listener if that fails."""
        self._watcher.start()

    def _start_in_turn(self) -> bool:
        """Start the query; False: it is no longer wanted.

        Only a few start at a time: if all queries of a host did, they would share the cores, and none would
        read before the last one has begun.
        """
        with self._starts.taken(self, self._cores, lambda: self.stopping) as its_turn:
            if not its_turn or not self._query.start(self._position, lambda: self.stopping):
                return False
            self._query.wait_until_it_reads(lambda: self.stopping)
        return True

    def read_up_to(self, ends: Offsets) -> None:
        """Read up to ``ends`` now, not when the batch is due; returns at once."""
        self._pace.ask(ends)

    def rest(self, seconds: float) -> None:
        """Let batches begin that far apart, if that is longer than the topic's interval."""
        self._pace.rest(seconds)

    def wind_down(self) -> None:
        """Start no more batches; returns at once. ``stop`` follows."""
        self._stopping.set()
        self._pace.end()
        self._batches.give_up(self)
        self._starts.give_up(self)

    def stop(self) -> None:
        """Stop the query after the current batch; returns when it has ended. Idempotent."""
        self.wind_down()
        # A batch without executors would not end.
        wait_s = _STOP_WAIT_S if self.cluster_waits is None else 0
        if has_ended := self._batch_lock.acquire(timeout=wait_s):
            self._batch_lock.release()
        try:
            if not has_ended:
                self._batches.abandon(self)
            self._query.stop()
        except Exception as error:  # the JVM is gone: so is the query
            self._error = self._error or self._failed(error)
        if self._watcher.is_alive() and threading.current_thread() is not self._watcher:
            self._watcher.join(_STOP_WAIT_S)

    @property
    def waits_s(self) -> float | None:
        """How long its start or its batch has waited for a turn; None: not waiting."""
        for queue in (self._starts, self._batches):
            if (since := queue.waits_since(self)) is not None:
                return queue.clock() - since
        return None

    @property
    def cluster_waits(self) -> str | None:
        """Why a batch waits for the cluster's executors, as last seen; None: it does not, or not for long."""
        return self._executors.reason if self._executors else None

    @property
    def _cores(self) -> int:
        """Cores of the executors, present or available on demand."""
        return max(int(self._spark.sparkContext.defaultParallelism), self._to_come)

    @property
    def stopping(self) -> bool:
        """Whether ``stop`` was called."""
        return self._stopping.is_set()

    def _watch(self) -> None:
        try:
            self._wait_for_records()
            if self._start_in_turn():
                self._await_end()
        except TableTopicError as error:
            self._error = self._error or error
        except Exception as error:  # StreamingQueryException, or the JVM died
            self._error = self._error or self._failed(error)
        self._query.clean()
        outcome = None if self.stopping else self._error or self._failed(EndedError())
        self.wind_down()  # the JVM may have died while its thread waited here for records
        self._listener.ended(outcome)

    def _await_end(self) -> None:
        """Wait for the query's end; on a cluster, check meanwhile whether it has executors."""
        look_s = None if self._executors is None else _EXECUTORS_LOOK_S
        while not self._query.has_ended(look_s):
            if self._executors is not None:
                self._executors.look(has_work=self._batch_lock.locked())

    def _failed(self, error: Exception) -> RetryableError:
        """The error that explains a query's error to users."""
        return error_of_trouble(f"the query of {self._spec.topic} ended", error)

    def _on_batch(self, batch_id: int) -> None:
        with self._batch_lock:
            if self.stopping:
                return  # the checkpoint is not used again, so nothing is skipped
            try:
                self.stage_up_to(self._query.end_of(batch_id))
            except GivenUpError:
                return  # as above
            except TableTopicError as error:
                self._error = error
                raise RedactedError(error, stops=self.stopping) from None
            except Exception as error:  # of Spark, with a trace in its message
                self._error = error_of_trouble(f"a batch of {self._spec.topic} could not be staged", error)
                raise RedactedError(error, stops=self.stopping) from None
            finally:
                self.staging_records = 0
        try:
            self._wait_for_records()
        except TableTopicError as error:
            self._error = error
            raise RedactedError(error, stops=self.stopping) from None

    def _wait_for_records(self) -> None:
        self._position = self._pace.wait(self._position, is_behind=self._is_behind)

    def stage_up_to(self, end: Offsets) -> None:
        """Stage a batch of the query, in parts if it is long, until the worker is stopped."""
        offsets = next_offsets(self._position, Limits(end))
        self._is_behind = offsets is not None and offsets.records >= MIN_RECORDS
        while offsets is not None and not self.stopping:
            is_crowded = self._batches.is_crowded
            self.stage_batch(first_part(offsets, self._record_s, self._cores, is_crowded=is_crowded))
            offsets = next_offsets(self._position, Limits(end))

    def stage_batch(self, offsets: StagedOffsets) -> None:
        """Stage records in one job, or in another one once the table has what they need."""
        self._since, self._jobs_s = self._batches.clock(), 0.0
        self.staging_records = offsets.records
        if (to_recheck := self._plan.to_ask_again(self._batches.clock() - self._rechecked)) is not None:
            self._plan = self._listener.plan_for(to_recheck, recheck=True)
            self._rechecked = self._batches.clock()
        result = self._result(offsets)
        self._position = {**self._position, **offsets.end}
        reach(Step.BATCH)
        self._listener.staged(batch_of_result(offsets, result, self._jobs_s))

    def _result(self, offsets: StagedOffsets) -> StageResult:
        """What the batch becomes, once the table has all that it needs, and after all checks."""
        result = self._run(offsets)
        while needs := result.needs:
            self._discard(result)
            if not needs.of_table:
                self._checks.before_dead_letters(result, self._plan)
            self._plan = self._listener.plan_for(needs)
            result = self._run(offsets)
        try:
            self._checks.before_staging(result, self._plan)
        except TableTopicError:
            self._discard(result)
            raise
        finally:
            self._checks.log_failed(result)
        return result

    def _discard(self, result: StageResult) -> None:
        self._listener.discard(result.own_files, result.dead_letters)

    def _run(self, offsets: StagedOffsets) -> StageResult:
        """Stage the batch; if all its records seem to fail alike, stage them one by one if necessary."""
        result = self.run_once(offsets, self._plan)
        stops = result.all_fail_alike and self._spec.settings.max_refused_share < 1
        if not result.alike or result.needs.of_table or stops:
            return result
        self._discard(result)
        return self.run_once(offsets, replace(self._plan, patient=True))

    def run_once(self, offsets: StagedOffsets, plan: StagePlan) -> StageResult:
        """Run the tasks of a batch with this plan."""
        total = self._staged(offsets, plan)
        if total.error is not None:
            self._discard(total)
            if isinstance(total.error, RetryableError):
                what = f"a batch of {self._spec.topic} could not be staged"
                raise error_of_trouble(what, total.error) from total.error
            raise ActionNeededError(total.error.behind(f"{self._spec.topic}: "))
        return total

    def _staged(self, offsets: StagedOffsets, plan: StagePlan) -> StageResult:
        """In one task while rows are scattered over partitions: so each has one file (ADR 0038)."""
        tasks = shares(offsets, 1 if self._is_scattered else self._cores, self._record_s)
        batch = self._new_batch(tasks, plan, offsets.records)
        total = self._batches.staged(batch, self._cores)
        self._record_s = max(batch.cost_s, _LEAST_S) / offsets.records
        self._jobs_s += batch.job_s
        if isinstance(total.error, ScatteredError):
            self._discard(total)
            self._is_scattered = True
            return self._staged(offsets, plan)
        if total.files:  # of one task; several would make as many files of each partition
            self._is_scattered &= total.rows < ROWS_PER_FILE * len(total.files) * self._cores
        return total

    def _new_batch(self, tasks: list[StagedOffsets], plan: StagePlan, records: int) -> Batch:
        return Batch(
            self,
            self._spec.topic,
            self._spark,
            self._source,
            StageTask(replace(plan, tasks=len(tasks))),
            tasks,
            self._since,
            records * self._record_s,
            lambda: self.stopping,
        )
