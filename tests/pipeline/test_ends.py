"""One question to the broker for all topics that wait, and none that can be spared."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.pipeline.worker.ends import Ends, Wait

WAIT_S = 240


class FakeBroker:
    """A broker with these end offsets, which counts the questions."""

    def __init__(self, **ends: dict[int, int]) -> None:
        self.ends = ends
        self.asked: list[list[str]] = []
        self.error: Exception | None = None
        self.listed = 0

    def partition_counts(self) -> dict[str, int]:
        """As the real one's."""
        self.listed += 1
        return {topic: len(ends) for topic, ends in self.ends.items()}

    def ends_now(self, partitions: dict[str, int]) -> dict[str, dict[int, int]]:
        """As the real one's."""
        self.asked.append(sorted(partitions))
        if self.error is not None:
            raise self.error
        return {topic: dict(self.ends[topic]) for topic in partitions if topic in self.ends}


class Waiting:
    """A wait in a thread of its own."""

    def __init__(self, ends: Ends, broker: Any, topic: str, **more: Any) -> None:
        self.wait = Wait(topic, {0: 5}, more.pop("due_s", 0.0), 100, 0.01, **more)
        self._thread = threading.Thread(target=ends.wait, args=(broker, self.wait, lambda: False))
        self._thread.start()

    def ends(self, within_s: float = WAIT_S) -> bool:
        """Whether it ends in time."""
        self._thread.join(within_s)
        return not self._thread.is_alive()


def test_who_has_something_to_read_is_woken_and_no_other() -> None:
    """Topics that wait share a question, once their partitions are known."""
    ends, broker = Ends(), FakeBroker(a={0: 5}, b={0: 5})
    a, b = Waiting(ends, broker, "a"), Waiting(ends, broker, "b")
    while ["a", "b"] not in broker.asked:
        a.ends(0.01)
    broker.ends["b"] = {0: 6}
    assert b.ends()
    assert not a.ends(0.05)
    assert broker.listed <= 2
    ends.end(a.wait)
    assert a.ends()
    while ends._runs:  # its thread ends with the last wait
        a.ends(0.01)


def test_a_batch_that_is_not_due_waits_for_many_records() -> None:
    """A hundred are the least here, and the partitions' answers add up."""
    ends, broker = Ends(), FakeBroker(a={0: 50, 1: 54})
    a = Waiting(ends, broker, "a", due_s=ends.clock() + 3_600)
    while not broker.asked:
        a.ends(0.01)
    assert not a.ends(0.05)
    broker.ends["a"] = {0: 51, 1: 54}
    assert a.ends()
    assert a.wait.ends == {0: 51, 1: 54}


@pytest.mark.parametrize("topic", ["a", "gone"])
def test_a_topic_without_an_answer_fails_after_a_while(topic: str) -> None:
    """Its worker ends with the broker's reason, or says that the topic has no end; others go on."""
    now = [1_000.0]
    ends, broker = Ends(lambda: now[0]), FakeBroker(a={0: 5})
    broker.error = RetryableError("the broker is away") if topic == "a" else None
    wait = Wait(topic, {0: 5}, 0.0, 100, 0.01)
    asked = ends._ask(broker, {topic})  # type: ignore[arg-type]
    for _ in range(2):
        ends._tell([wait], *asked)
        assert not wait.over.is_set()
        now[0] += 9
        ends._tell([wait], {topic: {0: 5}}, None)  # such as from a new leader
    now[0] += 10
    ends._tell([wait], *asked)
    with pytest.raises(RetryableError, match="the broker is away" if topic == "a" else "where gone ends"):
        ends.wait(broker, wait, lambda: False)  # type: ignore[arg-type]


def test_a_wait_that_was_ended_before_it_began_does_not_begin() -> None:
    """Whoever stops a worker may come first."""
    ends, broker = Ends(), FakeBroker(a={0: 5})
    wait = Wait("a", {0: 5}, 0.0, 100, 0.01)
    ends.end(wait)
    ends.wait(broker, wait, lambda: False)  # type: ignore[arg-type]
    ends.wait(broker, Wait("a", {0: 5}, 0.0, 100, 0.01), lambda: True)  # type: ignore[arg-type]
    assert broker.asked == []


def test_looks_of_topics_with_one_interval_coincide() -> None:
    """So that a hundred topics take one question a second, not a hundred."""
    waits = [Wait("a", {}, due_s, 100, 1.0) for due_s in (100.2, 100.9, 50.0)]
    for wait in waits:
        wait.look_after(100.1)
    assert [wait.look_s for wait in waits] == [101.0, 101.0, 101.0]
    late = Wait("a", {}, 109.0, 100, 1.0)
    late.look_after(100.1)
    assert late.look_s == 102.0
