"""``tabletopic replay``: its request and its output."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tabletopic_kernel.model.progress.events import Replayed


def outcome(**more: Any) -> Replayed:
    """A finished replay."""
    plain: dict[str, Any] = {"rows": 5, "stayed": {"avro_cut": 2}} | more
    return Replayed(topic="clicks", at_ms=1, replay_id="r", **plain)


def test_it_tells_what_became_of_the_letters(run: Callable[..., Any], fake: Any) -> None:
    """Rows and those that stay, by reason; the condition and the patience are handed on."""
    fake.told = [outcome()]
    ended = run("replay", "clicks", "--where", "schema_id = 7", "--wait", "3s")
    assert ended.code == 0
    assert "5 dead letters became rows" in ended.out
    assert "2 stay dead letters: avro_cut" in ended.out
    assert fake.asked[-1] == ("replay", ("clicks", "schema_id = 7", 3.0))


def test_json(run: Callable[..., Any], fake: Any) -> None:
    """The same for programs."""
    fake.told = [outcome()]
    found = json.loads(run("replay", "clicks", "--json").out)
    assert found == {"topic": "clicks", "rows": 5, "stayed": {"avro_cut": 2}}


def test_a_plan_changes_nothing(run: Callable[..., Any], fake: Any) -> None:
    """With --dry-run nobody is asked to replay."""
    ended = run("replay", "clicks", "--dry-run")
    assert "1 of 2 dead letters would become rows" in ended.out
    assert "the table would change: add a string" in ended.out
    assert [what for what, _ in fake.asked] == ["plan_replay"]


def test_what_went_wrong_and_what_takes_long(run: Callable[..., Any], fake: Any) -> None:
    """A replay that ended early, or is not over, is no success."""
    fake.told = [outcome(error="the catalog does not respond")]
    ended = run("replay", "clicks")
    assert ended.code == 1
    assert "the catalog does not respond" in ended.err
    fake.told = []
    ended = run("replay", "clicks", "--wait", "0")
    assert ended.code == 1
    assert "still running" in ended.err
