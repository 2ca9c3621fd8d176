"""What a session on a cluster needs in addition: a check of the master, options for executors, and whether
there are any.
"""

from __future__ import annotations

import contextlib
import re
import socket
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from tabletopic_kernel.clients.spark.versions import VARIABLE, own_versions
from tabletopic_kernel.model.errors import RetryableError

_CONNECT_S = 5.0
# Work without an executor for this long waits for the cluster, and this is reported.
EXECUTOR_WAIT_S = 15.0
_MOST_EXECUTORS = 64  # if no limit is set, which Spark takes as 2³¹ - 1
_STANDALONE = "spark://"
_ADDRESS = re.compile(r"^\[?(.*?)\]?:(\d+)$")
# The user's [spark] conf overrides all of these.
_EXECUTORS = {
    "spark.executor.memory": "1g",  # of the JVM: batches stream through, as in the driver
    # In containers (Kubernetes, YARN): for Python, which uses up to 700 MiB per core (ADR 0014).
    "spark.executor.memoryOverhead": "2g",
    # A lost executor costs a batch its tasks there, not the batch. No commit takes what a lost task wrote;
    # the next owner removes it (I10).
    "spark.task.maxFailures": "2",
}


def check_master(master: str) -> None:
    """Raise RetryableError if no standalone master listens: Spark would try for minutes. Others pass."""
    if not master.startswith(_STANDALONE):
        return
    failures = []
    for address in master.removeprefix(_STANDALONE).split(","):
        if (parts := _ADDRESS.match(address.strip())) is None:
            return  # Spark reports what is wrong with it
        try:
            socket.create_connection((parts[1], int(parts[2])), timeout=_CONNECT_S).close()
            return
        except (OSError, UnicodeError, OverflowError) as error:  # no host or port can have this name
            failures.append(f"{address.strip()}: {getattr(error, 'strerror', None) or error}")
    raise RetryableError(
        f"Spark's cluster {master} does not respond ({', '.join(failures)}): start its master, or correct "
        "[spark] master; `tabletopic config` shows where it is set"
    )


def executor_conf(java_options: str) -> dict[str, str]:
    """Properties of executors; ``java_options``: those that their JVMs share with the driver's."""
    return {
        **_EXECUTORS,
        "spark.executor.extraJavaOptions": java_options,
        f"spark.executorEnv.{VARIABLE}": own_versions(),
    }


def count_executors(session: SparkSession) -> int:
    """The number of current executors; raises what Py4J raises."""
    context: Any = session.sparkContext._jsc
    return int(context.sc().getExecutorMemoryStatus().size()) - 1  # the driver is among them


def processors_to_come(session: SparkSession) -> int:
    """The cores of the executors that dynamic allocation may request; 0 without it.

    It requests executors for waiting tasks. With only as many tasks as processors, none would wait.
    """
    conf = session.conf
    if conf.get("spark.dynamicAllocation.enabled", "false") != "true":
        return 0
    executors = int(conf.get("spark.dynamicAllocation.maxExecutors", None) or _MOST_EXECUTORS)
    most = min(executors, _MOST_EXECUTORS) * int(conf.get("spark.executor.cores", None) or 1)
    return min(most, int(conf.get("spark.cores.max", None) or most))


class ExecutorWatch:
    """Whether work waits for a cluster without executors; ``clock`` gives seconds.

    ``reason``, for any thread: why work waited when last seen; None: it did not, or not long enough.
    """

    def __init__(self, session: SparkSession, clock: Callable[[], float] = time.monotonic) -> None:
        self._session, self._clock = session, clock
        self._none_since: float | None = None
        self.reason: str | None = None

    def look(self, *, has_work: bool) -> None:
        """Ask Spark, which may take as long as its driver is frozen."""
        count = 1
        if has_work:
            with contextlib.suppress(Exception):  # Py4J: the waiting work gets the error itself
                count = count_executors(self._session)
        if count > 0:
            self._none_since = self.reason = None
            return
        now = self._clock()
        self._none_since = now if self._none_since is None else self._none_since
        waited_s = now - self._none_since
        if waited_s >= EXECUTOR_WAIT_S:
            self.reason = no_executor(str(self._session.sparkContext.master), waited_s)


def no_executor(master: str, waited_s: float) -> str:
    """The state of a cluster without executors, and what to check."""
    return (
        f"waits for the cluster: {master} has provided no executor for {waited_s:.0f} s. Does it have a free "
        "worker with the memory and cores that [spark.conf] requests, and can executors start there?"
    )
