"""The broker's client after the broker was frozen."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import OffsetSpec

from tabletopic_kernel.clients.kafka import broker as kafka
from tabletopic_kernel.clients.kafka import broker as questions
from tabletopic_kernel.clients.kafka import connection, offsets
from tabletopic_kernel.model.errors import RetryableError, UnknownTopicError, UsageError

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
        return {one: turn[one.partition] for one in partitions}

    broker = broker_of(list_offsets=list_offsets, list_topics=lambda timeout: listed)
    assert broker._offsets("clicks", [0, 1], OffsetSpec.latest()) == {0: 7, 1: 8}
    assert asked == [[0, 1]] + [[1]] * len(codes)


def test_clients_do_not_pile_up_without_leaders(broker_of: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new client finds none either; once there is a leader, a client that does not find it is replaced."""
    partition = SimpleNamespace(leader=-1)
    metadata = SimpleNamespace(
        topics={"clicks": SimpleNamespace(partitions={0: partition})}, brokers={1: "the other one"}
    )
    made: list[Admin] = []

    def list_offsets(partitions: dict[Any, Any], **_: Any) -> dict[Any, Future[Any]]:
        works = len(made) > 1 and partition.leader in metadata.brokers
        outcome = 7 if works else error(KafkaError._NOENT, "No leaders found")
        return {one: _offset(outcome) for one in partitions}

    def make_admin() -> Admin:
        made.append(Admin(list_offsets=list_offsets, list_topics=lambda timeout: metadata))
        return made[-1]

    monkeypatch.setattr(offsets, "TIMEOUT_S", 0.01)
    monkeypatch.setattr(connection, "TIMEOUT_S", 0.01)
    broker = broker_of(make_admin)
    for partition.leader in (-1, -1, 2):  # the broker of the last is not online
        with pytest.raises(RetryableError, match="No leaders found"):
            broker._offsets("clicks", [0], OffsetSpec.latest())
    assert len(made) == 1
    partition.leader = 1
    assert broker._offsets("clicks", [0], OffsetSpec.latest()) == {0: 7}
    assert len(made) == 2


def test_offsets_that_never_come_are_an_error(broker_of: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    """After one more try, or when the time is over."""
    asked: list[int] = []
    code = KafkaError._TRANSPORT

    def list_offsets(partitions: dict[Any, Any], **_: Any) -> dict[Any, Future[Any]]:
        asked.append(len(partitions))
        return {one: _offset(error(code)) for one in partitions}

    broker = broker_of(list_offsets=list_offsets)
    with pytest.raises(RetryableError, match="does not respond"):
        broker._offsets("clicks", [0, 1], OffsetSpec.latest())
    assert asked == [2, 2]
    code = KafkaError.NOT_LEADER_FOR_PARTITION
    monkeypatch.setattr(offsets, "TIMEOUT_S", 0.0)
    with pytest.raises(RetryableError, match="does not respond"):
        broker._offsets("clicks", [0, 1], OffsetSpec.latest())


@pytest.mark.parametrize("ask", ["facts", "topic_id"])
def test_a_name_that_kafka_cannot_have_is_not_asked_for(broker_of: Clients, ask: str) -> None:
    """It is a mistake of the person, and no broker that does not respond."""
    broker = broker_of()
    with pytest.raises(UsageError, match="not a valid topic name"):
        getattr(broker, ask)("no'such")
    with pytest.raises(UsageError, match="not a valid topic name"):
        broker.ensure_topic("no'such", 1, {})


MISSING = coming(error(KafkaError.UNKNOWN_TOPIC_OR_PART))


def test_a_topic_is_missing_only_if_it_stays_so(broker_of: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new topic reaches the brokers after its creator has its response."""
    monkeypatch.setattr(questions, "_ABSENT_S", 240.0)
    answers = iter([MISSING, MISSING, coming(SimpleNamespace(topic_id="an id"))])
    broker = broker_of(describe_topics=lambda _, **__: {"new": next(answers, MISSING)})
    assert broker.topic_id("new") == "an id"
    monkeypatch.setattr(questions, "_ABSENT_S", 0.3)
    with pytest.raises(UnknownTopicError, match="there is no topic 'new'"):
        broker.topic_id("new")


def test_a_topic_is_gone_only_if_not_listed(broker_of: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    """Status would say that it no longer exists, or that nothing is enabled."""
    there = coming(SimpleNamespace(topic_id="an id", partitions=[SimpleNamespace(id=0)]))
    empty = coming(SimpleNamespace(topic_id="an id", partitions=[]))
    answers = {"late": iter([MISSING, empty, there]), "gone": iter([MISSING])}
    broker = broker_of(
        list_offsets=lambda asked, **_: dict.fromkeys(asked, _offset(7)),
        list_topics=lambda **_: SimpleNamespace(topics={"late": None}),
        describe_topics=lambda asked, **_: {name: next(answers[name]) for name in asked.topic_names},
    )
    assert broker.ends(["late", "gone"]) == {"late": kafka.TopicEnds("an id", {0: 7})}
    monkeypatch.setattr(questions, "TIMEOUT_S", 0.0)
    answers["late"] = iter([MISSING] * 9)
    with pytest.raises(RetryableError, match="lists late, but does not describe it"):
        broker.ends(["late"])


def test_a_topic_is_created_once_brokers_are_there(
    broker_of: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that was too slow for a moment is fenced, and the only one of a local stack."""
    fenced = coming(error(KafkaError.INVALID_REPLICATION_FACTOR, "All brokers are currently fenced"))
    answers = iter([fenced, fenced, coming(None)])
    asked: list[str] = []

    def create_topics(new: list[Any], request_timeout: float) -> dict[str, Future[Any]]:
        asked.append(new[0].topic)
        return {new[0].topic: next(answers, fenced)}

    broker = broker_of(create_topics=create_topics)
    broker.topics = list  # type: ignore[method-assign]
    broker.end_offsets = lambda topics: {name: {} for name in topics}  # type: ignore[method-assign]
    broker.ensure_topic("new", 1, {})
    assert asked == ["new"] * 3
    monkeypatch.setattr(connection, "TIMEOUT_S", 0.05)
    with pytest.raises(RetryableError, match="All brokers are currently fenced"):
        broker.ensure_topic("new", 1, {})


def test_a_connection_that_is_lost_under_way_is_made_again(broker_of: Clients) -> None:
    """A broker closes connections that were idle; a second loss is told."""
    lost = coming(error(KafkaError._TRANSPORT, "Broker transport failure"))
    answers = iter([lost, coming("cluster"), lost, lost])
    broker = broker_of()
    assert broker.ask(lambda: next(answers)) == "cluster"
    with pytest.raises(RetryableError, match="does not respond"):
        broker.ask(lambda: next(answers))
