"""What a reader of ranges waits out, and what it does not, by a consumer of the test's own."""

from __future__ import annotations

import subprocess
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from tabletopic_kernel.clients.kafka.connection_errors import ConnectionErrors
from tabletopic_kernel.clients.kafka.ranges import reading
from tabletopic_kernel.clients.kafka.ranges.consumer import Problem, Pulled
from tabletopic_kernel.clients.kafka.ranges.idle_consumers import IDLE_CONSUMERS
from tabletopic_kernel.model.errors import RetryableError

BATCH = pa.record_batch({"offset": [0]})
QUIET, READ = Pulled(None, None, moved=False), Pulled(BATCH, None, moved=True)
REFUSED = Problem(KafkaError.GROUP_AUTHORIZATION_FAILED, -1, "FindCoordinator response error")
REST = Pulled(pa.record_batch({"offset": [1]}), None, moved=False)
GROUP = Pulled(None, REFUSED, moved=True)


class FakeConsumer:
    """Pulls what the test says; ``responds``: whether the broker does when it is asked."""

    def __init__(self, *pulls: Pulled, responds: bool = True) -> None:
        self.errors = ConnectionErrors()
        self.pulls, self.responds = list(pulls), responds
        self.calls: list[str] = []

    def __call__(self, _: Any) -> Any:
        """The connection."""
        return self

    @property
    def open(self) -> bool:
        """Until all was pulled."""
        return bool(self.pulls)

    def pull(self, _: float, *, flush: bool = False) -> Pulled:
        """The next; what came before the time was over waits for others."""
        return REST if flush else self.pulls.pop(0)

    def begin(self, *_: Any, **__: Any) -> None:
        """Begins."""
        self.calls.append("begin")

    def end(self) -> None:
        """Ends."""

    close = end

    def firsts(self) -> dict[int, int]:
        """As ranges begin."""
        return {0: 0}

    def log_start(self, *_: Any) -> int:
        """The first offset, if the broker responds."""
        self.calls.append("log_start")
        if not self.responds:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return 0


@pytest.fixture(autouse=True)
def seconds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each look at the clock takes four seconds, and somebody listens."""
    now = iter(range(0, 10_000, 4))
    monkeypatch.setattr(reading, "time", type("Clock", (), {"monotonic": staticmethod(lambda: next(now))}))
    monkeypatch.setattr(reading, "check_listening", lambda _: None)
    yield
    IDLE_CONSUMERS._idle.clear()


def read(consumer: FakeConsumer, **more: Any) -> list[pa.RecordBatch]:
    """What a range of one record has."""
    return list(reading.read_ranges({}, "t", {0: 0}, {0: 1}, headers=False, connect=consumer, **more))


def test_reading_may_take_so_long() -> None:
    """It ends with what has arrived, and its consumer is not used again."""
    consumer = FakeConsumer(QUIET, READ, *[QUIET] * 12, READ)
    assert read(consumer, seconds=30) == [BATCH, REST.batch]
    assert consumer.open
    assert read(FakeConsumer(READ)) == [BATCH]


def test_the_group_is_not_needed() -> None:
    """librdkafka asks for its coordinator, and who reads by offsets may lack the permission."""
    assert read(FakeConsumer(GROUP, QUIET, READ)) == [BATCH]


def test_a_broker_that_responds_is_waited_for() -> None:
    """A large answer may be under way; but not for ever, nor with errors alone."""
    assert read(FakeConsumer(*[QUIET] * 12, READ)) == [BATCH]
    for pulls in ([QUIET] * 90, [GROUP] * 90):
        with pytest.raises(RetryableError, match=r"did not deliver t within 7\d s"):
            read(FakeConsumer(*pulls, READ))
    with pytest.raises(RetryableError, match=r"did not deliver t within 1\d s"):
        read(FakeConsumer(*[QUIET] * 12, READ, responds=False))


def test_a_child_process_frees_no_consumer_of_its_parent() -> None:
    """It has none of librdkafka's threads, and would crash; many programs are started by a fork."""
    consumer = FakeConsumer()
    kept = weakref.ref(consumer)
    IDLE_CONSUMERS.give({}, FakeConsumer, consumer)  # type: ignore[arg-type]
    del consumer

    def fail_if_freed() -> None:
        assert kept() is not None

    subprocess.run([sys.executable, "-c", ""], preexec_fn=fail_if_freed, check=True)


@pytest.mark.parametrize("responds", [True, False])
def test_leaders_are_known_before_a_range_begins(responds: bool) -> None:
    """librdkafka, which is asked to fetch, looks for them once a second; without an answer it has to."""
    consumer = FakeConsumer(READ, responds=responds)
    assert read(consumer) == [BATCH]
    assert consumer.calls == ["log_start", "begin"]
