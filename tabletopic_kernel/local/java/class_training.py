"""Programs that load what a table topic needs, for ``class_archive``: run as a separate program."""

from __future__ import annotations

import secrets
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tabletopic_kernel.clients.spark.launch import java_option
from tabletopic_kernel.clients.spark.session import SparkPlace, start_spark
from tabletopic_kernel.clients.spark.warm_up import warm_up_source, warm_up_workers
from tabletopic_kernel.local import machine, processes
from tabletopic_kernel.local.java import jvm
from tabletopic_kernel.local.servers import broker, registry_server
from tabletopic_kernel.local.servers.broker import Broker
from tabletopic_kernel.local.servers.registry_server import RegistryServer
from tabletopic_kernel.model.errors import StackError
from tabletopic_kernel.model.settings.cluster import SparkSettings

# For each step; all together take less than ``class_archive`` waits.
_LIMIT_S = 500
# No broker listens there, and no timeout is waited for.
_NOWHERE = {
    "kafka.bootstrap.servers": "127.0.0.1:1",
    "kafka.default.api.timeout.ms": "500",
    "kafka.request.timeout.ms": "400",
    "fetchOffset.numRetries": "0",
    "subscribe": "t",
    "startingOffsets": "earliest",
}


def main(program: str, folder: Path, base: Path, archive: Path) -> None:
    """Use ``program`` for a while below ``folder``; its JVM writes ``archive`` as it ends."""
    train = {"spark": _train_spark, "kafka": _train_broker, "registry": _train_registry}[program]
    train(folder, base, archive)


def _train_spark(folder: Path, base: Path, archive: Path) -> None:
    java_home = jvm.spark_java_home(folder, base)
    conf = {"spark.driver.extraJavaOptions": java_option(f"-XX:ArchiveClassesAtExit={archive}")}
    place = SparkPlace(str(java_home), tuple(map(str, jvm.spark_jars())), folder / "logs", is_host=True)
    catalog = {
        "name": "lake",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/warehouse",
    }
    session = start_spark(SparkSettings(master="local[2]", conf=conf), place, catalog)
    gateway: Any = session.sparkContext._gateway
    warm_up_workers(session)
    warm_up_source(session, _NOWHERE)
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_LIMIT_S)


def _train_broker(folder: Path, base: Path, archive: Path) -> None:
    _train_server(Broker(folder / broker.NAME, _ports(broker.PORTS), secrets.token_hex()), base, archive)


def _train_registry(folder: Path, base: Path, archive: Path) -> None:
    ports = _ports(registry_server.PORTS)
    _train_server(RegistryServer(folder / registry_server.NAME, ports, secrets.token_hex()), base, archive)


def _ports(uses: tuple[str, ...]) -> dict[str, int]:
    ports: dict[str, int] = {}
    for use in uses:
        ports[use] = machine.free_port(set(ports.values()))
    return ports


def _train_server(server: Broker | RegistryServer, base: Path, archive: Path) -> None:
    installed = jvm.install()
    server.prepare(installed)
    java, *words = server.command(installed, processes.mark(f"{server.name}-training", server.folder))
    options = [f"-XX:SharedArchiveFile={base}", f"-XX:ArchiveClassesAtExit={archive}"]
    jvm_process = subprocess.Popen([java, *options, *words], cwd=server.folder, env=processes.environment())
    try:
        ends_at = time.monotonic() + _LIMIT_S
        while not server.is_ready():
            if jvm_process.poll() is not None or time.monotonic() > ends_at:
                raise StackError(f"The {server.name} server did not start")
            time.sleep(0.1)
        jvm_process.terminate()
        jvm_process.wait(_LIMIT_S)
    finally:
        jvm_process.kill()


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
