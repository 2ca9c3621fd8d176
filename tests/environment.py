"""The environment of tests and of the processes that they start, without a developer's own settings."""

import os

_NO_SETTINGS = frozenset({"TABLETOPIC_CACHE", "TABLETOPIC_JAVA_HOME"})


def without_settings() -> dict[str, str]:
    """The environment without settings of the workbench: they may name servers that are not for tests."""
    return {k: v for k, v in os.environ.items() if not k.startswith("TABLETOPIC_") or k in _NO_SETTINGS}
