"""The numbers behind the plots."""

from __future__ import annotations

import pytest

from tabletopic_kernel.faces.live_dashboard import charts
from tabletopic_kernel.faces.live_dashboard.view import Retention
from tabletopic_kernel.model.progress.events import Progress
from tabletopic_kernel.model.progress.progress_view import Record
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


def test_commit_lag_begins_with_the_ledger() -> None:
    """What was there before does not wait; a ledger from before the window counts."""
    history = History()
    history.ends(T0, pack({0: 500}))
    history.ledger(T0 + 10_000, pack({0: 500}))
    history.ends(T0 + 10_000, pack({0: 501}))
    assert charts.commit_lag(history, MINUTES_10, T0 + 10_000, [0])["p0"] == [1]
    history = History()
    history.ledger(T0, pack({0: 500}))
    history.ends(T0 + 3_600_000, pack({0: 501}))
    found = charts.commit_lag(history, MINUTES_10, T0 + 3_600_000, [0])
    assert found["p0"] == [1]


@pytest.mark.parametrize("interval_ms", [1_000, 60_000])
def test_throughput_is_averaged_and_loses_no_row(interval_ms: int) -> None:
    """A steady stream is a steady line whatever the commit interval, once the average is full."""
    history = History()
    for second in range(0, 300, interval_ms // 1_000):
        history.commit(T0 + second * 1_000, rows=interval_ms, files=1, size_bytes=interval_ms * 10)
    found = charts.throughput(history, MINUTES_10, T0 + 298_000, interval_ms)
    assert found["rows"][-1] == pytest.approx(1_000, rel=0.02)
    assert found["bytes"][-1] == pytest.approx(10_000, rel=0.02)


def test_throughput_is_steady_where_commits_come_a_little_late() -> None:
    """The last stretches too; it falls to nothing when commits stop."""
    history = History()
    for turn in range(50):
        history.commit(T0 + turn * 5_070, rows=5_070, files=1, size_bytes=5_070)
    found = charts.throughput(history, MINUTES_10, T0 + 49 * 5_070 + 4_000, 5_000)
    assert found["rows"][6:] == pytest.approx([1_000] * len(found["rows"][6:]), rel=0.02)
    history = History()
    history.commit(T0, 1_000, 1, 1_000)
    found = charts.throughput(history, MINUTES_10, T0 + 30_000, 1_000)
    assert found["rows"][0] == 100  # per second, over the first 10 s
    assert found["rows"][-1] == 0


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


def test_nothing_known_is_no_points() -> None:
    """Empty columns of equal length; moments whose end offsets are known are not asked for again."""
    history = History()
    for found in (
        charts.commit_lag(history, MINUTES_10, T0, [0]),
        charts.throughput(history, MINUTES_10, T0, 1_000),
        charts.commits(history, MINUTES_10, T0),
        charts.since_commit(history, MINUTES_10, T0),
    ):
        assert not any(found.values())
    wanted = charts.moments_without_ends(history, [MINUTES_10], T0, each=10)
    assert len(wanted) == 9
    for at_ms in wanted:
        history.ends(at_ms, pack({0: 1}))
    assert charts.moments_without_ends(history, [MINUTES_10], T0, each=10) == []


def test_retention_is_counted_from_the_oldest_waiting_record() -> None:
    """Overdue is 0; a topic that keeps its records, or a table that has all of them, has no limit."""
    kept = Retention(1_000, None, "delete")
    assert kept.left_s(T0, T0 + 5_000) == 0
    assert kept.left_s(None, T0) is None
    for endless in (Retention(None, None, "delete"), Retention(-1, 5, "delete"), Retention(1, 1, "compact")):
        assert endless.left_s(T0, T0) is None


def test_lag_by_topic() -> None:
    """The topics that are furthest behind have a line each, all others one together."""
    record = Record()
    for name in ("a", "b", "c"):
        record.read_from_table(Progress(topic=name, table=name))
    for at_ms, ends in ((T0, 5), (T0 + 2_000, 9)):
        record.observe_ends(
            at_ms, {name: {0: ends * factor} for name, factor in (("a", 1), ("b", 3), ("c", 2))}
        )
    names = ["a", "b", "c"]
    lines = charts.largest_topics(record, names, 1)
    found = charts.lag_by_topic(record, names, lines, MINUTES_10, T0 + 2_000)
    assert lines == ["b"]
    assert found == {"at": [T0 + 2_000, T0 + 4_000], "t0": [15, 27], "others": [15, 27]}
