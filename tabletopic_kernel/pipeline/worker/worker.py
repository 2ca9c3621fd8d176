"""The worker of one table topic: a streaming query that stages batches.

It is one module because a batch decides when its query ends, and how the next one begins.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tabletopic_kernel.clients.spark.cluster import ExecutorWatch, processors_to_come
from tabletopic_kernel.clients.spark.java_errors import error_of_trouble
from tabletopic_kernel.clients.spark.session import new_checkpoint
from tabletopic_kernel.model.errors import ActionNeededError, BadRecordError, RetryableError, TableTopicError
from tabletopic_kernel.model.ledger import Offsets, StagedOffsets
from tabletopic_kernel.model.redact import trace_of
from tabletopic_kernel.model.steps import Step, reach
from tabletopic_kernel.pipeline.arrange import ROWS_PER_FILE, ScatteredError
from tabletopic_kernel.pipeline.plan import Listener, StagedBatch, StagePlan, StageResult
from tabletopic_kernel.pipeline.source import (
    KafkaRanges,
    Limits,
    SourceSpec,
    batch_end_offsets,
    next_offsets,
    poll_interval_ms,
    reader_options,
)
from tabletopic_kernel.pipeline.worker.jobs import staged
from tabletopic_kernel.pipeline.worker.refused import (
    RefusedShare,
    explain_alike,
    explain_no_table,
    explain_refused,
)
from tabletopic_kernel.pipeline.worker.turns import Turns, records_for_a_turn

_LOG = logging.getLogger(__name__)
_EXECUTORS_LOOK_S = 1
_STOP_WAIT_S = 60.0  # for the current batch; after that it is aborted, and read again later
# A starting query's turn ends after this long, whatever it does; a broker that is down must not block all.
_START_S, _START_LOOK_S = 15.0, 0.1
_NOTHING_TO_READ = "Waiting for data to arrive"  # Spark's word, when it has looked
# After the first of these, Spark searches for an interrupt; this many characters are enough.
_PY4J_ERROR = "py4j.protocol.Py4JJavaError: An error occurred while calling"
_REWORDED_ERROR, _SEARCHED = "Py4JJavaError: an error occurred while calling", 500


class _EndedError(Exception):
    """A query that ended unexpectedly."""

    def __init__(self) -> None:
        super().__init__("Spark does not say why")


class _RedactedError(Exception):
    """The current error for Spark and its log: the trace, without secrets, which servers' errors may quote.

    After Py4J's words for an error, Spark searches for an interrupt, with a regular expression that overflows
    its stack after some thousand characters: these words stay only while the query is being stopped, and
    few characters after them.
    """

    def __init__(self, error: Exception, *, stops: bool) -> None:
        text = trace_of(error)
        before, name, after = text.partition(_PY4J_ERROR)
        super().__init__(
            f"{before}{name}{after[:_SEARCHED]}" if stops else text.replace(_PY4J_ERROR, _REWORDED_ERROR)
        )


class _GivenUpError(Exception):
    """The worker is stopping while its batch waits for a turn."""


class Worker:
    """Runs from ``start`` to ``stop`` or to its first error; never restarted, but replaced by a new one.

    It is a sequence of Spark queries: ``read_up_to`` makes the next one begin (ADR 0012).
    """

    def __init__(
        self,
        spark: SparkSession,
        spec: SourceSpec,
        plan: StagePlan,
        listener: Listener,
        turns: Turns,
        starts: Turns,
    ) -> None:
        self._spark = spark
        self._turns, self._starts = turns, starts
        self._max_records = spec.max_records
        self.staging_records = 0  # of the batch that is being staged
        self._since = self._turn_s = 0.0  # when the batch began to wait, and how long its turns took
        self._rechecked = turns.clock()  # when the registry was last asked about known schemas
        self._spec = spec
        self._source = KafkaRanges(spec.topic, spec.librdkafka, spec.headers)
        self._plan = plan
        self._listener = listener
        self._position = dict(spec.start)
        self._share = RefusedShare(spec.settings.max_refused_share)
        self._checkpoint = new_checkpoint(spark)
        is_local = str(spark.sparkContext.master).startswith("local")
        self._executors = None if is_local else ExecutorWatch(spark)
        self._to_come = 0 if is_local else processors_to_come(spark)
        self._stopping = threading.Event()
        self._batch_lock = threading.Lock()  # held while a batch runs
        self._is_scattered = False  # each task of a batch made files of the same many partitions
        self._reads = threading.Event()  # the first batch has begun
        self._next = threading.Event()  # this query ends, and another one continues
        self._reads_at_once = False  # the next query was requested, and its first batch has not begun
        self._query_lock = threading.Lock()  # keeps `stop` from missing a query that is just starting
        self._error: TableTopicError | None = None
        self._query: StreamingQuery | None = None
        self._watcher = threading.Thread(target=self._watch, name=f"worker {spec.topic}", daemon=True)

    def start(self) -> None:
        """Start the query when its turn comes; notifies the listener if Spark does not start it."""
        self._watcher.start()

    def _start_in_turn(self) -> bool:
        """Start the first query; False: it is no longer wanted.

        Only a few start at a time: if all queries of a host did, they would share the cores, and none would
        read before the last one has begun.
        """
        starts = self._starts
        with starts.taken(self, starts.clock(), self._cores, lambda: self.stopping) as its_turn:
            with self._query_lock:
                if not its_turn or self.stopping:
                    return False
                self._start_query()
            self._wait_until_it_reads()
        return True

    def _wait_until_it_reads(self) -> None:
        """Return once the first batch has begun, or if there is nothing to read yet."""
        query, until = self._query, time.monotonic() + _START_S
        assert query is not None
        while not self._reads.wait(_START_LOOK_S) and time.monotonic() < until:
            if self.stopping or not query.isActive or query.status["message"] == _NOTHING_TO_READ:
                return

    def _start_query(self) -> None:
        spec = replace(self._spec, start=dict(self._position), max_records=self._max_records)
        try:
            frame = self._spark.readStream.format("kafka").options(**reader_options(spec)).load()
            self._query = (
                frame.writeStream.foreachBatch(self._on_batch)
                .option("checkpointLocation", str(self._checkpoint))
                .queryName(f"{self._spec.topic} {self._checkpoint.name}")
                .trigger(processingTime=f"{poll_interval_ms(spec.settings.commit_interval_ms)} milliseconds")
                .start()
            )
        except Exception as error:  # Py4J wraps whatever the JVM throws
            self._clean()
            failure = f"Spark did not start the query of {self._spec.topic}"
            raise error_of_trouble(failure, error) from error

    def read_up_to(self, ends: Offsets) -> None:
        """Read up to ``ends`` now, not when the batch is due; returns at once.

        Spark delays each batch until its interval is over, except the first batch of a query. So this query
        ends after the current batch, and another one continues.
        """
        name = f"read {self._spec.topic}"
        threading.Thread(target=self._end_query, args=(ends,), name=name, daemon=True).start()

    def _end_query(self, ends: Offsets) -> None:
        with self._batch_lock:
            behind = any(self._position.get(partition, 0) < end for partition, end in ends.items())
            if self.stopping or self._reads_at_once or not behind or self._query is None:
                return  # the first query of a worker reads at once
            for partition in ends:
                self._position.setdefault(partition, 0)  # Spark needs the offset of each, even new ones
            self._begin_another()
        self._stop_query()

    def _begin_another(self) -> None:
        """Replace the running query. The caller holds the batch lock, and then stops the query."""
        self._reads_at_once = True
        self._next.set()

    def _stop_query(self) -> None:
        with self._query_lock:
            query = self._query
        if query is not None:
            try:
                query.stop()
            except Exception as error:  # the JVM is gone: so is the query
                self._error = self._error or self._failed(error)

    def wind_down(self) -> None:
        """Start no more batches; returns at once. ``stop`` follows."""
        self._stopping.set()
        self._turns.give_up(self)
        self._starts.give_up(self)

    def stop(self) -> None:
        """Stop the query after the current batch; returns when it has ended. Idempotent."""
        self.wind_down()
        # A batch without executors would not end.
        wait_s = _STOP_WAIT_S if self.cluster_waits is None else 0
        if self._batch_lock.acquire(timeout=wait_s):
            self._batch_lock.release()
        self._stop_query()
        if self._watcher.is_alive() and threading.current_thread() is not self._watcher:
            self._watcher.join(_STOP_WAIT_S)

    @property
    def waits_s(self) -> float | None:
        """How long its start or its batch has waited for a turn; None: not waiting."""
        for turns in (self._starts, self._turns):
            if (since := turns.waits_since(self)) is not None:
                return turns.clock() - since
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
            goes_on = self._start_in_turn()
            while goes_on:
                self._await_end()
                goes_on = self._goes_on()
        except RetryableError as error:
            self._error = self._error or error
        except Exception as error:  # StreamingQueryException, or the JVM died
            self._error = self._error or self._failed(error)
        self._clean()
        self._listener.ended(None if self.stopping else self._error or self._failed(_EndedError()))

    def _await_end(self) -> None:
        """Wait for the query's end; on a cluster, check meanwhile whether it has executors."""
        query, executors = self._query, self._executors
        assert query is not None
        if executors is None:
            query.awaitTermination()
            return
        while not query.awaitTermination(_EXECUTORS_LOOK_S):
            executors.look(has_work=self._batch_lock.locked())

    def _failed(self, error: Exception) -> RetryableError:
        """The error that explains a query's error to users."""
        return error_of_trouble(f"the query of {self._spec.topic} ended", error)

    def _goes_on(self) -> bool:
        """Whether another query has started after this one ended."""
        with self._query_lock:
            if self.stopping or self._error is not None or not self._next.is_set():
                return False
            self._clean()
            self._checkpoint = new_checkpoint(self._spark)
            self._next.clear()
            self._start_query()
            return True

    def _clean(self) -> None:
        shutil.rmtree(self._checkpoint, ignore_errors=True)

    def _on_batch(self, _: DataFrame, batch_id: int) -> None:
        """The query says that a batch begins, and how far it goes; its frame is not executed."""
        self._reads.set()
        with self._batch_lock:
            if self.stopping or self._next.is_set():
                return  # the checkpoint is not used again, so nothing is skipped
            self._reads_at_once = False
            try:
                self.stage_batch(batch_end_offsets(self._checkpoint, batch_id, self._spec.topic))
            except _GivenUpError:
                return  # as above
            except TableTopicError as error:
                self._error = error
                raise _RedactedError(error, stops=self.stopping) from None
            except Exception as error:  # of Spark, with a trace in its message
                self._error = error_of_trouble(f"a batch of {self._spec.topic} could not be staged", error)
                raise _RedactedError(error, stops=self.stopping) from None
            finally:
                self.staging_records = 0

    def stage_batch(self, end: Offsets) -> None:
        """Stage the records up to ``end``, one batch of the query."""
        self._since, self._turn_s = self._turns.clock(), 0.0
        offsets = next_offsets(self._position, Limits(end))
        if offsets is None:
            return
        self.staging_records = offsets.records
        if (to_recheck := self._plan.to_ask_again(self._turns.clock() - self._rechecked)) is not None:
            self._plan = self._listener.plan_for(to_recheck, recheck=True)
            self._rechecked = self._turns.clock()
        result = self._run(offsets)
        while needs := result.needs:
            self._discard(result)
            if not needs.of_table:
                self._check_share(result)
                self._check_table(result)
            self._plan = self._listener.plan_for(needs)
            result = self._run(offsets)
        self._check(result)
        self._log_failed(result)
        self._position.update(end)
        self._limit_turns(offsets.records)
        reach(Step.BATCH)
        self._listener.staged(
            StagedBatch(
                replace(
                    offsets,
                    newest_ms=result.newest_ms,
                    outliers=result.outliers,
                    last_records=result.last_records,
                ),
                tuple(result.files),
                result.rows,
                self._turn_s,
                tuple(result.dead_letters),
                result.refused,
                tuple(result.samples),
                result.passed_over,
            )
        )

    def _log_failed(self, result: StageResult) -> None:
        """Log records that became dead letters because of a bug in this program."""
        if count := sum(result.failed.values()):
            traces = "\n".join(result.traces.values())
            _LOG.error("%s: %d records led to internal errors:\n%s", self._spec.topic, count, traces)

    def _check(self, result: StageResult) -> None:
        """Check that the batch may be committed; deletes its files if not."""
        if result.all_fail_alike and self._spec.settings.max_refused_share < 1:
            self._discard(result)
            self._log_failed(result)
            raise BadRecordError(explain_alike(self._spec.topic, result))
        if result.refused_count and self._spec.settings.errors == "stop":
            self._discard(result)
            raise BadRecordError(explain_refused(self._spec.topic, result))
        if self._share.is_over(result.records, result.refused_count):
            self._discard(result)
            raise BadRecordError(self._explain_share(self._share, result))
        self._check_table(result)

    def _check_table(self, result: StageResult) -> None:
        """Let rejected records wait while there is no table: the first row determines its columns."""
        if self._plan.table is not None:
            return
        self._discard(result)
        raise RetryableError(explain_no_table(self._spec.topic, result))

    def _check_share(self, result: StageResult) -> None:
        """Check the share of rejected records: the last check before a dead-letter table is created."""
        alone = RefusedShare(self._spec.settings.max_refused_share)
        if alone.is_over(result.records, result.refused_count):
            raise BadRecordError(self._explain_share(alone, result))

    def _explain_share(self, watch: RefusedShare, result: StageResult) -> str:
        newest = f"the newest {watch.records:,} records of {self._spec.topic}"
        share = f"more than {self._spec.settings.max_refused_share:.0%} of {newest} cannot become rows"
        if watch.share == 1:
            share = f"none of {newest} can become a row"
        return (
            f"{share}, so a setting is probably wrong; the batch was not staged. "
            f"{explain_refused(self._spec.topic, result)}. "
            "Correct the setting, or accept it with max_refused_share = 1"
        )

    def _discard(self, result: StageResult) -> None:
        self._listener.discard(result.files, result.dead_letters)

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
        with self._turn():
            # A pool for each topic: the FAIR scheduler shares the cores between pools.
            self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", self._spec.topic)
            total = self._staged(offsets, plan)
        if total.error is not None:
            self._discard(total)
            if isinstance(total.error, RetryableError):
                raise error_of_trouble(f"a batch of {self._spec.topic} could not be staged", total.error)
            raise ActionNeededError(total.error.behind(f"{self._spec.topic}: "))
        return total

    def _staged(self, offsets: StagedOffsets, plan: StagePlan) -> StageResult:
        """In one task while rows are scattered over partitions: so each has one file (ADR 0038)."""
        total = staged(self._spark, self._source, plan, offsets, 1 if self._is_scattered else self._cores)
        if isinstance(total.error, ScatteredError):
            self._discard(total)
            self._is_scattered = True
            return self._staged(offsets, plan)
        self._is_scattered = self._is_scattered and total.rows < ROWS_PER_FILE * len(total.files)
        return total

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold a turn; a batch that needs another turn keeps its waiting time."""
        # One more than the cores: while a batch is planned, the others use them.
        with self._turns.taken(self, self._since, self._cores + 1, lambda: self.stopping) as its_turn:
            if not its_turn or self.stopping:
                raise _GivenUpError
            began = time.monotonic()
            yield
            self._turn_s += time.monotonic() - began

    def _limit_turns(self, records: int) -> None:
        """Adapt the size of the next batches to the number of waiting ones; a query keeps its first limit."""
        limit = records_for_a_turn(
            records, self._turn_s, self._max_records, self._spec.max_records, crowded=self._turns.is_crowded
        )
        if limit != self._max_records:
            self._max_records = limit
            self._begin_another()
            threading.Thread(
                target=self._end_after_batch, name=f"read {self._spec.topic}", daemon=True
            ).start()

    def _end_after_batch(self) -> None:
        with self._batch_lock:
            pass
        self._stop_query()
