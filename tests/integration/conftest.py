"""A workbench and a host on the real stack, and a producer that records what it sent."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.host.host import Host
from tabletopic_kernel.local.stack import StackInfo
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.model.settings.table_names import table_identifier
from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.together import Outcomes

METADATA = "_kafka_metadata"


@dataclass(frozen=True)
class Sent:
    """A record that the broker acknowledged.

    ``offset`` is None if an idempotent producer resent it and the broker responded that it has it.
    """

    partition: int
    offset: int | None
    timestamp_ms: int
    key: bytes | None
    value: Any
    headers: list[tuple[str, bytes]] | None


@dataclass
class Sender:
    """Sends to one topic through Confluent's own Avro serializer and records what was acknowledged."""

    stack: StackInfo
    topic: str
    sent: list[Sent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._producer = Producer(
            {"bootstrap.servers": self.stack.bootstrap_servers, "linger.ms": 5, "log_level": 0}
        )
        # Without a time limit a request that the registry loses would hang the test.
        self.registry = SchemaRegistryClient({"url": self.stack.registry_url, "timeout": 10})
        self._serializers: dict[str, AvroSerializer] = {}

    def avro(self, schema: str, *values: Any, key: bytes | None = b"k", **more: Any) -> None:
        """Send values written with ``schema``, registering it if it is new."""
        for value in values:
            self.raw(self.serialize(schema, value), value, key=key, **more)
        self.flush()

    def serialize(self, schema: str, value: Any) -> bytes:
        """The framed bytes of a value."""
        if schema not in self._serializers:
            self._serializers[schema] = AvroSerializer(self.registry, schema)
        context = SerializationContext(self.topic, MessageField.VALUE)
        framed = self._serializers[schema](value, context)
        assert framed is not None
        return framed

    def raw(
        self,
        data: bytes | None,
        value: Any = None,
        *,
        key: bytes | None = b"k",
        headers: list[tuple[str, bytes]] | None = None,
        partition: int = -1,
        timestamp_ms: int = 0,
    ) -> None:
        """Send bytes unchanged; ``timestamp_ms`` 0 is now."""

        def delivered(error: Any, message: Any) -> None:
            assert error is None, error
            self.sent.append(
                Sent(message.partition(), message.offset(), message.timestamp()[1], key, value, headers)
            )

        self._producer.produce(
            self.topic,
            data,
            key=key,
            headers=headers,
            partition=partition,
            timestamp=timestamp_ms,
            on_delivery=delivered,
        )

    def flush(self) -> None:
        """Wait until everything is acknowledged."""
        assert self._producer.flush(240) == 0

    def look_again(self) -> None:
        """Detect added partitions."""
        self._producer.list_topics(self.topic, timeout=60)

    def register(self, schema: str) -> int:
        """Register a schema without sending a record."""
        return self.registry.register_schema(f"{self.topic}-value", Schema(schema, "AVRO"))


@pytest.fixture(scope="session")
def bench(stack: StackInfo) -> Workbench:
    """A workbench on the real stack, with a second catalog, ``prod``, whose tables are in the same folder."""
    prod = {
        "type": "sql",
        "uri": f"sqlite:///{stack.state_dir}/prod/catalog.db",
        "warehouse": stack.catalog["warehouse"],
    }
    (stack.state_dir / "prod").mkdir()
    return Workbench(Settings(state_dir=str(stack.state_dir), catalogs={"prod": prod}))


@pytest.fixture(scope="package")
def host(bench: Workbench) -> Iterator[Host]:
    """A host in this process, for these tests."""
    running = bench.host()
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="package")
def outcomes(request: pytest.FixtureRequest, stack: StackInfo, bench: Workbench, host: Host) -> Outcomes:
    """The stories that wait together, told to their ends."""
    told = Outcomes(bench, lambda *topic, **config: made_topic(stack, *topic, **config))
    told.play(request.session.items)
    return told


def made_topic(stack: StackInfo, partitions: int = 1, name: str | None = None, **config: str) -> Sender:
    """A new topic, and a sender to it."""
    topic = name or f"t{uuid.uuid4().hex[:10]}"
    Broker({"bootstrap.servers": stack.bootstrap_servers}).ensure_topic(topic, partitions, config)
    return Sender(stack, topic)


@pytest.fixture
def new_topic(stack: StackInfo, bench: Workbench) -> Iterator[Callable[..., Sender]]:
    """Creates a topic and a sender for it; afterwards it is disabled, as queries take time."""
    made: list[Sender] = []

    def make(partitions: int = 1, name: str | None = None, **config: str) -> Sender:
        made.append(made_topic(stack, partitions, name, **config))
        return made[-1]

    yield make
    desired_topics = bench.desired_topics() if made else {}
    for sender in made:
        sender.registry.close()
        if sender.topic in desired_topics:
            bench.disable(sender.topic)


@pytest.fixture(scope="session")
def caught_up(bench: Workbench) -> Callable[..., Any]:
    """Waits until a topic has no lag and returns its status; fails early if the topic has stopped."""

    def wait(topic: str, *, timeout_s: float = 180, state: str | None = None) -> Any:
        deadline = time.monotonic() + timeout_s
        while True:
            (status,) = bench.status(topic)
            if state is None and status.state == "failed":
                pytest.fail(f"{topic} failed: {status.error}")
            done = status.state == state if state else status.lag_records == 0 and status.end_offsets
            if done:
                return status
            if time.monotonic() > deadline:
                pytest.fail(f"{topic} did not get there: {status}")
            time.sleep(0.3)

    return wait


def rows_by_offset(bench: Workbench, topic: str) -> dict[tuple[int, int], dict[str, Any]]:
    """All rows of a topic's table as read by plain PyIceberg, by (partition, offset); each once."""
    settings = bench.desired_topic(topic).settings
    table = bench.open_catalog(settings.catalog).load_table(table_identifier(topic, settings))
    rows = table.scan().to_arrow().to_pylist()
    by_offset = {(row[METADATA]["partition"], row[METADATA]["offset"]): row for row in rows}
    assert len(by_offset) == len(rows), "a record is in the table twice"
    return by_offset


def dead_letters_by_offset(bench: Workbench, topic: str) -> dict[tuple[int, int], dict[str, Any]]:
    """All letters of a topic, by (partition, offset); each once."""
    table = bench.open_catalog().load_table(bench.table_of(topic) + "__dead_letters")
    found = table.scan().to_arrow().to_pylist()
    by_offset = {(one["partition"], one["offset"]): one for one in found}
    assert len(by_offset) == len(found), "a record is a letter twice"
    return by_offset
