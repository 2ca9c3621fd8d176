"""Buckets of time: bounded, and the same whatever the order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tabletopic_kernel.model.progress.time_buckets import ArrivalCurve, History, Tier, lag_of, pack

TIERS = ((1_000, 5), (10_000, 3))
COMMITS = st.lists(
    st.tuples(st.integers(0, 60_000), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), max_size=30
)
GAUGES = st.lists(st.tuples(st.integers(0, 60_000), st.dictionaries(st.integers(0, 3), st.integers(0, 99))))


def filled(commits: list, gauges: list) -> History:
    """A history with these in it."""
    history = History(TIERS)
    for commit in commits:
        history.commit(*commit)
    for at_ms, offsets in gauges:
        history.ledger(at_ms, pack(offsets))
        history.ends(at_ms, pack(offsets))
    return history


@given(COMMITS, GAUGES, st.randoms())
def test_order_makes_no_difference(commits: list, gauges: list, random: object) -> None:
    """What was read from the newest to the oldest is what would have been read the other way."""
    shuffled, turned = list(commits), list(gauges)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    random.shuffle(turned)  # type: ignore[attr-defined]
    one, other = filled(commits, gauges), filled(shuffled, turned)
    assert [tier.items() for tier in one.tiers] == [tier.items() for tier in other.tiers]


@given(COMMITS)
def test_it_is_bounded_and_loses_nothing_that_is_recent(commits: list) -> None:
    """A tier has no more than its size, and the rows of its buckets are the rows of its span."""
    history = filled(commits, [])
    newest = max((at_ms for at_ms, *_ in commits), default=0)
    for tier, (step_ms, size) in zip(history.tiers, TIERS, strict=True):
        first = (newest // step_ms - size + 1) * step_ms
        assert len(tier.buckets) <= size
        assert sum(bucket.rows for bucket in tier.buckets.values()) == sum(
            rows for at_ms, rows, *_ in commits if at_ms >= first
        )


def test_a_leap_of_the_clock_empties_a_tier_at_once() -> None:
    """A year without a word costs no loop over its buckets."""
    tier = Tier(1, 3)
    tier.at(0)
    tier.at(10**12)
    assert list(tier.buckets) == [10**12]


def test_lag_counts_partitions_that_the_ledger_does_not_know() -> None:
    """A new one has nothing in the table, a ledger ahead is no negative lag; offsets have an age."""
    assert lag_of(pack({0: 10, 1: 5, 2: 1}), pack({0: 7, 2: 3})) == [3, 5, 0]
    assert lag_of(pack({0: 4}), None) == [4]
    curve = ArrivalCurve()
    for at_ms, end in ((100, 5), (200, 5), (300, 9)):
        curve.add(at_ms, pack({0: end}))
    assert curve.arrived_after_ms(0, 5) == 200
    assert curve.arrived_after_ms(0, 7) == 200
    assert curve.arrived_after_ms(0, 9) == 300
    assert curve.arrived_after_ms(0, 4) is None
    assert curve.arrived_after_ms(1, 0) is None
