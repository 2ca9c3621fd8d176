"""The local stack, started and stopped by the sidebar, and events to try it with."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tabletopic_kernel.faces.jupyter_server.child import Child
from tabletopic_kernel.faces.jupyter_server.state_folder import Place, names_all_servers
from tabletopic_kernel.local.machine import logs_folder
from tabletopic_kernel.local.progress import Step
from tabletopic_kernel.model.errors import ActionNeededError, TableTopicError
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.config import wants_login

_MEGABYTE = 1024**2


@dataclass(frozen=True)
class Doing:
    """What is under way with the local stack; ``detail`` is the step, or why the last start failed."""

    state: Literal["idle", "starting", "stopping", "failed"] = "idle"
    detail: str = ""


class Servers:
    """Starts and stops the local stack of a place. One thing at a time; any thread may ask."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._lock = threading.Lock()  # guards _doing
        self._doing = Doing()

    @property
    def doing(self) -> Doing:
        """What is under way."""
        with self._lock:
            return self._doing

    def start(self, done: Callable[[], None]) -> None:
        """Begin to start the stack in a thread; ``done`` is called at the end. Nothing happens if it starts.

        As after ``tabletopic up --detach``, the servers go on when the Jupyter server has ended.

        Raises:
            ActionNeededError: the stack is being stopped, or is not wanted.
            SettingsError: the settings are wrong.
        """
        settings = self._place.settings()
        if names_all_servers(settings):
            raise ActionNeededError(
                "the settings name broker, registry and catalog, so no local stack is started: "
                "see that those run, or take them out of tabletopic.toml"
            )
        if self._begin("starting"):
            arguments = (settings, done)
            threading.Thread(target=self._up, args=arguments, name="stack start", daemon=True).start()

    def stop(self, end_host: Callable[[], None] = lambda: None) -> None:
        """Stop the hosts, then the stack, and wait for their end; the data stay.

        Args:
            end_host: ends the host that is not one of ``serve --detach``.

        Raises:
            ActionNeededError: it is just being started.
            StackError: it cannot be stopped.
        """
        from tabletopic_kernel.local.hosts import stop_detached  # noqa: PLC0415
        from tabletopic_kernel.local.stack import LocalStack  # noqa: PLC0415

        settings = self._place.settings()
        if not self._begin("stopping"):
            return
        try:
            self._set(Doing("stopping", "hosts commit what is staged"))
            end_host()
            stop_detached(Path(settings.state_dir))
            self._set(Doing("stopping", "broker and registry end"))
            LocalStack(Path(settings.state_dir), self._report).down()
        finally:
            self._set(Doing())

    def _begin(self, state: Literal["starting", "stopping"]) -> bool:
        """Whether it is on the caller to do it now; not if somebody else is at it."""
        with self._lock:
            if self._doing.state in ("idle", "failed"):
                self._doing = Doing(state, "…")
                return True
            if self._doing.state == state:
                return False
            raise ActionNeededError(f"the local stack is {self._doing.state}: try again when that is over")

    def _up(self, settings: Settings, done: Callable[[], None]) -> None:
        from tabletopic_kernel.local.stack import LocalStack  # noqa: PLC0415

        state_dir = Path(settings.state_dir)
        try:
            LocalStack(state_dir, self._report, wants_login=wants_login(settings)).up()
        except TableTopicError as error:
            self._set(Doing("failed", str(error)))
        except Exception as error:
            self._set(
                Doing("failed", f"the local stack could not be started: {error!r}; see {state_dir}/logs")
            )
        else:
            self._set(Doing())
        done()

    def _set(self, doing: Doing) -> None:
        with self._lock:
            self._doing = doing

    def _report(self, step: Step) -> None:
        with self._lock:
            if self._doing.state in ("starting", "stopping"):
                self._doing = Doing(self._doing.state, _detail(step))


def _detail(step: Step) -> str:
    if step.total_bytes and step.state == "running":
        done, total = step.done_bytes // _MEGABYTE, step.total_bytes // _MEGABYTE
        return f"{step.name}: {done} of {total} MB"
    return f"{step.name}{': ' if step.detail else ''}{step.detail}"


class Sample:
    """Sends click events in a process of its own: making them is work that would hold up the server."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._child = Child("the program that sends sample events")

    def send(self, topic: str, count: int) -> None:
        """Begin to send ``count`` events to ``topic``, as fast as it goes; it is made unless it is there.

        Raises:
            NoServersError: there is no broker.
            ActionNeededError: the last ones are still being sent.
        """
        state_dir = self._place.workbench().servers.state_dir
        command = [sys.executable, "-m", "tabletopic_kernel.faces.cli", "produce-clickstream"]
        command += ["--topic", topic, "--count", str(count), "--seed", str(time.time_ns() % 2**31)]
        log = logs_folder(state_dir) / "sample.out"
        if not self._child.start(command, log, self._place.environment()):
            raise ActionNeededError("sample events are still being sent: wait a moment")

    def state(self) -> dict[str, str]:
        """``sending``, ``failed`` with why as ``detail``, or ``idle``."""
        if self._child.pid is not None:
            return {"state": "sending", "detail": "sample events are being sent"}
        obituary = self._child.obituary()
        return {"state": "failed" if obituary else "idle", "detail": obituary or ""}
