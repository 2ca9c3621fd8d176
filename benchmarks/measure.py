"""The measurements: CPU per record of the path and of its lower bound, small batches, and freshness.

CPU time of the host's process tree, not wall-clock time, because machines do other work too; without broker
and registry.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from statistics import median

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyiceberg.schema import Schema

from benchmarks.load import Load
from tabletopic_kernel._datasets.clickstream.produce import produce
from tabletopic_kernel.local.progress import CountBar
from tabletopic_kernel.local.stack import StackInfo
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.progress.events import Committed, FilesStaged
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_names import table_identifier
from tabletopic_kernel.pipeline.conform import conform, file_schema
from tabletopic_kernel.pipeline.plan import TablePlan
from tabletopic_kernel.pipeline.rewrite import RewriteTask, SmallFile
from tabletopic_kernel.pipeline.write import DataFileWriter
from tabletopic_kernel.table.topic_table import TopicTable
from tabletopic_kernel.workbench.workbench import Workbench

_RECORDS = 2_000
_BATCHES = 5
_SMALL_FILES, _ROWS_OF_SMALL_FILE = 50, 8_000
_BATCHES_LIMIT_S = 300.0


def seconds_of_batches(workbench: Workbench, partitions: Sequence[int]) -> dict[int, float]:
    """Median seconds of a batch of 2,000 records, by number of partitions; without the first batch."""
    return {count: _seconds(workbench, f"wide-{count}", count) for count in partitions}


def _seconds(workbench: Workbench, topic: str, partitions: int) -> float:
    kafka: dict[str, str | int | float | bool] = {**workbench.servers.kafka}
    admin = AdminClient(kafka)  # in a variable: its requests end with it
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result()
    producer = Producer(kafka)
    value = json.dumps({"n": 1, "text": "x" * 80}).encode()

    def send() -> None:
        for number in range(_RECORDS):
            producer.produce(topic, value, partition=number % partitions)
        producer.flush()

    send()
    workbench.enable(topic, {"commit_interval_ms": "1s", "value_format": "json"})
    deadline = time.monotonic() + _BATCHES_LIMIT_S
    batches: list[float] = []
    seconds, rows = 0.0, 0
    for event in workbench.events(topic, follow=lambda: time.monotonic() < deadline):
        if isinstance(event, FilesStaged):
            seconds, rows = seconds + event.seconds, rows + event.rows
        elif isinstance(event, Committed) and rows >= _RECORDS * (len(batches) + 1):
            batches.append(seconds)
            seconds = 0.0
            if len(batches) > _BATCHES:
                workbench.disable(topic)
                return round(median(batches[1:]), 2)
            send()
    raise TableTopicError(f"{topic}: {len(batches)} of {_BATCHES + 1} batches in {_BATCHES_LIMIT_S:.0f} s")


_PATH_LIMIT_S = 900.0
_SLOWEST = 100_000  # records a second
_LOG_END = 2_000  # characters of a log


@contextlib.contextmanager
def running_host(stack: StackInfo) -> Iterator[psutil.Popen]:
    """A host in its own process, to separate its CPU time from this one's.

    Raises:
        TableTopicError: it ended by itself; with the end of its output.
    """
    command = [sys.executable, "-m", "tabletopic_kernel.faces.cli", "serve", "--quiet"]
    environment = {**os.environ, "TABLETOPIC_STATE_DIR": str(stack.state_dir)}
    log_file = stack.state_dir / "logs" / "host.log"
    with log_file.open("w") as log:
        process = psutil.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            yield process
        except TableTopicError as error:
            if process.poll() is None:
                raise
            raise TableTopicError(f"{error}: {log_file.read_text()[-_LOG_END:].strip()}") from error
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()
            process.wait(120)


class CpuMeter:
    """CPU seconds of process trees, including processes that have ended."""

    def __init__(self, *roots: psutil.Process) -> None:
        self._roots = roots
        self._seen: dict[int, tuple[str, float]] = {}
        self._stop = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self._stop.wait(0.5):
            self.read()

    def read(self) -> tuple[float, float]:
        """Seconds so far in JVMs and in all other processes."""
        for root in self._roots:
            with contextlib.suppress(psutil.NoSuchProcess):
                for process in [root, *root.children(recursive=True)]:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        times = process.cpu_times()
                        # Programs of a JVM may have ended before they were seen.
                        ended = times.children_user + times.children_system
                        own, is_jvm = times.user + times.system, process.name() == "java"
                        self._seen[process.pid] = process.name(), own + (ended if is_jvm else 0)
        readings = list(self._seen.values())
        jvm = sum(seconds for name, seconds in readings if name == "java")
        return jvm, sum(seconds for _, seconds in readings) - jvm

    def close(self) -> None:
        """Stop watching."""
        self._stop.set()


def cpu_of_path(
    workbench: Workbench,
    host: psutil.Popen,
    load: Load,
    records: int,
    warm_up: int,
    beside: Sequence[psutil.Process] = (),
) -> tuple[float, float, float]:
    """CPU µs per record in JVM and Python, and records per second, after the warm-up.

    ``beside``: processes that work for the host but are not its children, such as a cluster's workers.
    """
    topic, total = load.topic, records + warm_up
    meter = CpuMeter(host, *beside)
    settings = {
        "commit_interval_ms": "10s",
        "value_format": load.value_format,
        "partition_by": load.partition_by,
    }
    workbench.enable(topic, settings)
    limit_s = _PATH_LIMIT_S + total / _SLOWEST
    deadline = time.monotonic() + limit_s
    staged = committed = 0
    begin: tuple[int, float, tuple[float, float]] | None = None

    def goes_on() -> bool:
        return time.monotonic() < deadline and host.poll() is None

    with CountBar(total, "ingesting", "records") as bar:
        for event in workbench.events(topic, follow=goes_on):
            if isinstance(event, FilesStaged):
                staged += event.rows
                bar.to(staged)
                if begin is None and staged >= warm_up:
                    begin = staged, time.monotonic(), meter.read()
            elif isinstance(event, Committed):
                committed += event.rows
            if committed >= total:
                break
    ended, jvm_python = time.monotonic(), meter.read()
    meter.close()
    workbench.disable(topic)
    if begin is None or committed < total:
        why = f"in {limit_s:.0f} s" if time.monotonic() >= deadline else "before its host ended"
        raise TableTopicError(f"only {committed:,} of {total:,} records were committed {why}")
    counted = total - begin[0]
    if not counted:
        raise TableTopicError("the warm-up took all records; measure with more: --records 1000000")
    jvm, python = (1e6 * (now - then) / counted for now, then in zip(jvm_python, begin[2], strict=True))
    return jvm, python, counted / (ended - begin[1])


def floor(workbench: Workbench, load: Load, records: int) -> float:
    """CPU µs per record for just decoding and writing Parquet, in this process."""
    table = TopicTable.load(workbench.catalog, table_identifier(load.topic, TopicSettings()), load.topic)
    assert table is not None
    return cpu_of_floor(table.plan().metadata, load, records)


def cpu_of_floor(metadata_json: str, load: Load, records: int) -> float:
    """See ``floor``; the table has the load's columns."""
    writer = DataFileWriter(metadata_json, {}, epoch=999)
    target = file_schema(writer.schema)
    columns = Schema(*(field for field in writer.schema.fields if not field.name.startswith("_kafka_")))
    values = pa.array(load.of_one_schema, pa.binary())
    decoder = load.decoder(columns)
    decoder.decode(values)
    turns = max(1, records // len(values))
    began = time.process_time()
    batches = []
    for _ in range(turns):
        rows, _refused = decoder.decode(values)
        batches.append(conform(dict(zip(rows.schema.names, rows.columns, strict=True)), len(rows), target))
    writer.write(pa.Table.from_batches(batches))
    return 1e6 * (time.process_time() - began) / (turns * len(values))


def rewriting(workbench: Workbench, load: Load) -> float:
    """CPU µs per row for merging 50 files of 8,000 rows, in this process."""
    table = TopicTable.load(workbench.catalog, table_identifier(load.topic, TopicSettings()), load.topic)
    assert table is not None
    return cpu_of_rewriting(table.plan(), load)


def cpu_of_rewriting(plan: TablePlan, load: Load) -> float:
    """See ``rewriting``; ``plan`` is of a table with the load's columns."""
    writer = DataFileWriter(plan.metadata, plan.io_properties, epoch=999)
    target = file_schema(writer.schema)
    columns = Schema(*(field for field in writer.schema.fields if not field.name.startswith("_kafka_")))
    values = pa.array(load.of_one_schema[:_ROWS_OF_SMALL_FILE], pa.binary())
    rows, _refused = load.decoder(columns).decode(values)
    few = conform(dict(zip(rows.schema.names, rows.columns, strict=True)), len(rows), target)
    files = [file for _ in range(_SMALL_FILES) for file in writer.write(pa.Table.from_batches([few]))]
    small = tuple(SmallFile(file.file_path, file.record_count) for file in files)
    result = RewriteTask(plan, 999, small, files[0].partition).run()
    if result.error is not None:
        raise result.error
    return 1e6 * result.cpu_s / result.rows


def freshness_ms(workbench: Workbench, seconds: int) -> np.ndarray:
    """Ms from each record's timestamp to the commit that made it visible, at 500 records/s."""
    topic, rate = "quiet", 500
    produce(workbench.servers.kafka, workbench.servers.registry, topic, 100)
    workbench.enable(topic, {"commit_interval_ms": "1s"})
    _wait_for_rows(workbench, topic, 100)
    with CountBar(rate * seconds, "freshness at 500/s", "records") as bar:
        produce(
            workbench.servers.kafka,
            workbench.servers.registry,
            topic,
            rate * seconds,
            rate=rate,
            on_progress=bar.to,
        )
    _wait_for_rows(workbench, topic, 100 + rate * seconds)
    commits = [event for event in workbench.events(topic) if isinstance(event, Committed)]
    metadata = (
        workbench.open_catalog().load_table(workbench.table_of(topic)).scan().to_arrow()["_kafka_metadata"]
    )
    rows = pa.Table.from_struct_array(metadata)
    waits = []
    for partition in range(4):
        chosen = rows.filter(pc.equal(rows["partition"], partition)).sort_by("offset")
        offsets = chosen["offset"].to_numpy()
        stamps = chosen["timestamp"].cast(pa.int64()).to_numpy() / 1000
        ends = np.array([event.progress.next_offsets.get(partition, 0) for event in commits])
        visible = np.array([event.at_ms for event in commits])[np.searchsorted(ends, offsets, side="right")]
        waits.append(visible - stamps)
    return np.sort(np.concatenate(waits))[: rate * seconds]  # without earlier records


def _wait_for_rows(workbench: Workbench, topic: str, rows: int) -> None:
    deadline = time.monotonic() + 120
    while workbench.status(topic)[0].rows < rows:
        if time.monotonic() > deadline:
            raise TableTopicError(f"{topic} did not reach {rows} rows: {workbench.status(topic)[0]}")
        time.sleep(0.5)
