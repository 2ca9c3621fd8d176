"""Secrets of the settings while a host works with them, and after its login was taken away."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tabletopic_kernel.clients.kafka.broker import make_consumer
from tabletopic_kernel.host.control_topic import CONTROL_TOPIC
from tabletopic_kernel.host.settings_topic import SETTINGS_TOPIC
from tabletopic_kernel.local.stack import LocalStack, StackInfo
from tests.integration.rows import field, record

pytestmark = pytest.mark.integration

MARK = "hunter2Marked"
_LIMIT_S = 240
V1 = record(field("id", "long"))
V2 = record(field("id", "long"), field("extra", ["null", "long"], default=None))


def _basic(login: str) -> str:
    return f"Basic {base64.b64encode(login.encode()).decode()}"


class Gate(ThreadingHTTPServer):
    """A registry behind a login: while it is open, requests with the right one go on to the real registry."""

    daemon_threads = True

    def __init__(self, target: str, login: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.login = _basic(login)
        self.target = urlsplit(target)
        self.is_open = True


class _Handler(BaseHTTPRequestHandler):
    server: Gate

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.server.is_open or self.headers.get("Authorization") != _basic(f"me:{MARK}"):
            quoted = f"no entry for {self.headers.get('Authorization')} at http://me:{MARK}@registry"
            self._answer(401, json.dumps({"error_code": 40101, "message": quoted}).encode())
            return
        target = self.server.target
        connection = http.client.HTTPConnection(target.hostname or "", target.port, timeout=60)
        headers = {k: v for k, v in self.headers.items() if k.lower() in ("accept", "content-type")}
        headers["Authorization"] = self.server.login
        connection.request(self.command, target.path + self.path, body, headers)
        answer = connection.getresponse()
        self._answer(answer.status, answer.read())
        connection.close()

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = _pass_on  # noqa: N815 - the standard library's names

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, class_archive: None) -> Iterator[StackInfo]:
    """Servers with a login, and without other hosts."""
    local = LocalStack(tmp_path_factory.mktemp("login"), wants_login=True)
    yield local.up(die_with_parent=True)
    local.down()


@pytest.fixture
def gate(stack: StackInfo) -> Iterator[Gate]:
    """In front of the stack's registry."""
    server = Gate(stack.registry_url, stack.registry_login["basic.auth.user.info"])
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    yield server
    server.shutdown()
    serving.join()
    server.server_close()


@pytest.fixture
def folder(stack: StackInfo, gate: Gate, tmp_path: Path) -> Path:
    """With a settings file that has a secret wherever one can be; most of them nobody asks for."""
    login = "\n".join(f'"{name}" = "{value}"' for name, value in stack.kafka_login.items())
    (tmp_path / "tabletopic.toml").write_text(f"""
state_dir = "state"
[kafka]
"bootstrap.servers" = "{stack.bootstrap_servers}"
{login}
"ssl.key.password" = "{MARK}Key"
[registry]
url = "http://me:{MARK}@127.0.0.1:{gate.server_port}"
[catalog]
name = "lake"
type = "sql"
uri = "sqlite:///{tmp_path}/catalog.db?timeout=30"
warehouse = "file://{tmp_path}/warehouse"
token = "{MARK}Token"
credential = "client:{MARK}Credential"
"s3.secret-access-key" = "{MARK}S3"
"s3.session-token" = "{MARK}Session"
"glue.secret-access-key" = "{MARK}Glue"
"adls.account-key" = "{MARK}Adls"
"gcs.oauth2.token" = "{MARK}Gcs"
"header.Authorization" = "Bearer {MARK}Header"
[spark]
master = "local[2]"
[spark.conf]
"spark.hadoop.fs.s3a.secret.key" = "{MARK}Hadoop"
"spark.driver.extraJavaOptions" = "-Dmine.password={MARK}Java"
""")
    return tmp_path


def _tabletopic(folder: Path, *words: str) -> str:
    """Everything that a command says."""
    command = [sys.executable, "-m", "tabletopic_kernel.faces.cli", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    return done.stdout + done.stderr


@contextlib.contextmanager
def _serving(folder: Path) -> Iterator[tuple[psutil.Popen, Path]]:
    """A host, and what it shows in its terminal."""
    out = folder / "terminal"
    with out.open("wb") as terminal:
        host = psutil.Popen(
            [sys.executable, "-m", "tabletopic_kernel.faces.cli", "serve"],
            cwd=folder, stdout=terminal, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            yield host, out
        finally:
            host.terminate()
            host.wait(_LIMIT_S)


def _eventually(told: Callable[[], str], *words: str) -> str:
    deadline = time.monotonic() + _LIMIT_S
    while not all(word in (text := told()) for word in words):
        assert time.monotonic() < deadline, text
        time.sleep(0.5)
    return text


def _send(stack: StackInfo, topic: str, schema: str, value: dict[str, int]) -> None:
    registry = SchemaRegistryClient({"url": stack.registry_url, **stack.registry_login})
    framed = AvroSerializer(registry, schema)(value, SerializationContext(topic, MessageField.VALUE))
    producer = Producer({"bootstrap.servers": stack.bootstrap_servers, **stack.kafka_login})
    producer.produce(topic, framed)
    assert producer.flush(60) == 0


def _raw(kafka: dict[str, str], topic: str) -> str:
    """All messages of a topic as they are on the broker."""
    consumer = make_consumer(kafka, group_id="secrets")
    found = []
    for partition in consumer.list_topics(topic, timeout=30).topics[topic].partitions:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        consumer.assign([TopicPartition(topic, partition, low)])
        while consumer.position([TopicPartition(topic, partition)])[0].offset < high:
            found += [str(one.value()) for one in consumer.consume(500, timeout=1)]
            if low == high:
                break
    consumer.close()
    return "\n".join(found)


def test_no_secret_is_where_others_can_read_it(stack: StackInfo, gate: Gate, folder: Path) -> None:
    """Commands, events, logs, topics, command lines, files: also when the login is refused."""
    kafka = {"bootstrap.servers": stack.bootstrap_servers, **stack.kafka_login}
    topic = "guarded"
    admin = AdminClient(kafka)
    admin.create_topics([NewTopic(topic, 1)])[topic].result(30)
    _send(stack, topic, V1, {"id": 1})
    told = {"enable": _tabletopic(folder, "enable", topic, "--commit-interval", "500ms")}
    assert "error" not in told["enable"], told["enable"]
    lines: set[str] = set()
    with _serving(folder) as (host, terminal):
        _eventually(terminal.read_text, "Committed")
        told["spark"] = _tabletopic(folder, "query", "--engine", "spark", f"SELECT * FROM no_such_{topic}")
        for process in [host, *host.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                lines.add(" ".join(process.cmdline()))
        gate.is_open = False
        _send(stack, topic, V2, {"id": 2, "extra": 7})
        _eventually(terminal.read_text, "refused to give")
        for words in (
            ["config"], ["config", "--json"], ["doctor"], ["doctor", "--json"], ["plan", topic],
            ["status"], ["status", "--json"], ["status", topic], ["info"], ["events"],
            ["events", "--all", "--json"], ["peek", topic], ["schema", topic],
            ["logs"], ["--debug", "schema", topic],
            ["query", f"SELECT '{{}}' FROM no_such_{topic}"],
        ):  # fmt: skip
            told[" ".join(words)] = _tabletopic(folder, *words)
        told["terminal"] = terminal.read_text()
    assert any("org.apache.spark.deploy.SparkSubmit" in line for line in lines)
    assert "refused to give" in told["status --json"]
    assert "refused to give" in told["doctor"]
    told["command lines"] = "\n".join(lines)
    told["control topic"] = _raw(kafka, CONTROL_TOPIC)
    told["settings topic"] = _raw(kafka, SETTINGS_TOPIC)
    for log in (folder / "state" / "logs").glob("*.log"):
        told[log.name] = log.read_text()
    shown = {
        where: text[max(0, at - 200) : at + 50]
        for where, text in told.items()
        for secret in (MARK, kafka["sasl.password"])
        if (at := text.find(secret)) >= 0
    }
    assert shown == {}
    assert stat.S_IMODE((folder / "state").stat().st_mode) == 0o700
    for file in (folder / "state").rglob("*"):
        if file.is_file() and os.stat(file).st_size < 10 * 1024**2:
            assert MARK.encode() not in file.read_bytes(), file


def test_other_programs_are_given_the_secrets_on_demand(stack: StackInfo, folder: Path) -> None:
    """`info --json` has what clients need, and the URL of the registry also without its login."""
    told = json.loads(_tabletopic(folder, "info", "--json"))
    assert told["kafka"]["sasl.password"] == stack.kafka_login["sasl.password"]
    assert told["catalog"]["properties"]["token"] == f"{MARK}Token"
    assert MARK in told["registry"]["url"]
    assert MARK not in told["registry_url"]
