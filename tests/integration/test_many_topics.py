"""Many topics on one host, with more work than its cores can do: none is left behind."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from tabletopic_kernel.local.stack import StackInfo
from tabletopic_kernel.model.progress.events import Committed, Enabled
from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.conftest import Sender

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("host")]

TOPICS = 20
# Commits that one topic may have more than another since all of them run: queries start one after the other.
MOST_APART = 40
LIMIT_S = 300  # on a machine that is busy with other things; else it takes half a minute


@pytest.fixture
def busy(stack: StackInfo, new_topic: Callable[..., Sender]) -> Iterator[list[str]]:
    """Topics that always have new records."""
    topics = [new_topic(name=f"busy-{number:02}").topic for number in range(TOPICS)]
    producer = Producer({"bootstrap.servers": stack.bootstrap_servers, "log_level": 0})
    over = threading.Event()

    def send() -> None:
        number = 0
        while not over.wait(0.2):
            number += 1
            for topic in topics:
                producer.produce(topic, json.dumps({"n": number}).encode())
            producer.poll(0)
        producer.flush(240)

    thread = threading.Thread(target=send)
    thread.start()
    yield topics
    over.set()
    thread.join()


def test_every_topic_has_its_turn(bench: Workbench, busy: list[str]) -> None:
    """Each commits again and again, those whose names come last as well as the first."""
    for topic in busy:
        bench.enable(topic, {"value_format": "json", "commit_interval_ms": "200ms"})
    commits, to_begin = Counter(dict.fromkeys(busy, 0)), set(busy)
    deadline = time.monotonic() + LIMIT_S
    for event in bench.events(follow=lambda: time.monotonic() < deadline):
        if isinstance(event, Enabled):
            to_begin.discard(event.topic)
        elif isinstance(event, Committed) and event.topic in commits and not to_begin:
            commits[event.topic] += 1
            least = min(commits.values())
            assert max(commits.values()) - least <= MOST_APART, commits
            if least >= 3:
                return
    pytest.fail(f"commits after {LIMIT_S} s: {commits}")
