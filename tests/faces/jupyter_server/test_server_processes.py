"""A Jupyter server, its host and its dashboard as processes on the real stack; what a killed one leaves."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from tornado.httpclient import HTTPRequest
from tornado.ioloop import IOLoop
from tornado.websocket import websocket_connect

from tabletopic_kernel.local import machine, processes, watcher
from tabletopic_kernel.local.stack import SERVERS, LocalStack, StackInfo
from tests.faces.jupyter_server.live_server import private_jupyter, until

pytestmark = pytest.mark.integration

BASE = "/user/alice/"
TOKEN = "secret"
TOPIC = "from_the_sidebar"
_HOST_LIMIT_S = 180  # Spark starts on a machine that is busy with other tests


@dataclass
class Jupyter:
    """A server in a separate process."""

    process: subprocess.Popen[bytes]
    port: int

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """One request, logged in."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        with contextlib.closing(connection):
            raw = None if body is None else json.dumps(body)
            connection.request(method, BASE + path, raw, {"Authorization": f"token {TOKEN}"})
            answer = connection.getresponse()
            return answer.status, answer.read()

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """A request to the extension that succeeds."""
        status, raw = self.ask(method, f"tabletopic/api/{path}", body)
        assert status < 300, raw
        return json.loads(raw) if raw else None

    def row(self, topic: str) -> dict[str, Any]:
        """A topic's row in the overview, or an empty one."""
        rows = self.api("GET", "overview")["topics"]
        return next((row for row in rows if row["topic"] == topic), {})

    def is_up(self) -> bool:
        """Whether it responds."""
        assert self.process.poll() is None, "the Jupyter server has ended"
        try:
            return self.ask("GET", "api/status")[0] == 200
        except OSError:
            return False

    def children(self) -> dict[str, psutil.Process]:
        """Its child processes that are ours, by purpose."""
        found = {}
        for child in psutil.Process(self.process.pid).children():
            words: list[str] = []
            with contextlib.suppress(psutil.NoSuchProcess):  # it may have ended since
                words = child.cmdline()
            for name in ("serve", "tabletopic_kernel.faces.live_dashboard"):
                if name in words:
                    found[name.rsplit(".", 1)[-1]] = child
        return found


@contextlib.contextmanager
def jupyter_process(stack: StackInfo, folder: Path, **more: str) -> Iterator[Jupyter]:
    """A server that uses the stack and keeps its files in ``folder``; ``more``: of its environment."""
    port = machine.free_port(set())
    words = [f"--ServerApp.port={port}", f"--ServerApp.base_url={BASE}", "--ServerApp.port_retries=0"]
    words += ["--ServerApp.open_browser=False", "--allow-root", f"--ServerApp.root_dir={folder}"]
    words += [f"--TableTopicApp.state_dir={stack.state_dir}"]
    with private_jupyter(folder) as variables, (folder / "jupyter.log").open("wb") as log:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("TABLETOPIC_S")}
        # The extension is switched on by the package's own configuration, as for anybody who installs it.
        environment = {**ours, **variables, "JUPYTER_TOKEN": TOKEN, **more}
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyter_server", *words],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    server = Jupyter(process, port)
    try:
        until(server.is_up, 120)
        yield server
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def jupyter(stack: StackInfo, tmp_path: Path) -> Iterator[Jupyter]:
    """A server that uses the stack."""
    with jupyter_process(stack, tmp_path) as server:
        yield server


def test_from_a_click_to_rows_and_a_killed_server(jupyter: Jupyter, stack: StackInfo) -> None:
    """One click starts a host and rows come; the dashboard shows; a killed server leaves no process."""
    jupyter.api("POST", "sample", {"topic": TOPIC, "count": 500})
    until(lambda: jupyter.row(TOPIC).get("partitions"), 120)
    plan = jupyter.api("POST", f"topics/{TOPIC}/plan", {"settings": {"commit_interval_ms": "500ms"}})
    assert plan["creates"]
    assert not plan["refused"]
    row = jupyter.api("PUT", f"topics/{TOPIC}", {"settings": {"commit_interval_ms": "500ms"}})
    assert row["enabled"]

    until(lambda: jupyter.api("GET", f"topics/{TOPIC}")["rows"] == 500, _HOST_LIMIT_S)
    done = until(lambda: _caught_up(jupyter), _HOST_LIMIT_S)
    assert done["schema_version"] == "v1"
    told = jupyter.api("GET", f"topics/{TOPIC}")
    assert (told["rows"], told["run"], told["settings"]["commit_interval_ms"]) == (500, "on", 500)
    snapshots = jupyter.api("GET", f"topics/{TOPIC}/history")["snapshots"]
    assert snapshots[0]["snapshot_id"] == done["snapshot_id"]
    assert "event_id" in {
        column["name"] for column in jupyter.api("GET", f"topics/{TOPIC}/schema")["columns"]
    }
    assert "Committed" in {e["type"] for e in jupyter.api("GET", f"topics/{TOPIC}/events")["events"]}
    host = jupyter.api("GET", "overview")["host"]
    assert host["state"] == "running"

    jupyter.ask("GET", "tabletopic/dashboard/")  # perhaps only the beginning, until the process responds
    status, page = jupyter.ask("GET", f"tabletopic/dashboard/?topic={TOPIC}")
    assert status == 200, page
    script = page.split(b'src="static/js/bokeh.min.js', 1)[1].split(b'"', 1)[0].decode()
    status, _ = jupyter.ask("GET", f"tabletopic/dashboard/static/js/bokeh.min.js{script}")
    assert status == 200
    IOLoop(make_current=False).run_sync(lambda: _bokeh_answers(jupyter, page), timeout=240)

    ours = jupyter.children()
    assert ours.keys() == {"serve", "live_dashboard"}
    jvms = ours["serve"].children(recursive=True)
    jupyter.process.send_signal(signal.SIGKILL)
    jupyter.process.wait()
    _, alive = psutil.wait_procs([*ours.values(), *jvms], timeout=120)
    assert not alive
    assert all(psutil.pid_exists(pid) for pid in stack.pids.values())  # the stack is not the server's


def _caught_up(jupyter: Jupyter) -> dict[str, Any] | None:
    row = jupyter.row(TOPIC)
    assert row.get("state") != "failed", row
    return row if row.get("lag_records") == 0 and row.get("commits") else None


async def _bokeh_answers(jupyter: Jupyter, page: bytes) -> None:
    """The page's websocket is proxied: its server greets the page's token."""
    token = page.split(b'"token":"', 1)[1].split(b'"', 1)[0].decode()
    request = HTTPRequest(
        f"ws://127.0.0.1:{jupyter.port}{BASE}tabletopic/dashboard/ws",
        headers={"Authorization": f"token {TOKEN}"},
        connect_timeout=240,
    )
    connection = await websocket_connect(request, subprotocols=["bokeh", token])
    message = await connection.read_message()
    assert message is not None
    assert json.loads(message)["msgtype"] == "ACK"
    connection.close()


def test_the_stack_ends_with_a_killed_server_behind_a_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever started it; on a machine of one's own it stays, as nothing is to stop it."""
    monkeypatch.delenv("JUPYTERHUB_API_TOKEN", raising=False)
    local = LocalStack(tmp_path / "state")
    info = local.up()
    try:
        for behind_a_hub in (False, True):
            if behind_a_hub:
                monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "token")
            folder = tmp_path / f"jupyter-{behind_a_hub}"
            folder.mkdir()
            with jupyter_process(info, folder) as jupyter:
                until(lambda it=jupyter: it.api("GET", "overview")["servers"]["state"] == "ready", 240)  # type: ignore[misc]
                found = processes.find({processes.mark(watcher.KEEPER, info.state_dir)})
                keepers = [psutil.Process(one.pid) for _, one in found]
                assert len(keepers) == behind_a_hub
            psutil.wait_procs(keepers, timeout=240)
            assert (local.info() is None) == behind_a_hub
            left = processes.find({processes.mark(name, info.state_dir) for name in SERVERS})
            assert len(left) == (0 if behind_a_hub else len(SERVERS))
    finally:
        local.down()
