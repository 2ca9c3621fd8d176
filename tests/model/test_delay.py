"""Whether a topic that runs is late, and why."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabletopic_kernel.model.commit_cycle import State
from tabletopic_kernel.model.progress.delay import AT_WORK, Delay, delay_of


@pytest.mark.parametrize(
    ("lag_seconds", "interval_ms", "turn_wait_ms", "delay"),
    [
        (0.0, 10_000, None, None),
        (30.0, 10_000, None, None),
        (30.1, 10_000, None, Delay.BEHIND),
        (30.1, 10_000, 0, Delay.WAITING_FOR_TURN),
        (9.0, 10_000, 5_000, None),
        (9.0, 10_000, 31_000, Delay.WAITING_FOR_TURN),
        (None, 10_000, None, None),
        (None, 10_000, 31_000, Delay.WAITING_FOR_TURN),
        (2.9, 100, None, None),
        (3.1, 100, None, Delay.BEHIND),
    ],
)
def test_more_than_three_intervals_are_late(
    lag_seconds: float | None, interval_ms: int, turn_wait_ms: int | None, delay: Delay | None
) -> None:
    """And a wait for other topics is the reason while it lasts; short intervals have three seconds."""
    for state in AT_WORK:
        assert delay_of(state, lag_seconds, interval_ms, turn_wait_ms) is delay


OTHERS = [one for one in [*State, "no_host", "off"] if one not in AT_WORK]


@given(st.sampled_from(OTHERS), st.floats(0, 1e9), st.integers(0, 10**9))
def test_other_states_speak_for_themselves(state: str, lag_seconds: float, turn_wait_ms: int) -> None:
    """A topic that waits, failed, or has no host is not called late besides."""
    assert delay_of(state, lag_seconds, 1_000, turn_wait_ms) is None


@pytest.mark.parametrize("delay", Delay)
def test_each_reason_says_the_same_for_all_topics(delay: Delay) -> None:
    """So that many topics that are late alike can be told in one line."""
    assert delay.reason == delay.reason.strip(". ")
    assert len(delay.reason) < 200
