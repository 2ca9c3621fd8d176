"""The schedule of a drill follows from its seed."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from tabletopic_kernel.host.metrics.alerts import ALERTS
from tabletopic_kernel.host.metrics.declared import METRICS
from tabletopic_kernel.local.crash_points import Act
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.steps import Step
from tests.drill.faults import _DOINGS
from tests.drill.schedule import (
    GROUPS,
    Fault,
    chosen,
    rounds,
)

ALL = frozenset(Fault)


def test_the_same_seed_makes_the_same_schedule() -> None:
    """And another seed another one."""
    first, again, other = (list(islice(rounds(seed, ALL), 50)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_every_step_comes_equally_often() -> None:
    """So every step is hit five times in five times as many rounds as there are steps."""
    at_steps = (one.step for one in rounds(3, ALL) if one.step is not None)
    assert Counter(islice(at_steps, 5 * len(Step))) == dict.fromkeys(Step, 5)


def test_every_fault_and_act_comes() -> None:
    """In some hundred rounds nothing is left out."""
    some = list(islice(rounds(4, ALL), 1_000))
    besides = {fault for one in some for _, fault in one.besides}
    held = {one.held for one in some}
    assert besides == ALL
    assert {one.act for one in some if one.alone is None} == set(Act)
    assert {one.alone for one in some} == {Fault.KILL_HOST, Fault.STOP_HOST, None}
    assert set(GROUPS["foreign"]) <= held


def test_only_what_was_chosen_happens() -> None:
    """Groups and single faults can be named."""
    only = chosen(["foreign", "pause"])
    assert only == {*GROUPS["foreign"], Fault.PAUSE}
    for one in islice(rounds(5, only), 100):
        assert {fault for _, fault in one.besides} <= only
        assert one.held is None or one.held in only
        assert one.act in (Act.HOLD, None)


def test_every_fault_is_in_one_group() -> None:
    """So a group's name reaches each."""
    members = Counter(fault for group in GROUPS.values() for fault in group)
    assert members == dict.fromkeys(Fault, 1)


def test_no_fault_of_that_name() -> None:
    """The message names the groups."""
    with pytest.raises(UsageError, match="hosts, servers"):
        chosen(["earthquake"])


def test_each_fault_has_its_line_in_the_docs() -> None:
    """With a metric and an alert that are declared; and something that does it."""
    text = (Path(__file__).parents[2] / "docs/reference/metrics.md").read_text("utf-8")
    lines = re.findall(
        r"^\| (`.+`) \| `(\w+).*` \w+ \| (\w+)",
        text.partition("## The metric of each fault")[2],
        re.MULTILINE,
    )
    rows = [(fault, metric, alert) for faults, metric, alert in lines for fault in re.findall(r"\w+", faults)]
    metrics = {name for one in METRICS for name in (one.name, one.sample)} | {"up"}
    assert {fault for fault, _, _ in rows} == set(Fault) == _DOINGS.keys()
    assert {metric for _, metric, _ in rows} <= metrics
    assert {alert for _, _, alert in rows} <= {*(one.name for one in ALERTS), "never"}
