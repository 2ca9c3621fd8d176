"""Commands as typed by a user, on the servers of these tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_KEPT = frozenset({"TABLETOPIC_CACHE", "TABLETOPIC_JAVA_HOME"})


def environment() -> dict[str, str]:
    """This process's environment, without settings for the user's own cluster."""
    return {k: v for k, v in os.environ.items() if not k.startswith("TABLETOPIC_") or k in _KEPT}


def run(state_dir: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """``tabletopic`` with these arguments in ``folder``; its output is in ``stdout``, on one line."""
    done = subprocess.run(
        [sys.executable, "-m", "tabletopic_kernel.faces.cli", *words],
        cwd=folder,
        env={**environment(), "TABLETOPIC_STATE_DIR": str(state_dir), "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    done.stdout = " ".join(done.stdout.split())
    return done
