"""The progress record: a fold of events that does not depend on their order."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tabletopic_kernel.model.commit_cycle import State
from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.progress.events import Progress
from tabletopic_kernel.model.progress.progress_view import FRESH_MS, NO_HOST, Record
from tabletopic_kernel.model.settings.desired import DesiredTopic

T0 = 1_700_000_000_000


def progress(**more: Any) -> Progress:
    """A record of a topic that runs."""
    known: dict[str, Any] = {"state": State.RUNNING, "epoch": 1, "next_offsets": {0: 100}, "commits": 1}
    return Progress(**{"topic": "clicks", "table": "default.clicks", **known, **more})


def beat(at_ms: int, host: str = "a-1", **more: Any) -> events.Heartbeat:
    """A heartbeat."""
    return events.Heartbeat(topic="clicks", at_ms=at_ms, host=host, progress=progress(**more))


def committed(at_ms: int, number: int, rows: int = 10) -> events.Committed:
    """A commit of a file."""
    told = progress(commits=number, next_offsets={0: number * rows}, last_commit_ms=at_ms, snapshot_id=number)
    return events.Committed(
        topic="clicks",
        at_ms=at_ms,
        host="a-1",
        snapshot_id=number,
        rows=rows,
        files=1,
        bytes=100,
        seconds=0.5,
        progress=told,
    )


EVENTS = st.lists(
    st.one_of(
        st.builds(lambda at, epoch: beat(T0 + at, epoch=epoch), st.integers(0, 9_999), st.integers(0, 2)),
        st.builds(lambda at, number: committed(T0 + at, number), st.integers(0, 9_999), st.integers(1, 99)),
        st.builds(
            lambda at: events.Stopped(topic="clicks", at_ms=T0 + at, host="a-1"), st.integers(0, 9_999)
        ),
        st.builds(
            lambda at: events.Failed(topic="clicks", at_ms=T0 + at, host="a-1", reason="x", waits=False),
            st.integers(0, 9_999),
        ),
    ),
    max_size=20,
    unique_by=lambda event: event.at_ms,
)


@given(EVENTS, st.randoms())
def test_order_makes_no_difference(told: list, random: Any) -> None:
    """The past is read from the newest to the oldest while the present goes on."""
    shuffled = list(told)
    random.shuffle(shuffled)
    one, other = Record(), Record()
    one.fold(told)
    other.fold(shuffled)
    mine, theirs = one.topic("clicks"), other.topic("clicks")
    for name in ("reported", "owned", "stopped_ms", "last_commit_ms", "notes", "progress"):
        assert getattr(mine, name) == getattr(theirs, name), name
    assert mine.history.tiers == theirs.history.tiers


@given(EVENTS)
def test_no_commit_is_counted_twice_or_lost(told: list) -> None:
    """The rows of the buckets are the rows of the commits."""
    record = Record()
    record.fold(told)
    made = [event for event in told if isinstance(event, events.Committed)]
    for tier in record.topic("clicks").history.tiers:
        assert sum(bucket.rows for bucket in tier.buckets.values()) == sum(event.rows for event in made)


def test_a_host_comes_goes_and_takes_over() -> None:
    """Silent for three heartbeats or stopped, it is gone; a successor does not hide the figures."""
    record = Record()
    record.fold([beat(T0)])
    topic, on = record.topic("clicks"), DesiredTopic(topic="clicks")
    assert topic.state(on, T0 + FRESH_MS) == "running"
    assert topic.state(on, T0 + FRESH_MS + 1) == NO_HOST
    assert topic.state(DesiredTopic(topic="clicks", run="paused"), T0 + FRESH_MS + 1) == "paused"
    assert topic.state(None, T0 + FRESH_MS + 1) == "off"
    record = Record()
    record.fold([beat(T0), events.Stopped(topic="clicks", at_ms=T0 + 1, host="a-1")])
    topic, on = record.topic("clicks"), DesiredTopic(topic="clicks")
    assert topic.state(on, T0 + 2) == NO_HOST
    record.fold([beat(T0 + 3, host="b-2")])
    assert topic.state(on, T0 + 4) == "running"
    record = Record()
    record.fold([committed(T0, 7), beat(T0 + 1, epoch=0, state=State.STARTING, commits=0, next_offsets={})])
    told = record.topic("clicks").progress
    assert (told.state, told.commits, told.next_offsets) == (State.STARTING, 7, {0: 70})


def test_lag_is_end_offset_minus_ledger() -> None:
    """In records by partition, in seconds by the oldest that waits; unknown before the ledger is."""
    record = Record()
    record.fold([beat(T0)])
    topic = record.topic("clicks")
    assert (topic.lag_records, topic.lag_seconds(T0)) == (None, None)
    record.observe_ends(T0, {"clicks": {0: 130, 1: 5}})
    assert topic.lag_by_partition == {0: 30, 1: 5}
    assert topic.lag_seconds(T0) is None
    record.observe_oldest(T0, {"clicks": T0 - 2_500})
    assert (topic.lag_records, topic.lag_seconds(T0)) == (35, 2.5)
    record.observe_ends(T0, {"clicks": {0: 100}})
    assert topic.lag_seconds(T0) == 0.0
    record = Record()
    record.observe_ends(T0, {"clicks": {0: 130}})
    record.observe_oldest(T0, {"clicks": 0})
    topic = record.topic("clicks")
    assert (topic.lag_records, topic.lag_seconds(T0)) == (None, None)
    assert all(bucket.lag_records is None for bucket in topic.history.tiers[0].buckets.values())


def test_what_a_table_says_gives_way_to_a_host() -> None:
    """Without a host the table's own figures are shown; they are no sign of life."""
    record = Record()
    record.read_from_table(progress(commits=3))
    topic = record.topic("clicks")
    assert topic.progress.commits == 3
    assert topic.state(DesiredTopic(topic="clicks"), T0) == NO_HOST
    record.fold([beat(T0, commits=4)])
    assert topic.progress.commits == 4


def test_hosts_are_the_live_ones() -> None:
    """The newest report of each, in whatever order they come; those that report no more are dropped."""
    record = Record()

    def report(host: str, at_ms: int) -> events.HostHeartbeat:
        return events.HostHeartbeat(host=host, at_ms=at_ms, topics=[], started_ms=T0, version="1")

    record.fold([report("a", T0), report("b", T0 + 2_000), report("b", T0 + 1_000)])
    assert {name: one.at_ms for name, one in record.hosts.items()} == {"a": T0, "b": T0 + 2_000}
    record.fold([report("b", T0 + FRESH_MS + 1)])
    assert list(record.hosts) == ["b"]
    assert record.topics == {}
