"""A host as a process: what it does before it has a topic."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tabletopic_kernel.clients import spark
from tabletopic_kernel.faces.cli.commands import hosts as run
from tabletopic_kernel.local.java import jvm


@pytest.mark.parametrize(("topics", "is_warmed"), [({}, True), ({"orders": object()}, False)])
def test_a_host_that_stands_by_warms_spark_up(
    monkeypatch: pytest.MonkeyPatch, topics: dict[str, object], is_warmed: bool
) -> None:
    """Also where all topics are other hosts', so that it can take them over soon."""
    warmed: list[tuple[object, object]] = []
    monkeypatch.setattr(
        spark, "warm_up", lambda session, kafka: warmed.append((session, kafka["kafka.bootstrap.servers"]))
    )
    monkeypatch.setattr(jvm, "make_later", lambda: None)
    bench = SimpleNamespace(
        host_spark=lambda _: "session",
        desired_topics=lambda: {"orders": "another host's"},
        broker=SimpleNamespace(properties={"bootstrap.servers": "b:9092"}),
    )
    host = SimpleNamespace(wait_until_joined=lambda _: True, coordinators=lambda: topics)
    run._start_spark(cast(Any, SimpleNamespace(workbench=bench)), cast(Any, host), quiet=True)
    assert warmed == ([("session", "b:9092")] if is_warmed else [])
