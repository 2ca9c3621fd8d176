"""Spark's streaming query of one topic: it calls a worker for each batch, and says how far that goes."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tabletopic_kernel.clients.spark.java_errors import error_of_trouble
from tabletopic_kernel.clients.spark.session import new_checkpoint
from tabletopic_kernel.model.ledger import Offsets
from tabletopic_kernel.model.redact import trace_of
from tabletopic_kernel.pipeline.source import SourceSpec, batch_end_offsets, reader_options

# How long a starting query holds up others, whatever it does; a broker that is down must not block all.
_START_S, _START_LOOK_S = 15.0, 0.1
_NOTHING_TO_READ: Final = "Waiting for data to arrive"  # Spark's word, when it has looked
# After the first of these, Spark searches for an interrupt; this many characters are enough.
_PY4J_ERROR: Final = "py4j.protocol.Py4JJavaError: An error occurred while calling"
_REWORDED_ERROR, _SEARCHED = "Py4JJavaError: an error occurred while calling", 500


class EndedError(Exception):
    """A query that ended unexpectedly."""

    def __init__(self) -> None:
        super().__init__("Spark does not say why")


class RedactedError(Exception):
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


class Query:
    """A query from ``start`` to its end; ``on_batch`` gets each batch's id, in Spark's thread."""

    def __init__(self, spark: SparkSession, spec: SourceSpec, on_batch: Callable[[int], None]) -> None:
        self._spark, self._spec, self._on_batch = spark, spec, on_batch
        self._checkpoint = new_checkpoint(spark)
        self._reads = threading.Event()  # the first batch has begun
        self._lock = threading.Lock()  # keeps `stop` from missing a query that is just starting
        self._query: StreamingQuery | None = None

    def start(self, position: Offsets, given_up: Callable[[], bool]) -> bool:
        """Start at the position, unless given up; whether it runs, or RetryableError if Spark fails."""
        spec = replace(self._spec, start=position)
        try:
            with self._lock:
                if given_up():
                    return False
                frame = self._spark.readStream.format("kafka").options(**reader_options(spec)).load()
                self._query = (
                    frame.writeStream.foreachBatch(self._begin)
                    .option("checkpointLocation", str(self._checkpoint))
                    .queryName(f"{spec.topic} {self._checkpoint.name}")
                    .start()
                )
        except Exception as error:  # Py4J wraps whatever the JVM throws
            raise error_of_trouble(f"Spark did not start the query of {spec.topic}", error) from error
        return True

    def _begin(self, _: DataFrame, batch_id: int) -> None:
        """The frame is not executed: its records are read by tasks of the worker."""
        self._reads.set()
        self._on_batch(batch_id)

    def wait_until_it_reads(self, given_up: Callable[[], bool]) -> None:
        """Return once the first batch has begun, or if there is nothing to read yet."""
        query, until = self._query, time.monotonic() + _START_S
        assert query is not None
        while not self._reads.wait(_START_LOOK_S) and time.monotonic() < until:
            if given_up() or not query.isActive or query.status["message"] == _NOTHING_TO_READ:
                return

    def end_of(self, batch_id: int) -> dict[int, int]:
        """How far a batch goes."""
        return batch_end_offsets(self._checkpoint, batch_id, self._spec.topic)

    def has_ended(self, within_s: int | None = None) -> bool:
        """Wait for its end, without a limit by default; raises what ended it."""
        assert self._query is not None
        return self._query.awaitTermination(within_s) is not False

    def stop(self) -> None:
        """Stop it, if it runs; its batch is aborted. Raises if the JVM is gone."""
        with self._lock:
            query = self._query
        if query is not None:
            query.stop()

    def clean(self) -> None:
        """Remove its files, once it has ended."""
        shutil.rmtree(self._checkpoint, ignore_errors=True)
