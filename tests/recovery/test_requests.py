"""Requests whose host is killed: the next owner finds them, and each gets one outcome."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tabletopic_kernel.model.progress.events import is_outcome
from tabletopic_kernel.workbench.topics.requests import Requests
from tabletopic_kernel.workbench.workbench import Workbench
from tests.recovery.hosts import Hosts
from tests.recovery.stream import Stream
from tests.recovery.test_several_hosts import FAST, name_for
from tests.recovery.waiting import wait_until

pytestmark = pytest.mark.integration


def test_requests_of_a_host_that_is_killed(
    bench: Workbench, hosts: Hosts, new_stream: Callable[..., Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that a later request has replaced in the settings, and one before new settings."""
    first, second = hosts.exactly(2)
    stream = new_stream(1, name_for(first, hosts))
    stream.send(100)
    bench.enable(stream.topic, FAST)
    bench.topic(stream.topic).wait(120)
    done = bench.ask_for_compaction(stream.topic)
    wait_until("it is done", lambda: [e for e in bench.events(stream.topic) if is_outcome(e, done)])
    for host in (first, second):  # else the second took over before all is asked, on a slow machine
        host.freeze()
    monkeypatch.setattr(Requests, "_check_acts", lambda *_: None)
    asked = [
        done,
        bench.ask_for_compaction(stream.topic),
        bench.ask_for_maintenance(stream.topic, "expire", orphans=True),
        bench.ask_for_compaction(stream.topic, "id >= 0"),
        bench.ask_for_replay(stream.topic),
    ]
    bench.alter(stream.topic, {"commit_interval_ms": "600ms"})
    first.kill()
    second.thaw()
    outcomes = [(bench.topic(stream.topic)._answers(request, 120) or [None])[-1] for request in asked]
    assert [getattr(outcome, "error", "none") for outcome in outcomes] == [None] * len(asked)
    events = list(bench.events(stream.topic))
    assert [sum(is_outcome(event, request) for event in events) for request in asked] == [1] * len(asked)
