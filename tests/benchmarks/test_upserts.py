"""What a change costs in a table kept by key: measured on a small table."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import upserts


def test_changes_are_measured_and_the_table_stays_exact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that counts other rows than there are keys is an error, so the figures are of a right table."""
    monkeypatch.setattr(upserts, "_COMMITS", 2)
    result = upserts.measured(tmp_path, 300, 40)
    assert (result.rows, result.changes, result.commits) == (300, 40, 2)
    assert 0 < result.commit_us_least <= result.commit_us
    assert result.query_ms_after > 0
