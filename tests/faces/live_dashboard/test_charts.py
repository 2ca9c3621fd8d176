"""The numbers behind the plots."""

from __future__ import annotations

import pytest

from tabletopic_kernel.faces.live_dashboard import charts
from tabletopic_kernel.faces.live_dashboard.view import Retention
from tabletopic_kernel.model.progress.time_buckets import History, pack

T0 = 1_700_000_000_000
MINUTES_10 = 600_000


def test_commit_lag_by_partition() -> None:
    """End offset minus ledger, which stands still between commits; small partitions are one line."""
    history = History()
    history.ledger(T0, pack({0: 10, 1: 20, 2: 5}))
    history.ends(T0, pack({0: 10, 1: 25, 2: 6}))
    history.ends(T0 + 2_000, pack({0: 40, 1: 25, 2: 7}))
    history.ledger(T0 + 4_000, pack({0: 40, 1: 25, 2: 7}))
    history.ends(T0 + 4_000, pack({0: 41, 1: 25, 2: 7}))
    found = charts.commit_lag(history, MINUTES_10, T0 + 6_000, [0, 1])
    assert found["p0"] == [0, 30, 1]
    assert found["p1"] == [5, 5, 0]
    assert found["others"] == [1, 2, 0]
    assert found["all"] == [6, 37, 1]
    assert found["at"] == [T0 + 2_000, T0 + 4_000, T0 + 6_000]


def test_commit_lag_in_seconds_is_measured_or_follows_from_the_arrivals() -> None:
    """Where nothing was measured, a record is as old as the last moment without it."""
    history = History()
    history.ledger(T0, pack({0: 10}))
    history.ends(T0, pack({0: 10}))
    history.ends(T0 + 10_000, pack({0: 12}))
    history.ends(T0 + 20_000, pack({0: 12}))
    history.lag(T0 + 20_000, 2, 17.5)
    found = charts.commit_lag(history, MINUTES_10, T0 + 20_000, [0])
    assert found["seconds"] == [0.0, 10.0, 17.5]


@pytest.mark.parametrize("interval_ms", [1_000, 60_000])
def test_throughput_is_averaged_and_loses_no_row(interval_ms: int) -> None:
    """A steady stream is a steady line whatever the commit interval, once the average is full."""
    history = History()
    for second in range(0, 300, interval_ms // 1_000):
        history.commit(T0 + second * 1_000, rows=interval_ms, files=1, size_bytes=interval_ms * 10)
    found = charts.throughput(history, MINUTES_10, T0 + 298_000, interval_ms)
    assert found["rows"][-1] == pytest.approx(1_000, rel=0.02)
    assert found["bytes"][-1] == pytest.approx(10_000, rel=0.02)


def test_seconds_since_the_last_commit_grow_and_fall() -> None:
    """A saw: two points at each commit; one before the window counts, and files are means."""
    history = History()
    history.commit(T0, 10, 1, 1_000)
    history.commit(T0 + 1, 30, 3, 5_000)
    found = charts.commits(history, MINUTES_10, T0 + 2_000)
    assert (found["files"], found["file_bytes"]) == ([2], [1_500])
    history = History()
    history.commit(T0, 1, 1, 1)
    history.commit(T0 + 8_000, 1, 1, 1)
    found = charts.since_commit(history, MINUTES_10, T0 + 10_000)
    assert found["at"] == [T0, T0 + 8_000, T0 + 8_000, T0 + 10_000]
    assert found["seconds"] == [0, 8, 0, 2]
    history = History()
    history.commit(T0, 1, 1, 1)
    found = charts.since_commit(history, MINUTES_10, T0 + 3_600_000)
    assert found["seconds"] == [3_000, 3_600]


def test_retention_is_counted_from_the_oldest_waiting_record() -> None:
    """Overdue is 0; a topic that keeps its records, or a table that has all of them, has no limit."""
    kept = Retention(1_000, None, "delete")
    assert kept.left_s(T0, T0 + 5_000) == 0
    assert kept.left_s(None, T0) is None
    for endless in (Retention(None, None, "delete"), Retention(-1, 5, "delete"), Retention(1, 1, "compact")):
        assert endless.left_s(T0, T0) is None
