"""The dashboard behind the login: the requests that reach it, and the error if it does not start."""

from __future__ import annotations

import os
import signal
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.faces.jupyter_server.live_server import (
    BASE_URL,
    TOKEN,
    LiveServer,
    forget_afterwards,
    private_jupyter,
    until,
)

# Says what it was asked, in place of the pages.
ECHO = """
import asyncio, json, os, sys
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_unix_socket
from tornado.web import Application, RequestHandler

class Echo(RequestHandler):
    def get(self):
        self.write({"path": self.request.uri, "headers": dict(self.request.headers), "words": sys.argv[1:]})

async def main():
    server = HTTPServer(Application([(".*", Echo)]))
    server.add_socket(bind_unix_socket(sys.argv[sys.argv.index("--unix-socket") + 1]))
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A Jupyter server whose dashboard is an echo."""
    folder = tmp_path_factory.mktemp("jupyter")
    (folder / "echo.py").write_text(ECHO)
    with pytest.MonkeyPatch.context() as patch, private_jupyter(folder) as variables:
        for name, value in variables.items():
            patch.setenv(name, value)
        forget_afterwards(patch)
        command = [sys.executable, str(folder / "echo.py")]
        with LiveServer(folder, state_dir=str(folder / "state"), dashboard_command=command) as server:
            yield server
            pid, place = server.backend.dashboard.child.pid, server.backend.dashboard.socket
        # It ends with the server, and so does its folder.
        assert pid is None or not psutil.pid_exists(pid)
        assert place is None or not Path(place).parent.exists()


def ask(live: LiveServer, path: str = "tabletopic/dashboard/", **headers: str) -> Any:
    """The requests that reached the dashboard."""
    live.backend.dashboard.ensure()
    reply = live.ask("GET", path, headers=headers)
    assert reply.status == 200, reply.body
    return reply.json


def test_it_is_asked_with_its_prefix(live: LiveServer) -> None:
    """Paths go on whole; token and cookies stay here; others must not frame it, and it is no activity."""
    told = ask(live, "tabletopic/dashboard/static/a.js?topic=a%26b&theme=dark")
    assert told["path"] == f"{BASE_URL}tabletopic/dashboard/static/a.js?topic=a%26b&theme=dark"
    socket = live.backend.dashboard.socket
    assert told["words"] == [
        *("--unix-socket", socket),
        *("--prefix", f"{BASE_URL}tabletopic/dashboard"),
        *("--parent-pid", str(os.getpid())),
    ]
    assert Path(str(socket)).parent.stat().st_mode & 0o077 == 0  # nobody else's
    headers = live.ask("GET", "tabletopic/dashboard/").headers
    assert "frame-ancestors 'self'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    headers = ask(live, Cookie="a=b", **{"X-XSRFToken": "x", "Accept-Language": "nl"})["headers"]
    assert headers["Accept-Language"] == "nl"
    assert not {"Authorization", "Cookie", "X-Xsrftoken"} & headers.keys()
    times = live.app.web_app.settings["last_activity_times"]
    times.clear()
    ask(live)
    assert times == {}


def test_it_starts_again(live: LiveServer) -> None:
    """After it was killed, the next who looks gets a new one."""
    ask(live)
    first = live.backend.dashboard.child.pid
    os.kill(first or 0, signal.SIGKILL)
    until(lambda: live.backend.dashboard.child.pid is None)
    ask(live)
    assert live.backend.dashboard.child.pid not in (first, None)


def test_pages_begin_early(live: LiveServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The heading is there while a busy machine starts the process; then the browser asks again."""
    dashboard, may_start = live.backend.dashboard, tmp_path / "may-start"
    dashboard.stop()
    os.mkfifo(may_start)
    program = f"import sys; open({str(may_start)!r}).read(); exec(open({dashboard.command[1]!r}).read())"
    monkeypatch.setattr(dashboard, "command", [sys.executable, "-c", program])
    url = f"http://127.0.0.1:{live.port}{BASE_URL}tabletopic/dashboard/?topic=a%3Cb&theme=dark"
    asked = urllib.request.Request(url, headers={"Authorization": f"token {TOKEN}"})
    with urllib.request.urlopen(asked, timeout=240) as page:
        begun = page.read1().decode()
        assert (
            '<main><h1 style="font-size:20px">a&lt;b</h1>' in begun
        )  # the sidebar shows a page that has a main
        assert "color-scheme: dark" in begun
        assert "frame-ancestors 'self'" in page.headers["Content-Security-Policy"]
        may_start.write_text("")  # waits for the process
        assert page.read().decode() == '<meta http-equiv="refresh" content="0">'
    assert ask(live)["path"]


def test_who_may_only_read_gets_no_connection(live: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the websocket dead letters are replayed, so it needs what Jupyter asks for websockets."""
    asked: list[str] = []

    class Readers:
        def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
            asked.append(f"{action} {resource}")
            return action == "read"

    monkeypatch.setitem(live.app.web_app.settings, "authorizer", Readers())
    ask(live)
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    reply = live.ask(
        "GET", "tabletopic/dashboard/ws", headers={**upgrade, "Sec-WebSocket-Key": "a" * 22 + "=="}
    )
    assert reply.status == 403
    assert asked == ["read tabletopic", "execute tabletopic"]
