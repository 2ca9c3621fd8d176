"""Two users of a JupyterHub: each has their own table topics, below their own address."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from playwright.sync_api import Page, Response, expect

from tabletopic_kernel.local import machine
from tabletopic_kernel.local.java.jars import cache_dir
from tabletopic_kernel.local.stack import LocalStack
from tests.browser.chromium import chromium
from tests.browser.pages import LabPage
from tests.environment import completed
from tests.faces.jupyter_server.live_server import private_jupyter, until
from tests.servers.npm import node_tools

pytestmark = pytest.mark.integration

ADMIN = "token-of-the-tests"
_SERVER_MS, _STACK_MS = 180_000, 240_000
PROXY = "configurable-http-proxy@5"
CONFIG = """
c = get_config()
c.JupyterHub.bind_url = "http://127.0.0.1:{hub}"
c.JupyterHub.hub_port = {inner}
c.JupyterHub.db_url = "sqlite:///{folder}/hub.sqlite"
c.JupyterHub.cookie_secret_file = "{folder}/cookie_secret"
c.ConfigurableHTTPProxy.command = ["{node}", "{proxy}"]
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api}"
c.ConfigurableHTTPProxy.pid_file = "{folder}/proxy.pid"
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = "{folder}/homes/{{username}}"
c.Spawner.cmd = ["{python}", "-m", "jupyterhub.singleuser"]
c.Spawner.args = ["--allow-root"]
c.Spawner.start_timeout = 180
c.Spawner.http_timeout = 180
c.Spawner.environment = dict(TABLETOPIC_CACHE="{cache}")
c.JupyterHub.services = [dict(name="tests", api_token="{admin}")]
c.JupyterHub.load_roles = [
    dict(
        name="tests", services=["tests"], scopes=["admin:users", "admin:servers", "tokens", "access:servers"]
    )
]
"""


@dataclass
class Hub:
    """A running hub."""

    process: subprocess.Popen[bytes]
    port: int
    folder: Path

    def ask(
        self, method: str, path: str, token: str | None = None, body: Any = None
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Send one request; redirects are not followed."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        with contextlib.closing(connection):
            headers = {} if token is None else {"Authorization": f"token {token}"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        """A request to the hub itself that succeeds."""
        status, _, raw = self.ask(method, f"/hub/api/{path}", ADMIN, body)
        assert status < 300, raw
        return json.loads(raw) if raw else None

    def answers(self) -> bool:
        """Whether hub and proxy run."""
        assert self.process.poll() is None, "the hub has ended"
        try:
            return self.ask("GET", "/hub/api/")[0] == 200
        except OSError:
            return False


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with its proxy, which is downloaded from npm."""
    folder = tmp_path_factory.mktemp("hub")
    node, npm = node_tools()
    path = f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    install = [str(npm), "install", "--no-audit", "--no-fund", "--prefix", str(folder), PROXY]
    done = completed(install, env={**os.environ, "PATH": path})
    if done.returncode:
        pytest.skip(f"{PROXY} cannot be had from npm: {done.stderr.strip().splitlines()[:1]}")
    proxy = folder / "node_modules" / "configurable-http-proxy" / "bin" / "configurable-http-proxy"
    free: list[int] = []
    for _ in range(3):
        free.append(machine.free_port(set(free)))
    (folder / "homes").mkdir()
    config = folder / "config.py"
    config.write_text(
        CONFIG.format(
            hub=free[0],
            inner=free[1],
            api=free[2],
            folder=folder,
            node=node,
            proxy=proxy,
            python=sys.executable,
            admin=ADMIN,
            cache=cache_dir(),
        )
    )
    with private_jupyter(folder) as variables, (folder / "hub.log").open("wb") as log:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("TABLETOPIC_")}
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterhub", "-f", str(config)],
            cwd=folder,
            env={**ours, **variables, "PATH": path},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    running = Hub(process, free[0], folder)
    try:
        until(running.answers, 120)
        yield running
    finally:
        below = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        psutil.wait_procs([psutil.Process(process.pid), *below], timeout=240)
        left = [one for one in below if one.is_running()]
        for one in left:
            one.kill()
    assert left == []


def test_two_users(hub: Hub) -> None:
    """Each with a server, an overview and a dashboard of their own, closed to the other and to strangers."""
    tokens = {}
    for name in ("alice", "bob"):
        hub.admin("POST", f"users/{name}")
        hub.admin("POST", f"users/{name}/server")
        tokens[name] = hub.admin("POST", f"users/{name}/tokens", {})["token"]
    for name in tokens:
        until(lambda name=name: hub.admin("GET", f"users/{name}")["servers"].get("", {}).get("ready"), 180)  # type: ignore[misc]

    for name, other in (("alice", "bob"), ("bob", "alice")):
        path = f"/user/{name}/tabletopic"
        status, _, raw = hub.ask("GET", f"{path}/api/overview", tokens[name])
        assert status == 200, raw

        def state(path: str = path, token: str = tokens[name]) -> str:
            return str(json.loads(hub.ask("GET", f"{path}/api/overview", token)[2])["servers"]["state"])

        until(lambda state=state: state() == "none")  # type: ignore[misc]
        assert hub.ask("GET", f"{path}/api/overview", tokens[other])[0] == 403
        assert hub.ask("GET", f"{path}/api/overview")[0] == 403
        assert hub.ask("PUT", f"{path}/api/topics/clicks", tokens[other], {})[0] == 403
        status, headers, _ = hub.ask("GET", f"{path}/dashboard/")
        assert status == 302
        assert headers["Location"].startswith("/hub/api/oauth2/authorize")

    status, headers, _ = hub.ask("GET", "/user/alice/tabletopic/api/dashboard?theme=dark", tokens["alice"])
    assert (status, headers["Location"]) == (302, "/user/alice/tabletopic/dashboard/?theme=dark")
    place = headers["Location"]
    hub.ask("GET", place, tokens["alice"])  # perhaps only the beginning, until the process responds
    status, headers, page = hub.ask("GET", place, tokens["alice"])
    assert status == 200, page
    assert b"<title>" in page
    # A hub forbids frames for Jupyter's own pages; this one must be shown in one.
    assert headers["Content-Security-Policy"] == "frame-ancestors 'self'"
    script = page.split(b'src="static/js/bokeh.min.js', 1)[1].split(b'"', 1)[0].decode()
    static = f"/user/alice/tabletopic/dashboard/static/js/bokeh.min.js{script}"
    assert hub.ask("GET", static, tokens["alice"])[0] == 200
    assert hub.ask("GET", static, tokens["bob"])[0] in (302, 403)


@dataclass(frozen=True)
class UsersLab:
    """Where a user's JupyterLab is."""

    hub: Hub
    name: str

    @property
    def origin(self) -> str:
        """The hub and its servers have the same origin."""
        return f"http://127.0.0.1:{self.hub.port}"

    @property
    def url(self) -> str:
        """A fresh page."""
        return f"{self.origin}/user/{self.name}/lab?reset"

    @property
    def state_dir(self) -> Path:
        """Folder of the user's stack."""
        return self.hub.folder / "homes" / self.name / ".tabletopic"


def _log_in(page: Page, lab: UsersLab) -> None:
    """Log in through the Hub's form, which starts the user's server."""
    page.goto(f"{lab.origin}/hub/login")
    page.get_by_label("Username").fill(lab.name)
    page.get_by_label("Password").fill("any")
    page.get_by_role("button", name="Sign in").click()
    page.locator("#jupyterlab-splash").wait_for(state="detached", timeout=_SERVER_MS)
    page.locator(".jp-LauncherCard").first.wait_for(timeout=_SERVER_MS)


def test_the_screens_of_a_user(hub: Hub, tmp_path: Path, class_archive: None) -> None:
    """In a browser: from the Hub's login to rows in the sidebar and the dashboard in its frame."""
    lab = UsersLab(hub, "carol")
    stack = LocalStack(lab.state_dir)
    policies: list[str | None] = []
    said: list[str] = []
    try:
        with chromium(tmp_path) as browser:
            shown = LabPage(browser.new_page(), lab)
            shown.page.on("console", lambda message: said.append(message.text))
            shown.page.on("response", lambda answer: policies.extend(_frame_policies(answer)))
            _log_in(shown.page, lab)
            shown.open()
            shown.button("Start the local stack").click()
            shown.button("Send sample events").click(timeout=_STACK_MS)
            shown.switch("clicks").click(timeout=_STACK_MS)
            expect(shown.row("clicks")).to_contain_text("up to date", timeout=_STACK_MS)
            known = stack.info()
            assert known is not None
            assert known.kafka_login  # without it any user of the machine could read the topics
            shown.menu("clicks", "Open Dashboard")
            frame = shown.page.frame_locator(".jp-TableTopic-dashboard iframe")
            frame.get_by_text("5,000", exact=True).first.wait_for(timeout=_SERVER_MS)
            frame.locator("canvas").first.wait_for(timeout=_SERVER_MS)
            shown.shot("hub-dashboard")
            assert (shown.errors, shown.outside()) == ([], [])
        assert set(policies) == {"frame-ancestors 'self'"}
        assert [text for text in said if "Content Security" in text] == []
        hub.admin("DELETE", f"users/{lab.name}/server")
        until(lambda: stack.known() is None, _SERVER_MS / 1000)  # its servers are stopped with it
    finally:
        stack.down()


def _frame_policies(answer: Response) -> list[str | None]:
    """Who may show the dashboard's page in a frame, according to its response."""
    is_page = "/tabletopic/dashboard/" in answer.url and answer.request.resource_type == "document"
    return [answer.headers.get("content-security-policy")] if is_page and answer.status == 200 else []
