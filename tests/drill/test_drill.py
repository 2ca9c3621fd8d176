"""The drill on real servers, hosts and tables, disturbed in many rounds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tabletopic_kernel.model.steps import Step
from tests.drill.run import run
from tests.drill.schedule import ALONE_EVERY, HEAVY, Fault

# Each wait ends by progress, and its limit counts the time that the machine has for it; this is for a hang.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(1_800)]

SEED = 20
ROUNDS = 30


def test_each_record_is_once_where_it_belongs_after_many_rounds(tmp_path: Path, class_archive: None) -> None:
    """Whatever dies or disturbs: no record lost, twice or changed, no file missing or left behind."""
    told: list[str] = []
    outcome = run(seed=SEED, rounds=ROUNDS, short=True, state_dir=tmp_path / "drill", say=told.append)
    assert outcome.ok, "\n".join([*told, *outcome.problems, *map(str, outcome.verdicts)])
    assert outcome.rounds == ROUNDS
    assert len(outcome.faults) > ROUNDS
    assert all(verdict.acknowledged and verdict.letters for verdict in outcome.verdicts)
    assert {step.step for step in outcome.steps} == set(Step)
    assert sum(one.hit for one in outcome.steps) > len(Step) / 2
    assert len(outcome.hand_overs()[Fault.KILL_HOST]) == ROUNDS // ALONE_EVERY
    tried = Counter(one.what for one in outcome.happenings if one.what in set(Fault) - HEAVY)
    never = {what for what, times in tried.items() if times > 3} - {fault.what for fault in outcome.faults}
    assert not never, [happening for happening in outcome.happenings if happening.what in never]
