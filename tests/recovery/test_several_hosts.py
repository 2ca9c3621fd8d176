"""Several hosts: each topic is run by one of them, whoever dies, joins, or is away for a while."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tabletopic_kernel.host.topics.settings_topic import partition_of
from tabletopic_kernel.workbench.workbench import Workbench
from tests.recovery.checks import (
    check_exact,
    check_owners,
    commits,
    epoch,
    unreferenced_files,
    wait_for_commits,
    wait_until_lag_is_0,
    wait_until_swept,
)
from tests.recovery.checks import load as load_table
from tests.recovery.hosts import HostProcess, Hosts
from tests.recovery.stream import Stream
from tests.recovery.waiting import wait_until

pytestmark = pytest.mark.integration
FAST = {"commit_interval_ms": "500ms"}
WORKING = ("running", "staged", "committing")
_numbers = itertools.count()


def name_for(host: HostProcess, hosts: Hosts) -> str:
    """A topic name that this host will run, with the partitions assigned as now."""
    share = wait_until("the partitions are shared", hosts.share)
    places = sum(map(len, share.values()))
    return next(
        name
        for name in (f"shared-{number}" for number in _numbers)
        if partition_of(name, places) in share[host.pid]
    )


def settled(bench: Workbench, hosts: Hosts, *streams: Stream) -> dict[str, int]:
    """Each topic's host (pid), once the holder of its settings partition runs it; else empty."""
    share = hosts.share()
    if share is None:
        return {}
    holders = {partition: pid for pid, held in share.items() for partition in held}
    expected = {stream.topic: holders[partition_of(stream.topic, len(holders))] for stream in streams}
    running = {status.topic: status.host for status in bench.status() if status.state in WORKING}
    right = all(f"-{pid}-" in (running.get(topic) or "") for topic, pid in expected.items())
    return expected if right else {}


@pytest.mark.story
def test_each_topic_is_run_by_one_host(
    bench: Workbench, hosts: Hosts, new_stream: Callable[..., Stream]
) -> None:
    """Two hosts share four topics; one is killed and the other takes over; a new one gets its share."""
    first, second = hosts.exactly(2)
    streams = [new_stream(1, name_for(host, hosts)) for host in (first, second) for _ in range(2)]
    for stream in streams:
        stream.begin(per_second=20, mixed_after=40)
        bench.enable(stream.topic, FAST)
    runs_on = wait_until("each host runs its share", lambda: settled(bench, hosts, *streams))
    lost = [first.lost_its_share, second.lost_its_share]
    assert sorted(runs_on.values()) == sorted([first.pid, second.pid] * 2) or any(lost)
    for stream in streams:
        wait_for_commits(bench, stream.topic)

    first.kill()
    for stream in streams:
        taken_over = runs_on[stream.topic] == first.pid
        if taken_over:
            wait_until(f"a new owner of {stream.topic}", lambda s=stream: epoch(bench, s.topic) > 1)
        owner = wait_for_commits(bench, stream.topic)
        # The other topics keep their owner.
        lost = [first.lost_its_share, second.lost_its_share]
        assert owner == (2 if taken_over else 1) or any(lost)
    wait_until("the second host runs all", lambda: settled(bench, hosts, *streams))

    hosts.exactly(2)
    wait_until("each host runs its share again", lambda: settled(bench, hosts, *streams))
    for stream in streams:
        wait_for_commits(bench, stream.topic)
        stream.end()
    wait_until_lag_is_0(bench, *(stream.topic for stream in streams))
    for stream in streams:
        check_exact(bench, stream)
    check_owners(bench, [stream.topic for stream in streams])


def staged_by(bench: Workbench, topic: str, host: HostProcess) -> int:
    """Rows of a topic that this host has staged but not committed; 0 while another one runs it."""
    (status,) = bench.status(topic)
    return status.staged_rows if host.is_called(status.host) else 0


def test_a_host_that_comes_back_after_its_topics_were_taken_over(
    bench: Workbench, hosts: Hosts, new_stream: Callable[..., Stream]
) -> None:
    """A host frozen with staged files, and thawed when others have gone on, commits none of them (I5)."""
    frozen, other = hosts.exactly(2)
    busy, held = (new_stream(2, name_for(frozen, hosts)) for _ in range(2))
    busy.begin(per_second=50)
    bench.enable(busy.topic, FAST)
    wait_for_commits(bench, busy.topic)
    held.send(400)
    bench.enable(held.topic, {"commit_interval_ms": "1h"})
    wait_until("it has staged", lambda: staged_by(bench, held.topic, frozen) == 400)
    frozen.freeze()
    assert commits(bench, held.topic) == 0

    wait_until("the other host has staged too", lambda: staged_by(bench, held.topic, other) == 400)
    bench.pause(held.topic)  # commits what is staged
    wait_until("it has committed", lambda: commits(bench, held.topic) == 1)
    bench.resume(held.topic)
    assert wait_for_commits(bench, busy.topic) == 2 or other.lost_its_share

    frozen.thaw()
    wait_until("both are members", lambda: settled(bench, hosts, busy, held))
    wait_for_commits(bench, busy.topic)
    busy.end()
    wait_until_lag_is_0(bench, busy.topic, held.topic)
    assert {host.pid for host in hosts.alive} == {frozen.pid, other.pid}
    owners = check_owners(bench, [busy.topic, held.topic])
    assert frozen.is_called(owners[held.topic, 1])
    assert other.is_called(owners[held.topic, 2]) or other.lost_its_share
    for stream in (busy, held):
        check_exact(bench, stream)
        wait_until_swept(bench, stream.topic)
        assert unreferenced_files(load_table(bench, stream.topic)) == set()
