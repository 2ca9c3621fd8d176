"""Kafka Connect with Debezium: reads PostgreSQL's changes, and writes them to topics."""

from __future__ import annotations

import http.client
import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tabletopic_kernel.clients.kafka.java_properties import java_properties
from tabletopic_kernel.demo.change_data import postgres
from tabletopic_kernel.demo.change_data.postgres import Postgres
from tabletopic_kernel.local import machine, processes
from tabletopic_kernel.local.java import jars, jvm
from tabletopic_kernel.local.progress import Report, silent
from tabletopic_kernel.model.errors import StackError
from tabletopic_kernel.workbench.config.servers import Servers

Config = Mapping[str, str]
_HERE = Path(__file__).parent
JARS = jars.JarSet(
    "debezium", _HERE / "debezium.xml", _HERE / "debezium.sha256", ("connect", "plugin", "avro"), 45_000_000
)
_MAIN = "org.apache.kafka.connect.cli.ConnectStandalone"
_JSON = "org.apache.kafka.connect.json"
_JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError")
_START_LIMIT_S = 240  # six seconds on an idle laptop


def debezium(database: Postgres, name: str, tables: str, more: Config) -> dict[str, str]:
    """A connector for these tables (``public.orders,public.items``); its topics begin with ``name``."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "database.hostname": machine.LOOPBACK,
        "database.port": str(database.port),
        "database.user": postgres.USER,
        "database.password": database.password,
        "database.dbname": "postgres",
        "topic.prefix": name,
        "slot.name": name,
        "publication.name": name,
        "publication.autocreate.mode": "filtered",
        "table.include.list": tables,
        "skipped.operations": "none",  # by default no TRUNCATE is sent
        "heartbeat.interval.ms": "1000",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.default.partitions": "3",
        **more,
    }


def avro(registry: Mapping[str, str]) -> dict[str, str]:
    """A connector's settings for keys and values in Avro by schema id, with an Apicurio registry."""
    user, _, password = registry.get("basic.auth.user.info", "").partition(":")
    login = {"apicurio.auth.username": user, "apicurio.auth.password": password} if user else {}
    options = {
        "": "io.apicurio.registry.utils.converter.AvroConverter",
        ".apicurio.registry.url": registry["url"].replace("/apis/ccompat/v7", "/apis/registry/v2"),
        ".apicurio.registry.auto-register": "true",
        ".apicurio.registry.as-confluent": "true",
        ".apicurio.registry.use-id": "contentId",
        ".apicurio.registry.headers.enabled": "false",
        **{f".{key}": value for key, value in login.items()},
    }
    sides = {f"{side}.converter{key}": text for side in ("key", "value") for key, text in options.items()}
    return sides | {"schema.name.adjustment.mode": "avro", "field.name.adjustment.mode": "avro"}


class Connect:
    """One worker in ``folder`` with these connectors, from ``with`` on; what it has read is kept there.

    Raises StackError: its jars cannot be had, it does not start, or a connector fails.
    """

    def __init__(
        self, folder: Path, servers: Servers, connectors: Mapping[str, Config], report: Report = silent
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._connectors = folder, connectors
        self._java = [str(jvm.java()), *jvm.trust_store_options()]
        self._installed = jars.install(self._java, report, JARS)
        self._port = machine.free_port(set())
        self._process: subprocess.Popen[bytes] | None = None
        self._write(servers)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, and wait until its connectors read the database."""
        names = [f"{name}.json" for name in self._connectors]
        with (self.folder / "connect.log").open("ab") as log:
            class_path = str(self._installed.folder / "connect" / "*")
            self._process = subprocess.Popen(
                [*self._java, *_JVM, "-cp", class_path, _MAIN, "worker.properties", *names],
                cwd=self.folder, env=processes.environment(), stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True,
                preexec_fn=processes.end_with_us,  # noqa: PLW1509 - one call of the system
            )  # fmt: skip
        deadline = time.monotonic() + _START_LIMIT_S
        while not all(self._is_running(name) for name in self._connectors):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise StackError(f"Kafka Connect did not start: {self._words()}")
            time.sleep(0.2)

    def kill(self) -> None:
        """``kill -9``; what it had read since its last note of the place, it sends again. Idempotent."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def check(self) -> None:
        """Raise StackError if a connector has failed."""
        for name in self._connectors:
            self._is_running(name)

    def _is_running(self, name: str) -> bool:
        connection = http.client.HTTPConnection(machine.LOOPBACK, self._port, timeout=10)
        try:
            connection.request("GET", f"/connectors/{name}/status")
            status = json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException, ValueError):
            return False
        finally:
            connection.close()
        tasks = status.get("tasks", [])
        for part in (status.get("connector", {}), *tasks):
            if part.get("state") == "FAILED":
                raise StackError(f"The connector {name} failed: {part.get('trace', '')}")
        return bool(tasks) and all(task["state"] == "RUNNING" for task in tasks)

    def _words(self) -> str:
        log = self.folder / "connect.log"
        return f"its last lines, all of them in {log}:\n{machine.tail(log, 15)}"

    def _write(self, servers: Servers) -> None:
        plugins = self.folder / "plugins"
        plugins.mkdir(exist_ok=True)
        (debezium_plugin,) = (path for path in (self._installed.folder / "plugin").iterdir() if path.is_dir())
        for name, target in (("debezium", debezium_plugin), ("avro", self._installed.folder / "avro")):
            (plugins / name).unlink(missing_ok=True)
            (plugins / name).symlink_to(target)
        login = java_properties(servers.kafka)
        clients = ("", "producer.", "consumer.", "admin.")
        lines = {
            **{f"{client}{key}": value for client in clients for key, value in login.items()},
            # A connector's own converters take precedence; these write JSON with its schema.
            **{f"{side}.converter": f"{_JSON}.JsonConverter" for side in ("key", "value")},
            "plugin.path": str(plugins),
            "listeners": f"http://{machine.LOOPBACK}:{self._port}",
            "offset.storage.file.filename": str(self.folder / "offsets"),
            "offset.flush.interval.ms": "1000",
            "topic.creation.enable": "true",
        }
        text = "".join(f"{key}={value}\n" for key, value in lines.items())
        machine.write_whole(self.folder / "worker.properties", text)
        for name, config in self._connectors.items():
            machine.write_whole(self.folder / f"{name}.json", json.dumps({"name": name, "config": config}))
