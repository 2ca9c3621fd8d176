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
    HEAVY,
    PROVOKED_BY,
    PROVOKED_OF,
    SHORT_BESIDES,
    SHORT_SPAN_S,
    Fault,
    Round,
    chosen,
    rounds,
)
from tests.drill.streams import PLANS

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


def test_a_step_that_was_not_reached_comes_again_soon() -> None:
    """In vain counts for half; a step that nobody ever reaches keeps no other away."""
    came: Counter[Step] = Counter()
    some = rounds(3, ALL, missed=lambda: Counter({Step.MARKED: came[Step.MARKED]}))
    for one in islice((one for one in some if one.step is not None), 10 * (len(Step) + 1)):
        assert one.step is not None
        came[one.step] += 1
    assert came == dict.fromkeys(Step, 10) | {Step.MARKED: 20}


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


def test_short_rounds_end_no_host_but_alone() -> None:
    """Few faults at once, soon after each other."""
    some = rounds(7, ALL, besides=SHORT_BESIDES, span_s=SHORT_SPAN_S, heavy=0.0)
    for one in islice((one for one in some if one.alone is None), 200):
        assert not one.is_heavy
        assert SHORT_BESIDES[0] <= len(one.besides) <= SHORT_BESIDES[1]
        assert all(0 <= seconds <= SHORT_SPAN_S for seconds, _ in one.besides)


def test_every_fault_is_in_one_group() -> None:
    """So a group's name reaches each."""
    members = Counter(fault for group in GROUPS.values() for fault in group)
    assert members == dict.fromkeys(Fault, 1)


def test_no_fault_of_that_name() -> None:
    """The message names the groups."""
    with pytest.raises(UsageError, match="hosts, servers"):
        chosen(["earthquake"])


def test_a_provoked_step_needs_no_fault_of_the_list() -> None:
    """What provokes a step is an order of a person or a new schema, never a fault of servers."""
    orders = {Fault.ALTER, Fault.REPLAY, Fault.COMPACT, Fault.EXPIRE}
    assert set(PROVOKED_BY.values()) <= orders | {Fault.EVOLVE}
    assert PROVOKED_OF.keys() <= PROVOKED_BY.keys()
    assert set().union(*PROVOKED_OF.values()) == {plan.topic for plan in PLANS}


def test_a_round_is_heavy_as_often_as_was_asked() -> None:
    """Hosts that must start again take the most time; where one dies alone, nothing else happens."""
    for share in (0.0, 0.2, 1.0):
        some = list(islice(rounds(6, ALL, heavy=share), 600))
        among_others = [one for one in some if one.alone is None]
        assert sum(one.is_heavy for one in among_others) / len(among_others) == pytest.approx(share, abs=0.05)
        assert all(sum(fault in HEAVY for _, fault in one.besides) <= 1 for one in some)
        assert all(one.is_heavy and one.faults == 1 for one in some if one.alone is not None)


def test_only_the_death_of_a_worker_costs_no_host() -> None:
    """At the steps of executors the process that dies is a Python worker."""
    assert not Round(1, Step.STAGED, Act.KILL, None, ()).is_heavy
    assert Round(1, Step.SENT, Act.KILL, None, ()).is_heavy
    assert Round(1, Step.SENT, Act.HOLD, Fault.KILL_SPARK, ()).is_heavy


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
