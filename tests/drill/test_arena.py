"""What a drill starts ends with it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tabletopic_kernel.model.errors import UsageError
from tests.drill.arena import Arena
from tests.drill.run import run


def test_a_late_fault_starts_nothing_again(tmp_path: Path) -> None:
    """A fault in a thread of its own mends what it broke, perhaps after the drill has ended everything."""
    did: list[str] = []
    stack: Any = SimpleNamespace(up=lambda **_: did.append("up"), down=lambda: did.append("down"))
    arena = Arena(tmp_path, 1, 60.0, temporary=False, interval_ms=500, stack=stack)
    arena.mend_servers()
    arena.close()
    arena.mend_servers()
    arena.ensure_hosts()
    arena.close()
    assert did == ["up", "down"]
    assert arena.hosts == []


@pytest.mark.parametrize(
    "options",
    [
        {"faults": ["nonsense"], "rounds": 1},
        {},
    ],
)
def test_a_drill_that_cannot_be_leaves_no_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: dict[str, object]
) -> None:
    """Its options are checked first."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(UsageError):
        run(seed=1, **options)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
