"""Settings loaded in an empty folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tabletopic_kernel.workbench.config import LoadedSettings, load_settings
from tests.pipeline.planned_here import projections_are_planned_here  # noqa: F401


@pytest.fixture
def load(tmp_path: Path):  # type: ignore[no-untyped-def]  # a closure with defaults
    """Load in an empty folder, with nothing from this process's environment."""

    def load(
        toml: str | None = None,
        environ: Mapping[str, str] | None = None,
        overrides: Mapping[str, Any] | None = None,
        cwd: Path = tmp_path,
    ) -> LoadedSettings:
        if toml is not None:
            (tmp_path / "tabletopic.toml").write_text(toml, encoding="utf-8")
        return load_settings(overrides, environ=environ or {}, cwd=cwd)

    return load
