"""A Jupyter server with the extension, in a thread of the test process."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import io
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from jupyter_server.serverapp import ServerApp
from traitlets.config import Config

from tabletopic_kernel.faces.jupyter_server.backend import Backend
from tabletopic_kernel.faces.jupyter_server.rest import BACKEND

BASE_URL = "/user/alice/"
TOKEN = "secret"


@dataclass(frozen=True)
class Reply:
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, parsed as JSON."""
        return json.loads(self.body)


def forget_afterwards(patch: pytest.MonkeyPatch) -> None:
    """Variables that an extension sets for its kernels are removed after the test."""
    for name in ("TABLETOPIC_BASE_URL", "TABLETOPIC_PROFILE", "TABLETOPIC_STATE_DIR"):
        patch.setenv(name, "")
        patch.delenv(name)


class LiveServer:
    """A Jupyter server with the extension, in a thread of this process."""

    def __init__(self, folder: Path, **app: Any) -> None:
        self.folder = folder
        self.app = ServerApp(
            config=Config(TableTopicApp=app),
            # The language servers' extension never ends its thread.
            jpserver_extensions={"tabletopic_kernel": True, "jupyter_lsp": False},
            root_dir=str(folder),
            base_url=BASE_URL,
            ip="127.0.0.1",
            port=0,
            open_browser=False,
            allow_root=True,
        )
        self.app.config.IdentityProvider.token = TOKEN
        self.app.init_signal = lambda: None  # signals are the main thread's
        self.log = io.StringIO()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        self.app.initialize(argv=[])
        self.app.log.handlers = [logging.StreamHandler(self.log)]
        self._loop = asyncio.get_event_loop()
        self._loop.call_soon(self._ready.set)
        self.app.start()

    def __enter__(self) -> LiveServer:
        self._thread.start()
        assert self._ready.wait(240), "the Jupyter server did not start"
        (sock, *_) = self.app.http_server._sockets.values()
        self.port = sock.getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self.app.stop)
        self._thread.join(240)
        assert not self._thread.is_alive()

    @property
    def backend(self) -> Backend:
        """The extension's."""
        found: Backend = self.app.web_app.settings[BACKEND]
        return found

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        login: bool = True,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        """Send one request; redirects are not followed. Bytes are sent unchanged, everything else as JSON."""
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        given = {**({"Authorization": f"token {TOKEN}"} if login else {}), **(headers or {})}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, BASE_URL + quote(path, safe="/?=&%"), raw, given)
            answer = connection.getresponse()
            return Reply(answer.status, dict(answer.getheaders()), answer.read())

    def api(self, method: str, path: str, body: Any = None, **more: Any) -> Reply:
        """Send a request below the extension's interface."""
        return self.ask(method, f"tabletopic/api/{path}", body, **more)


@contextlib.contextmanager
def private_jupyter(folder: Path) -> Iterator[dict[str, str]]:
    """Variables that keep Jupyter out of all folders of the user who runs the tests."""
    names = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "IPYTHONDIR": "ipython",
    }
    yield {variable: str(folder / name) for variable, name in names.items()}


def until(found: Callable[[], Any], limit_s: float = 240) -> Any:
    """Wait until ``found`` returns something true."""
    deadline = time.monotonic() + limit_s
    while not (value := found()):
        assert time.monotonic() < deadline, "it did not come to that in time"
        time.sleep(0.05)
    return value
