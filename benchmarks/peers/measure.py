"""The measurements of one program: CPU per record, what a kill costs, and how fresh its table is."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from benchmarks.measure import CpuMeter
from benchmarks.peers.program import Program
from benchmarks.peers.programs import PROGRAMS
from benchmarks.peers.site import NAMESPACE, Site, growth, rows_of, wrong_at_last
from tabletopic_kernel.clients.kafka.librdkafka import make_producer
from tabletopic_kernel.local import machine, processes
from tabletopic_kernel.model.errors import TableTopicError

_NOTHING_S = 180.0  # without a new row: the program is stuck
_REST_S = 60.0  # without a new row: what is missing does not come


@dataclass(frozen=True)
class Sizes:
    """Records of each part, in multiples of the load's distinct events; ``rate``: of the freshness part."""

    warm_up: int
    records: int
    after_kill: int
    rate: int
    seconds: int


@dataclass(frozen=True)
class Figures:
    """CPU of the program's whole process tree in µs per record; resident memory in MiB at its peak.

    ``recovery_s``: from ``kill -9`` to the next commit, start included. Freshness in ms from the moment a
    record was sent to the timestamp of the snapshot that has it.
    """

    program: str
    records: int
    cpu_us: float
    records_per_second: int
    memory_mib: int
    files: int
    file_mib: float
    bytes_per_row: float
    recovery_s: float
    missing: int
    doubled: int
    freshness_p50_ms: int
    freshness_p99_ms: int
    settings: Mapping[str, str]


def measure(site: Site, name: str, folder: Path, sizes: Sizes) -> Figures:
    """All parts, one after the other, on a topic that has the records of the first two.

    Raises TableTopicError: the program ended, or its table does not grow; with the end of its output.
    """
    table = prepare(site, name)
    peak = [0]
    with running(PROGRAMS[name](site, folder), folder) as process:
        meter = CpuMeter(process)
        begin = _reach(site, table, sizes.warm_up, folder, process, peak)
        at_begin = sum(meter.read())
        end = _reach(site, table, sizes.warm_up + sizes.records, folder, process, peak)
        cpu_s = sum(meter.read()) - at_begin
        meter.close()
        if end[1] == begin[1]:
            raise TableTopicError(f"{name}: one commit had everything; measure with more --records")
        site.load.send(site.bench, sizes.after_kill // 2, lambda _: None)
        _kill(process)
        killed = time.monotonic()
    rows = rows_of(site.catalog(), table)
    site.load.send(site.bench, sizes.after_kill // 2, lambda _: None)
    total = sizes.warm_up + sizes.records + sizes.after_kill
    with running(PROGRAMS[name](site, folder), folder) as process:
        recovered = _reach(site, table, rows + 1, folder, process, peak)
        _reach(site, table, total, folder, process, peak)
        missing, doubled = wrong_at_last(site, table, total, _REST_S, lambda: process.poll() is None)
        waits = _freshness(site, table, total - missing + doubled, sizes, folder, process)
    files = site.catalog().load_table(table).inspect.files()
    stored = sum(files["file_size_in_bytes"].to_pylist())
    return Figures(
        program=name,
        records=end[1] - begin[1],
        cpu_us=round(1e6 * cpu_s / (end[1] - begin[1]), 2),
        records_per_second=round((end[1] - begin[1]) / (end[0] - begin[0])),
        memory_mib=peak[0] >> 20,
        files=len(files),
        file_mib=round(stored / len(files) / 2**20, 2),
        bytes_per_row=round(stored / total, 1),
        recovery_s=round(recovered[0] - killed, 1),
        missing=missing,
        doubled=doubled,
        freshness_p50_ms=round(float(np.percentile(waits, 50))),
        freshness_p99_ms=round(float(np.percentile(waits, 99))),
        settings=PROGRAMS[name](site, folder).settings,
    )


def prepare(site: Site, name: str) -> str:
    """The program's empty table; ours makes its own, with the columns that tell where a row is from."""
    if name != "ours":
        site.create(name)
        return f"{NAMESPACE}.{name}"
    settings = {
        "commit_interval_ms": f"{site.interval_s}s",
        "value_format": site.load.value_format,
        "partition_by": site.load.partition_by,
    }
    site.bench.enable(site.load.topic, settings)
    return site.bench.table_of(site.load.topic)


@contextlib.contextmanager
def running(program: Program, folder: Path) -> Iterator[psutil.Popen]:
    """The program in a process; its whole tree is killed at the end."""
    with (folder / "log.txt").open("ab") as log:
        process = psutil.Popen(
            list(program.command), cwd=folder, env={**processes.environment(), **program.variables},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            preexec_fn=processes.end_with_us,
        )  # fmt: skip
    try:
        yield process
    finally:
        _kill(process)


def _kill(process: psutil.Popen) -> None:
    """``kill -9`` to the whole tree; idempotent."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for part in [process, *process.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                part.kill()
    process.wait(60)


def _reach(
    site: Site, table: str, rows: int, folder: Path, process: psutil.Popen, peak: list[int]
) -> tuple[float, int]:
    """Time and rows of the first commit after which the table has that many; the tree's peak memory."""
    for moment, count in growth(site, table, _NOTHING_S, lambda: process.poll() is None):
        peak[0] = max(peak[0], processes.tree_memory_bytes(process.pid) or 0)
        if count >= rows:
            return moment, count
    log = machine.tail(folder / "log.txt", 30)
    raise TableTopicError(f"{table} has {rows_of(site.catalog(), table):,} of {rows:,} rows: {log}")


def _freshness(
    site: Site, table: str, rows: int, sizes: Sizes, folder: Path, process: psutil.Popen
) -> np.ndarray:
    """Ms from sending to the snapshot; the table gets the records in about the order of sending."""
    producer = make_producer(site.bench.servers.kafka)
    count = sizes.rate * sizes.seconds
    began = time.time()
    for number in range(count):
        if (early := began + number / sizes.rate - time.time()) > 0.002:
            producer.flush()
            time.sleep(early)
        key, value = site.load.records[number % len(site.load.records)]
        producer.produce(site.load.topic, value, key)
    producer.flush()
    _reach(site, table, rows + count, folder, process, [0])
    snapshots = site.catalog().load_table(table).metadata.snapshots
    totals = np.array(
        [int(snapshot.summary["total-records"] or 0) for snapshot in snapshots if snapshot.summary]
    )
    visible_ms = np.array([snapshot.timestamp_ms for snapshot in snapshots if snapshot.summary])
    at = np.searchsorted(totals, np.arange(rows + 1, rows + count + 1), side="left")
    sent_ms = 1000 * (began + np.arange(count) / sizes.rate)
    return visible_ms[at] - sent_ms
