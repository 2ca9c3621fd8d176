"""Commands as typed by a user, on the servers of these tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.environment import without_settings


def run(state_dir: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """``tabletopic`` with these arguments in ``folder``; its output is in ``stdout``, on one line."""
    settings = ["--config", "tabletopic.toml"] * (folder / "tabletopic.toml").exists()  # so it is trusted
    done = subprocess.run(
        [sys.executable, "-m", "tabletopic_kernel.faces.cli", *settings, *words],
        cwd=folder,
        env={**without_settings(), "TABLETOPIC_STATE_DIR": str(state_dir), "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    done.stdout = " ".join(done.stdout.split())
    return done
