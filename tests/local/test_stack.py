"""The stack's decisions, without servers."""

import os
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest

from tabletopic_kernel.local import machine, state
from tabletopic_kernel.local.java.jars import Jars
from tabletopic_kernel.local.processes import ProcessId
from tabletopic_kernel.local.progress import Step
from tabletopic_kernel.local.servers.broker import Broker
from tabletopic_kernel.local.stack import LocalStack
from tabletopic_kernel.local.state import ServerRecord
from tabletopic_kernel.model.errors import RetryableError, SettingsError, StackError
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.config.servers import find_servers
from tabletopic_kernel.workbench.workbench import Workbench

pytestmark = pytest.mark.usefixtures("no_jars")


def _myself(shift_s: float = 0) -> ProcessId:
    return ProcessId(os.getpid(), psutil.Process().create_time() - shift_s)


def _records(process: ProcessId | None, ready: bool = True) -> dict[str, ServerRecord]:
    return {
        "kafka": ServerRecord({"client": 20_001, "controller": 20_002}, process, ready),
        "registry": ServerRecord({"http": 20_003}, process, ready),
    }


def test_a_running_stack_tells_everything_in_absolute_terms(tmp_path: Path, monkeypatch) -> None:
    """Paths are absolute even if the folder was given relative to somewhere."""
    monkeypatch.chdir(tmp_path)
    state.save(tmp_path, _records(_myself()))
    info = LocalStack(Path(".")).info()
    assert info.bootstrap_servers == "127.0.0.1:20001"
    assert info.registry_url == "http://127.0.0.1:20003/apis/ccompat/v7"
    assert info.catalog == {
        "name": "lake",
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db?timeout=30",
        "warehouse": f"file://{tmp_path}/warehouse",
    }
    assert info.pids == {"kafka": os.getpid(), "registry": os.getpid()}


@pytest.mark.parametrize(
    "records",
    [
        {}, _records(None), _records(_myself(shift_s=100)), _records(_myself(), ready=False),
        _records(_myself()) | {"kafka": ServerRecord({"client": 1, "controller": 2})},
    ],
    ids=["never started", "stopped", "pids reused", "still starting", "one died"],
)  # fmt: skip
def test_what_is_not_wholly_up_is_not_running(records: dict[str, ServerRecord], tmp_path: Path) -> None:
    """No servers, foreign processes with the old pids, unfinished starts and half a stack are no stack."""
    state.save(tmp_path, records)
    assert LocalStack(tmp_path).info() is None


@pytest.mark.parametrize("name", ["kafka", "registry"])
def test_a_server_that_ended_by_itself_is_named(tmp_path: Path, name: str) -> None:
    """The stack stays in force without it: hosts wait, and who asks is told which one is gone."""
    here, gone = _records(_myself()), _records(_myself(shift_s=100))
    settings = Settings(state_dir=str(tmp_path))
    state.save(tmp_path, here)
    all_there = find_servers(settings)
    assert all_there.away().names == ()
    assert str(all_there.away()) == ""
    state.save(tmp_path, here | {name: gone[name]})
    assert find_servers(settings) == all_there
    away = all_there.away()
    assert (away.ended, away.starting) == ((name,), ())
    with pytest.raises(StackError, match=f"stack's {name} has ended; `tabletopic up` starts what is missing"):
        away.check(name)
    away.check("catalog")


@pytest.mark.parametrize("name", ["kafka", "registry"])
def test_a_server_that_is_started_again_is_waited_for(tmp_path: Path, name: str) -> None:
    """Between its end and its first answer nobody is told that there are no servers."""
    here = _records(_myself())
    state.save(tmp_path, here | {name: _records(_myself(), ready=False)[name]})
    servers = find_servers(Settings(state_dir=str(tmp_path)))
    assert str(servers.away()) == f"the local stack's {name} is starting"
    with pytest.raises(RetryableError, match="is starting: try again in a moment"):
        servers.away().check(name)


def test_a_question_to_a_broker_that_has_ended_is_answered_at_once(tmp_path: Path) -> None:
    """By what has ended; a host gets the client all the same, and waits."""
    here, gone = _records(_myself()), _records(_myself(shift_s=100))
    state.save(tmp_path, here | {"kafka": gone["kafka"]})
    bench = Workbench(Settings(state_dir=str(tmp_path)))
    with pytest.raises(StackError, match="stack's kafka has ended"):
        bench.desired_topics()
    assert bench.patient_broker.properties["bootstrap.servers"] == "127.0.0.1:20001"
    state.save(tmp_path, here)
    assert bench.broker is bench.patient_broker  # it is there again, the workbench need not be made anew


def test_servers_that_were_stopped_are_none(tmp_path: Path) -> None:
    """Nobody waits for them, nor for what the settings name; asking leaves no folder behind."""
    state.save(tmp_path, _records(None))
    assert LocalStack(tmp_path).known() is None
    with pytest.raises(SettingsError, match="no servers for"):
        find_servers(Settings(state_dir=str(tmp_path)))
    here, gone = _records(_myself()), _records(_myself(shift_s=100))
    state.save(tmp_path, here | {"registry": gone["registry"]})
    named = Settings(state_dir=str(tmp_path), registry={"url": "http://registry.example"})
    assert find_servers(named).away().names == ()
    local = LocalStack(tmp_path / "none")
    assert local.info() is None
    assert local.down() == []
    assert not local.state_dir.exists()


@pytest.mark.parametrize("name", ["kafka", "registry"])
def test_what_the_settings_leave_out_is_a_stack(tmp_path: Path, name: str) -> None:
    """One server, beside a person's own: it is the stack, and what is not there of it is not missed."""
    state.save(tmp_path, {name: _records(_myself())[name]})
    stack = LocalStack(tmp_path, servers=(name,)).info()
    assert [bool(stack.bootstrap_servers), bool(stack.registry_url)] == [name == "kafka", name == "registry"]
    own: Any = {
        "kafka": {"registry": {"url": "http://r"}},
        "registry": {"kafka": {"bootstrap.servers": "b:1"}},
    }
    servers = find_servers(Settings(state_dir=str(tmp_path), **own[name]))
    assert (servers.local, servers.away().names) == ((name,), ())
    assert LocalStack(tmp_path).info() is None


def test_a_catalog_alone_needs_no_server(tmp_path: Path) -> None:
    """It is a file in the state folder, which has to be there."""
    own: Any = {"kafka": {"bootstrap.servers": "b:1"}, "registry": {"url": "http://r"}}
    settings = Settings(state_dir=str(tmp_path / "state"), **own)
    with pytest.raises(SettingsError, match=r"no servers for \[catalog\]"):
        find_servers(settings)
    steps: list[Step] = []
    info = LocalStack(tmp_path / "state", steps.append, servers=()).up()
    assert (info.started, info.pids) == ((), {})
    assert [step.detail for step in steps] == ["no server to start"]
    assert find_servers(settings).catalog["uri"] == info.catalog["uri"]


@pytest.mark.parametrize("setting", ["kafka_port", "registry_port"])
def test_a_demanded_port_that_is_taken_is_an_error(setting: str, tmp_path: Path) -> None:
    """Who sets a port wants that one; the message names it."""
    with socket.create_server((machine.LOOPBACK, 0)) as server:
        taken = server.getsockname()[1]
        with pytest.raises(StackError, match=rf"Port {taken}, .*in use.*set another"):
            LocalStack(tmp_path, **{setting: taken}).up()


def test_a_failed_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    """The end of the server's own output is in the message; no process is left."""
    steps = []
    local = LocalStack(tmp_path / "state", steps.append)
    (tmp_path / "state" / "kafka" / "data").mkdir(parents=True)
    (tmp_path / "state" / "kafka" / "data" / "meta.properties").touch()
    with pytest.raises(
        StackError, match=r"(?s)ended while it started.*(Unable to access jarfile|could not find)"
    ):
        local.up()
    assert steps[-1].state == "failed"
    assert local.info() is None
    assert local.down() == []


def test_records_without_their_cluster_are_not_formatted(tmp_path: Path) -> None:
    """Kafka's tool would make a new cluster, whose folder cannot take the place of the old one."""
    data = tmp_path / "data"
    (data / "clicks-0").mkdir(parents=True)
    with pytest.raises(StackError, match=r"no meta\.properties.*move the folder away"):
        Broker(tmp_path, {"client": 1, "controller": 2}).prepare(Jars(tmp_path))
    assert list(tmp_path.glob("format")) == []


def test_the_state_folder_is_private(tmp_path: Path) -> None:
    """Nobody else may read it and git leaves it alone; a file in its place is an error with a remedy."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o755)
    LocalStack(folder).down()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / ".gitignore").read_text() == "*\n"
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "deeper"):
        with pytest.raises(StackError, match=r"a file is where a folder should be: .* with --state-dir"):
            LocalStack(folder).up()


@pytest.mark.parametrize("name", ["a?b", "a#b", "50%25", '3"disk', "a\tb", "a\nb"])
def test_a_folder_that_no_url_can_hold_is_refused(name: str, tmp_path: Path) -> None:
    """Better at once than as a table in a folder nobody chose."""
    with pytest.raises(StackError, match=r"has ([?#%\"]|\\[tn]) in its path: choose another"):
        LocalStack(tmp_path / name)
