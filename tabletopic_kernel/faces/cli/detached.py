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
    from tabletopic_kernel.local.files import logs_folder
    from tabletopic_kernel.local.processes import detached_hosts, process

    state_dir = call.workbench.servers.state_dir.resolve()
    log = logs_folder(state_dir) / "host.out"
    options = ["--state-dir", str(state_dir)]
    if call.config is not None:
        options += ["--config", str(call.config.absolute())]
    options += ["--mark", detached_hosts.mark(state_dir)]
    command = [sys.executable, "-m", "tabletopic_kernel.faces.cli", "serve", *options]
    return log, process.spawn(command, Path.cwd(), log).pid
