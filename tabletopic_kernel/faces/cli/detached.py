"""Hosts in the background: started by ``serve --detach``, stopped by ``down``."""

# Imports wait until they are needed: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tabletopic_kernel.faces.cli.call import Call


def start_detached(call: Call) -> tuple[Path, int]:
    """Start a host that outlives this process; returns its log and its pid."""
    from tabletopic_kernel.local import hosts, processes
    from tabletopic_kernel.local.machine import logs_folder

    state_dir = call.workbench.servers.state_dir.resolve()
    log = logs_folder(state_dir) / "host.out"
    options = ["--state-dir", str(state_dir)]
    if call.config is not None:
        options += ["--config", str(call.config.absolute())]
    options += ["--mark", hosts.host_mark(state_dir)]
    command = [sys.executable, "-m", "tabletopic_kernel.faces.cli", "serve", *options]
    return log, processes.spawn(command, Path.cwd(), log).pid
