"""Kafka: one KRaft node as broker and controller, for this machine only."""

from __future__ import annotations

import base64
import contextlib
import logging
import os
import shutil
import subprocess
import uuid
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tabletopic_kernel.local import machine, processes, state
from tabletopic_kernel.local.java import jvm
from tabletopic_kernel.local.java.jars import Jars
from tabletopic_kernel.local.machine import write_whole
from tabletopic_kernel.model.errors import StackError

NAME = "kafka"
PORTS = ("client", "controller")
LOG = "kafka.log"
_FORMAT_LIMIT_S = 120  # it takes 1 s

# Paths in them are relative to the server's folder: Kafka splits log.dirs at commas, and Java's properties
# treat backslashes specially, so the path of the state folder is never written to a file.
_TEMPLATES = Path(__file__).parent

_quiet = logging.Logger("tabletopic.local.servers.broker.probe")
_quiet.addHandler(logging.NullHandler())


class Broker:
    """The broker with data in ``folder``, on ``numbers["client"]`` and ``numbers["controller"]``.

    With a ``password`` it requires a login from clients and from its own controller.
    """

    name = NAME

    def __init__(self, folder: Path, numbers: dict[str, int], password: str | None = None) -> None:
        self.folder = folder
        self.password = password
        self.ports = numbers
        self._probe: AdminClient | None = None

    @property
    def address(self) -> str:
        """The address for ``bootstrap.servers``."""
        return f"{machine.LOOPBACK}:{self.ports['client']}"

    def prepare(self, installed: Jars) -> None:
        """Write the configuration and, before the first start, format the data folder. Raises StackError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        protocol = "SASL_PLAINTEXT" if self.password else "PLAINTEXT"
        template = (_TEMPLATES / "broker.properties").read_text("utf-8")
        if self.password:  # it does not require formatting the data folder again
            template += (_TEMPLATES / "broker_login.properties").read_text("utf-8")
        values = {"host": machine.LOOPBACK, "user": state.USER, "password": self.password, **self.ports}
        write_whole(self.folder / "server.properties", template.format(protocol=protocol, **values))
        write_whole(
            self.folder / "log4j2.properties", (_TEMPLATES / "broker_log4j2.properties").read_text("utf-8")
        )
        if not (self.folder / "data" / "meta.properties").exists():
            self._format(installed)

    def _format(self, installed: Jars) -> None:
        data = self.folder / "data"
        if data.exists() and any(data.iterdir()):
            raise StackError(
                f"{data} has files, but no meta.properties, without which Kafka does not start. Restore it, "
                "or move the folder away: then Kafka starts without topics."
            )
        # In a folder of its own, renamed when complete: an interrupted format leaves nothing behind.
        fresh = self.folder / "format"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        options = ["-Xmx128m", "-XX:TieredStopAtLevel=1", *_options("..")]
        # It would take an id that begins with a hyphen for an option.
        cluster_id = base64.urlsafe_b64encode(b"t" + uuid.uuid4().bytes[1:]).rstrip(b"=").decode()
        tool = ["kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", "../server.properties"]
        try:
            done = subprocess.run(
                [str(jvm.java()), *options, "-cp", _classpath(installed), *tool],
                cwd=fresh,
                env=processes.environment(),
                capture_output=True,
                text=True,
                check=False,
                timeout=_FORMAT_LIMIT_S,
            )
        except subprocess.TimeoutExpired:
            raise StackError(
                f"Kafka did not format {self.folder} within {_FORMAT_LIMIT_S} s; try again when this "
                "machine, or its disk, has less to do"
            ) from None
        if done.returncode != 0:
            raise StackError(f"Kafka could not format {self.folder}: {(done.stdout + done.stderr)[-2000:]}")
        (fresh / "data").rename(data)
        shutil.rmtree(fresh)

    def command(self, installed: Jars, its_mark: str) -> list[str]:
        """The command, to be run in ``folder``. Raises StackError if there is no suitable Java."""
        # Both compilers: the first alone starts it half a second earlier, but then each request costs twice
        # the CPU (measured with batches of 20 records; with large batches there is no difference).
        options = ["-Xmx512m", "-XX:+ExitOnOutOfMemoryError", *_options(".")]
        main = ["-cp", _classpath(installed), "kafka.Kafka", "server.properties"]
        return [str(jvm.java()), its_mark, *options, *main]

    def is_ready(self) -> bool:
        """Whether it responds and has an unfenced broker; takes half a second at most."""
        if self._probe is None:
            # Only now: librdkafka backs off after a refused connection, which would take longer.
            if not machine.is_listening(self.ports["client"]):
                return False
            settings: dict[str, str | int | float | bool] = {
                "bootstrap.servers": self.address,
                "log_level": 0,
                "reconnect.backoff.max.ms": 100,
                **(state.kafka_login(self.password) if self.password else {}),
            }
            self._probe = AdminClient(settings, logger=_quiet)
        with contextlib.suppress(KafkaException):
            return bool(self._probe.list_topics(timeout=0.5).brokers)
        return False


def _options(folder: str) -> list[str]:
    logs = f"-Dlog4j2.configurationFile={folder}/log4j2.properties"
    return ["-XX:+UseSerialGC", *jvm.archive_options(NAME), logs]


def _classpath(installed: Jars) -> str:
    return os.pathsep.join(map(str, installed.of("kafka")))
