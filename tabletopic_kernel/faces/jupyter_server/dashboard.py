"""The dashboard's process, and its proxy for logged-in users.

A separate process, because a page's callbacks would block the Jupyter server. It listens on a unix socket in
a private folder: a port would be open to every user of the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jupyter_server.base.handlers import JupyterHandler
from jupyter_server_proxy.handlers import NamedLocalProxyHandler
from tornado.web import HTTPError, authenticated
from tornado.websocket import WebSocketClosedError

from tabletopic_kernel.faces.jupyter_server.child import Child
from tabletopic_kernel.faces.jupyter_server.settings_in_force import SettingsInForce
from tabletopic_kernel.faces.live_dashboard.theme import page_css, palette
from tabletopic_kernel.local.machine import STATE_DIR, logs_folder, stack_errors
from tabletopic_kernel.model.errors import StackError, TableTopicError

DASHBOARD = "tabletopic_dashboard"
PATH = "tabletopic/dashboard"
# Panel and PyIceberg load in 2 s on an idle machine.
_READY_LIMIT_S = 60.0
_STOP_LIMIT_S = 5.0


@dataclass
class Dashboard:
    """The process behind ``prefix``, started on demand by ``command``."""

    in_force: SettingsInForce
    prefix: str
    command: list[str] = field(
        default_factory=lambda: [sys.executable, "-P", "-m", "tabletopic_kernel.faces.live_dashboard"]
    )
    child: Child = field(default_factory=lambda: Child("the dashboard"), repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)  # one start at a time
    _folder: Path | None = None

    @property
    def socket(self) -> str | None:
        """The process's socket, if it runs; it may not listen yet."""
        folder = self._folder
        return str(folder / "socket") if folder and self.child.pid is not None else None

    def ensure(self) -> str:
        """Start it unless it runs; its socket, once it responds. StackError has its last output."""
        with self._lock:
            path = self.socket or self._start()
            self._wait_until_ready(path)
            return path

    def is_ready(self) -> bool:
        """Whether it responds."""
        path = self.socket
        return path is not None and _accepts(path)

    def _start(self) -> str:
        self._remove_folder()
        with stack_errors(Path(tempfile.gettempdir()), "TMPDIR"):
            self._folder = Path(tempfile.mkdtemp(prefix="tabletopic-"))  # mode 0700
        path = str(self._folder / "socket")
        words = ["--unix-socket", path, "--prefix", self.prefix, "--parent-pid", str(os.getpid())]
        self.child.start([*self.command, *words], self._log(), self.in_force.environment())
        return path

    def warm(self) -> None:
        """Start it, unless it runs, without waiting, for a faster first page. Raises like ``ensure``."""
        with self._lock:
            if self.socket is None:
                self._start()

    def stop(self) -> None:
        """Stop it. Idempotent."""
        self.child.stop(_STOP_LIMIT_S)
        self._remove_folder()

    def _log(self) -> Path:
        try:
            state_dir = Path(self.in_force.settings().state_dir)
            with stack_errors(state_dir, STATE_DIR):
                return logs_folder(state_dir) / "dashboard.out"
        except TableTopicError:  # wrong settings, which the dashboard reports, or a read-only folder
            assert self._folder is not None
            return self._folder / "out"

    def _wait_until_ready(self, path: str) -> None:
        deadline = time.monotonic() + _READY_LIMIT_S
        while not _accepts(path):
            if self.child.pid is None:
                raise StackError(self.child.obituary() or "the dashboard was stopped; reload the page")
            if time.monotonic() > deadline:
                raise StackError(
                    f"the dashboard did not respond within {_READY_LIMIT_S:.0f} s; see {self._log()}"
                )
            time.sleep(0.05)

    def _remove_folder(self) -> None:
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _accepts(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
    return True


class DashboardProxy(NamedLocalProxyHandler):  # type: ignore[misc]
    """Proxies requests and websockets to the dashboard."""

    auth_resource = "tabletopic"
    # `prepare` has already required the login; Jupyter's check of extensions looks for it here.
    get = authenticated(NamedLocalProxyHandler.get)
    head = authenticated(NamedLocalProxyHandler.head)
    post = authenticated(NamedLocalProxyHandler.post)
    put = authenticated(NamedLocalProxyHandler.put)
    patch = authenticated(NamedLocalProxyHandler.patch)
    delete = authenticated(NamedLocalProxyHandler.delete)
    options = authenticated(NamedLocalProxyHandler.options)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # The dashboard knows its prefix, so it gets whole paths. Watching it is not activity.
        super().__init__(*args, **{**kwargs, "absolute_url": True, "update_last_activity": False})
        self.proxy_base = PATH

        def guarded(response: Any) -> None:
            """Add the headers of Jupyter's own pages: no foreign frames, no guessed types."""
            response.headers["Content-Security-Policy"] = self._frame_policy()
            response.headers["X-Content-Type-Options"] = "nosniff"

        self.rewrite_response = guarded

    def _frame_policy(self) -> str:
        """The server's policy, but with frames of the same origin: a Hub forbids all."""
        own = str(self.content_security_policy)
        return own.replace("frame-ancestors 'none'", "frame-ancestors 'self'")

    async def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Require the login, then a dashboard that responds."""
        await JupyterHandler.prepare(self)
        if self._finished:  # redirected to the login page
            return
        if not self.current_user:
            if self.request.method != "GET" or self.request.headers.get("Upgrade"):
                raise HTTPError(403)
            self.redirect(f"{self.get_login_url()}?{urlencode({'next': self.request.uri})}")
            return
        # The websocket also replays dead letters, so it needs the right to execute.
        action = "execute" if self.request.headers.get("Upgrade") else "read"
        allowed = self.authorizer.is_authorized(self, self.current_user, action, self.auth_resource)
        if not (await allowed if asyncio.iscoroutine(allowed) else allowed):
            raise HTTPError(403)
        backend = self.settings[DASHBOARD]
        shown = self.get_query_argument("profile", "") or backend.in_force.profile
        if shown != backend.in_force.profile:
            raise HTTPError(
                409,
                "this dashboard is of the profile %s, and JupyterLab uses another one now: close it",
                shown,
            )
        is_page = self.request.method == "GET" and self.request.path.endswith(f"/{PATH}/")
        if is_page and not await backend.call(backend.dashboard.is_ready):
            await self._open(backend)
            return
        try:
            self.unix_socket = await backend.call(backend.dashboard.ensure)
        except TableTopicError as error:
            raise HTTPError(503, "%s", str(error)) from error

    async def _open(self, backend: Any) -> None:
        """Show the heading at once, and the page when the process responds."""
        topic, theme = self.get_query_argument("topic", ""), self.get_query_argument("theme", "")
        title = html.escape(topic or "Table topics")
        self.set_header("Content-Security-Policy", self._frame_policy())
        self.write(
            f"<!doctype html><title>{title}</title><style>{page_css(palette(theme))}</style>"
            f'<main><h1 style="font-size:20px">{title}</h1>'
            '<p role="status">Starting the dashboard …</p></main>'
        )
        self.flush()  # the proxy's flush returns nothing to await
        try:
            await backend.call(backend.dashboard.ensure)
        except TableTopicError as error:
            self.finish(f"<p>{html.escape(str(error))}</p>")
        else:
            self.finish('<meta http-equiv="refresh" content="0">')

    def proxy_request_headers(self) -> Any:
        """The page's headers, without this server's credentials."""
        headers = super().proxy_request_headers()
        for name in ("Authorization", "Cookie", "X-XSRFToken"):
            with contextlib.suppress(KeyError):
                del headers[name]
        return headers

    def write_message(self, message: Any, binary: bool = False) -> Any:
        """Send to the page, unless it was just closed."""
        try:
            return super().write_message(message, binary)
        except WebSocketClosedError:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            done.set_result(None)
            return done
