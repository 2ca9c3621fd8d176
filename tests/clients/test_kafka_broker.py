"""The broker's client after the broker was frozen."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tabletopic_kernel.clients.kafka import broker as kafka
from tabletopic_kernel.clients.kafka import connection, offsets
from tabletopic_kernel.model.errors import RetryableError, UsageError

TIMED_OUT = KafkaException(KafkaError(KafkaError._TIMED_OUT, "Failed while waiting for controller"))


class Admin(SimpleNamespace):
    """A client that gets metadata, or does not."""

    answers = True

    def list_topics(self, timeout: float) -> Any:
        """Nothing, or too late."""
        if not self.answers:
            raise TIMED_OUT

    def poll(self, timeout: float) -> None:
        """No connection met anything."""


def coming(outcome: object) -> Future[Any]:
    """The answer of a client: an error's code, or what it found."""
    answer: Future[Any] = Future()
    if isinstance(outcome, KafkaException):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)
    return answer


def error(code: int, text: str = "") -> KafkaException:
    """As a client raises it."""
    return KafkaException(KafkaError(code, text))


Clients = Callable[..., kafka.Broker]


@pytest.fixture
def broker_of(monkeypatch: pytest.MonkeyPatch) -> Clients:
    """A broker with this admin client, or with one anew each time; it never counts one as stale."""

    def make(make_admin: Callable[[], Admin] | None = None, **answers: Any) -> kafka.Broker:
        made = Admin(**answers)
        monkeypatch.setattr(connection, "make_admin", lambda *_: make_admin() if make_admin else made)
        monkeypatch.setattr(offsets, "_STALE_S", 0.0)
        return kafka.Broker({"bootstrap.servers": "127.0.0.1:1"})

    return make


@pytest.mark.parametrize("answers", [True, False])
def test_a_client_that_finds_no_controller_is_replaced(broker_of: Clients, answers: bool) -> None:
    """By one that is answered; while the broker is away it stays, so that no clients pile up."""
    broker = broker_of(lambda: Admin(answers=answers))
    before = broker.admin
    with pytest.raises(RetryableError, match="does not respond"):
        broker.ask(lambda: coming(TIMED_OUT))
    assert (broker.admin is not before) is answers
    assert broker._worn_out == ([before] if answers else [])


def test_a_request_that_only_the_old_client_failed_is_asked_again(broker_of: Clients) -> None:
    """Of one client many requests may be late at the same time: they get one new client."""
    broker = broker_of(Admin)
    for _ in range(3):
        answers = map(coming, (TIMED_OUT, "here"))
        assert broker.ask(lambda answers=answers: next(answers)) == "here"  # type: ignore[misc]
    assert len(broker._worn_out) == 1
    with pytest.raises(RetryableError, match="does not respond"):
        broker.ask(lambda: coming(TIMED_OUT))
    assert len(broker._worn_out) == 1


def _offset(outcome: int | KafkaException) -> Future[Any]:
    return coming(outcome if isinstance(outcome, KafkaException) else SimpleNamespace(offset=outcome))


@pytest.mark.parametrize(
    "codes",
    [
        [KafkaError._TIMED_OUT],
        [KafkaError._TRANSPORT],
        [KafkaError._NOENT, KafkaError.FENCED_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION],
    ],
)
def test_offsets_are_asked_again_after_a_stall(broker_of: Clients, codes: list[int]) -> None:
    """Those that came are kept, and metadata is renewed while leaders are the former ones."""
    listed = SimpleNamespace(topics={}, brokers={})
    rounds = [[_offset(7), _offset(error(code))] for code in codes]
    asked: list[list[int]] = []

    def list_offsets(partitions: dict[Any, Any], **_: Any) -> dict[Any, Future[Any]]:
        asked.append([one.partition for one in partitions])
        turn = rounds.pop(0) if rounds else [_offset(7), _offset(8)]
        return {partition: turn[partition.partition] for partition in partitions}

    broker = broker_of(list_offsets=list_offsets, list_topics=lambda timeout: listed)
    both = {"clicks": [0, 1], "clicks@history": [1]}  # two tables of one topic share the question
    assert broker.first_offsets(both) == {"clicks": {0: 7, 1: 8}, "clicks@history": {1: 8}}
    assert asked == [[0, 1]] + [[1]] * len(codes)


@pytest.mark.parametrize("ask", ["facts", "topic_id"])
def test_a_name_that_kafka_cannot_have_is_not_asked_for(broker_of: Clients, ask: str) -> None:
    """It is a mistake of the person, and no broker that does not respond."""
    broker = broker_of()
    with pytest.raises(UsageError, match="not a valid topic name"):
        getattr(broker, ask)("no'such")
    with pytest.raises(UsageError, match="not a valid topic name"):
        broker.ensure_topic("no'such", 1, {})


def test_a_connection_that_is_lost_under_way_is_made_again(broker_of: Clients) -> None:
    """A broker closes connections that were idle; a second loss is told."""
    lost = coming(error(KafkaError._TRANSPORT, "Broker transport failure"))
    answers = iter([lost, coming("cluster"), lost, lost])
    broker = broker_of()
    assert broker.ask(lambda: next(answers)) == "cluster"
    with pytest.raises(RetryableError, match="does not respond"):
        broker.ask(lambda: next(answers))
