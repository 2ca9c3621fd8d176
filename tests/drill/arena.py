"""What a drill runs on: a folder with a broker, a registry, a catalog, hosts, topics and their producers.

Longer than other modules, as everything that was started is tracked and ended here.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from tabletopic_kernel.local import processes, watcher
from tabletopic_kernel.local.hosts import HostProcess
from tabletopic_kernel.local.progress import Report
from tabletopic_kernel.local.stack import LocalStack, StackInfo
from tabletopic_kernel.model.settings.sections import Settings, TopicSettings
from tabletopic_kernel.model.settings.table_names import table_identifier
from tabletopic_kernel.workbench.config import wants_login
from tabletopic_kernel.workbench.workbench import Workbench
from tests.drill.crash_points import CrashPoints
from tests.drill.foreign import Reached
from tests.drill.streams import PLANS, Stream
from tests.drill.tables import Sampler
from tests.drill.verdict import TopicVerdict, judge

HOSTS = 2
_CATALOG_BUSY_S = 1


@dataclass(frozen=True)
class Happening:
    """Something the drill did or saw: when (seconds since 1970), what, to what, in words.

    ``moved``: topics that had to move to another host, if nothing else went wrong until they had.
    """

    at_s: float
    what: str
    target: str
    detail: str
    is_fault: bool = True
    moved: tuple[str, ...] = ()


class Arena:
    """The running parts of a drill. Several threads may use them.

    Args:
        folder: the state folder, empty.
        seed: of the records.
        rate: records per second of each topic.
        temporary: remove the folder if this process dies.
        interval_ms: between two commits.
        stack: the servers, until ``up`` starts others.
    """

    def __init__(
        self,
        folder: Path,
        seed: int,
        rate: float,
        *,
        temporary: bool,
        interval_ms: int,
        stack: LocalStack | None = None,
    ) -> None:
        self.folder = folder
        self.seed = seed
        self.dice = random.Random(f"{seed} arena")
        self.happenings: list[Happening] = []
        self.hosts: list[HostProcess] = []
        self.streams: dict[str, Stream] = {}
        self.reached = Reached()
        # topic → partition → where retention ended
        self.gone: dict[str, dict[int, int]] = {}
        self.forgiven: dict[str, set[str]] = {}
        self.points = CrashPoints(folder / "drill")
        self._rate, self.interval_ms = rate, interval_ms
        self._stack = stack or LocalStack(folder)
        self._keeper = watcher.start_keeper(folder, remove=temporary)
        self._lock = threading.Lock()  # guards the hosts, and what happened
        self._mending = threading.Lock()  # whoever ends everything waits for servers that are being restarted
        self._closed = False

    def up(self, report: Report) -> None:
        """Start servers, topics, producers and hosts."""
        self._stack = LocalStack(self.folder, report, wants_login=wants_login(Settings()))
        self.info: StackInfo = self._stack.up(die_with_parent=True)
        self.workbench = Workbench(Settings(state_dir=str(self.folder)))
        servers = self.workbench.servers
        for plan in PLANS:
            self._add(Stream(plan, servers.kafka, servers.registry, self.seed))
        self.ensure_hosts()
        for stream in self.streams.values():
            stream.begin(self._rate)
        for topic in self.streams:
            self.enable(topic)

    def _add(self, stream: Stream) -> None:
        topic = stream.plan.topic
        self.workbench.broker.ensure_topic(topic, stream.plan.partitions, {})
        self.streams[topic] = stream
        self.forgiven[topic], self.gone[topic] = set(), {}

    def enable(self, topic: str) -> None:
        """Make it a table topic with its plan's settings; raises as ``Workbench.enable``."""
        settings = self.settings(topic).model_dump(exclude_unset=True)
        self.workbench.enable(topic, {**settings, "commit_interval_ms": self.interval_ms})

    def sampler(self) -> Sampler:
        """A sampler of all topics' tables."""
        names = {topic: self.table_name(topic) for topic in self.streams}
        return Sampler(self.catalog_file, names, lambda topic: self.streams[topic].ends)

    def catalog(self) -> Catalog:
        """The catalog as another program opens it; it waits at most a second for a lock."""
        properties: dict[str, Any] = dict(self.info.catalog)
        properties["uri"] = properties["uri"].replace("timeout=30", f"timeout={_CATALOG_BUSY_S}")
        return load_catalog(**properties)

    @property
    def catalog_file(self) -> Path:
        """The SQLite file of the catalog."""
        return self.folder / "catalog.db"

    def table_name(self, topic: str) -> str:
        """The table of one of the topics."""
        return ".".join(table_identifier(topic, self.settings(topic)))

    def settings(self, topic: str) -> TopicSettings:
        """The settings of a topic's plan; snapshots are kept so briefly that some expire."""
        return TopicSettings(
            **{"time_travel_ms": 60_000, "keep_snapshots": 3, **self.streams[topic].plan.settings}
        )

    def verdict(self, topic: str, ends: Mapping[int, int]) -> TopicVerdict:
        """The verdict on a topic with these end offsets; raises what the catalog raises."""
        name, sent, forgiven = self.table_name(topic), self.streams[topic].sent, self.forgiven[topic]
        return judge(self.catalog(), name, topic, sent, ends, forgiven, self.gone[topic])

    def load(self, topic: str) -> Table:
        """The topic's table in its current state."""
        return self.catalog().load_table(self.table_name(topic))

    def note(
        self, what: str, target: str, detail: str = "", *, is_fault: bool = True, moved: tuple[str, ...] = ()
    ) -> Happening:
        """Record what happened."""
        happening = Happening(time.time(), what, target, detail, is_fault, moved)
        with self._lock:
            self.happenings.append(happening)
        return happening

    # -- hosts

    def ensure_hosts(self) -> None:
        """Start the missing hosts; none once everything ends, as a late fault may still want some."""
        with self._lock:
            while len(self.alive) < HOSTS and not self._closed:
                number = len(self.hosts) + 1
                environment = self.points.environment()
                self.hosts.append(HostProcess(self.folder, number, environment))

    @property
    def alive(self) -> list[HostProcess]:
        """Hosts that run, or are frozen."""
        return [host for host in self.hosts if host.is_alive]

    def some_host(self) -> HostProcess | None:
        """Any of them."""
        alive = self.alive
        return self.dice.choice(alive) if alive else None

    def busiest_host(self) -> tuple[HostProcess, tuple[str, ...]] | None:
        """The host that runs the most topics, and these, by the hosts' reports; None if none runs any."""
        host_of = {one.topic: one.host or "" for one in self.workbench.status()}
        shares = [
            (host, tuple(topic for topic, name in host_of.items() if f"-{host.pid}-" in name))
            for host in self.alive
        ]
        return max((share for share in shares if share[1]), key=lambda one: len(one[1]), default=None)

    def end(self, host: HostProcess, number: signal.Signals) -> None:
        """End a host by a signal, and wait until it has ended."""
        os.kill(host.pid, number)
        host.ending = True
        host.wait()

    def is_settled(self) -> bool:
        """Whether all hosts exist, each with a Spark that has run something."""
        return len(self.alive) == HOSTS and all(daemons_of(host) for host in self.alive)

    # -- servers

    def server_pid(self, name: str) -> int | None:
        """The current process of ``kafka`` or ``registry``."""
        info = self._stack.info()
        return info.pids.get(name) if info is not None else None

    def mend_servers(self) -> None:
        """Restart killed servers in place, unless everything ends."""
        with self._mending:
            if not self._closed:
                self._stack.up(die_with_parent=False)

    def close(self) -> None:
        """End everything; the folder stays. Idempotent."""
        with self._mending, self._lock:
            if self._closed:
                return
            self._closed = True
        for stream in self.streams.values():
            with contextlib.suppress(Exception):  # raised by `end` before, or another ended the drill
                stream.end()
        for host in self.alive:
            signal_tree(host.pid, signal.SIGCONT)
            host.ask_to_stop()
        for host in self.hosts:
            host.wait()
        self._stack.down()
        processes.stop([self._keeper], 10)


def tree(pid: int) -> list[psutil.Process]:
    """A process and its current descendants."""
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    return []


def signal_tree(pid: int, number: signal.Signals) -> int:
    """Send a signal to a process and its descendants; returns to how many."""
    return sum(processes.send(process, number) for process in tree(pid))


def java_of(host: HostProcess) -> list[psutil.Process]:
    """The JVM of a host's Spark."""
    return [one for one in tree(host.pid) if _is_called(one, "java")]


def daemons_of(host: HostProcess) -> list[psutil.Process]:
    """The daemons that fork Python workers below a host's JVM; none before its first task."""
    found: list[psutil.Process] = []
    for java in java_of(host):
        with contextlib.suppress(psutil.NoSuchProcess):
            found += java.children()
    return found


def workers_of(host: HostProcess) -> list[psutil.Process]:
    """Python workers below a host's JVM, without their daemon."""
    found: list[psutil.Process] = []
    for daemon in daemons_of(host):
        with contextlib.suppress(psutil.NoSuchProcess):
            found += daemon.children()
    return found


def _is_called(process: psutil.Process, name: str) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.name() == name
    return False
