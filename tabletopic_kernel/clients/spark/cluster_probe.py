"""Probes with small files whether a Spark cluster's executors and this process share the storage."""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

import pyspark
from pyiceberg.io import FileIO, load_file_io
from pyspark import InheritableThread
from pyspark.sql import SparkSession

from tabletopic_kernel.clients.spark.cluster import ExecutorWatch
from tabletopic_kernel.clients.spark.java_errors import text_of
from tabletopic_kernel.clients.spark.versions import OTHER_VERSIONS
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError, TableTopicError, Trouble

_LOG = logging.getLogger(__name__)
_GROUP = "tabletopic-probe"
# For a busy cluster, and executors that first fetch the jars. A host being stopped waits this long, too.
_WAIT_S = 120.0
_LOOK_S = 1.0
_MOST_TASKS = 16
_REMEDY = "name a {section} warehouse that all machines of the cluster and this one share"
_SAME = "install this host's packages on each of their machines, or ship them with `tabletopic pack`"
# Python's words when it starts a worker, and when it loads a task there.
_OTHER = re.compile(rf"(the executor on \S+ {OTHER_VERSIONS}: .*)")
_OTHER_PYTHON = re.compile(r"Python in worker has different version:? (\S+) than that in driver:? (\S+?),?\s")
_OTHER_SPARK = re.compile(r"InvalidClassException: \S+ local class incompatible")
_NO_MODULE = re.compile(r"No module named '?[\w.]+'?|Can't get attribute .*|cannot import name .*")
_NO_PYTHON = re.compile(r"Cannot run program \"[^\"]*\".*")
_ERROR_LINE = re.compile(r"^[^\S\n]*(?:[\w.$]*\.)?(\w*(?:Error|Exception): \S.*)$", re.MULTILINE)


@dataclass(frozen=True)
class _Probe:
    properties: Mapping[str, str]
    prefix: str

    @property
    def io(self) -> FileIO:
        return load_file_io(dict(self.properties), self.prefix)

    @property
    def of_driver(self) -> str:
        return f"{self.prefix}-driver"

    def of_task(self, number: int) -> str:
        return f"{self.prefix}-{number}"

    def run(self, number: int) -> tuple[str, str]:
        """On an executor: read the driver's file and write its own; returns its address, and the error."""
        try:
            text = _read(self.io, self.of_driver)
            _write(self.io, self.of_task(number), text)
        except Exception as error:  # of any storage; the driver reports it
            return socket.gethostname(), f"{type(error).__name__}: {error}"
        return socket.gethostname(), ""


def check_executors(session: SparkSession) -> list[str]:
    """Check that executors run this program; returns their machines, one per current core of the cluster.

    Each executor's Python compares versions at startup, also if it joins later. Raises ActionNeededError if
    one does not, or runs another version; RetryableError if the cluster did not run the probe.
    """
    return sorted(machine for machine, _ in _run(session, _machine, _tasks(session)))


def _machine(_: int) -> tuple[str, str]:
    return socket.gethostname(), ""


def _tasks(session: SparkSession) -> int:
    return max(1, min(_MOST_TASKS, int(session.sparkContext.defaultParallelism)))


def check_shared_storage(session: SparkSession, properties: Mapping[str, str], warehouse: str) -> None:
    """Check that executors and this process read each other's files in ``warehouse``, a location.

    There is one task for each processor that the cluster has now. Not tried: executors that join later, and
    warehouses that this process itself may not write to, such as those whose catalog lends keys per table.
    For these, the check of each staged file before its commit remains.

    Raises as ``check_executors``, ActionNeededError also, with machine and error, if they do not share it.
    """
    # Executors only need the storage's properties from the catalog's.
    own = {key: value for key, value in properties.items() if key not in ("uri", "name", "type")}
    probe = _Probe(own, f"{warehouse.rstrip('/')}/.tabletopic-probe-{uuid.uuid4().hex}")
    token = uuid.uuid4().bytes
    tasks = _tasks(session)
    try:
        _write(probe.io, probe.of_driver, token)
    except OSError as error:
        _LOG.warning("could not probe whether the cluster shares %s: %s", warehouse, error)
        with contextlib.suppress(OSError):  # on a full disk there is a file, which is empty
            probe.io.delete(probe.of_driver)
        return
    try:
        for number, (machine, fault) in enumerate(_run(session, probe.run, tasks)):
            if fault:
                raise _not_shared(f"the one on {machine} cannot use {warehouse}, the warehouse ({fault})")
            if _read_if_there(probe.io, probe.of_task(number)) != token:
                raise _not_shared(f"what the one on {machine} writes to {warehouse} is not visible here")
    finally:
        for place in (probe.of_driver, *map(probe.of_task, range(tasks))):
            with contextlib.suppress(OSError):
                probe.io.delete(place)


def _run(session: SparkSession, work: Callable[[int], tuple[str, str]], tasks: int) -> list[tuple[str, str]]:
    """Run ``work`` for each number below ``tasks``, on the executors."""
    context = session.sparkContext
    master = str(context.master)
    done: Future[list[tuple[str, str]]] = Future()

    def collect() -> None:
        try:
            # A task cancelled while it fetches jars continues: the next trial finds them there.
            context.setJobGroup(_GROUP, "whether the storage is shared")
            done.set_result(context.parallelize(range(tasks), tasks).map(work).collect())
        except Exception as error:  # Py4J wraps the job's error
            done.set_exception(error)

    thread = InheritableThread(target=collect, name="cluster probe")
    thread.daemon = True
    thread.start()
    try:
        return _awaited(done, session)
    except RetryableError:
        context.cancelJobGroup(_GROUP)
        raise
    except Exception as error:
        raise _explained(text_of(error), master) from error


def _awaited(done: Future[list[tuple[str, str]]], session: SparkSession) -> list[tuple[str, str]]:
    """The outcome of a job; raises its error, or RetryableError if no executor takes it."""
    watch, until = ExecutorWatch(session), time.monotonic() + _WAIT_S
    while True:
        with contextlib.suppress(TimeoutError):
            return done.result(_LOOK_S)
        watch.look(has_work=True)
        if watch.reason is not None:
            raise RetryableError(watch.reason)
        if time.monotonic() > until:
            raise RetryableError(
                f"the cluster {session.sparkContext.master} has not run anything within {_WAIT_S:.0f} s, "
                "though it provides executors: are their cores free, and can they fetch jars from this host?"
            )


def _explained(text: str, master: str) -> TableTopicError:
    """The error for users that explains a failed job."""
    if match := _OTHER.search(text):
        return ActionNeededError(f"{match[1].rstrip()}; {_SAME}")
    if match := _OTHER_PYTHON.search(text):
        return ActionNeededError(
            f"the executors of {master} have Python {match[1]} and this host has {match[2]}; {_SAME}"
        )
    if _OTHER_SPARK.search(text):
        return ActionNeededError(
            f"the cluster {master} has another version of Spark than this host's {pyspark.__version__}; run "
            "the same version on both"
        )
    if match := _NO_MODULE.search(text):
        return ActionNeededError(
            f"the executors of {master} do not have this program in this version ({match[0]}); {_SAME}, and "
            'name their Python as "spark.pyspark.python" in [spark.conf] if its path is not this host\'s'
        )
    if match := _NO_PYTHON.search(text):
        return ActionNeededError(
            f"the executors of {master} do not have the requested Python ({match[0]}); name theirs "
            'as "spark.pyspark.python" in [spark.conf], or ship it with `tabletopic pack`'
        )
    match = _ERROR_LINE.search(text)
    why = match[1] if match else text.strip().splitlines()[0]
    return RetryableError(f"the cluster {master} cannot run table topics: {why}")


def _write(io: FileIO, place: str, text: bytes) -> None:
    with io.new_output(place).create() as stream:
        stream.write(text)


def _read(io: FileIO, place: str) -> bytes:
    with io.new_input(place).open() as stream:
        return stream.read()


def _not_shared(cause: str) -> ActionNeededError:
    return ActionNeededError(Trouble(f"do not write where this host reads: {cause}", _REMEDY, "executors"))


def _read_if_there(io: FileIO, place: str) -> bytes | None:
    try:
        return _read(io, place)
    except OSError:
        return None
