"""The producer, on librdkafka's mock broker and on a real one."""

import io
import itertools
import json
import time
from typing import Any
from uuid import uuid4

import fastavro
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient

from tabletopic_kernel._datasets.clickstream import produce as module
from tabletopic_kernel._datasets.clickstream.avro import schema_text
from tabletopic_kernel._datasets.clickstream.generator import START, Clickstream
from tabletopic_kernel._datasets.clickstream.produce import produce
from tabletopic_kernel.formats import wire
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError, UsageError

MOCK_REGISTRY = {"url": "mock://clickstream"}
# Each client of the mock registry has one of its own, and counts ids from 1.
MOCK_IDS = {1: schema_text("v1"), 2: schema_text("v2")}
NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.fixture(scope="module")
def mock_broker() -> Producer:
    """A client with librdkafka's mock cluster."""
    return Producer({"test.mock.num.brokers": 1, "log_level": 0})


@pytest.fixture
def topic(mock_broker: Producer) -> str:
    """A new topic of four partitions; the mock cluster creates it on first request."""
    name = f"clicks-{uuid4().hex[:8]}"
    mock_broker.list_topics(name, timeout=60)
    return name


@pytest.fixture
def bootstrap(mock_broker: Producer) -> dict[str, str]:
    """Properties to connect to the mock cluster."""
    brokers = mock_broker.list_topics(timeout=60).brokers.values()
    return {"bootstrap.servers": ",".join(f"{broker.host}:{broker.port}" for broker in brokers)}


def _read(bootstrap: dict[str, str], topic: str, count: int) -> list[Message]:
    consumer = Consumer({**bootstrap, "group.id": "none", "log_level": 0})
    partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    messages: list[Message] = []
    give_up = time.monotonic() + 240
    while len(messages) < count and time.monotonic() < give_up:
        messages += consumer.consume(count - len(messages), timeout=1)
    consumer.close()
    return messages


def _decoded(schemas: dict[int, str], messages: list[Message]) -> dict[str, dict[str, Any]]:
    """Values by event id, read with the schema in their prefix."""
    parsed = {schema_id: fastavro.parse_schema(json.loads(text)) for schema_id, text in schemas.items()}
    values = {}
    for message in messages:
        body = message.value()
        assert isinstance(body, bytes)
        schema_id = next(schema for schema in schemas if body.startswith(wire.prefix(schema)))
        value = fastavro.schemaless_reader(io.BytesIO(body[wire.PREFIX_BYTES :]), parsed[schema_id], None)
        assert isinstance(value, dict)
        assert (message.key() or b"") == value["user_id"].encode()
        value["event_time"] = round(value["event_time"].timestamp() * 1000)
        values[value["event_id"]] = value
    return values


def _wait(sender: module._Sender) -> None:
    while sender.waiting():
        pass


def test_records_arrive_framed_and_tallied(bootstrap: dict[str, str], topic: str) -> None:
    """Every event is in the topic, decodes with its registered schema, and is in the tallies."""
    tallies = produce(bootstrap, MOCK_REGISTRY, topic, 500, switch_at=200)
    stream = Clickstream()
    events = list(stream.events(200))
    stream.switch_schema("v2")
    events += stream.events(300)
    assert tallies == stream.tallies
    messages = _read(bootstrap, topic, 500)
    assert _decoded(MOCK_IDS, messages) == {event.value["event_id"]: event.value for event in events}
    assert len({message.partition() for message in messages}) == 4


def test_records_are_stamped_now_unless_told_otherwise(bootstrap: dict[str, str], topic: str) -> None:
    """Records carry the time of sending, so that lag is real; simulated times are a choice."""
    began_ms = time.time() * 1000 - 1
    produce(bootstrap, MOCK_REGISTRY, topic, 50)
    assert all(message.timestamp()[1] >= began_ms for message in _read(bootstrap, topic, 50))
    other = f"{topic}-simulated"
    Producer({**bootstrap, "log_level": 0}).list_topics(other, timeout=60)
    produce(bootstrap, MOCK_REGISTRY, other, 50, record_time="simulated")
    stamps = sorted(message.timestamp()[1] for message in _read(bootstrap, other, 50))
    assert stamps == [event.timestamp_ms for event in Clickstream().events(50)]
    assert stamps[0] > START.timestamp() * 1000


def test_stop_ends_early_with_exact_tallies(bootstrap: dict[str, str], topic: str) -> None:
    """A stopped production returns the tallies of what it sent, all of it acknowledged."""
    asked = itertools.count()
    tallies = produce(bootstrap, MOCK_REGISTRY, topic, 10_000, stop=lambda: next(asked) >= 77)
    expected = Clickstream()
    list(expected.events(77))
    assert tallies == expected.tallies
    assert len(_read(bootstrap, topic, 77)) == 77


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"count": -1}, "-1 records"),
        ({"rate": 0}, "rate"),
        ({"rate": float("nan")}, "rate"),
        ({"partitions": 0}, "partitions"),
        ({"topic": "a topic"}, "topic name"),
        ({"topic": ".."}, "topic name"),
        ({"schema_version": "v3"}, "v3"),
        ({"switch_at": 11}, "11 of 10"),
        ({"switch_at": 1, "schema_version": "v2"}, "switch_at"),
        ({"switch_at": 1, "distinct": 5}, "cannot be combined"),
        ({"distinct": 0}, "distinct"),
        ({"bootstrap": {}}, "bootstrap.servers"),
        ({"bootstrap": {**NOWHERE, "no.such.property": "1"}}, "no.such.property"),
    ],
)
def test_mistakes_are_named_before_anything_is_sent(arguments: dict[str, Any], said: str) -> None:
    """The caller's mistakes are UsageErrors that name what is wrong."""
    good: dict[str, Any] = {"bootstrap": NOWHERE, "registry": MOCK_REGISTRY, "topic": "clicks", "count": 10}
    with pytest.raises(UsageError, match=said):
        produce(**{**good, **arguments})


def test_a_lost_or_refused_record_is_an_error(bootstrap: dict[str, str], topic: str) -> None:
    """What is not delivered in time ends the production; what the client refuses is not waited for."""
    sender = module._Sender({**NOWHERE, "message.timeout.ms": "50"}, "clicks")
    sender.send(b"key", b"value", 0)
    with pytest.raises(RetryableError, match="clicks after 0 records"):
        _wait(sender)
    sender = module._Sender({**bootstrap, "message.max.bytes": "1000"}, topic)
    with pytest.raises(ActionNeededError, match="refuses"):
        sender.send(b"key", b"x" * 2_000, 0)


@pytest.mark.integration
def test_real_stack_takes_both_versions(stack: Any) -> None:
    """A real broker and registry take both schema versions of one topic, and all records are there."""
    bootstrap = {"bootstrap.servers": stack.bootstrap_servers}
    registry = {"url": stack.registry_url}
    topic = f"clicks-{uuid4().hex[:8]}"
    tallies = produce(bootstrap, registry, topic, 2_000, partitions=3, switch_at=1_000)
    assert tallies.events_by_version == {"v1": 1_000, "v2": 1_000}
    messages = _read(bootstrap, topic, 2_000)
    assert {message.partition() for message in messages} == {0, 1, 2}
    with SchemaRegistryClient(registry) as client:
        versions = [client.get_version(f"{topic}-value", number) for number in (1, 2)]
    texts = {version.schema_id or 0: version.schema.schema_str or "" for version in versions}
    assert [json.loads(text) for text in texts.values()] == [
        json.loads(schema_text("v1")),
        json.loads(schema_text("v2")),
    ]
    assert len(_decoded(texts, messages)) == 2_000


@pytest.mark.integration
def test_foreign_subject_is_the_callers_mistake(stack: Any) -> None:
    """A topic whose subject holds something else is refused with its name."""
    from confluent_kafka.schema_registry import Schema

    topic = f"clicks-{uuid4().hex[:8]}"
    with SchemaRegistryClient({"url": stack.registry_url, "timeout": 10}) as client:
        client.register_schema(f"{topic}-value", Schema('{"type": "string"}', "AVRO"))
    with pytest.raises(UsageError, match=f"{topic}-value"):
        produce({"bootstrap.servers": stack.bootstrap_servers}, {"url": stack.registry_url}, topic, 1)
