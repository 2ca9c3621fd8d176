"""Hosts in the background: started by ``serve --detach``, stopped by ``down``.

They are found by the mark on their command line, as the servers are.
"""

# Imports wait until they are needed: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tabletopic_kernel.cli.call import Call

_STOP_LIMIT_S = 100  # for the last commits


def start_detached(call: Call) -> tuple[Path, int]:
    """Start a host that outlives this process; returns its log and its pid."""
    from tabletopic_kernel.local import process

    state_dir = call.workbench.servers.state_dir.resolve()
    log = state_dir / "logs" / "host.out"
    log.parent.mkdir(parents=True, exist_ok=True)
    options = ["--state-dir", str(state_dir)]
    if call.config is not None:
        options += ["--config", str(call.config.absolute())]
    command = [sys.executable, "-m", "tabletopic_kernel.cli", "serve", *options, "--mark", _mark(state_dir)]
    return log, process.spawn(command, Path.cwd(), log).pid


def stop_detached(state_dir: Path) -> list[int]:
    """Stop them all, giving each time to commit; returns their pids."""
    from tabletopic_kernel.local import process

    found = [one for _, one in process.find({_mark(state_dir.resolve())})]
    process.stop(found, _STOP_LIMIT_S)
    return [one.pid for one in found]


def _mark(state_dir: Path) -> str:
    from tabletopic_kernel.local import process

    return process.mark("host", state_dir)
