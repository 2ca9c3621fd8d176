"""What many topics cost one host: CPU and memory while nothing is sent, and how late the slowest is."""

from __future__ import annotations

import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import psutil
from confluent_kafka.admin import AdminClient, NewTopic
from rich.table import Table as Screen

from benchmarks.measure import CpuMeter, running_host
from tabletopic_kernel.clients.kafka.librdkafka import make_producer
from tabletopic_kernel.local.stack import StackInfo
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.progress.events import Committed
from tabletopic_kernel.workbench.workbench import Workbench

PARTITIONS, RATE, INTERVAL_S = 4, 200, 10
_LIMIT_S, _SETTLE_S = 600.0, 20.0


@dataclass(frozen=True)
class Topics:
    """Of a host with so many topics: cores in use and MiB (proportional) while nothing is sent; cores that
    200 records/s over all need until all are committed, ms of CPU for each commit, and the most seconds
    from sending a record to the commit that has it."""

    topics: int
    partitions: int
    quiet_cores: float
    quiet_mib: int
    busy_cores: float
    commit_ms: int
    slowest_s: float


class _Load:
    """Topics of one run, with the time at which each record was sent."""

    def __init__(self, bench: Workbench, count: int, partitions: int) -> None:
        self.names = [f"many-{count}-{partitions}-{number}" for number in range(count)]
        self._partitions, self.commits = partitions, 0
        self._bench, self._producer = bench, make_producer(bench.servers.kafka)
        self._sent: dict[tuple[str, int], list[int]] = defaultdict(list)
        self._number = 0
        admin = AdminClient({**bench.servers.kafka})  # in a variable: its requests end with it
        made = admin.create_topics([NewTopic(name, partitions, 1) for name in self.names])
        for future in made.values():
            future.result(60)

    def send(self, count: int) -> None:
        """One record after the other to the next topic, and there to the next partition."""
        for _ in range(count):
            turn, at = divmod(self._number, len(self.names))
            place = self.names[at], turn % self._partitions
            self._producer.produce(place[0], json.dumps({"n": self._number}), partition=place[1])
            self._sent[place].append(time.time_ns() // 1_000_000)
            self._number += 1
        self._producer.flush()

    def slowest_s(self, since_ms: int) -> float | None:
        """The longest wait of a record sent since then for its commit; None: not all are committed."""
        done: dict[tuple[str, int], int] = defaultdict(int)
        slowest = self.commits = 0
        for event in self._bench.events():
            if isinstance(event, Committed) and event.topic in self.names:
                self.commits += event.at_ms >= since_ms
                for partition, end in event.progress.next_offsets.items():
                    sent = self._sent[event.topic, partition]
                    recent = [ms for ms in sent[done[event.topic, partition] : end] if ms >= since_ms]
                    slowest = max([slowest, *(event.at_ms - ms for ms in recent)])
                    done[event.topic, partition] = end
        return slowest / 1000 if all(done[place] == len(sent) for place, sent in self._sent.items()) else None

    def wait(self, since_ms: int = 0) -> float:
        """Wait until all records are committed; as ``slowest_s``."""
        deadline = time.monotonic() + _LIMIT_S
        while (slowest := self.slowest_s(since_ms)) is None:
            if time.monotonic() > deadline:
                raise TableTopicError(f"not all records of {len(self.names)} topics after {_LIMIT_S:.0f} s")
            time.sleep(2)
        return slowest


def many_topics(
    stack: StackInfo,
    bench: Workbench,
    count: int,
    partitions: int,
    seconds: int,
    on_progress: Callable[[int], None],
) -> Topics:
    """Run a host with ``count`` topics: ``seconds`` without records, and as many at the rate."""
    load = _Load(bench, count, partitions)
    load.send(count * partitions)
    with running_host(stack) as host:
        meter = CpuMeter(host)
        for name in load.names:
            bench.enable(name, {"commit_interval_ms": f"{INTERVAL_S}s", "value_format": "json"})
        load.wait()
        time.sleep(_SETTLE_S)
        began = sum(meter.read())
        for second in range(seconds):
            time.sleep(1)
            on_progress(second)
        quiet, mib = (sum(meter.read()) - began) / seconds, _mib(host)
        began, since_ms, start = sum(meter.read()), time.time_ns() // 1_000_000, time.monotonic()
        for second in range(seconds):
            load.send(RATE)
            time.sleep(max(0.0, start + second + 1 - time.monotonic()))
            on_progress(seconds + second)
        slowest = load.wait(since_ms)
        busy = sum(meter.read()) - began
        meter.close()
        for name in load.names:
            bench.disable(name)
    commit_ms = round(1000 * busy / load.commits)
    return Topics(
        count, partitions, round(quiet, 3), mib, round(busy / seconds, 2), commit_ms, round(slowest, 1)
    )


def screen_of(results: list[Topics]) -> Screen:
    """A table of the results."""
    screen = Screen(title=f"Topics on one host, {RATE} records/s over all", title_justify="left")
    columns = "topics", "partitions", "cores, quiet", "MiB, quiet", "cores, busy", "CPU per commit"
    for column in (*columns, "slowest record"):
        screen.add_column(column, justify="right")
    for result in results:
        cores = f"{result.quiet_cores}", f"{result.quiet_mib:,}", f"{result.busy_cores}"
        times = f"{result.commit_ms} ms", f"{result.slowest_s} s"
        screen.add_row(f"{result.topics}", f"{result.partitions}", *cores, *times)
    return screen


def _mib(host: psutil.Process) -> int:
    total = 0
    for process in [host, *host.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            total += process.memory_full_info().pss
    return total // 1024**2
