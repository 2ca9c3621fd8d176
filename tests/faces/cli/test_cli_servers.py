"""``up``, ``down``, ``info``, ``config``, ``doctor``, ``sample``: servers and settings."""

from __future__ import annotations

import dataclasses
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tabletopic_kernel._datasets.clickstream.tallies import Tallies
from tabletopic_kernel.local import state
from tabletopic_kernel.local.hosts import stop_detached
from tabletopic_kernel.local.processes import ProcessId
from tabletopic_kernel.local.stack import StackInfo
from tabletopic_kernel.local.state import ServerRecord
from tabletopic_kernel.model.errors import StackError
from tabletopic_kernel.render.words import seconds
from tabletopic_kernel.workbench.config.servers import MissingServers, Servers
from tabletopic_kernel.workbench.doctor import run as doctor
from tabletopic_kernel.workbench.doctor.check import Check, Failed
from tabletopic_kernel.workbench.doctor.machine import ports
from tests.environment import completed


def test_info_is_ready_for_other_programs(run: Callable[..., Any], fake: Any) -> None:
    """`info --json` has addresses and the whole properties of clients, PyIceberg's with its name apart."""
    assert run("info", "--json").json == {
        "bootstrap_servers": "127.0.0.1:9092", "registry_url": "http://127.0.0.1:8081",
        "kafka": {"bootstrap.servers": "127.0.0.1:9092"},
        "registry": {"url": "http://u:hidden-word@127.0.0.1:8081"},
        "catalog": {
            "name": "lake", "properties": {"uri": "sqlite:////x/c.db", "s3.secret-access-key": "hidden-key"},
        },
        "catalogs": [{"name": "prod", "properties": {"type": "rest", "credential": "hidden-id"}}],
        "state_dir": fake.settings.state_dir, "hosts": ["here-1"],
    }  # fmt: skip


def test_info_for_people_hides_secrets(run: Callable[..., Any], fake: Any) -> None:
    """No passwords over a shoulder; a host is started, or unknown where the broker is away."""
    fake.live = []
    text = run("info").out
    assert "127.0.0.1:9092" in text
    assert "hidden" not in text
    assert "prod: credential" in text
    assert "none; start one: tabletopic serve" in text

    def ended() -> list[str]:
        raise StackError("the local stack's kafka has ended")

    fake.hosts = ended
    told = run("info").out
    assert "unknown: the broker does not respond" in told
    assert "start one" not in told
    assert run("info", "--json").json["hosts"] == []


@pytest.mark.parametrize("section", ["catalog", "catalogs.prod"])
def test_copies_with_a_shared_catalog_stay_so(run: Callable[..., Any], section: str, tmp_path: Path) -> None:
    """Its topics would go on in the original's tables."""
    settings = tmp_path / "shared.toml"
    settings.write_text(f'[{section}]\ntype = "rest"\nuri = "http://127.0.0.1:1"\n')
    shown = run("up", "--fork", "--config", str(settings), "--state-dir", str(tmp_path / "copy"))
    assert shown.code == 2
    assert "would write to these" in " ".join(shown.err.split())
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("command", ["info", "status"])
@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"glue.registry-name": "prod", "glue.region": "eu-west-1"}, "prod in eu-west-1"),
        ({"glue.secret-access-key": "hidden"}, "default-registry"),
    ],
)
def test_a_registry_of_glue_has_name_and_region(
    run: Callable[..., Any], fake: Any, command: str, more: dict[str, str], place: str
) -> None:
    """It has no URL; an empty line looked like none."""
    fake.servers = Servers({}, {"type": "glue", **more}, {"name": "lake"}, Path("/x"))
    text = " ".join(run(command).out.split())
    assert f"registry AWS Glue schema registry {place} " in f"{text} "
    assert "registry URL" not in text
    assert "hidden" not in text


def test_where_values_come_from(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File, environment and defaults are told apart, and secrets are hidden."""
    (tmp_path / "tabletopic.toml").write_text('[kafka]\nsasl.password = "hunter2"\n')
    monkeypatch.setenv("TABLETOPIC_SPARK__MASTER", "local[2]")
    told = run("config", "--json").json
    assert told["file"] == str(tmp_path / "tabletopic.toml")
    rows = {row["key"]: row for row in told["settings"]}
    assert rows["kafka.sasl.password"] == {
        "key": "kafka.sasl.password",
        "value": "***",
        "origin": "tabletopic.toml:2",
    }
    assert rows["spark.master"]["origin"] == "TABLETOPIC_SPARK__MASTER"
    text = run("config").out
    assert "local[2]" in text
    assert "hunter2" not in text


class FakeStack:
    """A stack that starts at once, or not; ``stops`` is what it stops, if it runs."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.runs = False
        self.stops: list[str] = []
        self.state_dir = Path()

    def at(self, state_dir: Path, _: object, **__: object) -> FakeStack:
        """As the class of stacks is called."""
        self.state_dir = state_dir
        return self

    def up(self, *, die_with_parent: bool) -> StackInfo:
        """Its servers."""
        if self.error is not None:
            raise self.error
        catalog = {"name": "lake", "type": "sql", "uri": "sqlite:////c.db", "warehouse": "file:///w"}
        started = ("kafka", "registry") if not die_with_parent else ()
        return StackInfo("127.0.0.1:1", "http://127.0.0.1:2", catalog, self.state_dir, {}, started)

    def info(self) -> object:
        """Something, if it runs."""
        return self if self.runs else None

    def down(self) -> list[str]:
        """The names of its servers."""
        return self.stops


@pytest.fixture
def fake_stack(monkeypatch: pytest.MonkeyPatch, fake: Any) -> FakeStack:
    """The program's stack."""
    stack = FakeStack()
    monkeypatch.setattr("tabletopic_kernel.local.stack.LocalStack", stack.at)
    return stack


def test_up_offers_nothing_that_would_reach_a_kafka_of_ones_own(
    run: Callable[..., Any], fake_stack: FakeStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor an address that nobody uses; what is started, and how to stop it, is said."""
    monkeypatch.setenv("TABLETOPIC_KAFKA__BOOTSTRAP__SERVERS", "kafka.example:9092")
    text = " ".join(run("up", "--detach").out.split())
    assert "127.0.0.1:1 " not in text
    assert "yours, from [kafka] in the settings: not started" in text
    assert "http://127.0.0.1:2" in text
    assert "tabletopic sample" not in text
    assert "enable TOPIC" in text
    assert "stop the server;" in text
    told = run("up", "--detach", "--json").json
    assert (told["bootstrap_servers"], told["registry_url"]) == (None, "http://127.0.0.1:2")
    monkeypatch.setenv("TABLETOPIC_REGISTRY__URL", "http://registry.example")
    text = " ".join(run("up", "--detach").out.split())
    assert "http://127.0.0.1:2" not in text
    assert "tabletopic down" not in text
    assert "sqlite:////c.db" in text


def test_up_shows_addresses_and_the_next_steps(run: Callable[..., Any], fake_stack: FakeStack) -> None:
    """Who starts the stack sees where it is and which commands come next."""
    text = run("up", "--detach").out
    for part in (
        "127.0.0.1:1",
        "http://127.0.0.1:2",
        "tabletopic sample clicks",
        "enable",
        "serve",
        "wait",
        "query",
        "down",
    ):
        assert part in text
    told = run("up", "--detach", "--json").json
    assert told["catalog"]["properties"].keys() == {"type", "uri", "warehouse"}
    assert (told["bootstrap_servers"], told["catalog"]["name"]) == ("127.0.0.1:1", "lake")


@pytest.mark.parametrize("words", [("info",), ("status",)])
def test_an_ended_server_is_named(run: Callable[..., Any], fake: Any, words: tuple[str, ...]) -> None:
    """Its address alone would say that it is well; JSON stays as it is."""

    class Ended(Servers):
        def away(self) -> MissingServers:
            return MissingServers(("registry",), (), self.state_dir)

    fake.servers = Ended(**vars(fake.servers))
    ended = run(*words)
    assert (ended.code, "127.0.0.1:9092" in ended.out) == (0, True)
    told = " ".join(ended.err.split())
    assert "the local stack's registry has ended; `tabletopic up` starts what is missing" in told
    assert "ended" not in run(*words, "--json").err


def test_ports_of_a_server_that_runs_are_not_taken_by_another_program(tmp_path: Path) -> None:
    """Where one has ended alone, only its own must be free."""
    myself = ProcessId(os.getpid(), psutil.Process().create_time())
    gone = dataclasses.replace(myself, start_time_s=1.0)
    with socket.socket() as of_the_broker, socket.socket() as free:
        of_the_broker.bind(("127.0.0.1", 0))
        of_the_broker.listen()
        free.bind(("127.0.0.1", 0))
        taken, other = of_the_broker.getsockname()[1], free.getsockname()[1]
        free.close()
        here = {
            "kafka": ServerRecord({"client": taken, "controller": other}, myself, True),
            "registry": ServerRecord({"http": other}, gone, True),
        }
        state.save(tmp_path, here)
        assert "free" in ports(tmp_path, ("kafka", "registry"))
        state.save(tmp_path, here | {"registry": ServerRecord({"http": taken}, gone, True)})
        with pytest.raises(Failed, match="in use by another program"):
            ports(tmp_path, ("kafka", "registry"))


def test_no_failure_to_stop_nothing(run: Callable[..., Any], fake_stack: FakeStack, tmp_path: Path) -> None:
    """Nobody waits where nothing was stopped, and a running stack is not this call's to keep."""
    ended = run("up")
    assert ended.code == 0
    assert "tabletopic down" in ended.out
    ended = run("down")
    assert ended.code == 0
    assert "nothing was running" in ended.err
    assert run("down", "--json").json == {"servers": [], "hosts": []}
    fake_stack.runs = True
    assert "is still running" not in run("down").err
    fake_stack.stops = ["kafka"]
    assert "host here-1 is still running and waits for the servers" in run("down").err
    assert stop_detached(tmp_path) == []


def test_a_stack_that_does_not_start(run: Callable[..., Any], fake_stack: FakeStack) -> None:
    """The stack's own message with its page, exit code 1."""
    fake_stack.error = StackError("Port 5, set for the kafka server, is taken.")
    ended = run("up", "--detach", "--kafka-port", "5")
    message = "error: Port 5, set for the kafka server, is taken. (see `tabletopic docs trouble stack`)\n"
    assert (ended.code, ended.err) == (1, message)


def test_doctor_says_what_to_do(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each check is a line, with its remedy below; one that fails makes the exit code 1."""
    checks = [Check("JDK", "ok", "21"), Check("broker", "warn", "away", "start it")]
    monkeypatch.setattr("tabletopic_kernel.workbench.doctor.run.run_checks", lambda loaded: iter(checks))
    ended = run("doctor")
    assert ended.code == 0
    assert [line.split() for line in ended.out.splitlines()] == [
        ["ok", "JDK", "21"],
        ["warn", "broker", "away"],
        ["→", "start", "it"],
    ]
    checks.append(Check("storage", "fail", "read-only", "choose another"))
    ended = run("doctor", "--json")
    assert ended.code == 1
    assert ended.json[-1] == {
        "name": "storage", "status": "fail", "detail": "read-only", "remedy": "choose another",
    }  # fmt: skip


def test_doctor_works_where_nothing_runs(run: Callable[..., Any]) -> None:
    """Without servers the machine is checked all the same, and the way to start is shown."""
    told = {check["name"]: check for check in run("doctor", "--json").json}
    assert told["JDK"]["status"] == "ok"
    assert told["query extensions"]["status"] == "ok"
    assert told["servers"]["status"] == "warn"
    assert "tabletopic up" in told["servers"]["detail"]


def test_a_check_that_breaks_is_a_failed_check(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever goes wrong inside a check is its result, and the others still run."""
    from tabletopic_kernel.workbench.config import load_settings

    def broken(oldest: int = 0) -> Path:
        raise OSError("no such device")

    monkeypatch.setattr("tabletopic_kernel.local.java.jvm.java", broken)
    loaded = load_settings({"state_dir": str(tmp_path)}, environ={}, cwd=tmp_path)
    found = {check.name: check for check in doctor.run_checks(loaded)}
    assert found["JDK"].status == "fail"
    assert "no such device" in found["JDK"].detail
    assert found["disk space"].status in ("ok", "warn", "fail")


def test_little_space_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A disk that is nearly full is a warning, a full one a failure."""
    from shutil import disk_usage

    from tabletopic_kernel.workbench.config import load_settings

    real = disk_usage(tmp_path)
    loaded = load_settings({"state_dir": str(tmp_path)}, environ={}, cwd=tmp_path)
    for free, status in ((2 * 1024**3, "warn"), (1024, "fail")):
        monkeypatch.setattr("shutil.disk_usage", lambda _, free=free: real._replace(free=free))
        found = {check.name: check for check in doctor.run_checks(loaded)}
        assert found["disk space"].status == status


def test_doctor_looks_at_the_limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Too few open files are a failure, with the remedy; little memory is a warning."""
    from collections import namedtuple

    from tabletopic_kernel.local import machine
    from tabletopic_kernel.workbench.config import load_settings

    loaded = load_settings({"state_dir": str(tmp_path)}, environ={}, cwd=tmp_path)

    def limits() -> Check:
        return next(check for check in doctor.run_checks(loaded) if check.name == "limits")

    memory = namedtuple("memory", "available")
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory(3 * 1024**3))
    assert limits().status == "ok"
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory(1024**3))
    assert (limits().status, limits().detail) == ("warn", "1.0 GiB of memory available")
    monkeypatch.setattr(machine.resource, "getrlimit", lambda _: (256, 256))
    assert limits().status == "fail"
    assert "`ulimit -n 1024`" in limits().detail


@pytest.mark.integration
def test_a_low_limit_of_files_is_reported_before_java_starts(tmp_path: Path) -> None:
    """``up`` says in one line what Java's traces do not."""
    limited = ["bash", "-c", 'ulimit -n 256; exec "$@"', "bash", sys.executable, "-m"]
    ended = completed(
        [*limited, "tabletopic_kernel.faces.cli", "up", "--state-dir", str(tmp_path / "state")], cwd=tmp_path
    )
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert "only 256 open files are allowed here" in ended.stderr


def test_produce_prints_what_was_sent(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Options reach the producer; the tallies come back, whole with --json."""
    asked: dict[str, Any] = {}
    tallies = Tallies(events=10, events_by_version={"v1": 6, "v2": 4}, revenue_cents_by_hour={"h": 1234})

    def produce(kafka: Any, registry: Any, topic: str, count: int, **options: Any) -> Tallies:
        options["on_progress"](count)
        asked.update(options, topic=topic, count=count)
        return tallies

    monkeypatch.setattr("tabletopic_kernel._datasets.clickstream.produce.produce", produce)
    options = ["--count", "10", "--rate", "5", "--switch-at", "6", "--seed", "3"]
    for words in (["sample", "t"], ["produce-clickstream", "--topic", "t"]):  # and its former name
        ended = run(*words, *options)
    assert ended.code == 0
    assert "v1 6, v2 4" in ended.out
    assert "12.34 in 1 hour " in ended.out
    assert (asked["topic"], asked["count"], asked["rate"], asked["switch_at"], asked["seed"]) == (
        "t", 10, 5.0, 6, 3,
    )  # fmt: skip
    assert run(*words, "--json").json == dataclasses.asdict(tallies)


def test_demo_has_options(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """demo is one call; its result is the exit code. Only a state folder that was given is used."""
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr("tabletopic_kernel.demo.scenario.run", lambda *given: asked.append(given) or 1)
    assert run("demo", "--events", "5000", "--keep", "--json").code == 1
    assert run("demo", "--state-dir", str(tmp_path / "d")).code == 1
    assert run("demo", "--cdc").code == 1
    assert asked == [
        (5000, None, True, True, False),
        (None, tmp_path / "d", False, False, False),
        (None, None, False, False, True),
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.04, "0.0 s"), (59.6, "60 s"), (60, "1 m 0 s"), (3599, "59 m 59 s"), (86400, "1 d 0 h")],
)
def test_spans_of_time(value: float | None, text: str) -> None:
    """Seconds, minutes, hours and days, two units at most."""
    assert seconds(value) == text
