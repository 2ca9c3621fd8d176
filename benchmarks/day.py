"""What maintenance costs a topic over the course of a day: CPU per record with and without it.

Two stacks with a host each get the same records at the same time, so other load on the machine slows both
alike. A day passes in minutes: commits are a second apart, and the rate rises and falls once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from benchmarks.load import Load, make_load
from benchmarks.measure import CpuMeter, running_host
from tabletopic_kernel.clients.kafka.broker import make_producer
from tabletopic_kernel.local.progress import TerminalReport
from tabletopic_kernel.local.stack import LocalStack
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.progress.events import Compacted, Expired
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.workbench import Workbench

_TOPIC = "load"
_NIGHT = 0.1  # of the rate at noon
WARM_UP_S = 60  # at noon's rate: the JVM compiles its hot paths meanwhile
_LIMIT_S = 300.0
_MAINTENANCE = {"with maintenance": "on", "without": "off"}


@dataclass(frozen=True)
class Day:
    """A topic's day: records and CPU µs per record after the warm-up, and the table's contents at its end."""

    records: int
    cpu_us_per_record: float
    data_files: int
    compactions: int
    expiries: int


def rates(seconds: int, noon: float) -> list[int]:
    """Records to send in each second of a day: a tenth of ``noon`` at either end.

    >>> rates(5, 1000)
    [100, 550, 1000, 550, 100]
    """
    turn = math.pi / max(1, seconds - 1)
    return [round(noon * (_NIGHT + (1 - _NIGHT) * math.sin(turn * second) ** 2)) for second in range(seconds)]


def day(
    folder: Path, seconds: int, noon: int, on_progress: Callable[[int], None] = lambda _: None
) -> dict[str, Day]:
    """Run a day of ``seconds``, with and without maintenance; returns both, by name.

    Args:
        folder: for the stacks; empty.
        noon: records per second at the day's peak.
        on_progress: called with the seconds passed, including the warm-up.

    Raises:
        TableTopicError: a host ended, or not all records became rows in time.
    """
    with ExitStack() as stack:
        sides = {
            name: stack.enter_context(_side(folder / setting, setting))
            for name, setting in _MAINTENANCE.items()
        }
        _send_rates(sides.values(), [noon] * WARM_UP_S, on_progress)
        before = {name: side.counted() for name, side in sides.items()}
        _send_rates(sides.values(), rates(seconds, noon), lambda second: on_progress(second + WARM_UP_S))
        return {name: side.day(before[name]) for name, side in sides.items()}


class _Side:
    """One stack with its host and topic."""

    def __init__(self, bench: Workbench, load: Load, meter: CpuMeter) -> None:
        self._bench, self._meter, self._sent = bench, meter, 0
        self._records = cycle(load.records)
        self._producer = make_producer(bench.servers.kafka)

    def send(self, count: int) -> None:
        """Send ``count`` records."""
        for key, value in islice(self._records, count):
            self._producer.produce(_TOPIC, value, key)
        self._producer.flush()
        self._sent += count

    def counted(self) -> tuple[int, float]:
        """Wait until all records are rows; returns their number, and the CPU seconds so far."""
        deadline = time.monotonic() + _LIMIT_S
        while (rows := self._bench.status(_TOPIC)[0].rows) < self._sent:
            if time.monotonic() > deadline:
                raise TableTopicError(
                    f"{rows:,} of {self._sent:,} records were committed in {_LIMIT_S:.0f} s"
                )
            time.sleep(0.5)
        return rows, sum(self._meter.read())

    def day(self, before: tuple[int, float]) -> Day:
        """The day since ``before``."""
        rows, seconds = self.counted()
        records = rows - before[0]
        events = list(self._bench.events(_TOPIC))
        files = self._bench.open_catalog().load_table(self._bench.table_of(_TOPIC)).inspect.files()
        return Day(
            records,
            round(1e6 * (seconds - before[1]) / records, 1),
            len(files),
            sum(isinstance(event, Compacted) for event in events),
            sum(isinstance(event, Expired) for event in events),
        )


def _send_rates(
    sides: Collection[_Side], rates_by_second: Sequence[int], on_progress: Callable[[int], None]
) -> None:
    """Send each second's records to all sides."""
    began = time.monotonic()
    for second, count in enumerate(rates_by_second, 1):
        for side in sides:
            side.send(count)
        time.sleep(max(0.0, began + second - time.monotonic()))
        on_progress(second)


@contextmanager
def _side(folder: Path, maintenance: str) -> Iterator[_Side]:
    local = LocalStack(folder, TerminalReport())
    try:
        info = local.up(die_with_parent=True)
        bench = Workbench(Settings(state_dir=str(info.state_dir)))
        load = make_load(bench, _TOPIC, "avro")
        with running_host(info) as host:
            meter = CpuMeter(host)
            try:
                bench.broker.ensure_topic(_TOPIC, 4, {})
                side = _Side(bench, load, meter)
                side.send(1)
                bench.enable(_TOPIC, {"commit_interval_ms": "1s", "maintenance": maintenance})
                yield side
            finally:
                meter.close()
    finally:
        local.down()
