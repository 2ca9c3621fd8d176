"""``tabletopic compact``: its request and its output."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tabletopic_kernel.model.progress.events import Compacted


def outcome(**more: Any) -> Compacted:
    """A finished compaction."""
    plain: dict[str, Any] = {
        "files_before": 40, "files": 2, "bytes_before": 4_000_000, "bytes": 1_000_000, "rows": 1_000,
    }  # fmt: skip
    return Compacted(topic="clicks", at_ms=1, request_id="r", seconds=2.5, **(plain | more))


def test_it_tells_what_became_of_the_files(run: Callable[..., Any], fake: Any) -> None:
    """Before and after; the condition and the patience are handed on."""
    fake.told = [outcome()]
    ended = run("compact", "clicks", "--where", "a > 7", "--wait", "3s")
    assert ended.code == 0
    assert "40 files became 2: 1,000 rows" in ended.out
    assert "deleted" not in ended.out
    assert fake.asked[-1] == ("compact", ("clicks", "a > 7", 3.0))
    fake.told = [outcome(deleted_rows=3_000, delete_files=2)]
    assert "3,000 deleted rows dropped, 2 delete files removed" in run("compact", "clicks").out
    fake.told = [outcome(files_before=0, files=0)]
    assert "no small files" in run("compact", "clicks").out


def test_json(run: Callable[..., Any], fake: Any) -> None:
    """The same for programs."""
    fake.told = [outcome()]
    found = json.loads(run("compact", "clicks", "--json").out)
    assert found == {
        "topic": "clicks", "files_before": 40, "files": 2, "bytes_before": 4_000_000, "bytes": 1_000_000,
        "rows": 1_000, "deleted_rows": 0, "delete_files": 0, "seconds": 2.5,
    }  # fmt: skip


def test_a_plan_changes_nothing(run: Callable[..., Any], fake: Any) -> None:
    """With --dry-run nobody is asked to compact."""
    ended = run("compact", "clicks", "--dry-run")
    assert "2 of 7 files would become 1" in ended.out
    assert "2 files, 10 rows, 2.0 KiB: day=2026-01-01" in ended.out
    assert "1 files stay: with deleted rows" in ended.out
    assert [what for what, _ in fake.asked] == ["plan_compaction"]
    found = json.loads(run("compact", "clicks", "--dry-run", "--json").out)
    assert found["groups"] == [
        {"partition": "day=2026-01-01", "files": 2, "rows": 10, "deleted_rows": 0, "bytes": 2_000}
    ]


def test_what_went_wrong_and_what_takes_long(run: Callable[..., Any], fake: Any) -> None:
    """A compaction that ended early, or is not over, is no success."""
    fake.told = [outcome(error="the catalog does not respond")]
    ended = run("compact", "clicks")
    assert ended.code == 1
    assert "the catalog does not respond (before that, 40 files became 2)" in ended.err
    fake.told = []
    ended = run("compact", "clicks", "--wait", "0")
    assert ended.code == 1
    assert "still running" in ended.err
