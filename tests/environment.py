"""The environment of tests and of the processes that they start, without a developer's own settings."""

import os
import subprocess
from collections.abc import Sequence
from typing import Any

_NO_SETTINGS = frozenset({"TABLETOPIC_CACHE", "TABLETOPIC_JAVA_HOME"})


def without_settings() -> dict[str, str]:
    """The environment without settings of the workbench: they may name servers that are not for tests."""
    return {k: v for k, v in os.environ.items() if not k.startswith("TABLETOPIC_") or k in _NO_SETTINGS}


def completed(
    command: Sequence[str | os.PathLike[str]], *, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[str]:
    """A process that has ended, with what it wrote as text; one that hangs is given up after five minutes."""
    options = {"capture_output": True, "text": True, "timeout": 300} | options
    return subprocess.run(command, check=check, **options)
