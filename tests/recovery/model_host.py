"""A host in a process of its own, to be killed at a named step: real coordinator, catalog and files.

Broker, registry and worker are the simulation's models, so ``run`` takes a second. It makes the topic's
story, and obeys ``crash_points`` from a phase on. A host after the first one finds the topic with all its
records.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.local.crash_points import obey
from tests.simulation import people
from tests.simulation.kafka import BAD, LEARNED, UNKNOWN, Topic
from tests.simulation.process import Process
from tests.simulation.schedule import Setting
from tests.simulation.world import World

_ROUNDS = 8  # of a second each, in which a phase comes to rest
_HOUR_MS = 3_600_000
# What is produced at the beginning of each phase, to both partitions.
RECORDS = (
    ("plain",) * 4,
    ("with b", "plain"),
    (BAD, "plain", UNKNOWN),
    ("plain",),
    ("with c",),
)
COMPACT, REPLAY, EXPIRE, LEAVE = range(len(RECORDS), len(RECORDS) + 4)


def the_topic(phases: int = len(RECORDS)) -> Topic:
    """The topic after so many phases."""
    topic = Topic()
    for phase in range(phases):
        produce(topic, phase)
    return topic


def produce(topic: Topic, phase: int) -> None:
    """What comes in at the beginning of a phase."""
    for kind in RECORDS[phase]:
        for partition in topic.records:
            topic.produce(partition, kind)


def catalog_of(folder: Path) -> Any:
    """The catalog of a folder."""
    return open_catalog(
        {
            "name": "lake",
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/warehouse",
        }
    )


class _Lake:
    """A folder in the place of the simulation's lake."""

    def __init__(self, folder: Path) -> None:
        self.catalog = catalog_of(folder)

    def look(self, identifier: tuple[str, ...]) -> Table | None:
        try:
            return self.catalog.load_table(identifier)  # type: ignore[no-any-return]
        except NoSuchTableError:
            return None

    def close(self) -> None:
        self.catalog.close()


def _crashed(error: Exception) -> None:
    raise error


@dataclass
class OnDisk(World):
    """The simulation's world on a real catalog and real files; nobody reads along."""

    folder: Path = Path()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.lake.close()
        self.lake = _Lake(self.folder)  # type: ignore[assignment]
        quiet = SimpleNamespace(look=lambda: None, committed=lambda *_: None, crashed=_crashed)
        self.reader = quiet  # type: ignore[assignment]
        self.holder = "A"

    def story(self, run: int, obeys_from: int, obey: Callable[[], None]) -> None:
        """All phases, by one host; calls ``obey`` before one of them."""
        dice = random.Random(run)
        self.now_ms += run * _HOUR_MS
        if run:
            self.topic = the_topic()
            self.learned |= set(LEARNED)
        host = Process(self, "A", run)
        orders: dict[int, Callable[[], None]] = {
            COMPACT: lambda: people.compact(self, dice),
            REPLAY: self._learn_and_replay,
            EXPIRE: lambda: people.expire(self, dice),
            LEAVE: lambda: people.disable(self, dice),
        }
        with self._alone():
            for phase in range(LEAVE + 1):
                if phase == obeys_from:
                    obey()
                if phase in orders:
                    orders[phase]()
                elif not run:
                    produce(self.topic, phase)
                for _ in range(_ROUNDS):
                    self._round(host, dice)

    def _learn_and_replay(self) -> None:
        self.learned |= set(LEARNED)
        people.replay(self, random.Random(0))

    def _round(self, host: Process, dice: random.Random) -> None:
        self.now_ms += 1_000
        host.act(host.poll)
        while any(coordinator.has_work for coordinator in host.coordinators):
            host.act(lambda: host.step(dice))
        host.act(lambda: host.work(dice))
        host.act(lambda: host.task(dice))


def run(folder: Path, number: int, obeys_from: int, environment: Mapping[str, str]) -> None:
    """The whole of such a process; ``number``: how many there were before. Its output is in ``output``."""
    with (folder / "output").open("wb") as output:
        for stream in (1, 2):
            os.dup2(output.fileno(), stream)
    setting = Setting(seed=number, many_letters=True, sort_by=("a",))
    OnDisk(setting, folder=folder).story(number, obeys_from, lambda: obey(environment))
