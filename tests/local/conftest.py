"""For the tests of the embedded servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabletopic_kernel.local.java import jvm
from tabletopic_kernel.local.java.jars import Jars


@pytest.fixture
def no_jars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Jars are there but empty: a server that is really started ends at once."""
    monkeypatch.setattr(jvm, "install", lambda report=None: Jars(tmp_path / "jars"))
