"""What the sidebar starts and stops: the local stack, a background host, and sample events.

The background host is ``tabletopic serve`` as a child of this server. It outlives kernels and ends with the
server: on request, or by itself when its parent has ended.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tabletopic_kernel.faces.jupyter_server.answers import HostState
from tabletopic_kernel.faces.jupyter_server.answers import Sample as SampleState
from tabletopic_kernel.faces.jupyter_server.child import Child
from tabletopic_kernel.faces.jupyter_server.settings_in_force import SettingsInForce
from tabletopic_kernel.local.hosts import host_mark, stop_detached
from tabletopic_kernel.local.machine import STATE_DIR, logs_folder, stack_errors
from tabletopic_kernel.local.progress import Step
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError, TableTopicError
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.model.topic_names import SETTINGS_TOPIC
from tabletopic_kernel.workbench.config import local_stack, names_all_servers

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.workbench import Workbench


_MEGABYTE = 1024**2


@dataclass(frozen=True)
class Doing:
    """The local stack's state; ``detail`` is the step, or why the last start failed."""

    state: Literal["idle", "starting", "stopping", "failed"] = "idle"
    detail: str = ""


class Servers:
    """Starts and stops the local stack of the current settings. One action at a time; any thread may call."""

    def __init__(self, in_force: SettingsInForce) -> None:
        self._in_force = in_force
        self._lock = threading.Lock()  # guards _doing
        self._doing = Doing()

    @property
    def doing(self) -> Doing:
        """What is in progress."""
        with self._lock:
            return self._doing

    def start(self, done: Callable[[], None]) -> None:
        """Start the stack in a thread, unless it is starting; it outlives the Jupyter server.

        ``done`` is called at the end. Raises ActionNeededError if it is being stopped, or is not needed.
        """
        settings = self._in_force.settings()
        if names_all_servers(settings):
            raise ActionNeededError(
                "the settings name broker, registry and catalog, so no local stack is started: "
                "check that those run, or remove them from tabletopic.toml"
            )
        if self._try_begin("starting"):
            arguments = (settings, done)
            threading.Thread(target=self._up, args=arguments, name="stack start", daemon=True).start()

    def stop(self, end_host: Callable[[], None] = lambda: None) -> None:
        """Stop the hosts (``end_host``: the one without ``serve --detach``), then the stack; the data stays.

        Waits for their end. Raises ActionNeededError (it is just being started) or StackError.
        """
        settings = self._in_force.settings()
        if not self._try_begin("stopping"):
            return
        try:
            self._set(Doing("stopping", "hosts commit staged files"))
            end_host()
            stop_detached(Path(settings.state_dir))
            self._set(Doing("stopping", "broker and registry stop"))
            local_stack(settings, self._report).down()
        finally:
            self._set(Doing())

    def _try_begin(self, state: Literal["starting", "stopping"]) -> bool:
        """Whether the caller should do it now: False if it is already in progress."""
        with self._lock:
            if self._doing.state in ("idle", "failed"):
                self._doing = Doing(state, "…")
                return True
            if self._doing.state == state:
                return False
            raise ActionNeededError(f"the local stack is {self._doing.state}: try again once that is done")

    def _up(self, settings: Settings, done: Callable[[], None]) -> None:
        try:
            local_stack(settings, self._report).up()
            self._set(Doing())
        except TableTopicError as error:
            self._set(Doing("failed", error.advice))
        except Exception as error:
            logs = f"{settings.state_dir}/logs"
            self._set(Doing("failed", f"the local stack could not be started: {error!r}; see {logs}"))
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
    """Sends click events in another process: generating them would block the server."""

    def __init__(self, in_force: SettingsInForce) -> None:
        self._in_force = in_force
        self._child = Child("the program that sends sample events")

    def send(self, topic: str, count: int) -> None:
        """Send ``count`` events as fast as possible; ActionNeededError if earlier ones are still sent."""
        state_dir = self._in_force.workbench().servers.state_dir
        command = [sys.executable, "-P", "-m", "tabletopic_kernel.faces.cli", "sample"]
        command += [topic, "--count", str(count), "--seed", str(time.time_ns() % 2**31)]
        with stack_errors(state_dir, STATE_DIR):
            log = logs_folder(state_dir) / "sample.out"
        if not self._child.start(command, log, self._in_force.environment()):
            raise ActionNeededError("sample events are still being sent: try again in a moment")

    def state(self) -> SampleState:
        """``sending``, ``failed`` with the reason as ``detail``, or ``idle``."""
        if self._child.pid is not None:
            return {"state": "sending", "detail": "sample events are being sent"}
        obituary = self._child.obituary()
        return {"state": "failed" if obituary else "idle", "detail": obituary or ""}


# Time to load libraries, join the group and take over topics; Spark may start later.
_START_S = 20.0
_SERVE = (sys.executable, "-P", "-m", "tabletopic_kernel.faces.cli", "serve")


@dataclass
class HeadlessHost:
    """At most one host, run by ``command``; ``stop_limit_s`` is the time for its last commits."""

    in_force: SettingsInForce
    command: list[str] = field(default_factory=lambda: [*_SERVE])
    stop_limit_s: float = 100.0
    child: Child = field(default_factory=lambda: Child("the host"), repr=False)
    _started_s: float = field(default=float("-inf"), repr=False)

    @property
    def is_young(self) -> bool:
        """Whether it was started just now, and may not have reported its topics yet."""
        return self.child.pid is not None and time.monotonic() - self._started_s < _START_S

    def start(self) -> None:
        """Start it unless it runs; it takes some seconds to join. Raises NoServersError or StackError."""
        state_dir = self.in_force.workbench().servers.state_dir
        with stack_errors(state_dir, STATE_DIR):
            log = logs_folder(state_dir) / "host-of-jupyter.out"
        command = [*self.command, "--quiet", "--with-parent", str(os.getpid()), "--state-dir", str(state_dir)]
        command += ["--mark", host_mark(Path(state_dir))]
        if self.child.start(command, log, self.in_force.environment()):
            self._started_s = time.monotonic()

    def start_if_alone(self, ids: list[str] | None = None) -> None:
        """Start it unless some host is live; ``ids`` if known: a new broker takes seconds to report them."""
        if self.child.pid is not None:
            return
        if not self._others(live_hosts(self.in_force.workbench()) if ids is None else ids):
            self.start()

    def stop(self) -> None:
        """Let it commit staged files, and wait. Raises ActionNeededError if the host is another program's."""
        if self.child.pid is None:
            others = self._others(live_hosts(self.in_force.workbench()))
            if others:
                raise ActionNeededError(
                    f"this Jupyter server runs no host; end {', '.join(others)} where it was started"
                )
        self.child.stop(self.stop_limit_s)

    def status(self, ids: list[str]) -> HostState:
        """State, detail and ids for the overview, from the ids of the group's members."""
        obituary, pid = self.child.obituary(), self.child.pid
        state: Literal["none", "starting", "running", "failed"]
        others = self._others(ids)
        own = [host_id for host_id in ids if host_id not in others]
        if obituary is not None:  # the group still counts it for some seconds
            state, detail, ids = ("running" if others else "failed"), obituary, others
        elif pid is not None:
            state = "running" if ids else "starting"
            detail = "runs beside this Jupyter server and stops with it" if own else "the host joins"
        else:
            ids = others
            state = "running" if others else "none"
            detail = "started elsewhere: in a notebook or a terminal" if others else ""
        return {"state": state, "detail": detail, "ids": ids}

    def _others(self, ids: list[str]) -> list[str]:
        """Hosts other than our child, dead or alive; a host's id is machine-pid-suffix."""
        pid = self.child.last_pid()
        ours = re.compile(rf"{re.escape(socket.gethostname())}-{pid}-\w+")
        return [host_id for host_id in ids if pid is None or not ours.fullmatch(host_id)]


def live_hosts(workbench: Workbench) -> list[str]:
    """Ids of the live hosts; none while the broker, having just started, does not know its groups yet."""
    try:
        # Every host creates this topic. Without it no host ever ran; a new broker needs up to 10 s to say so.
        if SETTINGS_TOPIC not in workbench.broker.topics():
            return []
        return workbench.hosts()
    except RetryableError:
        return []
