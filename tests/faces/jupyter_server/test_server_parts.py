"""The parts of the server extension, without a server."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest

from tabletopic_kernel.faces.jupyter_server.app import TableTopicApp
from tabletopic_kernel.faces.jupyter_server.backend import Backend
from tabletopic_kernel.faces.jupyter_server.dashboard import Dashboard
from tabletopic_kernel.faces.jupyter_server.overview import OverviewMaker
from tabletopic_kernel.faces.jupyter_server.servers import Doing, HeadlessHost, Sample, Servers
from tabletopic_kernel.faces.jupyter_server.settings_in_force import NoServersError, SettingsInForce
from tabletopic_kernel.local import stack as stack_module
from tabletopic_kernel.local import state
from tabletopic_kernel.local.processes import ProcessId
from tabletopic_kernel.local.progress import Report, Step, silent
from tabletopic_kernel.local.state import ServerRecord
from tabletopic_kernel.model.errors import ActionNeededError, StackError
from tabletopic_kernel.model.progress.events import EnableRefused
from tabletopic_kernel.model.progress.progress_view import NO_HOST
from tabletopic_kernel.model.settings.desired import DesiredTopic
from tests.faces.fake_workbench import FakeWorkbench, status
from tests.faces.jupyter_server.live_server import until

IDLE = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SettingsInForce:
    """A folder without servers."""
    for name in [name for name in os.environ if name.startswith("TABLETOPIC_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return SettingsInForce(state_dir=str(tmp_path / "state"))


# --- the host ---------------------------------------------------------------------------------------------


def test_hosts_of_others_are_told_apart(in_force: SettingsInForce, tmp_path: Path) -> None:
    """By the pid in their ids: a dead child of ours is not counted as live for as long as the group does."""
    here = socket.gethostname()
    host, other = HeadlessHost(in_force), f"{here}-1-ab"
    assert host.status([])["state"] == "none"
    assert host.status([other])["ids"] == [other]
    host.child.start(IDLE, tmp_path / "out", {})
    own = f"{here}-{host.child.pid}-cd12"
    assert host.status([])["state"] == "starting"
    assert host.status([own, other]) == {
        "state": "running",
        "detail": "runs beside this Jupyter server and stops with it",
        "ids": [own, other],
    }
    os.kill(host.child.pid or 0, signal.SIGKILL)
    host.child.wait(240)
    told = host.status([own])
    assert (told["state"], told["ids"]) == ("failed", [])
    assert "killed by signal 9" in told["detail"]
    assert host.status([own, other])["state"] == "running"


# --- the stack --------------------------------------------------------------------------------------------


class FakeStack:
    """Starts when allowed; records its calls."""

    done: list[str]
    go: threading.Event
    fails: str | None
    users: list[threading.Thread]
    wanted: list[Collection[str]]

    def __init__(
        self,
        folder: Path,
        report: Report = silent,
        *,
        wants_login: bool = False,
        servers: Collection[str] = stack_module.SERVERS,
    ) -> None:
        self.report = report
        self.wanted.append(servers)
        self.users.append(threading.current_thread())

    def known(self) -> None:
        """Its servers are not found; none has run before."""

    def up(self) -> None:
        """Report a step, wait, end."""
        self.report(Step("jars", "running", done_bytes=120 * 1024**2, total_bytes=270 * 1024**2))
        self.go.wait(240)
        if self.fails:
            raise StackError(self.fails)
        self.done.append("up")

    def down(self) -> list[str]:
        """Stop when allowed."""
        self.go.wait(240)
        self.done.append("down")
        return []


@pytest.fixture
def fake_stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FakeStack]]:
    """Replaces the local stack; one class per test, whose threads end with the test."""

    class Fake(FakeStack):
        done: ClassVar[list[str]] = []
        go = threading.Event()
        fails = None
        users: ClassVar[list[threading.Thread]] = []
        wanted: ClassVar[list[Collection[str]]] = []

    monkeypatch.setattr(stack_module, "LocalStack", Fake)
    yield Fake
    Fake.go.set()
    for thread in set(Fake.users) - {threading.current_thread()}:
        thread.join(240)


def test_the_stack_starts_in_the_background(in_force: SettingsInForce, fake_stack: type[FakeStack]) -> None:
    """Its steps can be seen; a second start is the same one; it is not stopped half-way."""
    servers, over = Servers(in_force), threading.Event()
    servers.start(over.set)
    until(lambda: servers.doing == Doing("starting", "jars: 120 of 270 MB"))
    servers.start(over.set)
    with pytest.raises(ActionNeededError, match="is starting: try again"):
        servers.stop()
    fake_stack.go.set()
    assert over.wait(240)
    assert servers.doing == Doing()
    servers.stop()
    assert fake_stack.done == ["up", "down"]


def test_a_stack_that_does_not_start(in_force: SettingsInForce, fake_stack: type[FakeStack]) -> None:
    """The reason stays until the next try."""
    fake_stack.fails = "Port 9092 is not free"
    fake_stack.go.set()
    servers, over = Servers(in_force), threading.Event()
    servers.start(over.set)
    assert over.wait(240)
    assert servers.doing == Doing("failed", "Port 9092 is not free (see `tabletopic docs trouble stack`)")
    fake_stack.fails = None
    over.clear()
    servers.start(over.set)
    assert over.wait(240)
    assert servers.doing == Doing()


@pytest.mark.parametrize("wanted", [True, False])
def test_hosts_start_with_it(in_force: SettingsInForce, fake_stack: type[FakeStack], wanted: bool) -> None:
    """As soon as the stack is up, if that is wanted; not with one that did not start."""
    started = threading.Event()
    host = HeadlessHost(in_force)
    host.start_if_alone = lambda ids=None: started.set()  # type: ignore[method-assign]
    backend = Backend(in_force, host, Dashboard(in_force, "/"), warm_host=wanted)
    fake_stack.fails = "Port 9092 is not free"
    fake_stack.go.set()
    backend.start_stack()
    until(lambda: "Port 9092 is not free (see" in backend.first_overview()["servers"]["detail"])
    assert not started.is_set()
    fake_stack.fails = None
    backend.start_stack()
    until(lambda: fake_stack.done == ["up"])
    assert started.wait(30 if wanted else 0.2) is wanted
    backend.stop()


@pytest.mark.usefixtures("fake_stack")
def test_named_servers_want_no_stack(in_force: SettingsInForce, tmp_path: Path) -> None:
    """Who named all servers gets no others beside them."""
    (tmp_path / "tabletopic.toml").write_text(
        '[kafka]\n"bootstrap.servers" = "b:1"\n[registry]\nurl = "http://r"\n[catalog]\nuri = "sqlite://"\n'
    )
    with pytest.raises(ActionNeededError, match="no local stack is started"):
        Servers(in_force).start(lambda: None)


# --- settings and overview ----------------------------------------------------------------------------------


def overview(in_force: SettingsInForce, bench: FakeWorkbench | None = None) -> OverviewMaker:
    """With nothing running, or with a workbench from memory."""
    if bench is not None:
        in_force.workbench = lambda: bench  # type: ignore[method-assign]
    return OverviewMaker(in_force, Servers(in_force), HeadlessHost(in_force), Sample(in_force))


def local_bench(folder: Path, **more: Any) -> FakeWorkbench:
    """A workbench of a local stack in this folder, without hosts."""
    bench = FakeWorkbench(folder, live=[], there={"clicks": 1}, **more)
    bench.servers = replace(bench.servers, local=("kafka", "registry"))
    return bench


def running(folder: Path) -> dict[str, ServerRecord]:
    """The servers of a stack that runs in this folder, as written there."""
    myself = ProcessId(os.getpid(), psutil.Process().create_time())
    records = {
        "kafka": ServerRecord({"client": 1, "controller": 2}, myself, True),
        "registry": ServerRecord({"http": 3}, myself, True),
    }
    folder.mkdir(parents=True)
    state.save(folder, records)
    return records


def test_an_empty_folder(in_force: SettingsInForce) -> None:
    """No servers: the overview says what to do, the workbench refuses."""
    found = overview(in_force).look()
    assert found["servers"]["state"] == "none"
    assert "start the local stack" in found["servers"]["detail"]
    assert (found["topics"], found["lag_records"], found["lag_seconds"]) == ([], 0, None)
    assert found["host"]["state"] == "none"
    with pytest.raises(NoServersError, match="start the local stack"):
        in_force.workbench()


@pytest.mark.usefixtures("in_force")
def test_kernels_are_told_what_is_in_force(tmp_path: Path) -> None:
    """The state folder always, resolved; the settings file where there is one; as they are now."""
    in_force = SettingsInForce()
    told = in_force.kernel_environment()
    profile = {"TABLETOPIC_PROFILE": "default"}
    assert told == {"TABLETOPIC_STATE_DIR": in_force.settings().state_dir, **profile}
    assert Path(told["TABLETOPIC_STATE_DIR"]).is_absolute()
    (tmp_path / "tabletopic.toml").write_text('state_dir = "elsewhere"\n')
    assert in_force.kernel_environment() == {
        "TABLETOPIC_STATE_DIR": str(tmp_path / "elsewhere"),
        "TABLETOPIC_CONFIG_FOUND": str(tmp_path / "tabletopic.toml"),
        **profile,
    }
    named = SettingsInForce(settings_file=str(tmp_path / "tabletopic.toml")).kernel_environment()
    assert named["TABLETOPIC_CONFIG"] == str(tmp_path / "tabletopic.toml")
    (tmp_path / "tabletopic.toml").write_text("state_dirr = 'x'\n")
    assert in_force.kernel_environment() == in_force.environment()


@pytest.mark.parametrize(
    ("name", "shown", "again"), [("registry", "ready", "ready"), ("kafka", "unreachable", "starting")]
)
def test_a_server_that_ended_takes_no_topic_away(
    in_force: SettingsInForce, name: str, shown: str, again: str
) -> None:
    """Topics stay, also while it starts again; what has ended is named. Without a broker none is asked."""
    folder = Path(in_force.settings().state_dir)
    here = running(folder)
    looking = overview(in_force, local_bench(folder, on={}))
    before = looking.look()
    assert (before["servers"]["state"], before["servers"]["missing"]) == ("ready", [])
    gone = replace(here[name].process, start_time_s=1.0)
    state.save(folder, here | {name: replace(here[name], process=gone)})
    found = looking.look(before)
    assert (found["servers"]["state"], found["servers"]["missing"]) == (shown, [name])
    assert found["servers"]["detail"].startswith(f"the local stack's {name} has ended; the logs are in")
    assert found["topics"] == before["topics"]
    looking.servers._set(Doing("failed", "Port 1 is not free"))
    assert looking.look(before)["servers"]["detail"] == "Port 1 is not free"
    looking.servers._set(Doing("starting", name))
    starting = looking.look(before)
    assert (starting["servers"]["state"], starting["topics"]) == ("starting", before["topics"])
    # After a server has ended, the others are looked at while it starts again: it is named until it answers.
    state.save(folder, here | {name: replace(here[name], ready=False)})
    starting = looking.look(found)
    assert (starting["servers"]["state"], starting["servers"]["missing"]) == (again, [name])
    assert (starting["seen_ms"] == before["seen_ms"]) is (name == "kafka")  # how old the topics are
    assert starting["servers"]["detail"] == f"the local stack's {name} is starting"
    assert starting["topics"] == before["topics"]
    state.save(folder, here)
    back = looking.look(starting)
    assert (back["servers"]["state"], back["servers"]["missing"]) == ("ready", [])


ALONE = [status(state=NO_HOST, error="no host runs this topic")]


def test_a_host_that_was_just_started_is_waited_for(in_force: SettingsInForce, tmp_path: Path) -> None:
    """That nobody runs a topic yet is no trouble then, and one later."""
    shown = overview(in_force, FakeWorkbench(tmp_path, live=[], found=ALONE, there={"clicks": 1}))
    shown.host.command = IDLE
    assert shown.look()["topics"][0]["state"] == NO_HOST
    shown.host.child.start(IDLE, tmp_path / "out", {})
    shown.host._started_s = time.monotonic()
    (row,) = shown.look()["topics"]
    assert (row["state"], row["error"]) == ("starting", None)
    shown.host._started_s -= 60
    assert shown.look()["topics"][0]["error"] == "no host runs this topic"
    shown.host.child.stop(5)


def test_a_topic_that_a_pattern_did_not_enable_says_why(in_force: SettingsInForce, tmp_path: Path) -> None:
    """As its host reported it, and until somebody enables it."""
    refused = EnableRefused(topic="web.orders", at_ms=1, pattern="web.*", reason="no schema")
    bench = FakeWorkbench(tmp_path, told=[refused])
    maker = overview(in_force, bench)
    found = maker.look(maker.look())
    *_, row = found["topics"]
    assert (row["topic"], row["error"]) == ("web.orders", "no schema (the pattern web.* matches it)")
    bench.on["web.orders"] = DesiredTopic(topic="web.orders")
    bench.told = []
    assert maker.look(found)["topics"][-1]["error"] is None


def test_settings_are_taken_without_a_restart(in_force: SettingsInForce, tmp_path: Path) -> None:
    """One workbench until the file names another broker; wrong settings are shown."""
    file = tmp_path / "tabletopic.toml"
    servers = (
        '[kafka]\n"bootstrap.servers" = "{}"\n[registry]\nurl = "http://r"\n[catalog]\nuri = "sqlite://"\n'
    )
    file.write_text(servers.format("127.0.0.1:1"))
    first = in_force.workbench()
    assert in_force.workbench() is first
    file.write_text(servers.format("127.0.0.1:2"))
    assert in_force.workbench().servers.kafka["bootstrap.servers"] == "127.0.0.1:2"
    (tmp_path / "tabletopic.toml").write_text("state_dirr = 'x'\n")
    found = overview(in_force).look()
    assert found["servers"]["state"] == "unreachable"
    assert "state_dirr" in found["servers"]["detail"]
    (tmp_path / "tabletopic.toml").unlink()
    assert overview(in_force).look()["servers"]["state"] == "none"


# --- documents --------------------------------------------------------------------------------------------


def test_the_settings_of_the_server_are_listed() -> None:
    """docs/how-to/operate/jupyter-server.md has each of them, and its default where that is a plain value."""
    page = Path(__file__).parents[3] / "docs/how-to/operate/jupyter-server.md"
    if not page.exists():
        pytest.skip("not a checkout")
    listed = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", page.read_text("utf-8"), re.MULTILINE))
    traits = TableTopicApp.class_own_traits(config=True)
    assert listed.keys() == traits.keys()
    for name, trait in traits.items():
        if isinstance(trait.default_value, bool | float):
            assert json.loads(listed[name]) == trait.default_value
