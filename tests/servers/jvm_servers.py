"""Catalogs that run in a JVM: Iceberg's reference REST server, Nessie, and Hive's metastore.

Their files come from Maven Central by the product's own download of jars, into the same cache.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Self

from tabletopic_kernel.local import machine, processes
from tabletopic_kernel.local.java import jars, jvm
from tests.servers.aws import DIE_WITH_PARENT, Aws

_HERE = Path(__file__).parent
_SETS = {
    name: jars.JarSet(f"tests-{name}", _HERE / "ivy.xml", _HERE / "jars.sha256", configurations, size)
    for name, configurations, size in (
        ("rest", ("rest",), 160_000_000),
        ("hive", ("hive", "hive-scripts"), 112_000_000),
        ("nessie", ("nessie",), 246_000_000),
    )
}
_START_S = 240  # a busy machine needs ten times as long as a quiet one


class JvmServer:
    """Runs in ``folder`` from ``with`` on, on a free port; may be stopped and restarted there."""

    jars_of: str

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = machine.free_port(set())
        java = [str(jvm.java()), *jvm.trust_store_options()]
        self.installed = jars.install(java, lambda _: None, _SETS[self.jars_of])
        self._process: subprocess.Popen[bytes] | None = None

    def options(self) -> list[str]:
        """The command line after the JVM's own options."""
        raise NotImplementedError

    def variables(self) -> dict[str, str]:
        """Added to the environment."""
        return {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it, and wait until it listens."""
        with (self.folder / "log.txt").open("ab") as log:
            self._process = subprocess.Popen(
                [*DIE_WITH_PARENT, *self.command(self.options())],
                cwd=self.folder,
                env=processes.environment() | self.variables(),
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + _START_S
        while not machine.is_listening(self.port):
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.1)

    def stop(self) -> None:
        """Kill it; its data stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def log(self) -> str:
        """The end of its output."""
        return (self.folder / "log.txt").read_text("utf-8", "replace")[-3000:]

    def class_path(self, configuration: str) -> str:
        """The jars of one configuration."""
        return os.pathsep.join(map(str, self.installed.of(configuration)))

    def command(self, options: list[str]) -> list[str]:
        """The JVM with these options, small."""
        small = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return [str(jvm.java()), *small, *options]


class ReferenceRest(JvmServer):
    """Iceberg's own REST server over a SQLite catalog; tables are in ``folder``, or on S3 with ``aws``.

    It listens on all interfaces: only its connector's port is configurable (``rest.port``).
    """

    jars_of = "rest"

    def __init__(self, folder: Path, aws: Aws | None = None, bucket: str = "") -> None:
        super().__init__(folder)
        self._aws = aws
        self.warehouse = f"s3://{bucket}/rest" if aws else f"file://{folder}/warehouse"

    @property
    def uri(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def options(self) -> list[str]:
        """Its main class."""
        return ["-cp", self.class_path("rest"), "org.apache.iceberg.rest.RESTCatalogServer"]

    def variables(self) -> dict[str, str]:
        """Its settings: one underscore for a dot, two for a hyphen."""
        settings = {
            "uri": f"jdbc:sqlite:{self.folder}/catalog.db?busy_timeout=30000",
            "warehouse": self.warehouse,
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "catalog.name": "lake",
            "jdbc.schema-version": "V1",
            "rest.port": str(self.port),
        }
        if self._aws is not None:
            properties = self._aws.properties()
            settings |= {
                "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
                "client.region": properties["s3.region"],
                "s3.path-style-access": "true",
                **{
                    key: properties[key]
                    for key in ("s3.endpoint", "s3.access-key-id", "s3.secret-access-key")
                },
            }
        return {
            f"CATALOG_{key.upper().replace('-', '__').replace('.', '_')}": value
            for key, value in settings.items()
        }


class Nessie(JvmServer):
    """Nessie with its tables on S3, in memory: its data ends with it."""

    jars_of = "nessie"

    def __init__(self, folder: Path, aws: Aws, bucket: str) -> None:
        super().__init__(folder)
        self._aws = aws
        self._bucket = bucket

    @property
    def uri(self) -> str:
        """Where its Iceberg REST interface answers."""
        return f"http://127.0.0.1:{self.port}/iceberg/"

    def options(self) -> list[str]:
        """Its settings, and its single jar."""
        properties = self._aws.properties()
        s3 = "nessie.catalog.service.s3.default-options"
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": str(self.port),
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": str(machine.free_port({self.port})),
            "nessie.version.store.type": "IN_MEMORY",
            "nessie.catalog.default-warehouse": "wh",
            "nessie.catalog.warehouses.wh.location": f"s3://{self._bucket}/nessie/",
            f"{s3}.region": properties["s3.region"],
            f"{s3}.endpoint": properties["s3.endpoint"],
            f"{s3}.path-style-access": "true",
            f"{s3}.access-key": "urn:nessie-secret:quarkus:lake-secrets.nk",
            "lake-secrets.nk.name": properties["s3.access-key-id"],
            "lake-secrets.nk.secret": properties["s3.secret-access-key"],
        }
        (jar,) = self.installed.of("nessie")
        return [*(f"-D{key}={value}" for key, value in settings.items()), "-jar", str(jar)]


class HiveMetastore(JvmServer):
    """Hive Metastore 3.1.3 with Derby; its warehouse is ``folder``/warehouse.

    It listens on all interfaces: this version has no ``metastore.thrift.bind.host``.
    """

    jars_of = "hive"

    @property
    def uri(self) -> str:
        """Where it answers."""
        return f"thrift://127.0.0.1:{self.port}"

    @property
    def warehouse(self) -> str:
        """The folder of its tables."""
        return f"file:{self.folder}/warehouse"

    def start(self) -> None:
        """Start it; its schema is created on the first start."""
        if not (self.folder / "hive-site.xml").exists():
            self._prepare()
        super().start()

    def options(self) -> list[str]:
        """Its main class and port."""
        main = "org.apache.hadoop.hive.metastore.HiveMetaStore"
        return [*self._java_options(), main, "-p", str(self.port)]

    def _java_options(self) -> list[str]:
        # It reaches into classes that later versions of Java have closed.
        opened = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("net", "lang", "util")]
        logs = f"-Dderby.stream.error.file={self.folder}/derby.log"
        return [*opened, logs, "-cp", f"{self.folder}{os.pathsep}{self.class_path('hive')}"]

    def _prepare(self) -> None:
        properties = {
            "metastore.warehouse.dir": self.warehouse,
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={self.folder}/derby;create=true",
            "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
            "metastore.schema.verification": "false",
            # The defaults are classes of Hive itself.
            "metastore.expression.proxy": "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy",
            "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
        }
        lines = (
            f"<property><name>{key}</name><value>{value}</value></property>"
            for key, value in properties.items()
        )
        site = self.folder / "hive-site.xml"
        site.write_text(f"<configuration>\n{''.join(lines)}\n</configuration>\n", "utf-8")
        (home,) = self.installed.folder.glob("hive-scripts/apache-hive-metastore-*")
        tool = "org.apache.hadoop.hive.metastore.tools.MetastoreSchemaTool"
        done = subprocess.run(
            self.command([*self._java_options(), tool, "-initSchema", "-dbType", "derby"]),
            cwd=self.folder,
            env=processes.environment() | {"METASTORE_HOME": str(home)},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, (done.stdout + done.stderr).decode()[-3000:]
