"""The Spark session that runs the workers.

One module, because each of Spark's settings is next to its reason.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tabletopic_kernel.clients.catalog.engine_properties import (
    catalog_type,
    java_properties_of_aws,
    spark_catalog,
)
from tabletopic_kernel.clients.proxies import child_environment
from tabletopic_kernel.clients.spark.callbacks import accept_calls
from tabletopic_kernel.clients.spark.cluster import check_master, executor_conf
from tabletopic_kernel.clients.spark.launch import environment, java_escaped, java_option, launch, not_started
from tabletopic_kernel.model.errors import SettingsError
from tabletopic_kernel.model.redact import SECRET_NAME
from tabletopic_kernel.model.settings.cluster import SparkSettings, connect_url, no_connect

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

_SECRET = "spark.authenticate.secret"
_CHECKPOINT = "tabletopic-checkpoint-"

# Each with its reason; the user's [spark] conf overrides all of these.
_DEFAULTS = {
    # Its ports would let every user of the machine read broadcasts, which contain the storage's keys. Spark
    # makes a secret for each application, except on a standalone cluster, whose secret the user sets.
    "spark.authenticate": "true",
    # What Spark hides when it shows properties: by a word in their name, or a login in a URL.
    "spark.redaction.regex": rf"(?i){SECRET_NAME}|/[^\s/?#:@]*:[^\s/?#]*@",
    "spark.ui.enabled": "false",  # saves a port and memory
    "spark.ui.showConsoleProgress": "false",  # Spark's own bars would appear in users' cells
    "spark.driver.memory": "1g",  # batches stream through; the workers' memory is Python's
    "spark.sql.session.timeZone": "UTC",  # Kafka timestamps reach Arrow as instants
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.metricsEnabled": "false",
    # A query is woken when its topic has records (ADR 0035); should it find none, it looks again after this.
    "spark.sql.streaming.pollingDelay": "1s",
    "spark.sql.streaming.minBatchesToRetain": "2",  # the checkpoint is thrown away at each start
    "spark.sql.streaming.numRecentProgressUpdates": "1",
    "spark.sql.streaming.stopActiveRunOnRestart": "true",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "tabletopic_kernel.pipeline.worker.daemon",  # its workers are preloaded
    # A Python worker keeps memory for the next group of records: else the kernel would have to clear every
    # page again, a fifth of the worker's CPU time (ADR 0014). Spark ends idle workers.
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "-1",  # Arrow's and DataFusion's allocator
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(64 * 1024**2),  # numpy's and Python's
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(256 * 1024**2),
    # For a checkpoint's files: without checksums, which would be additional files.
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    # With it, Iceberg fails where a struct in a map has a field newer than a file ("is not in the store").
    "spark.sql.optimizer.nestedSchemaPruning.enabled": "false",
    "spark.scheduler.mode": "FAIR",  # a notebook's queries do not starve the topics
    "spark.task.maxFailures": "1",  # a failed batch restarts from the ledger instead
}
# A host's JVM plans batches, and no record passes through it: the second compiler, and a collector with a
# thread per core, would cost more than they save, at each start 4 s of CPU (ADR 0037). Queries need both.
_OF_HOST = "-XX:TieredStopAtLevel=1"
# Hadoop's one way to write a checkpoint's file without starting a program that sets its permissions, which
# costs as much as the batch. In the session's properties alone: elsewhere, as for the buffers of S3A, Hadoop
# insists on a class of its own for local files.
_CHECKPOINTS_OF_HOST = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager"
    ),
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
_COLLECTORS = {True: "-XX:+UseSerialGC -Xms64m", False: "-XX:+UseParallelGC"}
# The user's values are added to ours, which Spark cannot do without.
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
    """The paths that the session needs: JDK, jars, and a folder for logs and temporary files.

    ``is_host``: it runs table topics and no queries.
    """

    java_home: str
    jars: tuple[str, ...]
    folder: Path
    is_host: bool = False


def start_spark(settings: SparkSettings, place: SparkPlace, *catalogs: Mapping[str, str]) -> SparkSession:
    """The session of this process with these catalogs; made on the first call.

    Raises RetryableError if the cluster does not respond, or has ended the application; SettingsError if
    Spark did not start with these settings, and its log says why, or they are for Spark Connect.
    """
    # Longer than other functions: the session's properties and its start belong together.
    if url := connect_url({"spark.master": settings.master, **settings.conf}, os.environ):
        raise SettingsError(no_connect(url))
    check_master(settings.effective_master)
    place.folder.mkdir(parents=True, exist_ok=True)
    log = place.folder / "spark.log"
    log_bytes = log.stat().st_size if log.exists() else 0
    log4j = place.folder / "spark-log4j2.properties"
    # Java reads properties as Latin-1, with all else escaped; a backslash would begin an escape.
    log4j.write_text(_LOG4J.format(log=java_escaped(str(log))), "ascii")
    local = settings.is_local
    ours = {
        **_DEFAULTS,
        "spark.driver.extraJavaOptions": " ".join(
            [
                java_option(f"-Dlog4j2.configurationFile={log4j}"),
                *([_OF_HOST] if place.is_host else []),
                _jvm_options(settings.conf.get("spark.driver.extraJavaOptions", ""), place.is_host),
            ]
        ),
        # Directly on the class path, they can be in the class archive; only a cluster needs them sent.
        **(
            {"spark.driver.extraClassPath": ":".join(place.jars)}
            if settings.is_in_process
            else {"spark.jars": ",".join(place.jars)}
        ),
        "spark.local.dir": str(place.folder / "spark-local"),
        "spark.sql.warehouse.dir": str(place.folder / "spark-warehouse"),
        **({} if settings.is_in_process or not local else {_SECRET: secrets.token_urlsafe()}),
        **(
            {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
            if local
            else executor_conf(_jvm_options(settings.conf.get("spark.executor.extraJavaOptions", "")))
        ),
        **_catalogs(catalogs),
    }
    conf = {**ours, **settings.conf}
    for key, separator in _JOINED.items():
        if key in settings.conf and (own := ours.get(key)):
            conf[key] = f"{own}{separator}{settings.conf[key]}"
    conf = {"spark.app.name": "tabletopic", "spark.master": settings.master, **conf}
    builder = SparkSession.builder
    # Also here: the user's own JVM may already run, without these.
    for key, value in conf.items():
        builder = builder.config(key, value)
    loopback = {"SPARK_LOCAL_IP": "127.0.0.1"} if local else {}
    python = settings.conf.get(_PYTHON, sys.executable)
    started: Future[SparkSession] = Future()

    def start() -> None:
        try:
            _forget_dead_jvm()
            variables = {**child_environment(), "JAVA_HOME": place.java_home, _PYTHON_VARIABLE: python}
            with environment(**variables, **loopback):
                launch(conf, place.folder)
                accept_calls(SparkContext._gateway)
                started.set_result(builder.getOrCreate())
        except Exception as error:  # pyspark raises bare RuntimeErrors and Py4J's here
            _forget_stopped_context()
            started.set_exception(not_started(error, settings.effective_master, log, log_bytes))

    # In a separate thread: in the main thread, pyspark takes over Ctrl-C and cancels every job, including the
    # table topics'.
    threading.Thread(target=start, name="spark start", daemon=True).start()
    session = started.result()
    session.sparkContext.setLogLevel("WARN")
    for key, value in _CHECKPOINTS_OF_HOST.items() if place.is_host else ():
        if key not in settings.conf:
            session.conf.set(key, value)
    give_keys(session, *catalogs)
    return session


def give_keys(session: SparkSession, *catalogs: Mapping[str, str]) -> None:
    """Pass credentials to Java's Glue client here: any user can read a command line.

    The client has one set: Spark cannot use a second Glue catalog with other credentials.
    """
    glue = next((catalog for catalog in catalogs if catalog_type(catalog) == "glue"), {})
    for name, text in java_properties_of_aws(glue).items():
        java: Any = session.sparkContext._jvm
        java.java.lang.System.setProperty(name, text)


def _catalogs(catalogs: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Spark's catalogs, without those that it cannot reach: only queries need these, and report it."""
    conf: dict[str, str] = {}
    for index, properties in enumerate(catalogs):
        with contextlib.suppress(SettingsError):
            conf |= spark_catalog(properties, catalogs[:index])
    return conf


def _jvm_options(own: str, is_host: bool = False) -> str:
    """Our options for every JVM, before the user's ``own``; a JVM refuses to start with two collectors."""
    chosen = re.search(r"-XX:\+Use\w+GC\b", own)
    return " ".join([*([] if chosen else [_COLLECTORS[is_host]]), "-Duser.timezone=UTC"])


def is_alive(session: SparkSession) -> bool:
    """Whether it is usable: its JVM may be killed, a cluster may end it, and its folder may be deleted."""
    context: Any = session.sparkContext
    return _runs(context._gateway) and not _is_stopped(context) and os.path.isdir(context._temp_dir)


def forget(session: SparkSession) -> None:
    """Drop a session that can no longer be used."""
    with contextlib.suppress(Exception):  # requests to the JVM fail
        session.stop()
    _forget_dead_jvm()


def _runs(gateway: Any) -> bool:
    process = getattr(gateway, "proc", None)
    return process is None or process.poll() is None


def _is_stopped(context: SparkContext) -> bool:
    """Whether the JVM has ended the application, which pyspark itself does not notice."""
    jsc: Any = context._jsc
    if jsc is None:
        return True
    try:
        return bool(jsc.sc().isStopped())
    except Exception:  # Py4J: the JVM does not respond
        return not _runs(context._gateway)


def _forget_stopped_context() -> None:
    """Drop an application that ended while it started; otherwise each later session would get it again."""
    context = SparkContext._active_spark_context
    if context is not None and _is_stopped(context):
        with contextlib.suppress(Exception):  # requests to the JVM fail
            context.stop()


def _forget_dead_jvm() -> None:
    """Drop a JVM that is gone, perhaps before it had a session, to get a new one next time.

    pyspark keeps it at class level, with no public way to drop what can no longer be stopped.
    """
    gateway: Any = SparkContext._gateway
    if gateway is None or _runs(gateway):
        return
    with contextlib.suppress(Exception):  # it has no process, or its pipe is broken
        gateway.proc.stdin.close()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def new_checkpoint(session: SparkSession) -> Path:
    """A folder for a checkpoint, beside Spark's; the caller removes it. Removes those of killed processes."""
    local_dir = session.conf.get("spark.local.dir") or tempfile.gettempdir()
    parent = Path(local_dir)
    if not parent.parent.is_dir():  # a list of folders, on several disks; a comma may be in a name, too
        parent = Path(local_dir.split(",")[0].strip())
    parent.mkdir(parents=True, exist_ok=True)
    for folder in parent.glob(f"{_CHECKPOINT}*"):
        if not psutil.pid_exists(int(folder.name.removeprefix(_CHECKPOINT).split("-")[0])):
            shutil.rmtree(folder, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{_CHECKPOINT}{os.getpid()}-", dir=parent))
