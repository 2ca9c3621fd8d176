"""Secrets of the settings while a host works with them, and after its login was revoked."""

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import psutil
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from tabletopic_kernel.clients.kafka.broker import make_consumer
from tabletopic_kernel.local.stack import LocalStack, StackInfo
from tabletopic_kernel.model.topic_names import CONTROL_TOPIC, SETTINGS_TOPIC
from tests.faces.jupyter_server.test_server_processes import jupyter_process
from tests.faces.notebook.kernels import KERNELSPECS
from tests.integration.rows import field, record

pytestmark = pytest.mark.integration

MARK = "hunter2Marked"
TOPIC = "guarded"
_LIMIT_S = 240
V1 = record(field("id", "long"))
V2 = record(field("id", "long"), field("extra", ["null", "long"], default=None))


def _basic(login: str) -> str:
    return f"Basic {base64.b64encode(login.encode()).decode()}"


class Gate(ThreadingHTTPServer):
    """A registry behind a login: while open, requests with the right one reach the real registry."""

    daemon_threads = True

    def __init__(self, target: str, login: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.login = _basic(login)
        self.target = urlsplit(target)
        self.is_open = True
        self.asked: list[str] = []  # what was refused


class _Handler(BaseHTTPRequestHandler):
    server: Gate

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.server.is_open or self.headers.get("Authorization") != _basic(f"me:{MARK}"):
            self._refuse(body.decode(errors="replace"))
            return
        target = self.server.target
        connection = http.client.HTTPConnection(target.hostname or "", target.port, timeout=60)
        headers = {k: v for k, v in self.headers.items() if k.lower() in ("accept", "content-type")}
        headers["Authorization"] = self.server.login
        connection.request(self.command, target.path + self.path, body, headers)
        answer = connection.getresponse()
        self._answer(answer.status, answer.read())
        connection.close()

    def _refuse(self, body: str) -> None:
        """Respond as carelessly as a server can: with everything it was given."""
        self.server.asked.append(f"{self.command} {self.path}")
        told = f"no entry for {self.headers.get('Authorization')} at http://me:{MARK}@registry: {body}"
        said = " ".join(f"{name}: {text}" for name, text in self.headers.items())
        error = {"error_code": 40101, "message": told, "error_description": said, "error": {"message": told}}
        self._answer(401, json.dumps(error).encode())

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
    """A settings file with a secret wherever possible; most of them are never used."""
    login = "\n".join(f'"{name}" = "{value}"' for name, value in stack.kafka_login.items())
    (tmp_path / "tabletopic.toml").write_text(f"""
state_dir = "state"
[kafka]
"bootstrap.servers" = "{stack.bootstrap_servers}"
{login}
"ssl.key.password" = "{MARK}Key"
"ssl.keystore.password" = "{MARK}Keystore"
"sasl.oauthbearer.client.secret" = "{MARK}Oidc"
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
"s3.signer.token" = "{MARK}Signer"
"adls.sas-token" = "{MARK}Sas"
"adls.client-secret" = "{MARK}Client"
"hf.token" = "{MARK}Hf"
"glue.secret-access-key" = "{MARK}Glue"
"adls.account-key" = "{MARK}Adls"
"adls.connection-string" = "AccountName=a;AccountKey={MARK}Connection"
"adls.sas-token.acme.dfs.core.windows.net" = "sp=rw&sig={MARK}Lent"
"gcs.oauth2.token" = "{MARK}Gcs"
"header.Authorization" = "Bearer {MARK}Header"
[spark]
master = "local[2]"
[spark.conf]
"spark.hadoop.fs.s3a.secret.key" = "{MARK}Hadoop"
"spark.driver.extraJavaOptions" = "-Dmine.password={MARK}Java"
""")
    (tmp_path / "tmp").mkdir()
    return tmp_path


def _environment(folder: Path) -> dict[str, str]:
    """For processes that work with the folder's settings: their temporary files are in it."""
    ours = {name: text for name, text in os.environ.items() if not name.startswith("TABLETOPIC_S")}
    ours["TABLETOPIC_CONFIG"] = str(folder / "tabletopic.toml")  # named, so Spark's properties are trusted
    return {**ours, "TMPDIR": str(folder / "tmp"), "JUPYTER_RUNTIME_DIR": str(folder / "runtime")}


# One process for many: a start costs more than most commands.
_COMMANDS = """
import sys
from tabletopic_kernel.faces.cli import main
for line in sys.stdin.read().splitlines():
    print("-- command --", flush=True)
    sys.argv = ["tabletopic", *line.split("\\t")]
    try:
        main()
    except SystemExit:
        pass
"""


def _tabletopic(folder: Path, *commands: Sequence[str]) -> dict[str, str]:
    """The output of every command."""
    done = subprocess.run(
        [sys.executable, "-c", _COMMANDS], input="\n".join("\t".join(words) for words in commands),
        cwd=folder, env=_environment(folder), text=True, check=False, timeout=3 * _LIMIT_S,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    said = done.stdout.split("-- command --\n")[1:]
    assert len(said) == len(commands), done.stdout
    return {" ".join(words): one for words, one in zip(commands, said, strict=True)}


@contextlib.contextmanager
def _serving(folder: Path) -> Iterator[tuple[psutil.Popen, Path]]:
    """A host, and what it shows in its terminal."""
    out = folder / "terminal"
    with out.open("wb") as terminal:
        host = psutil.Popen(
            [sys.executable, "-m", "tabletopic_kernel.faces.cli", "serve"],
            cwd=folder, env=_environment(folder), stdout=terminal, stderr=subprocess.STDOUT,
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


def _in_a_notebook(folder: Path, topic: str) -> dict[str, str]:
    """Everything that a kernel sends to the page, by cell."""
    lines = ("status", "list", "info", f"plan {topic}", "enable other", f"schema {topic}", f"peek {topic}")
    cells = [
        "%load_ext tabletopic_kernel",
        *(f"%topic {words}" for words in lines),
        "%%lake\nSELECT * FROM no_such",
        "%%lake --engine athena\nSELECT 1",
        "from tabletopic_kernel import Workbench\nbench = Workbench()\nbench.servers",
        "bench, bench.settings",
        f"bench.topic({topic!r}).plan()",
        "%tb",
    ]
    told = {}
    with _kernel(folder) as (client, process):
        for cell in cells:
            said: list[str] = []
            reply = client.execute_interactive(
                cell, allow_stdin=False, timeout=_LIMIT_S,
                output_hook=lambda message, said=said: said.append(str(message["content"])),
            )  # fmt: skip
            told[f"notebook: {cell}"] = "\n".join([*said, str(reply["content"])])
        told["processes of the notebook"] = _given_to([process, *process.children(recursive=True)])
    return told | {"terminal of the kernel": (folder / "kernel").read_text()}


@contextlib.contextmanager
def _kernel(folder: Path) -> Iterator[tuple[Any, psutil.Process]]:
    """A kernel "Table Topic (PySpark)" and its process."""
    specs = KernelSpecManager(kernel_dirs=[str(KERNELSPECS)])
    manager = KernelManager(
        kernel_name="tabletopic", kernel_spec_manager=specs, connection_file=str(folder / "connection")
    )
    with (folder / "kernel").open("wb") as out:
        manager.start_kernel(cwd=str(folder), env=_environment(folder), stdout=out, stderr=subprocess.STDOUT)
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=_LIMIT_S)
        yield client, psutil.Process(manager.provisioner.pid)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _by_rest(stack: StackInfo, folder: Path, topic: str) -> dict[str, str]:
    """The Jupyter server's responses, logs, and environment for its children."""
    asked: list[tuple[str, str, object]] = [
        ("GET", "overview", None),
        ("GET", f"topics/{topic}", None),
        ("GET", f"topics/{topic}/schema", None),
        ("GET", f"topics/{topic}/events", None),
        ("GET", f"topics/{topic}/history", None),
        ("POST", f"topics/{topic}/plan", {}),
        ("PUT", "topics/other", {}),
        ("POST", f"topics/{topic}/replay/plan", {}),
        ("GET", "dashboard", None),
    ]
    told = {}
    named = {"TABLETOPIC_CONFIG": str(folder / "tabletopic.toml")}
    with jupyter_process(replace(stack, state_dir=folder / "state"), folder, **named) as server:
        for method, path, body in asked:
            status, answer = server.ask(method, f"tabletopic/api/{path}", body)
            told[f"{method} {path}"] = f"{status} {answer.decode()}"
        children = psutil.Process(server.process.pid).children(recursive=True)
        told["children of Jupyter"] = _given_to(children)
    told["log of Jupyter"] = (folder / "jupyter.log").read_text()
    return told


def _given_to(processes: Iterable[psutil.Process]) -> str:
    """Command lines, which all users see, and environments, which nobody but their user does."""
    told = []
    for process in processes:
        with contextlib.suppress(psutil.Error, FileNotFoundError):
            told.append(" ".join(process.cmdline()))
            environment = Path(f"/proc/{process.pid}/environ")
            assert stat.S_IMODE(environment.stat().st_mode) == 0o400
            told.append(environment.read_bytes().decode(errors="replace"))
    return "\n".join(told)


def _send(stack: StackInfo, topic: str, schema: str, value: dict[str, int]) -> None:
    # Without a limit a request that the registry loses would hang the test.
    with SchemaRegistryClient({"url": stack.registry_url, "timeout": 10, **stack.registry_login}) as registry:
        framed = AvroSerializer(registry, schema)(value, SerializationContext(topic, MessageField.VALUE))
    producer = Producer({"bootstrap.servers": stack.bootstrap_servers, **stack.kafka_login})
    producer.produce(topic, framed)
    assert producer.flush(60) == 0


def _raw(kafka: dict[str, str], topic: str) -> str:
    """All messages of a topic as they are on the broker."""
    consumer = make_consumer(kafka, group_id="secrets")
    found = []
    for partition in consumer.list_topics(topic, timeout=120).topics[topic].partitions:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=120)
        consumer.assign([TopicPartition(topic, partition, low)])
        while consumer.position([TopicPartition(topic, partition)])[0].offset < high:
            found += [str(one.value()) for one in consumer.consume(500, timeout=1)]
            if low == high:
                break
    consumer.close()
    return "\n".join(found)


def _shown(told: Mapping[str, str], *more: str) -> dict[str, str]:
    """The secrets in texts, with their context."""
    logins = (f"me:{MARK}", f"client:{MARK}Credential", f"client:{MARK}Oidc", f"me:{MARK}Proxy")
    secrets = (MARK, *more, *(base64.b64encode(login.encode()).decode().rstrip("=") for login in logins))
    return {
        where: text[max(0, at - 200) : at + 50]
        for where, text in told.items()
        for secret in secrets
        if (at := text.find(secret)) >= 0
    }


def _check_files(folder: Path) -> None:
    """No remaining file contains a secret, and nobody else has access to the state folder."""
    if (state := folder / "state").exists():
        assert stat.S_IMODE(state.stat().st_mode) == 0o700
    for file in (*(folder / "state").rglob("*"), *(folder / "tmp").rglob("*")):
        if file.is_file() and os.stat(file).st_size < 10 * 1024**2:
            assert MARK.encode() not in file.read_bytes(), file


_QUESTIONS: Final = (
    ["config"], ["config", "--json"], ["doctor"], ["doctor", "--json"], ["plan", TOPIC], ["enable", "other"],
    ["status"], ["status", "--json"], ["status", TOPIC], ["info"], ["events"], ["events", "--all", "--json"],
    ["peek", TOPIC], ["schema", TOPIC], ["logs"], ["--debug", "schema", TOPIC],
    ["query", f"SELECT '{{}}' FROM no_such_{TOPIC}"],
)  # fmt: skip


def test_no_secret_is_where_others_can_read_it(stack: StackInfo, gate: Gate, folder: Path) -> None:
    """Commands, notebooks, REST, events, logs, topics, processes, files: also when the login is refused."""
    kafka = {"bootstrap.servers": stack.bootstrap_servers, **stack.kafka_login}
    admin = AdminClient(kafka)
    admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(120)
    _send(stack, TOPIC, V1, {"id": 1})
    told = _tabletopic(folder, ["enable", TOPIC, "--commit-interval", "500ms"])
    assert "error" not in str(told), told
    with _serving(folder) as (host, terminal):
        _eventually(terminal.read_text, "Committed")
        told |= _tabletopic(folder, ["query", "--engine", "spark", f"SELECT * FROM no_such_{TOPIC}"])
        told["processes"] = _given_to([host, *host.children(recursive=True)])
        gate.is_open = False
        _send(stack, TOPIC, V2, {"id": 2, "extra": 7})
        _eventually(terminal.read_text, "refuses the login")
        told |= _tabletopic(folder, *_QUESTIONS)
        told |= _in_a_notebook(folder, TOPIC)
        told |= _by_rest(stack, folder, TOPIC)
        told["terminal"] = terminal.read_text()
    assert "org.apache.spark.deploy.SparkSubmit" in told["processes"]
    for where in ("status --json", "doctor", f"notebook: %topic plan {TOPIC}", f"POST topics/{TOPIC}/plan"):
        assert "refuses the login" in told[where]
    told["control topic"] = _raw(kafka, CONTROL_TOPIC)
    told["settings topic"] = _raw(kafka, SETTINGS_TOPIC)
    assert TOPIC in told["control topic"]
    for log in (*(folder / "state" / "logs").glob("*.log"), *(stack.state_dir / "logs").glob("*.log")):
        told[log.name] = log.read_text()
    assert {"kafka.log", "serve.log", "spark.log"} <= set(told)
    shown = _shown(told, kafka["sasl.password"])
    assert not shown, "\n".join(f"{where}: …{text}…" for where, text in shown.items())
    _check_files(folder)
    for state in (folder / "state", stack.state_dir):
        assert stat.S_IMODE(state.stat().st_mode) == 0o700


_PEM: Final = (
    f"-----BEGIN PRIVATE KEY-----\nMII{MARK}MIIEvQIBADANBgkq\n{MARK}Line\n-----END PRIVATE KEY-----\n"
)
_SQLITE: Final = {"name": "lake", "type": "sql", "uri": "sqlite:///catalog.db"}
_PLAINTEXT: Final = {"security.protocol": "SASL_PLAINTEXT"}
_CLOUD: Final = {"bearer.auth.logical.cluster": "a", "bearer.auth.identity.pool.id": "b"}
_KEYS: Final = ("access-key-id", "secret-access-key", "session-token")
# Logins that nobody takes, by what they are: the section of settings, and its properties. $GATE refuses all.
_REFUSED: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "a database": (
        "catalog",
        {"uri": f"postgresql+psycopg2://lake:{MARK}Pg@127.0.0.1:9/lake", "warehouse": "file:///tmp/none"},
    ),
    "a database's options": (
        "catalog",
        {"uri": f"postgresql+psycopg2://127.0.0.1:9/x?password={MARK}Pg", "warehouse": "file:///tmp/none"},
    ),
    "a REST catalog": ("catalog", {"type": "rest", "uri": "$GATE", "credential": f"client:{MARK}Credential"}),
    "a REST catalog's token": (
        "catalog",
        {"type": "rest", "uri": "$GATE", "token": f"{MARK}Token", "header.X-Api-Key": f"{MARK}Header"},
    ),
    "Glue": (
        "catalog",
        {"type": "glue", "glue.endpoint": "$GATE", "glue.region": "eu-west-1"}
        | {f"glue.{name}": f"{MARK}{name}" for name in _KEYS},
    ),
    "S3": (
        "catalog",
        {**_SQLITE, "warehouse": "s3://lake/x", "s3.endpoint": "$GATE", "s3.region": "eu-west-1"}
        | {f"s3.{name}": f"{MARK}{name}" for name in _KEYS},
    ),
    "a broker": (
        "kafka",
        {**_PLAINTEXT, "sasl.mechanisms": "PLAIN", "sasl.username": "me", "sasl.password": f"{MARK}Sasl"},
    ),
    "a broker's OIDC": (
        "kafka",
        {
            **_PLAINTEXT,
            "sasl.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "client",
            "sasl.oauthbearer.client.secret": f"{MARK}Oidc",
            "sasl.oauthbearer.token.endpoint.url": "$GATE/token",
        },
    ),
    "a key": (
        "kafka",
        {"security.protocol": "SSL", "ssl.key.pem": _PEM, "ssl.key.password": f"{MARK}Key"},
    ),
    "a registry's token": (
        "registry",
        {
            **_CLOUD,
            "url": "$GATE",
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": f"{MARK}Bearer",
        },
    ),
    "a registry's OIDC": (
        "registry",
        {
            **_CLOUD,
            "url": "$GATE",
            "bearer.auth.credentials.source": "OAUTHBEARER",
            "bearer.auth.client.id": "client",
            "bearer.auth.client.secret": f"{MARK}Oidc",
            "bearer.auth.scope": "x",
            "bearer.auth.issuer.endpoint.url": "$GATE/token",
        },
    ),
}
_MORE: Final = {
    "a database": ["query", "--engine", "spark", "SELECT * FROM a"],
    "Glue": ["query", "--engine", "athena", "SELECT 1"],
}


def _refused_folder(kind: str, stack: StackInfo, gate: Gate, folder: Path) -> Path:
    """Settings with one login that is rejected."""
    section, wrong = _REFUSED[kind]
    sections: dict[str, dict[str, str]] = {
        "kafka": stack.kafka_login,
        "registry": {"url": stack.registry_url, **stack.registry_login},
        "catalog": {**_SQLITE, "warehouse": f"file://{folder}/warehouse"},
        "spark": {"master": "local[1]"},
    }
    sections[section] = wrong
    sections["kafka"] = {"bootstrap.servers": stack.bootstrap_servers, **sections["kafka"]}
    text = 'state_dir = "state"\n'
    for name, properties in sections.items():
        text += f"[{name}]\n" + "".join(f'"{key}" = {json.dumps(one)}\n' for key, one in properties.items())
    (folder / "tmp").mkdir(parents=True)
    (folder / "tabletopic.toml").write_text(text.replace("$GATE", f"http://127.0.0.1:{gate.server_port}"))
    return folder


def test_servers_that_refuse_give_no_secret_away(
    stack: StackInfo, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each kind of login is wrong once: what commands say of it, and the files that are left."""
    gate.is_open = False
    monkeypatch.setenv("AWS_ENDPOINT_URL_ATHENA", f"http://127.0.0.1:{gate.server_port}")
    usual = [["doctor"], ["enable", "refused"], ["status", "--json"], ["--debug", "list"]]
    usual += [["query", "SELECT * FROM a"]]

    def of(kind: str) -> dict[str, str]:
        folder = _refused_folder(kind, stack, gate, tmp_path / kind)
        told = _tabletopic(folder, *usual, *([_MORE[kind]] if kind in _MORE else []))
        _check_files(folder)
        return told

    with ThreadPoolExecutor(4) as pool:  # they wait most of the time
        told = dict(zip(_REFUSED, pool.map(of, _REFUSED), strict=True))
    shown = _shown({f"{kind}: {words}": one for kind, said in told.items() for words, one in said.items()})
    assert not shown, "\n".join(f"{where}: …{text}…" for where, text in shown.items())
    for kind, said in told.items():  # none of these logins was taken
        assert "fail" in said["doctor"], (kind, said)
    asked = {line.partition("?")[0] for line in gate.asked}
    assert asked >= {"POST /token", "GET /v1/config", "GET /subjects"}
    assert "Athena failed" in str(told["Glue"])


def test_other_programs_are_given_the_secrets_on_demand(stack: StackInfo, folder: Path) -> None:
    """`info --json` has what clients need, and the URL of the registry also without its login."""
    (raw,) = _tabletopic(folder, ["info", "--json"]).values()
    told = json.loads(raw)
    assert told["kafka"]["sasl.password"] == stack.kafka_login["sasl.password"]
    assert told["catalog"]["properties"]["token"] == f"{MARK}Token"
    assert MARK in told["registry"]["url"]
    assert MARK not in told["registry_url"]
