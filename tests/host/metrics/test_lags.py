"""The lag that a host counts from end offsets it asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tabletopic_kernel.host.metrics.lags import Lag, Lags, whole
from tests.host.metrics.samples import record


def test_age_counts_from_when_a_record_was_first_seen() -> None:
    """An idle topic that gets a record is not as far behind as its last one is old."""
    lags = Lags()
    idle = record(next_offsets={0: 10}, newest_ms={0: 0})
    lags.learn({"clicks": {0: 10}}, 3_600_000)
    assert lags.of(idle, 3_600_500) == {0: Lag(0, 0.0)}
    lags.learn({"clicks": {0: 12}}, 3_603_000)
    assert lags.of(idle, 3_604_000) == {0: Lag(2, 1.0)}
    lags.learn({"clicks": {0: 19}}, 3_606_000)
    assert lags.of(idle, 3_607_000) == {0: Lag(9, 4.0)}
    assert lags.of(record(next_offsets={0: 12}, newest_ms={0: 0}), 3_607_000) == {0: Lag(7, 1.0)}


def test_an_age_follows_the_ledger() -> None:
    """A backlog is as old as the newest committed record; rolled back or made anew, the age follows."""
    lags = Lags()
    lags.learn({"clicks": {0: 100}}, 50_000)
    assert lags.of(record(next_offsets={0: 40}, newest_ms={0: 20_000}), 60_000) == {0: Lag(60, 40.0)}
    assert lags.of(record(next_offsets={}, newest_ms={}), 60_000) == {0: Lag(100, 10.0)}
    assert lags.of(record(next_offsets={0: 100}, newest_ms={0: 20_000}), 60_000) == {0: Lag(0, 0.0)}
    lags = Lags()
    lags.learn({"clicks": {0: 100}}, 50_000)
    lags.of(record(next_offsets={0: 100}), 50_000)
    lags.learn({"clicks": {0: 110}}, 53_000)
    assert lags.of(record(next_offsets={0: 40}, newest_ms={0: 20_000}), 60_000) == {0: Lag(70, 40.0)}
    lags = Lags()
    lags.learn({"clicks": {0: 100}}, 50_000)
    lags.learn({"clicks": {0: 3}}, 53_000)
    assert lags.of(record(next_offsets={0: 0}), 54_000) == {0: Lag(3, 1.0)}
    lags = Lags()
    lags.learn({"clicks": {0: 100}}, 50_000)
    lags.learn({}, 53_000)
    assert lags.of(record(), 54_000) == {}
    assert whole([]) == Lag(0, 0.0)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 60)), min_size=1, max_size=400))
def test_against_a_record_by_record_count(steps: list[tuple[int, int]]) -> None:
    """However records come and are committed: offsets are exact, ages short by a few hundredths at most."""
    lags, seen, committed, now_ms = Lags(), [0], 0, 0
    lags.learn({"clicks": {0: 0}}, now_ms)  # seen[offset]: when it was first seen
    lags.of(record(next_offsets={0: 0}), 0)
    seen = []
    for came, done in steps:
        now_ms += 1_000
        seen += [now_ms] * came
        lags.learn({"clicks": {0: len(seen)}}, now_ms)
        committed = min(len(seen), committed + done)
        (lag,) = lags.of(record(next_offsets={0: committed}), now_ms).values()
        assert lag.records == len(seen) - committed
        age_s = (now_ms - seen[committed]) / 1000 if lag.records else 0.0
        assert lag.seconds <= age_s
        assert lag.seconds >= 0.8 * age_s - 1


def test_open_transactions_count_from_when_they_were_first_seen() -> None:
    """A producer that begins one after the other keeps nobody waiting."""
    lags = Lags()
    lags.learn({"clicks": {0: 7, 1: 3}}, 1_000, {"clicks": {0: 5, 1: 1}})
    assert lags.open_transactions("clicks", 3_000) == Lag(6, 2.0)
    lags.learn({"clicks": {0: 7, 1: 4}}, 4_000, {"clicks": {0: 9, 1: 1}})
    assert lags.open_transactions("clicks", 6_000) == Lag(10, 5.0)
    lags.learn({"clicks": {0: 16, 1: 4}}, 7_000, {"clicks": {1: 1}})
    assert lags.open_transactions("clicks", 7_500) == Lag(1, 3.5)
    assert lags.open_transactions("others", 7_500) == Lag(0, 0.0)
