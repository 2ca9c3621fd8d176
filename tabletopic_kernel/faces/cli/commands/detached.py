"""A host in the background: ``serve --detach``."""

# Imports are deferred: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tabletopic_kernel.faces.cli.call import Call
from tabletopic_kernel.model.errors import StackError

JOINS = "joins; Ctrl-C commits staged files and leaves"  # printed once it has started
JOIN_S = 60.0
_LAST_LINES = 15
_POLL_S = 0.2


def start_detached(call: Call, serve_options: Sequence[str] = ()) -> tuple[Path, int]:
    """Start a host that outlives this process, with more ``serve_options``; returns log and pid.

    Hosts that run at the same time share the log. Raises StackError if the host ends before it joins.
    """
    from tabletopic_kernel.local import hosts, processes
    from tabletopic_kernel.local.machine import logs_folder

    state_dir = call.workbench.servers.state_dir.resolve()
    log, mark = logs_folder(state_dir) / "host.out", hosts.host_mark(state_dir)
    if not processes.find({mark}):
        log.write_bytes(b"")
    options = ["--state-dir", str(state_dir)]
    if call.config is not None:
        options += ["--config", str(call.config.absolute())]
    if call.profile is not None:
        options += ["--profile", call.profile]
    options += ["--mark", mark, *serve_options]
    command = [sys.executable, "-P", "-m", "tabletopic_kernel.faces.cli", "serve", *options]
    start = log.stat().st_size
    process = processes.spawn(command, Path.cwd(), log, append=True)
    deadline = time.monotonic() + JOIN_S
    while JOINS.encode() not in (text := log.read_bytes()[start:]) and time.monotonic() < deadline:
        if not processes.is_alive(process, mark):
            last = "\n".join(text.decode("utf-8", "replace").splitlines()[-_LAST_LINES:]) or "(none)"
            raise StackError(f"the host has ended. Its last lines, all of them in {log}:\n{last}")
        time.sleep(_POLL_S)
    return log, process.pid
