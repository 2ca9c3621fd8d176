"""The program on real servers: failures leave nothing behind, successes work end to end."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil
import pytest
from pyiceberg.catalog import Catalog, load_catalog

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.local.stack import StackInfo
from tests.environment import completed
from tests.faces.cli.conftest import Outcome

pytestmark = pytest.mark.integration
_NOBODY = "127.0.0.1:1"  # a port that answers to nobody


Tabletopic = Callable[..., Outcome]


@pytest.fixture
def command(stack: StackInfo) -> list[str]:
    """The program as a separate process, on the tests' servers."""
    return [sys.executable, "-m", "tabletopic_kernel.faces.cli", "--state-dir", str(stack.state_dir)]


@pytest.fixture
def tabletopic(command: list[str], tmp_path: Path) -> Tabletopic:
    """Call the program and wait for it."""

    def call(*arguments: str, environ: Mapping[str, str] | None = None) -> Outcome:
        ended = completed([*command, *arguments], cwd=tmp_path, env={**os.environ, **(environ or {})})
        return Outcome(ended.returncode, ended.stdout, ended.stderr)

    return call


@pytest.fixture
def catalog(stack: StackInfo) -> Catalog:
    """The catalog of the tests' servers."""
    properties = {key: value for key, value in stack.catalog.items() if key != "name"}
    return load_catalog(stack.catalog["name"], **properties)


@pytest.fixture
def topic(stack: StackInfo, request: pytest.FixtureRequest) -> str:
    """An empty topic, named for the test."""
    name = re.sub(r"\W+", "-", f"cli-{request.node.name}").strip("-")
    Broker({"bootstrap.servers": stack.bootstrap_servers}).ensure_topic(name, 2, {})
    return name


def test_info_opens_the_catalog(tabletopic: Tabletopic, stack: StackInfo) -> None:
    """What `info --json` tells is enough for PyIceberg, and the addresses are the stack's."""
    told = tabletopic("info", "--json").json
    opened = load_catalog(told["catalog"]["name"], **told["catalog"]["properties"])
    assert opened.list_namespaces() is not None
    assert told["bootstrap_servers"] == stack.bootstrap_servers
    assert told["registry_url"] == stack.registry_url
    assert told["state_dir"] == str(stack.state_dir)
    assert isinstance(told["hosts"], list)


def test_enable_while_a_server_is_away(tabletopic: Tabletopic, catalog: Catalog, topic: str) -> None:
    """Without registry or broker nothing is enabled; the message names the server, the code is 1."""
    for variable, value, server in (
        ("TABLETOPIC_REGISTRY__URL", f"http://{_NOBODY}", "registry"),
        ("TABLETOPIC_KAFKA__BOOTSTRAP__SERVERS", _NOBODY, "broker"),
    ):
        ended = tabletopic("enable", topic, "--table", "cli_away", environ={variable: value})
        assert ended.code == 1
        assert f"the {server} at {value} does not respond" in ended.err
        assert "Traceback" not in ended.err
    assert tabletopic("status", topic).code == 2
    assert not catalog.table_exists(("default", "cli_away"))


def test_a_disk_that_cannot_be_used(tabletopic: Tabletopic, tmp_path: Path) -> None:
    """A state folder that is a file is said, without a trace."""
    (tmp_path / "file").write_text("")
    ended = tabletopic("up", "--detach", "--state-dir", str(tmp_path / "file"))
    assert ended.code == 2
    assert "file" in ended.err
    assert "Traceback" not in ended.err


def test_doctor_finds_the_servers(tabletopic: Tabletopic) -> None:
    """With servers, doctor tries each of them, and storage by a file that is gone afterwards."""
    ended = tabletopic("doctor", "--json")
    found = {check["name"]: check["status"] for check in ended.json}
    assert ended.code == 0
    for name in ("JDK", "Java libraries", "broker", "registry", "catalog", "storage", "query extensions"):
        assert found[name] == "ok"
    said = {check["name"]: check["detail"] for check in ended.json}
    assert said["logs"].startswith(("no table topic has committed records", "they have what was committed"))


@pytest.fixture
def host(command: list[str], tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A host in a separate process."""
    with (tmp_path / "serve.err").open("w") as errors:
        running = subprocess.Popen(
            [*command, "serve"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    yield running
    running.kill()
    running.wait()


def _until(condition: Callable[[], bool], seconds: float = 200) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.2)
    return False


def test_from_topic_to_query(tabletopic: Tabletopic, host: subprocess.Popen[str]) -> None:
    """Events that were produced are in the table, and every command tells the same story."""
    name = "cli-story"
    tallies = tabletopic("sample", name, "--count", "2000", "--json").json
    assert tallies["events"] == 2000
    enabled = tabletopic("enable", name, "--commit-interval", "1s", "--wait", "--timeout", "200", "--json")
    assert enabled.code == 0, enabled.err
    assert enabled.json["lag_records"] == 0

    status = tabletopic("status", name, "--json").json
    assert (status["topic"], status["table"], status["error"]) == (name, "default.cli_story", None)
    assert sum(status["next_offsets"].values()) == 2000
    assert status["next_offsets"] == status["end_offsets"]
    assert status["schema_versions"][0]["subject"] == f"{name}-value"
    assert status["rows"] == 2000

    by_spark = tabletopic("query", "--engine", "spark", "SELECT count(*) AS n FROM cli_story", "--json")
    assert by_spark.json == [{"n": 2000}], by_spark.err

    host.send_signal(signal.SIGTERM)
    told, _ = host.communicate(timeout=120)
    assert host.returncode == 0
    if not tabletopic("info", "--json").json["hosts"]:  # else it may be another one's
        assert "Committed" in told
        assert tabletopic("status", name, "--json").json["state"] == "no_host"
    assert tabletopic("disable", name).code == 0
    assert tabletopic("status", name).code == 2


def test_ctrl_c_ends(tabletopic: Tabletopic, command: list[str], tmp_path: Path) -> None:
    """What watches or follows ends at Ctrl-C with 130 and without a word."""
    assert tabletopic("produce-clickstream", "--topic", "cli-watched", "--count", "1").code == 0
    assert tabletopic("enable", "cli-watched").code == 0
    for words in (["status", "--watch", "--json"], ["events", "--follow", "--since", "all", "--json"]):
        running = subprocess.Popen(
            [*command, *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        if words[0] == "status":
            assert json.loads(running.stdout.readline())["topic"]
        else:  # it asks the broker
            process = psutil.Process(running.pid)
            assert _until(lambda process=process: bool(process.net_connections()))
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=240)
        assert (running.returncode, errors) == (130, ""), words
    assert tabletopic("disable", "cli-watched").code == 0


def test_status_costs_little(tabletopic: Tabletopic) -> None:
    """status is for watching: it takes less than 1.5 s of CPU time, whatever else the machine does."""
    costs: list[float] = []
    while min(costs, default=9.0) >= 1.5 and len(costs) < 10:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert tabletopic("status").code == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        costs.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(costs) < 1.5


def test_init_tries_what_it_is_told_and_doctor_agrees(
    command: list[str], tabletopic: Tabletopic, stack: StackInfo, tmp_path: Path
) -> None:
    """A file made of the addresses of real servers works at once; a wrong one is told and asked again."""
    login = stack.kafka_login
    kafka = ["5", stack.bootstrap_servers, login["sasl.mechanism"], login["sasl.username"],
             login["sasl.password"]] if login else ["2", stack.bootstrap_servers]  # fmt: skip
    user = stack.registry_login.get("basic.auth.user.info")
    registry = ["3", stack.registry_url, user, ""] if user else ["2", stack.registry_url, ""]
    wrong = "s4://nowhere"
    catalog = ["8", f"sqlite:///{tmp_path}/c.db", "4", wrong, "y", "8", "", "4", f"file://{tmp_path}/lake"]
    asked = completed(
        [*command, "init"], input="\n".join([*kafka, *registry, *catalog, "y", ""]), cwd=tmp_path
    )
    assert asked.returncode == 0, asked.stderr
    assert wrong in asked.stderr
    checks = {check["name"]: check["status"] for check in tabletopic("doctor", "--json").json}
    assert {checks[name] for name in ("broker", "registry", "catalog", "storage")} == {"ok"}
