"""``tabletopic expire``: its request and its output."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tabletopic_kernel.model.progress.events import Expired, OrphansRemoved


def outcome(**more: Any) -> Expired:
    """A finished expiry."""
    plain: dict[str, Any] = {"snapshots": 700, "kept": 20, "files": 1_400, "bytes": 4_000_000} | more
    return Expired(**({"topic": "clicks", "at_ms": 1, "request_id": "r"} | plain))


def test_it_tells_what_went(run: Callable[..., Any], fake: Any) -> None:
    """Of each table, and of orphans; what was asked for and the patience are handed on."""
    orphans = OrphansRemoved(topic="clicks", at_ms=1, request_id="r", files=3, bytes=5_000)
    back = outcome(snapshots=1, kept=1_000, at_ms=10_020_000, reaches_back_to_ms=0)
    fake.told = [outcome(dead_letters=True, snapshots=1), outcome(), back, orphans]
    ended = run("expire", "clicks", "--orphans", "--wait", "3s")
    assert ended.code == 0
    assert "1 snapshots of the dead-letter table" in ended.out
    assert "700 snapshots expired, 20 kept; removed 1,400 files, 3.8 MiB" in ended.out
    assert "1,000 kept, 2 h 47 m back; removed" in ended.out
    assert "removed orphans: 3 files, 4.9 KiB" in ended.out
    assert fake.asked[-1] == ("expire", ("clicks", True, 3.0))


def test_json(run: Callable[..., Any], fake: Any) -> None:
    """The same for programs."""
    fake.told = [outcome()]
    found = json.loads(run("expire", "clicks", "--json").out)
    (table,) = found["tables"]
    assert table == {
        "dead_letters": False, "snapshots": 700, "kept": 20, "reaches_back_to_ms": None, "files": 1_400,
        "bytes": 4_000_000, "outside": 0,
    }  # fmt: skip
    assert found["orphans"] is None


def test_a_plan_changes_nothing(run: Callable[..., Any], fake: Any) -> None:
    """With --dry-run nobody is asked to expire."""
    ended = run("expire", "clicks", "--dry-run", "--orphans")
    assert "default.clicks: 2 snapshots would expire, 20 would stay; 2 files, 2.9 KiB would" in ended.out
    assert "time travel would reach back to " in ended.out
    assert "3 files stay because they are outside" in ended.out
    assert "1 orphans, 5 B would be removed" in ended.out
    assert [what for what, _ in fake.asked] == ["plan_expiry"]
    (table,) = json.loads(run("expire", "clicks", "--dry-run", "--json").out)["tables"]
    assert table["snapshots"] == {"1": 1_000, "2": 2_000}
    assert table["files"] == {"file:/a": 1_000, "file:/b": 2_000}


def test_what_went_wrong_and_what_takes_long(run: Callable[..., Any], fake: Any) -> None:
    """An expiry that did nothing, or is not over, is no success."""
    fake.told = [outcome(error="another writer was first")]
    ended = run("expire", "clicks")
    assert ended.code == 1
    assert "another writer was first" in ended.err
    fake.told = []
    ended = run("expire", "clicks", "--wait", "0")
    assert ended.code == 1
    assert "still running" in ended.err
