"""``up``, ``down``, ``info``, ``config``, ``doctor``, ``sample``: servers and settings."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tabletopic_kernel.local.stack import StackInfo
from tabletopic_kernel.model.errors import StackError
from tabletopic_kernel.workbench.config.servers import MissingServers, Servers
from tabletopic_kernel.workbench.doctor.check import Check
from tests.environment import completed


def test_info_is_ready_for_other_programs(run: Callable[..., Any], fake: Any) -> None:
    """`info --json` has addresses and the whole properties of clients, PyIceberg's with its name apart."""
    assert run("info", "--json").json == {
        "profile": "default",
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


def test_a_profile_is_chosen_for_a_command(run: Callable[..., Any], tmp_path: Path) -> None:
    """By option or variable, before or after the command; what it prints to copy has the option, too."""
    (tmp_path / "tabletopic.staging.toml").write_text('[kafka]\n"client.id" = "s"\n')
    for words in (("--profile", "staging", "config", "--json"), ("config", "--profile", "staging", "--json")):
        shown = run(*words).json
        assert (shown["profile"], shown["file"]) == ("staging", str(tmp_path / "tabletopic.staging.toml"))
        assert {"key": "kafka.client.id", "value": "s", "origin": "tabletopic.staging.toml:2"} in shown[
            "settings"
        ]
    assert "profile            staging" in run("--profile", "staging", "status").out
    assert "tabletopic status --profile staging clicks" in run("--profile", "staging", "enable", "clicks").out
    assert run("config", "--json").json["profile"] == "default"
    wrong = run("--profile", "prod", "status")
    assert (wrong.code, "there is no profile prod" in wrong.err) == (2, True)
