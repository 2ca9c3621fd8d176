"""The oldest broker that is promised to work, Kafka 2.8 with ZooKeeper, and one with even fewer features.

``PlainListener`` is a proxy that hides the optional parts of Kafka's protocol: other brokers speak the
protocol without these.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tabletopic_kernel.local import machine, processes
from tabletopic_kernel.local.java import jars, jvm
from tests.servers.aws import DIE_WITH_PARENT

_HERE = Path(__file__).parent
_JARS = jars.JarSet(
    "tests-kafka", _HERE / "old_kafka.xml", _HERE / "old_kafka.sha256", ("kafka",), 31_000_000
)
_ZOOKEEPER = """\
dataDir={folder}/zookeeper
clientPort={port}
clientPortAddress=127.0.0.1
admin.enableServer=false
maxClientCnxns=0
"""
_KAFKA = """\
broker.id=1
zookeeper.connect=127.0.0.1:{zookeeper}
listeners=PLAINTEXT://127.0.0.1:{port},PLAIN://127.0.0.1:{behind}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},PLAIN://127.0.0.1:{proxy}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,PLAIN:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={folder}/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""
_API_VERSIONS, _UNSUPPORTED = 18, 35
# Of requests: the highest version of a broker that knows no topic ids and no newest timestamp.
_HIGHEST = {1: 12, 2: 6, 3: 9, 20: 5}  # Fetch, ListOffsets, Metadata, DeleteTopics
# DescribeCluster, DescribeProducers and what came later, heartbeats of KIP-848 and topics in pages among it.
_HIDDEN_FROM = 60


Pump = Callable[[bytes, socket.socket, socket.socket, set[int]], None]


class PlainListener:
    """Proxies a broker's listener on ``port``, as a broker without optional APIs."""

    def __init__(self, target: int, port: int) -> None:
        self._target = target
        self._server = socket.create_server(("127.0.0.1", port))
        self.hidden = 0  # answers that were changed

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="plain listener", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
                broker = socket.create_connection(("127.0.0.1", self._target))
            except OSError:  # one of both has ended
                return
            asked: set[int] = set()
            for run, source, sink in ((self._ask, client, broker), (self._answer, broker, client)):
                threading.Thread(target=self._until_end, args=(run, source, sink, asked), daemon=True).start()

    def _until_end(self, run: Pump, source: socket.socket, sink: socket.socket, asked: set[int]) -> None:
        with contextlib.suppress(OSError):
            while (frame := _frame(source)) is not None:
                run(frame, source, sink, asked)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _ask(self, frame: bytes, client: socket.socket, broker: socket.socket, asked: set[int]) -> None:
        key, version, correlation = struct.unpack_from(">hhi", frame)
        if key == _API_VERSIONS and version > 0:  # clients ask again by version 0, which is easy to change
            _send(client, struct.pack(">ihihhh", correlation, _UNSUPPORTED, 1, _API_VERSIONS, 0, 0))
            return
        if key == _API_VERSIONS:
            asked.add(correlation)
        _send(broker, frame)

    def _answer(self, frame: bytes, _: socket.socket, client: socket.socket, asked: set[int]) -> None:
        (correlation,) = struct.unpack_from(">i", frame)
        if correlation in asked:
            asked.discard(correlation)
            error, count = struct.unpack_from(">hi", frame, 4)
            known = [struct.unpack_from(">hhh", frame, 10 + 6 * one) for one in range(count)]
            kept = [
                (key, low, min(high, _HIGHEST.get(key, high)))
                for key, low, high in known
                if key < _HIDDEN_FROM
            ]
            frame = struct.pack(">ihi", correlation, error, len(kept))
            frame += b"".join(struct.pack(">hhh", *one) for one in kept)
            self.hidden += 1
        _send(client, frame)


def _frame(source: socket.socket) -> bytes | None:
    head = _exactly(source, 4)
    return None if head is None else _exactly(source, *struct.unpack(">i", head))


def _exactly(source: socket.socket, count: int) -> bytes | None:
    found = bytearray()
    while len(found) < count:
        if not (part := source.recv(count - len(found))):
            return None
        found += part
    return bytes(found)


def _send(sink: socket.socket, frame: bytes) -> None:
    sink.sendall(struct.pack(">i", len(frame)) + frame)


class OldKafka:
    """A broker in ``folder`` from ``with`` on; at ``plain_address`` it lacks optional APIs."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        ports: list[int] = []
        for _ in range(4):
            ports.append(machine.free_port(set(ports)))
        self._zookeeper, self._port, behind, proxy = ports
        self.address, self.plain_address = f"127.0.0.1:{self._port}", f"127.0.0.1:{proxy}"
        self.listener = PlainListener(behind, proxy)
        names = {"folder": folder, "zookeeper": self._zookeeper, "behind": behind, "proxy": proxy}
        (folder / "zookeeper.properties").write_text(_ZOOKEEPER.format(folder=folder, port=self._zookeeper))
        (folder / "kafka.properties").write_text(_KAFKA.format(port=self._port, **names))
        self._processes: list[subprocess.Popen[bytes]] = []

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic."""
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result()

    def delete_topic(self, topic: str) -> None:
        """Delete a topic, and wait until it is gone."""
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        admin.delete_topics([topic])[topic].result()
        deadline = time.monotonic() + 60
        while topic in admin.list_topics(timeout=60).topics:
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def __enter__(self) -> Self:
        self._start("org.apache.zookeeper.server.quorum.QuorumPeerMain", "zookeeper")
        self._until(lambda: machine.is_listening(self._zookeeper))
        self._start("kafka.Kafka", "kafka")
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})

        def answers() -> bool:
            try:
                return bool(admin.list_topics(timeout=1).brokers)
            except KafkaException:
                return False

        self._until(answers)
        self.listener.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.__exit__()
        for process in reversed(self._processes):
            process.kill()
            process.wait()

    def _start(self, main: str, name: str) -> None:
        java = [str(jvm.java()), *jvm.trust_store_options()]
        found = jars.install(java, lambda _: None, _JARS).of("kafka")
        options = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command = [str(jvm.java()), *options, "-cp", os.pathsep.join(map(str, found)), main]
        with (self._folder / f"{name}.txt").open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [*DIE_WITH_PARENT, *command, f"{name}.properties"],
                    cwd=self._folder,
                    env=processes.environment(),
                    stdout=log,
                    stderr=log,
                )
            )

    def _until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 240
        while not done():
            logs = "".join(path.read_text()[-3000:] for path in self._folder.glob("*.txt"))
            assert all(process.poll() is None for process in self._processes), logs
            assert time.monotonic() < deadline, logs
            time.sleep(0.1)
