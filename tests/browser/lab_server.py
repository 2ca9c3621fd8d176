"""A JupyterLab for the browser tests: this environment's, in a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tabletopic_kernel.local.machine import free_port

# As JupyterHub has it: nothing may rely on the root.
BASE_URL = "/user/alice/"
_TOKEN = "browser-tests"
_THEMES = "@jupyterlab/apputils-extension:themes"
_NOTIFICATIONS = "@jupyterlab/apputils-extension:notification"
_READY_S = 90.0


@dataclass
class Lab:
    """A running server. ``folder`` has its files and settings, and its state unless ``state`` has it."""

    folder: Path
    state: Path | None = None
    port: int = field(default_factory=lambda: free_port(set()))
    process: subprocess.Popen[bytes] | None = None

    @property
    def origin(self) -> str:
        """Scheme, address and port: everything else is outside."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """A fresh page, logged in."""
        return f"{self.origin}{BASE_URL}lab?token={_TOKEN}&reset"

    @property
    def state_dir(self) -> Path:
        """Folder of the local stack."""
        return self.state or self.folder / "state"

    def start(self) -> int:
        """Start it and wait until it responds; returns its process."""
        files = self.folder / "files"
        files.mkdir(parents=True, exist_ok=True)
        places = {
            f"JUPYTER_{name}_DIR": str(self.folder / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")
        }
        command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root"]
        command += ["--ServerApp.ip=127.0.0.1", f"--port={self.port}", "--ServerApp.port_retries=0"]
        command += [f"--IdentityProvider.token={_TOKEN}", f"--ServerApp.base_url={BASE_URL}"]
        command += [f"--ServerApp.root_dir={files}", f"--TableTopicApp.state_dir={self.state_dir}"]
        command += ["--expose-app-in-browser"]  # tests run its commands where menus are not the point
        with (self.folder / "lab.log").open("wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=files,
                env={**os.environ, **places},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + _READY_S
        while True:
            try:
                self.ask("GET", "api/status")
                break
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise RuntimeError(f"JupyterLab does not start:\n{self.log()}") from None
                time.sleep(0.2)

        # JupyterLab's own news and updates are requests to the outside, and a question that covers the page.
        self._set(_NOTIFICATIONS, {"fetchNews": "false", "checkForUpdates": False})
        return self.process.pid

    def stop(self) -> None:
        """Ask it to end, and wait."""
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def log(self) -> str:
        """The end of what it logged."""
        return (self.folder / "lab.log").read_text(errors="replace")[-5000:]

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The response to a request below the base URL, as JSON. Raises OSError."""
        request = urllib.request.Request(
            f"{self.origin}{BASE_URL}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {_TOKEN}"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def set_theme(self, name: str) -> None:
        """The theme of pages opened from now on."""
        self._set(_THEMES, {"theme": name})

    def _set(self, plugin: str, settings: dict[str, Any]) -> None:
        self.ask("PUT", f"lab/api/settings/{plugin}", {"raw": json.dumps(settings)})

    def children(self, *words: str) -> list[psutil.Process]:
        """Processes that the server started and whose command has all these words."""
        found = psutil.Process(self.process.pid).children(recursive=True)
        return [one for one in found if all(word in _command(one) for word in words)]


def _command(process: psutil.Process) -> str:
    """Its command line; empty once it has ended, like the chmod that Hadoop's file system starts per file."""
    with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return " ".join(process.cmdline())
    return ""
