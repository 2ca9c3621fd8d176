"""What a cluster costs, and how it shares the work: ``python -m tests.recovery.measure_cluster``.

``cost``: CPU per record with two executors against ``local[2]``, in turns: the host's process tree, and
those of the cluster's workers. ``spread``: which executor ran how many tasks of the batches of a backlog,
with 1, 2 and 4 executors. ``lost``: how soon commits go on after one of two executors was killed under load,
with ``--conf`` for settings to try. Broker and registry are not counted; tables lie in a folder that all
share.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from benchmarks.load import make_load
from benchmarks.measure import cpu_of_path, running_host
from tabletopic_kernel.local import machine
from tabletopic_kernel.local.progress import CountBar, TerminalReport
from tabletopic_kernel.local.stack import LocalStack, StackInfo
from tabletopic_kernel.model.progress.events import Committed
from tabletopic_kernel.workbench.config import load_settings
from tabletopic_kernel.workbench.workbench import Workbench
from tests.recovery.checks import commits, wait_for_commits
from tests.recovery.stream import Stream
from tests.recovery.waiting import wait_until
from tests.servers.spark_cluster import SECRET, SparkCluster

Settings = Mapping[str, Any]
_EXECUTOR = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.driver.host": "127.0.0.1",
    **SECRET,
}
_STARTS_S = 300.0


def main() -> None:
    """Print a line for each turn, and the ratio or the tasks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("cost", "spread", "lost"))
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--records", type=int, default=1_000_000, help="counted in a turn")
    parser.add_argument(
        "--warm-up", type=int, default=1_000_000, help="as many as a batch takes, or the cost counts none"
    )
    parser.add_argument(
        "--conf", action="append", default=[], help="lost: one more of [spark.conf], KEY=TEXT"
    )
    asked = parser.parse_args()
    measure = {"cost": _cost, "spread": _spread, "lost": _lost}[asked.what]
    with tempfile.TemporaryDirectory(prefix="tabletopic-cluster-") as name:
        folder = Path(name)
        local = LocalStack(folder / "stack", TerminalReport())
        try:
            stack = local.up(die_with_parent=True)
            measure(folder, stack, asked)
        finally:
            local.down()


def _cost(folder: Path, stack: StackInfo, asked: argparse.Namespace) -> None:
    def local(turn: int) -> float:
        return _run(stack, _workbench(stack, "local[2]", {}), f"local-{turn}", asked)

    def cluster(turn: int) -> float:
        with _cluster(folder / f"cluster-{turn}", 2) as (spark, workers):
            return _run(stack, _workbench(stack, spark.url, _EXECUTOR), f"cluster-{turn}", asked, workers)

    ratios = []
    for turn in range(asked.turns):
        # Each is first in every other turn, as the machine's speed drifts.
        order = (local, cluster) if turn % 2 == 0 else (cluster, local)
        spent = {one: one(turn) for one in order}
        _say(f"local[2]: {spent[local]:.2f}, 2 executors: {spent[cluster]:.2f} µs a record")
        ratios.append(spent[cluster] / spent[local])
    _say(f"times as much: {', '.join(f'{one:.2f}' for one in ratios)}; median {median(ratios):.2f}")


def _spread(folder: Path, stack: StackInfo, asked: argparse.Namespace) -> None:
    for count in (1, 2, 4):
        ui = machine.free_port(set())
        shown = {"spark.ui.enabled": "true", "spark.ui.port": str(ui), "spark.ui.retainedTasks": "100000"}
        with _cluster(folder / f"cluster-{count}", count) as (cluster, _):
            bench = _workbench(stack, cluster.url, {**_EXECUTOR, **shown})
            seen: dict[int, Counter[str]] = {}
            over = threading.Event()
            watcher = threading.Thread(target=_watch, args=(ui, seen, over))
            watcher.start()
            try:
                _read(stack, bench, f"spread-{count}", asked.records + asked.warm_up)
            finally:
                over.set()
                watcher.join()
        batches = [tasks for tasks in seen.values() if tasks.total() > 1 or count == 1]
        total = sum(batches, Counter[str]())
        whole = sum(len(tasks) == count for tasks in batches)
        _say(f"{count} executors: {len(batches)} batches, {whole} of them on all; tasks {dict(total)}")


def _lost(folder: Path, stack: StackInfo, asked: argparse.Namespace) -> None:
    conf = _EXECUTOR | dict(one.split("=", 1) for one in asked.conf)
    with _cluster(folder / "cluster", 2) as (cluster, workers):
        bench = _workbench(stack, cluster.url, conf)
        stream = Stream(stack, "lost", 4)
        stream.begin(200)
        bench.enable(stream.topic, {"commit_interval_ms": "500ms"})
        with running_host(stack):
            for worker in itertools.islice(itertools.cycle(workers), asked.turns):
                for one in workers:
                    wait_until("both run Python", lambda one=one: cluster.runs_python(one), _STARTS_S)
                wait_for_commits(bench, stream.topic, 3)
                _say(_killed(cluster, worker, bench, stream.topic))
        bench.disable(stream.topic)
        stream.end()


def _killed(cluster: SparkCluster, worker: psutil.Popen, bench: Workbench, topic: str) -> str:
    """Seconds until each event after a worker's executor was killed."""
    (executor,) = cluster.executors(worker)
    before, began = commits(bench, topic), time.monotonic()
    cluster.kill(executor)
    wait_until("its programs are gone", lambda: not cluster.runs_python(worker))
    waited: dict[str, Callable[[], object]] = {
        "first commit": lambda: commits(bench, topic) > before,
        "second commit": lambda: commits(bench, topic) > before + 1,
        "fourth commit": lambda: commits(bench, topic) > before + 3,
        "executor": lambda: any(one.pid != executor.pid for one in cluster.executors(worker)),
        "its Python": lambda: cluster.runs_python(worker),
    }
    seen: dict[str, float] = {}
    while len(seen) < len(waited) and time.monotonic() - began < _STARTS_S:
        for what in waited.keys() - seen.keys():
            if waited[what]():
                seen[what] = time.monotonic() - began
        time.sleep(0.05)
    return "killed; " + ", ".join(f"{what} {seen.get(what, float('nan')):.1f} s" for what in waited)


def _watch(port: int, seen: dict[int, Counter[str]], over: threading.Event) -> None:
    """Record how many tasks of each stage each executor finished; the first stages are the host's own."""
    base = f"http://127.0.0.1:{port}/api/v1/applications"
    while not over.wait(2):
        with contextlib.suppress(OSError, ValueError):
            app = _get(base)[0]["id"]
            for stage in _get(f"{base}/{app}/stages?status=complete"):
                if stage["stageId"] not in seen and stage["inputRecords"] + stage["numTasks"] > 1:
                    tasks = _get(f"{base}/{app}/stages/{stage['stageId']}/0/taskList?length=1000")
                    seen[stage["stageId"]] = Counter(task["executorId"] for task in tasks)


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


@contextlib.contextmanager
def _cluster(folder: Path, count: int) -> Iterator[tuple[SparkCluster, list[psutil.Popen]]]:
    with SparkCluster(folder) as cluster:
        yield cluster, [cluster.add_worker(str(number)) for number in range(count)]


def _workbench(stack: StackInfo, master: str, conf: Settings) -> Workbench:
    """With settings that the host reads, too."""
    config = stack.state_dir / "measured.toml"
    spark = [f"master = {json.dumps(master)}", "shared_files = true", "shared_network = true"]
    lines = [f"state_dir = {json.dumps(str(stack.state_dir))}", "[spark]", *spark, "[spark.conf]"]
    config.write_text("\n".join([*lines, *(f'"{key}" = "{text}"' for key, text in conf.items())]) + "\n")
    os.environ["TABLETOPIC_CONFIG"] = str(config)
    return Workbench(load_settings().settings)


def _read(stack: StackInfo, bench: Workbench, topic: str, total: int) -> None:
    """Fill a topic and have a host commit it, in as many batches as it takes."""
    load, committed = make_load(bench, topic, "avro"), 0
    with CountBar(total, "filling the topic", "records") as bar:
        load.send(bench, total, bar.to)
    bench.enable(topic, {"commit_interval_ms": "10s", "value_format": load.value_format})
    with running_host(stack) as host, CountBar(total, "ingesting", "records") as bar:
        for event in bench.events(topic, follow=lambda: host.poll() is None):
            if isinstance(event, Committed):
                committed += event.rows
                bar.to(committed)
            if committed >= total:
                break
    bench.disable(topic)
    assert committed == total


def _run(
    stack: StackInfo,
    bench: Workbench,
    topic: str,
    asked: argparse.Namespace,
    workers: Sequence[psutil.Process] = (),
) -> float:
    """CPU µs per record of JVMs and Python together."""
    load = make_load(bench, topic, "avro")
    total = asked.records + asked.warm_up
    with CountBar(total, "filling the topic", "records") as bar:
        load.send(bench, total, bar.to)
    with running_host(stack) as host:
        jvm, python, _ = cpu_of_path(bench, host, load, asked.records, asked.warm_up, workers)
    return jvm + python


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
