"""The headless host of this Jupyter server: ``tabletopic serve`` as its child.

It outlives kernels, and ends with the server: asked when that stops, else by itself when its parent is gone.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tabletopic_kernel.faces.jupyter_server.child import Child
from tabletopic_kernel.faces.jupyter_server.state_folder import Place
from tabletopic_kernel.local.machine import logs_folder
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.workbench import Workbench

# It loads its libraries, joins the group and takes its topics; Spark may start later.
_YOUNG_S = 20.0
_SERVE = (sys.executable, "-m", "tabletopic_kernel.faces.cli", "serve")


@dataclass
class HeadlessHost:
    """At most one; ``command`` is what runs it. ``stop_limit_s`` is for the last commits."""

    place: Place
    command: list[str] = field(default_factory=lambda: [*_SERVE])
    stop_limit_s: float = 100.0
    child: Child = field(default_factory=lambda: Child("the host"), repr=False)
    _started_s: float = field(default=float("-inf"), repr=False)

    @property
    def is_young(self) -> bool:
        """Whether it was started just now, and may not have said anything of its topics yet."""
        return self.child.pid is not None and time.monotonic() - self._started_s < _YOUNG_S

    def start(self) -> None:
        """Start it unless it runs; it needs some seconds until it has joined.

        Raises:
            NoServersError: there is no broker to work with.
            StackError: it cannot be started.
        """
        state_dir = self.place.workbench().servers.state_dir
        log = logs_folder(state_dir) / "host-of-jupyter.out"
        command = [*self.command, "--quiet", "--with-parent", str(os.getpid()), "--state-dir", str(state_dir)]
        if self.child.start(command, log, self.place.environment()):
            self._started_s = time.monotonic()

    def start_if_alone(self, ids: list[str] | None = None) -> None:
        """Start it unless some host, here or elsewhere, is live. Raises as ``start``.

        Args:
            ids: the live hosts, where they are known: a broker that has just started takes seconds to say.
        """
        if self.child.pid is not None:
            return
        if not self._others(live_hosts(self.place.workbench()) if ids is None else ids):
            self.start()

    def stop(self) -> None:
        """Let it commit what is staged and end; waits for that.

        Raises:
            ActionNeededError: it is not this server's, so it must be ended where it runs.
        """
        if self.child.pid is None:
            others = self._others(live_hosts(self.place.workbench()))
            if others:
                raise ActionNeededError(
                    f"this Jupyter server runs no host; end {', '.join(others)} where it was started"
                )
        self.child.stop(self.stop_limit_s)

    def status(self, ids: list[str]) -> dict[str, Any]:
        """State, detail and ids for the overview, from the ids of the group's members."""
        obituary, pid = self.child.obituary(), self.child.pid
        others = self._others(ids)
        own = [one for one in ids if one not in others]
        if obituary is not None:  # the group counts on it for some seconds more
            state, detail, ids = ("running" if others else "failed"), obituary, others
        elif pid is not None:
            state = "running" if ids else "starting"
            detail = "runs beside this Jupyter server, and stops with it" if own else "the host joins"
        else:
            ids = others
            state = "running" if others else "none"
            detail = "started elsewhere: in a notebook or a terminal" if others else ""
        return {"state": state, "detail": detail, "ids": ids}

    def _others(self, ids: list[str]) -> list[str]:
        """Those that are not our child, dead or alive; a host's id is machine-pid-something."""
        pid = self.child.last_pid()
        ours = re.compile(rf"{re.escape(socket.gethostname())}-{pid}-\w+")
        return [one for one in ids if pid is None or not ours.fullmatch(one)]


def live_hosts(workbench: Workbench) -> list[str]:
    """Ids of the live hosts; none where the broker, having just started, does not know its groups yet."""
    from tabletopic_kernel.host.settings_topic import SETTINGS_TOPIC  # noqa: PLC0415 - loads the Kafka client

    try:
        # Every host makes it. Without, none has ever run, and a new broker takes up to 10 s to say so.
        if SETTINGS_TOPIC not in workbench.broker.topics():
            return []
        return workbench.hosts()
    except RetryableError:
        return []
