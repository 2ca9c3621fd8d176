"""The login of the embedded servers."""

from __future__ import annotations

import itertools
import json
import os
import pwd
import stat
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tabletopic_kernel.clients.kafka.broker import Broker, make_consumer
from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.local import machine, state
from tabletopic_kernel.local.java.jars import Jars
from tabletopic_kernel.local.servers.broker import Broker as BrokerServer
from tabletopic_kernel.local.servers.registry_server import RegistryServer
from tabletopic_kernel.local.stack import LocalStack
from tabletopic_kernel.model.errors import SettingsError, StackError
from tabletopic_kernel.model.settings.sections import LocalSettings, Settings
from tabletopic_kernel.workbench.config import load_settings, wants_login
from tabletopic_kernel.workbench.config.servers import find_servers
from tests.environment import completed

HUB = {"JUPYTERHUB_USER": "me"}


@pytest.mark.parametrize(
    ("setting", "environ", "wanted"),
    [
        ("auto", {}, False),
        ("auto", HUB, True),
        ("auto", {"JUPYTERHUB_API_TOKEN": "x"}, True),
        ("auto", {"JUPYTERHUB_SERVICE_PREFIX": "/user/me/"}, True),
        ("on", {}, True),
        ("off", HUB, False),
    ],
)
def test_when_a_login_is_wanted(setting: str, environ: dict[str, str], wanted: bool) -> None:
    """On a machine of one's own other programs just connect; a Hub's users may share one."""
    settings = load_settings({"local.login": setting}, environ=environ, cwd=Path("/")).settings
    assert wants_login(settings, environ, lambda: False) is wanted


def _account(name: str, uid: int, shell: str = "/bin/bash") -> pwd.struct_passwd:
    return pwd.struct_passwd((name, "x", uid, uid, "", f"/home/{name}", shell))


@pytest.mark.parametrize(
    ("us", "accounts", "wanted"),
    [
        (0, [], False),
        (1000, [_account("ann", 1000)], False),
        (1000, [_account("ann", 1000), _account("postgres", 105)], False),
        (1000, [_account("ann", 1000), _account("ci", 1001, "/usr/sbin/nologin")], False),
        (1000, [_account("ann", 1000), _account("nobody", 65534, "/bin/sh")], False),
        (1000, [_account("ann", 1000), _account("bob", 1001)], True),
        (0, [_account("bob", 1001)], True),
        (4711, [], False),  # a container's user, whom nobody knows
        (70000, [], True),  # known, but not listed: from a directory
    ],
)
def test_people_who_can_log_in_are_a_reason(us: int, accounts: list[pwd.struct_passwd], wanted: bool) -> None:
    """Accounts of services, without a shell, and root, who may read everything anyway, are not."""
    known = [_account("root", 0), *accounts]
    names = {one.pw_uid: one.pw_name for one in known} | {70000: "carol"}
    settings = load_settings(environ={}, cwd=Path("/")).settings

    def has_others() -> bool:
        return machine.has_other_people(us, known, lambda uid: names.get(uid, str(uid)))

    assert wants_login(settings, {}, has_others) is wanted


def test_the_password_stays_and_is_private(tmp_path: Path) -> None:
    """Hosts outlive their servers and use it again; without its file the remedy is told."""
    with pytest.raises(SettingsError, match="'auto', 'on' or 'off'"):
        load_settings({"local.login": "maybe"}, environ={}, cwd=Path("/"))
    state.make_password(tmp_path)
    first = state.read_password(tmp_path)
    state.make_password(tmp_path)
    assert state.read_password(tmp_path) == first
    assert len(first) >= 32
    assert stat.S_IMODE((tmp_path / state.PASSWORD_FILE).stat().st_mode) == 0o600
    (tmp_path / state.PASSWORD_FILE).unlink()
    with pytest.raises(StackError, match="tabletopic down"):
        state.read_password(tmp_path)


@pytest.mark.parametrize("password", [None, "geheim"])
def test_only_private_files_hold_the_password(tmp_path: Path, password: str | None) -> None:
    """Neither command has it, and a start without a login takes it out of the files."""
    jars = Jars(tmp_path)
    (tmp_path / "kafka" / "data").mkdir(parents=True)
    (tmp_path / "kafka" / "data" / "meta.properties").touch()
    broker = BrokerServer(tmp_path / "kafka", {"client": 1, "controller": 2}, "geheim")
    registry = RegistryServer(tmp_path / "registry", {"http": 3}, "geheim")
    broker.prepare(jars)
    registry.prepare(jars)
    broker.password = registry.password = password
    broker.prepare(jars)
    registry.prepare(jars)
    for file in (tmp_path / "kafka/server.properties", tmp_path / "registry/config/application.properties"):
        assert ("geheim" in file.read_text()) is (password is not None)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = (tmp_path / "kafka/server.properties").read_text()
    kind = "SASL_PLAINTEXT" if password else "PLAINTEXT"
    assert f"listener.security.protocol.map=CLIENT:{kind},CONTROLLER:{kind}\n" in text
    assert "geheim" not in " ".join(registry.command(jars, "-Dmark"))


# --- with servers -----------------------------------------------------------------------------------------

# Another user of the machine: no way into the state folder, only the ports.
_STRANGER = """
import os, sys, json, urllib.request, urllib.error
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
"host".encode("idna")  # loaded as long as Python's own files can be read
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
servers, url, folder, controller = sys.argv[1:]
told = {"uid": os.getuid(), "topics": [], "subjects": 0, "read": []}
for address in (servers, controller):
    try:
        told["topics"] += list(AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=4).topics)
    except KafkaException as error:
        pass
try:
    told["subjects"] = urllib.request.urlopen(url + "/subjects", timeout=20).status
except urllib.error.HTTPError as error:
    told["subjects"] = error.code
for place in ("password", "kafka/server.properties", "registry/config/application.properties", "catalog.db"):
    try:
        told["read"].append(open(os.path.join(folder, place)).read())
    except PermissionError:
        pass
    except FileNotFoundError:
        pass
print(json.dumps(told))
"""  # noqa: E501


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Of a stack; it is stopped afterwards."""
    yield tmp_path / "state"
    LocalStack(tmp_path / "state").down()


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(f"{url}/subjects", timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


_KNOCKS = (
    ("GET", "/"),
    ("GET", "/health"),
    ("GET", "/metrics"),
    ("GET", "/q/metrics"),
    ("GET", "/apis/registry/v3/groups"),
    ("POST", "/apis/registry/v3/groups"),
    ("PUT", "/apis/ccompat/v7/config"),
    ("POST", "/apis/ccompat/v7/subjects/x-value/versions"),
    ("DELETE", "/apis/registry/v3/admin/rules"),
)


def _doors_without_login(pid: int) -> set[int]:
    """What every port of a server answers, whatever it is for, to who reads and writes without a login.

    Also to a web page whose own name leads to this machine (DNS rebinding), for which browsers see no foreign
    origin.
    """
    ports = {
        connection.laddr.port
        for connection in psutil.Process(pid).net_connections("tcp")
        if connection.status == "LISTEN"
    }
    assert ports
    answers = set()
    for port in ports:
        for (method, path), host in itertools.product(_KNOCKS, (f"127.0.0.1:{port}", "page.example")):
            body = b"{}" if method in ("POST", "PUT") else None
            asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, method=method)
            for name, text in (("Host", host), ("Origin", f"http://{host}")):
                asked.add_header(name, text)
            asked.add_header("Content-Type", "application/json")
            try:
                with urllib.request.urlopen(asked, timeout=20) as answer:
                    answers.add(int(answer.status))
            except urllib.error.HTTPError as error:
                answers.add(error.code)
    return answers


@pytest.mark.integration
def test_only_who_reads_the_state_folder_is_let_in(folder: Path) -> None:
    """Data of a stack without a login are there with one, and again without; nobody else sees a thing."""
    off = LocalStack(folder, wants_login=False).up(die_with_parent=True)
    assert off.kafka_login == {}
    Broker({"bootstrap.servers": off.bootstrap_servers}).ensure_topic("mine", 1, {})
    producer = Producer({"bootstrap.servers": off.bootstrap_servers, "log_level": 0})
    producer.produce("mine", b"1")
    assert producer.flush(240) == 0
    del producer
    LocalStack(folder).down()

    LocalStack(folder, wants_login=True).up(die_with_parent=True)
    servers = find_servers(Settings(state_dir=str(folder), local=LocalSettings(login="off")))
    assert servers.kafka["sasl.password"] not in repr(servers)
    broker = Broker(servers.kafka)
    assert "mine" in broker.topics()
    assert broker.facts("mine").end == {0: 1}
    consumer = make_consumer(servers.kafka, group_id="mine", auto_offset_reset="earliest")
    consumer.subscribe(["mine"])
    message = consumer.poll(60)
    consumer.close()
    assert message.value() == b"1"
    assert Registry(servers.registry).check() == []
    assert _status(servers.registry["url"]) == 401
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": servers.kafka["bootstrap.servers"], "log_level": 0}).list_topics(
            timeout=4
        )
    kept = json.loads((folder / "stack.json").read_text())["servers"]
    controller = f"127.0.0.1:{kept['kafka']['ports']['controller']}"
    arguments = [servers.kafka["bootstrap.servers"], servers.registry["url"], str(folder), controller]
    done = completed([sys.executable, "-c", _STRANGER, *arguments], check=True, cwd="/")
    told = json.loads(done.stdout)
    assert (told["topics"], told["subjects"]) == ([], 401)
    # Also health and metrics: those have no port.
    assert _doors_without_login(kept["registry"]["process"]["pid"]) == {401}
    if os.getuid() == 0:  # else we cannot become another; the ports were tried all the same
        assert told["uid"] != 0
        assert told["read"] == []
    LocalStack(folder).down()

    again = LocalStack(folder, wants_login=False).up(die_with_parent=True)
    assert (
        "mine" in AdminClient({"bootstrap.servers": again.bootstrap_servers}).list_topics(timeout=30).topics
    )
    assert _status(again.registry_url) == 200
