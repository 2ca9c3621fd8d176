"""``enable``, ``disable``, ``pause``, ``resume``: from options to settings, and the output."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.workbench.plan import Plan


def test_every_setting_has_an_option(run: Callable[..., Any]) -> None:
    """The options are made from the model."""
    text = run("enable", "--help").out
    special = {
        "commit_interval_ms": "--commit-interval",
        "time_travel_ms": "--time-travel",
        "keep_ms": "--keep",
        "target_file_size_bytes": "--target-file-size",
        "table_properties": "--table-property",
        "expectations": "--expect",
    }
    for name in TopicSettings.model_fields:
        assert special.get(name, f"--{name.replace('_', '-')}") in text


def test_options_are_taken_as_written(run: Callable[..., Any], fake: Any) -> None:
    """Defaults are not the command line's; an empty value is one, a property needs one, brackets are text."""
    assert run("enable", "clicks").code == 0
    assert fake.asked[0] == ("enable", ("clicks", {}))
    assert run("enable", "clicks", "--metadata-columns", "").code == 0
    assert fake.asked[-1] == ("enable", ("clicks", {"metadata_columns": ""}))
    ended = run("enable", "clicks", "--table-property", "novalue")
    assert ended.code == 2
    assert "KEY=VALUE" in ended.err
    assert "[bold]x[/bold]" in run("pause", "[bold]x[/bold]").out


def test_success_names_the_table_and_what_happens(run: Callable[..., Any], fake: Any) -> None:
    """Its interval, and the host that takes it, or the way to start one."""
    text = run("enable", "my-clicks", "--partition-by", "hour(at)").out
    for part in ("default.my_clicks", "every 5 s while", "hour(at)", "a running host picks it up"):
        assert part in text
    fake.live = []
    text = run("enable", "clicks", "--state-dir", "over there").out
    assert "no host is running" in text
    assert "tabletopic serve --state-dir 'over there'" in text


WAITS = [("wait", "clicks"), ("enable", "clicks", "--wait")]


@pytest.mark.parametrize("words", WAITS)
def test_wait_ends_when_the_table_has_the_records(run: Callable[..., Any], fake: Any, words: Any) -> None:
    """Once the table contains what the topic contains, the topic's status is printed, as in a notebook."""
    fake.found = [dataclasses.replace(fake.found[0], next_offsets={0: 1334, 1: 200})]
    assert "1,000,000 in 12 files" in run(*words).out
    assert run(*words, "--json").json == fake.found[0].to_json()


def test_a_time_limit_is_a_duration(run: Callable[..., Any], fake: Any) -> None:
    """As other options take it, and a bare number is seconds; what is none is told first."""
    ended = run("enable", "clicks", "--wait", "--timeout", "soon")
    assert ended.code == 2
    assert "--timeout: 'soon' is not a duration; use a value such as 500ms, 5s, 2m or 1h" in ended.err
    assert fake.asked == []


@pytest.mark.parametrize("words", WAITS)
@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("no_host", "clicks is no_host and 1,234 records behind after 0 s: told so"),
        ("failed", "clicks failed: told so"),
    ],
)
def test_wait_fails_in_time(run: Callable[..., Any], fake: Any, state: str, message: str, words: Any) -> None:
    """A topic that fails, or does not catch up in time, ends the wait with 1 and the reason."""
    fake.found = [dataclasses.replace(fake.found[0], state=state, error="told so")]
    ended = run(*words, "--timeout", "0")
    assert ended.code == 1
    assert message in ended.err


def test_a_pattern_enables_with_yes_alone(run: Callable[..., Any], fake: Any) -> None:
    """Without ``--yes`` the plan is shown; the exit code is 1 if some topics were refused."""
    fake.there = {"shop.a": 1, "shop.b": 1}
    fake.plans = {name: Plan(name, f"default.{name}", True) for name in fake.there}
    shown = run("enable", "shop.*")
    assert (shown.code, set(fake.on)) == (0, {"clicks"})
    assert "2 topics would be enabled" in shown.out
    fake.plans["shop.b"].refused.append("no storage")
    done = run("enable", "shop.*", "--yes", "--json")
    assert (done.code, set(fake.on)) == (1, {"clicks", "shop.a"})
    assert json.loads(done.out)["topics"][1]["refused"] == ["no storage"]
    assert run("enable", "shop.*", "--wait").code == 2
    assert run("enable", "shop.a", "--yes").code == 2
    assert run("enable", "shop.a", "--standing").code == 2
    assert "come later" in run("enable", "shop.*", "--standing").out
