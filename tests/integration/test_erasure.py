"""Erasure on the real stack: by the topic's host, and by the asking process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.conftest import Sender
from tests.integration.rows import FAST, V1, row_v1

pytestmark = [pytest.mark.story, pytest.mark.usefixtures("host")]


def test_somebodys_rows_are_erased(
    bench: Workbench, new_topic: Callable[..., Sender], caught_up: Callable[..., Any]
) -> None:
    """Others stay, the topic goes on, and the request's condition does not stay in the settings topic."""
    sender = new_topic()
    sender.avro(V1, *map(row_v1, range(10)))
    bench.enable(sender.topic, FAST)
    caught_up(sender.topic)
    topic, where = bench.topic(sender.topic), "id in (3, 7)"
    plan = topic.plan_erasure(where)
    assert (plan.rows, plan.letters, plan.done, plan.whole) == (2, 0, None, True)
    assert sum(map(len, plan.kafka.offsets.values())) == 2
    outcome = topic.erase(where)
    assert outcome is not None
    assert outcome.done is not None
    assert (outcome.done.rows, outcome.done.left, outcome.done.error) == (2, [], None)
    assert outcome.done.gone
    assert bench.desired_topics()[sender.topic].maintenance is None
    sender.avro(V1, row_v1(10))
    caught_up(sender.topic)
    found = bench.query(f"SELECT id FROM {sender.topic} ORDER BY id").rows["id"].to_pylist()
    assert found == [0, 1, 2, 4, 5, 6, 8, 9, 10]
    bench.disable(sender.topic)
    again = topic.erase("id = 10")  # perhaps in this process, perhaps the host's last work
    assert again is not None
    assert again.done is not None
    assert (again.done.rows, again.done.left, again.done.error) == (1, [], None)
