"""``make bench``: CPU per record of the whole path beside its floor, and freshness at a quiet rate.

CPU time of the host's process tree is counted, not the clock's: machines are busy with other things.
The broker and the registry are not counted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Never

import numpy as np
import psutil
import pyarrow as pa
from rich.console import Console
from rich.table import Table as Screen
from tqdm.auto import tqdm

from tabletopic_kernel._datasets.clickstream.avro import schema_text
from tabletopic_kernel._datasets.clickstream.generator import Prebuilt
from tabletopic_kernel._datasets.clickstream.produce import produce
from tabletopic_kernel.adapters.datafiles import DataFileWriter
from tabletopic_kernel.commit.snapshot import TopicTable
from tabletopic_kernel.core.errors import TableTopicError
from tabletopic_kernel.core.events import Committed, FilesStaged
from tabletopic_kernel.core.settings import Settings, TopicSettings, table_identifier
from tabletopic_kernel.ingest.conform import conform, file_schema
from tabletopic_kernel.ingest.decode_avro import AvroDecoder
from tabletopic_kernel.local.progress import TerminalReport
from tabletopic_kernel.local.stack import LocalStack, StackInfo
from tabletopic_kernel.workbench import Workbench

_WARM_UP = 4_000_000  # records before counting begins: the JVM compiles its hot paths meanwhile
_LIMIT_S = 900.0
_FLOOR_GROUP = 50_000


@dataclass(frozen=True)
class Result:
    """CPU in µs per record, freshness in ms from a record's timestamp to its commit."""

    records: int
    cpu_us_per_record: float
    cpu_us_jvm: float
    cpu_us_python: float
    floor_us_per_record: float
    records_per_second: float
    freshness_records: int
    freshness_p50_ms: float
    freshness_p99_ms: float


def main(arguments: list[str] | None = None) -> int:
    """Run both measurements; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tabletopic_kernel.bench", description=__doc__)
    parser.add_argument(
        "--records", type=int, default=4_000_000, help="records counted (default: %(default)s)"
    )
    parser.add_argument("--warm-up", type=int, default=_WARM_UP, help="records before (default: %(default)s)")
    parser.add_argument(
        "--seconds", type=int, default=60, help="length of the freshness run at 500 records/s"
    )
    parser.add_argument("--json", action="store_true", help="the result as JSON on stdout")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tabletopic-bench-") as folder:
        local = LocalStack(Path(folder), TerminalReport())
        try:
            stack = local.up(die_with_parent=True)
            result = _measure(stack, given.records, given.warm_up, given.seconds)
        except TableTopicError as error:
            sys.stderr.write(f"error: {error}\n")
            return 1
        finally:
            local.down()
    if given.json:
        sys.stdout.write(json.dumps(asdict(result), indent=2) + "\n")
    else:
        Console().print(_screen(result))
    return 0


def _measure(stack: StackInfo, records: int, warm_up: int, seconds: int) -> Result:
    workbench = Workbench(Settings(state_dir=str(stack.state_dir)))
    schema_id = _load(workbench, "load", records + warm_up)
    with _host(stack) as host:
        jvm, python, rate = _cpu(workbench, host, records, warm_up)
        waits = _freshness(workbench, seconds)
    floor = _floor(workbench, schema_id, max(records // 4, _FLOOR_GROUP))
    return Result(
        records=records,
        cpu_us_per_record=round(jvm + python, 2),
        cpu_us_jvm=round(jvm, 2),
        cpu_us_python=round(python, 2),
        floor_us_per_record=round(floor, 2),
        records_per_second=round(rate),
        freshness_records=len(waits),
        freshness_p50_ms=round(float(np.percentile(waits, 50))),
        freshness_p99_ms=round(float(np.percentile(waits, 99))),
    )


def _load(workbench: Workbench, topic: str, count: int) -> int:
    """Fill a topic before anything is measured; returns the schema's id."""
    with tqdm(total=count, desc="filling the topic", unit="rec", unit_scale=True) as bar:
        produce(
            workbench.servers.kafka,
            workbench.servers.registry,
            topic,
            count,
            distinct=min(count, 50_000),
            on_progress=_advance(bar),
        )
    latest = workbench.registry.latest(f"{topic}-value")
    assert latest is not None
    return int(latest.id)


@contextlib.contextmanager
def _host(stack: StackInfo) -> Iterator[psutil.Process]:
    """A host as its own process, so that its CPU time can be told from this one's."""
    command = [sys.executable, "-m", "tabletopic_kernel.cli", "serve", "--quiet"]
    environment = {**os.environ, "TABLETOPIC_STATE_DIR": str(stack.state_dir)}
    with (stack.state_dir / "logs" / "host.log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(120)


class _CpuMeter:
    """CPU seconds of a process tree, kept also of processes that have ended since."""

    def __init__(self, root: psutil.Process) -> None:
        self._root = root
        self._seen: dict[int, tuple[str, float]] = {}
        self._stop = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self._stop.wait(0.5):
            self.read()

    def read(self) -> tuple[float, float]:
        """Seconds so far in JVMs and in the rest."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in [self._root, *self._root.children(recursive=True)]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    times = process.cpu_times()
                    self._seen[process.pid] = (process.name(), times.user + times.system)
        found = list(self._seen.values())
        jvm = sum(seconds for name, seconds in found if name == "java")
        return jvm, sum(seconds for _, seconds in found) - jvm

    def close(self) -> None:
        """Stop watching."""
        self._stop.set()


def _cpu(
    workbench: Workbench, host: psutil.Process, records: int, warm_up: int
) -> tuple[float, float, float]:
    """CPU µs per record in JVM and Python, and records per second, after the warm-up."""
    topic, total = "load", records + warm_up
    meter = _CpuMeter(host)
    workbench.enable(topic, {"commit_interval_ms": "10s"})
    deadline = time.monotonic() + _LIMIT_S
    staged = committed = 0
    begin: tuple[int, float, tuple[float, float]] | None = None
    with tqdm(total=total, desc="ingesting", unit="rec", unit_scale=True) as bar:
        for event in workbench.events(topic, follow=lambda: time.monotonic() < deadline):
            if isinstance(event, FilesStaged):
                staged += event.rows
                bar.update(event.rows)
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
        raise TableTopicError(f"only {committed} of {total} records were committed in {_LIMIT_S:.0f} s")
    counted = total - begin[0]
    jvm, python = (1e6 * (now - then) / counted for now, then in zip(jvm_python, begin[2], strict=True))
    return jvm, python, counted / (ended - begin[1])


def _freshness(workbench: Workbench, seconds: int) -> np.ndarray:
    """Ms from each record's timestamp to the commit that made it visible, at 500 records/s."""
    topic, rate = "quiet", 500
    produce(workbench.servers.kafka, workbench.servers.registry, topic, 100)
    workbench.enable(topic, {"commit_interval_ms": "1s"})
    _wait_for_rows(workbench, topic, 100)
    with tqdm(total=rate * seconds, desc="freshness at 500/s", unit="rec", unit_scale=True) as bar:
        produce(
            workbench.servers.kafka,
            workbench.servers.registry,
            topic,
            rate * seconds,
            rate=rate,
            on_progress=_advance(bar),
        )
    _wait_for_rows(workbench, topic, 100 + rate * seconds)
    commits = [event for event in workbench.events(topic) if isinstance(event, Committed)]
    place = (
        workbench.open_catalog().load_table(workbench.table_of(topic)).scan().to_arrow()["_kafka_metadata"]
    )
    rows = pa.Table.from_struct_array(place)
    waits = []
    for partition in range(4):
        chosen = rows.filter(pa.compute.equal(rows["partition"], partition)).sort_by("offset")
        offsets = chosen["offset"].to_numpy()
        stamps = chosen["timestamp"].cast(pa.int64()).to_numpy() / 1000
        ends = np.array([event.progress.next_offsets.get(partition, 0) for event in commits])
        visible = np.array([event.at_ms for event in commits])[np.searchsorted(ends, offsets, side="right")]
        waits.append(visible - stamps)
    return np.sort(np.concatenate(waits))[: rate * seconds]  # without the records that came before


def _advance(bar: tqdm[Never]) -> Callable[[int], None]:
    def show(done: int) -> None:
        bar.update(done - bar.n)

    return show


def _wait_for_rows(workbench: Workbench, topic: str, rows: int) -> None:
    deadline = time.monotonic() + 120
    while workbench.status(topic)[0].rows < rows:
        if time.monotonic() > deadline:
            raise TableTopicError(f"{topic} did not reach {rows} rows: {workbench.status(topic)[0]}")
        time.sleep(0.5)


def _floor(workbench: Workbench, schema_id: int, records: int) -> float:
    """CPU µs per record of decoding and writing Parquet alone, in this process."""
    identifier = table_identifier("load", TopicSettings())
    table = TopicTable.load(workbench.catalog, identifier, "load")
    assert table is not None
    writer = DataFileWriter(table.plan().metadata, {}, epoch=999)
    target = file_schema(writer.schema)
    values = pa.array(
        [value for _, value, _ in Prebuilt(schema_id, distinct=_FLOOR_GROUP).records], pa.binary()
    )
    decoder = AvroDecoder(schema_id, schema_text("v1"))
    decoder.decode(values)
    began = time.process_time()
    held = []
    for _ in range(records // _FLOOR_GROUP):
        rows, _refused = decoder.decode(values)
        held.append(conform(dict(zip(rows.schema.names, rows.columns, strict=True)), len(rows), target))
    writer.write(pa.Table.from_batches(held))
    return 1e6 * (time.process_time() - began) / (records // _FLOOR_GROUP * _FLOOR_GROUP)


def _screen(result: Result) -> Screen:
    screen = Screen(title="Clickstream, Avro, 13 fields", title_justify="left")
    screen.add_column("what")
    screen.add_column("measured", justify="right")
    screen.add_column("aim", justify="right")
    screen.add_row(
        f"CPU per record, {result.records:,} records", f"{result.cpu_us_per_record} µs", "≤ 3.5 µs"
    )
    screen.add_row("  of it in the JVM", f"{result.cpu_us_jvm} µs", "")
    screen.add_row("  of it in Python", f"{result.cpu_us_python} µs", "")
    screen.add_row("floor: decode + Parquet, one process", f"{result.floor_us_per_record} µs", "")
    screen.add_row("records per second, wall clock", f"{result.records_per_second:,.0f}", "")
    screen.add_row("record to queryable at 500/s, median", f"{result.freshness_p50_ms:,.0f} ms", "")
    screen.add_row("record to queryable at 500/s, p99", f"{result.freshness_p99_ms:,.0f} ms", "≤ 2,500 ms")
    return screen


if __name__ == "__main__":
    sys.exit(main())
