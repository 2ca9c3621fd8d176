"""A drill on the real servers: everything is broken, and every record is where it belongs."""

from __future__ import annotations

import logging

import pytest

from tabletopic_kernel import drill
from tabletopic_kernel.drill import page

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
_LOG = logging.getLogger(__name__)
SEED = 20_261_122


def test_nothing_is_lost_doubled_or_changed() -> None:
    """After all those faults each record is once where it belongs, with its value."""
    outcome = drill.run(seed=SEED, rounds=30, minutes=4, say=lambda line: _LOG.warning("%s", line))
    assert page.differences(outcome) == []
    assert outcome.ok
    assert outcome.rounds > 0
    assert sum(step.hit for step in outcome.steps) > 0
    for verdict in outcome.verdicts:
        assert verdict.acknowledged > 100
