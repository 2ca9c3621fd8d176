"""The Spark session that runs the workers.

Longer than other modules, as each of Spark's settings stands beside its reason.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tabletopic_kernel.clients.catalog.engine_properties import (
    catalog_type,
    java_properties_of_aws,
    spark_catalog,
)
from tabletopic_kernel.clients.spark.cluster import check_master, executor_conf
from tabletopic_kernel.clients.spark.launch import (
    environment,
    java_escaped,
    java_option,
    launch,
    not_started,
)
from tabletopic_kernel.model.errors import RetryableError, SettingsError
from tabletopic_kernel.model.redact import SECRET_NAME
from tabletopic_kernel.model.settings.cluster import connect_url, no_connect
from tabletopic_kernel.model.settings.sections import SparkSettings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_LOG = logging.getLogger(__name__)
_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
# Errors of other programs may quote a URL with its login, or a password.
appender.file.layout.alwaysWriteExceptions = false
appender.file.layout.pattern = \
%replace{{%replace{{%replace{{%d{{ISO8601}} %p %c{{1}}: %m%n%ex}}{{(://)[^\\\\s/?#]*@}}{{$1***@}}}}\
{{(?i)((?:password|secret|token|credential|access[._-]?key)[\\\\w.-]*=)[^\\\\s,;&)]+}}{{$1***}}}}\
{{(?i)\\\\b(basic|bearer)( )[\\\\w.~+/=-]*[0-9][\\\\w.~+/=-]*}}{{$1$2***}}
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 20MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
"""

ARROW_RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"

_CHECKPOINT = "tabletopic-checkpoint-"

# Why each: see the comment at its side; a person's [spark] conf wins over all of them.
_DEFAULTS = {
    # What is hidden where Spark shows properties: by a word of their name, or as a login in a URL.
    "spark.redaction.regex": rf"(?i){SECRET_NAME}|/[^\s/?#:@]*:[^\s/?#]*@",
    "spark.ui.enabled": "false",  # a port and memory nobody asked for
    "spark.ui.showConsoleProgress": "false",  # bars of Spark's own would land in people's cells
    "spark.driver.memory": "1g",  # batches stream through; the workers' memory is Python's
    "spark.sql.session.timeZone": "UTC",  # Kafka timestamps reach Arrow as instants
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "2",  # the checkpoint is thrown away at each start
    "spark.sql.streaming.numRecentProgressUpdates": "1",
    "spark.sql.streaming.stopActiveRunOnRestart": "true",
    # Until the length of a topic's records is known; the worker sets the number by it after the first batch.
    # The bytes bound a Python worker's memory, whatever comes (ADR 0011).
    ARROW_RECORDS: "2000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 * 1024**2),
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "tabletopic_kernel.pipeline.worker.daemon",  # its workers are loaded
    # A Python worker keeps the memory that it will need again for the next group of records: the kernel would
    # have to clear every page anew, a fifth of its CPU time (ADR 0014). Spark ends workers that are idle.
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "-1",  # Arrow's and DataFusion's allocator
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(64 * 1024**2),  # numpy's and Python's
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(256 * 1024**2),
    # A consumer reads one partition. With fewer in the cache than a topic has partitions, each batch makes
    # all of them anew. Those that were idle for five minutes are closed; each may hold a fetch in memory.
    "spark.kafka.consumer.cache.capacity": "400",
    # Of the checkpoint's files: without checksums, which would be files beside them. For each file that it
    # makes Hadoop starts a program that sets its permissions.
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.scheduler.mode": "FAIR",  # a busy topic does not starve a quiet one
    "spark.task.maxFailures": "1",  # a failed batch is begun again from the ledger instead
}
# A tenth of the JVM's work less (ADR 0013): a collector without barriers at each store, and no second look at
# the bounds of vectors, which Spark's writer keeps anyway.
_COLLECTOR = "-XX:+UseParallelGC"
_UNCHECKED = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
# A person's own are added to ours, which Spark cannot do without.
_JOINED = {
    "spark.driver.extraJavaOptions": " ",
    "spark.executor.extraJavaOptions": " ",
    "spark.driver.extraClassPath": ":",
    "spark.jars": ",",
}
# Which Python executors run: Spark's own property, and Spark's own variable.
_PYTHON, _PYTHON_VARIABLE = "spark.pyspark.python", "PYSPARK_PYTHON"


@dataclass(frozen=True)
class SparkPlace:
    """The paths that the session needs: JDK, jars, and a folder for logs and temporary files."""

    java_home: str
    jars: tuple[str, ...]
    folder: Path


def start_spark(settings: SparkSettings, place: SparkPlace, *catalogs: Mapping[str, str]) -> SparkSession:
    """The session of this process with these catalogs; made on the first call.

    Raises:
        RetryableError: the cluster does not answer, or has ended the application.
        SettingsError: Spark did not start with these settings; its log says why. Or of Spark Connect.
    """
    # Longer than other functions, as what goes into the session and what tells why it did not start belong
    # together.
    if url := connect_url({"spark.master": settings.master, **settings.conf}, os.environ):
        raise SettingsError(no_connect(url))
    check_master(settings.effective_master)
    place.folder.mkdir(parents=True, exist_ok=True)
    log = place.folder / "spark.log"
    known = log.stat().st_size if log.exists() else 0
    log4j = place.folder / "spark-log4j2.properties"
    # As Java reads properties: Latin-1, and what is not in it escaped; a backslash would begin an escape.
    log4j.write_text(_LOG4J.format(log=java_escaped(str(log))), "ascii")
    local = settings.is_local
    ours = {
        **_DEFAULTS,
        "spark.driver.extraJavaOptions": _java_options(log4j, settings.conf),
        # On the class path itself they can be in the class archive; only a cluster needs them sent.
        **(
            {"spark.driver.extraClassPath": ":".join(place.jars)}
            if settings.is_in_process
            else {"spark.jars": ",".join(place.jars)}
        ),
        "spark.local.dir": str(place.folder / "spark-local"),
        "spark.sql.warehouse.dir": str(place.folder / "spark-warehouse"),
        **(
            {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
            if local
            else executor_conf(_jvm_options(settings.conf.get("spark.executor.extraJavaOptions", "")))
        ),
        **_catalogs(catalogs),
    }
    conf = {**ours, **settings.conf}
    for key, between in _JOINED.items():
        if key in settings.conf and (own := ours.get(key)):
            conf[key] = f"{own}{between}{settings.conf[key]}"
    conf = {"spark.app.name": "tabletopic", "spark.master": settings.master, **conf}
    builder = SparkSession.builder
    # Again: a person's own JVM may run already, and has none of them.
    for key, value in conf.items():
        builder = builder.config(key, value)
    loopback = {"SPARK_LOCAL_IP": "127.0.0.1"} if local else {}
    python = settings.conf.get(_PYTHON, sys.executable)
    started: Future[SparkSession] = Future()

    def start() -> None:
        _forget_dead_jvm()
        with environment(JAVA_HOME=place.java_home, **{_PYTHON_VARIABLE: python}, **loopback):
            try:
                launch(conf, place.folder)
                started.set_result(builder.getOrCreate())
            except Exception as error:  # pyspark raises bare RuntimeErrors and Py4J's here
                _forget_stopped_context()
                started.set_exception(not_started(error, settings.effective_master, log, known))

    # In a thread of its own: in the main one pyspark takes over Ctrl-C and answers it by cancelling every
    # job there is, the table topics' too.
    threading.Thread(target=start, name="spark start", daemon=True).start()
    session = started.result()
    session.sparkContext.setLogLevel("WARN")
    give_keys(session, *catalogs)
    return session


def give_keys(session: SparkSession, *catalogs: Mapping[str, str]) -> None:
    """Pass credentials to Java's Glue client here, as any user can read a command line.

    It has one set of them: a catalog with others than the first is none of Spark's.
    """
    glue = next((one for one in catalogs if catalog_type(one) == "glue"), {})
    for name, text in java_properties_of_aws(glue).items():
        java: Any = session.sparkContext._jvm
        java.java.lang.System.setProperty(name, text)


def _catalogs(catalogs: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Spark's catalogs, without those that it has no way to: only queries need them, and they say so."""
    conf: dict[str, str] = {}
    for at, properties in enumerate(catalogs):
        with contextlib.suppress(SettingsError):
            conf |= spark_catalog(properties, catalogs[:at])
    return conf


def _java_options(log4j: Path, own: Mapping[str, str]) -> str:
    """Ours of the driver, before a person's ``own``."""
    log = java_option(f"-Dlog4j2.configurationFile={log4j}")
    return f"{log} {_jvm_options(own.get('spark.driver.extraJavaOptions', ''))}"


def _jvm_options(own: str) -> str:
    """Ours of every JVM, before a person's ``own``; it refuses to start with two collectors."""
    chosen = re.search(r"-XX:\+Use\w+GC\b", own)
    return " ".join([*([] if chosen else [_COLLECTOR]), _UNCHECKED, "-Duser.timezone=UTC"])


def warm_up(session: SparkSession, kafka: Mapping[str, str] | None = None, limit_s: int = 120) -> None:
    """Process a few dummy rows, so that a topic's first batch does not wait for class loading.

    They are made up. ``kafka``: options of Spark's source, whose records are read as well; a broker that does
    not give them is no trouble here, for the topics will say so.

    Raises:
        RetryableError: they did not arrive.
    """
    _let_through(session, "rate-micro-batch", {"rowsPerBatch": "100"}, limit_s)
    if kafka is not None:
        try:
            _let_through(session, "kafka", kafka, limit_s)
        except RetryableError as error:
            _LOG.info("Spark's source for Kafka: %s", error)


def _let_through(session: SparkSession, source: str, options: Mapping[str, str], limit_s: int) -> None:
    checkpoint = new_checkpoint(session)
    try:
        rows = session.readStream.format(source).options(**options).load()
        query = (
            rows.writeStream.foreachBatch(_through_python)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        ended = query.awaitTermination(limit_s)
    except Exception as error:  # Py4J wraps whatever the JVM throws
        raise RetryableError(f"Spark did not warm up: {error}") from error
    finally:
        shutil.rmtree(checkpoint, ignore_errors=True)
    if not ended:
        query.stop()
        raise RetryableError(f"Spark did not warm up within {limit_s} s")


def _through_python(frame: DataFrame, _: int) -> None:
    frame.coalesce(1).mapInArrow(_same, frame.schema).collect()


def _same(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    return batches


def is_alive(session: SparkSession) -> bool:
    """Whether the session can still be used: its JVM can be killed, a cluster can end the application."""
    context = session.sparkContext
    return _runs(context._gateway) and not _is_stopped(context)


def forget(session: SparkSession) -> None:
    """Drop a session that can no longer be used."""
    with contextlib.suppress(Exception):  # whatever it asks the JVM for fails
        session.stop()
    _forget_dead_jvm()


def _runs(gateway: Any) -> bool:
    process = getattr(gateway, "proc", None)
    return process is None or process.poll() is None


def _is_stopped(context: SparkContext) -> bool:
    """Whether the JVM has ended the application, which pyspark does not notice by itself."""
    jsc: Any = context._jsc
    if jsc is None:
        return True
    try:
        return bool(jsc.sc().isStopped())
    except Exception:  # Py4J: the JVM does not answer
        return not _runs(context._gateway)


def _forget_stopped_context() -> None:
    """Let go of an application that has ended as it began; else each later session would get it again."""
    context = SparkContext._active_spark_context
    if context is not None and _is_stopped(context):
        with contextlib.suppress(Exception):  # whatever it asks the JVM for fails
            context.stop()


def _forget_dead_jvm() -> None:
    """Let go of a JVM that is gone, perhaps before it had a session, so that the next one is another.

    pyspark keeps it at class level and has no public way to drop what cannot be stopped any more.
    """
    gateway: Any = SparkContext._gateway
    if gateway is None or _runs(gateway):
        return
    with contextlib.suppress(Exception):
        gateway.proc.stdin.close()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def new_checkpoint(session: SparkSession) -> Path:
    """A folder for a query's checkpoint, beside Spark's own temporary files; the caller removes it.

    Those that a killed process left are removed here.
    """
    parent = Path(session.conf.get("spark.local.dir") or tempfile.gettempdir())
    parent.mkdir(parents=True, exist_ok=True)
    for folder in parent.glob(f"{_CHECKPOINT}*"):
        if not psutil.pid_exists(int(folder.name.removeprefix(_CHECKPOINT).split("-")[0])):
            shutil.rmtree(folder, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{_CHECKPOINT}{os.getpid()}-", dir=parent))
