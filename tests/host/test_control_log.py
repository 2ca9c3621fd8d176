"""Events as written: listeners in this process receive them."""

from __future__ import annotations

from typing import Any

import pytest

from tabletopic_kernel.host.topics import control_topic
from tabletopic_kernel.host.topics.control_topic import ControlLog
from tabletopic_kernel.model.progress.events import ControlEvent, Paused

EVENT = Paused(topic="clicks", at_ms=1, host="h")


class Producer:
    """Accepts messages, or has a full queue."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.is_full = False

    def produce(self, _: str, *, key: str, **__: Any) -> None:
        """Keep the key."""
        if self.is_full:
            raise BufferError
        self.keys.append(key)

    def poll(self, _: float) -> None:
        """Nothing happens."""


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Producer:
    """What the log sends with."""
    made = Producer()
    monkeypatch.setattr(control_topic, "make_producer", lambda *_, **__: made)
    return made


def test_who_listens_hears_each_event(producer: Producer) -> None:
    """Also one that cannot be sent, which is counted."""
    heard: list[ControlEvent] = []
    log = ControlLog({})
    log.listen(heard.append)
    log.write(EVENT)
    producer.is_full = True
    log.write(EVENT)
    assert heard == [EVENT, EVENT]
    assert (producer.keys, log.dropped) == (["clicks"], 1)


def test_who_listens_and_fails_holds_nothing_up(producer: Producer, caplog: pytest.LogCaptureFixture) -> None:
    """The event is sent, others hear it, and the log has the trace."""
    heard: list[ControlEvent] = []

    def fail(_: ControlEvent) -> None:
        raise ZeroDivisionError

    log = ControlLog({})
    log.listen(fail)
    log.listen(heard.append)
    log.write(EVENT)
    assert (producer.keys, heard) == (["clicks"], [EVENT])
    assert "ZeroDivisionError" in caplog.text
