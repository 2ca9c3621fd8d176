"""Descriptions of topics, which a broker may not have for a moment although the topics exist."""

from __future__ import annotations

import time
from collections.abc import Collection
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException, TopicCollection

from tabletopic_kernel.clients.kafka.connection import TIMEOUT_S, Connection
from tabletopic_kernel.clients.kafka.offsets import UNKNOWN_TOPIC
from tabletopic_kernel.model.errors import BROKER, RetryableError, UnknownTopicError
from tabletopic_kernel.model.topic_names import check_topic_name, kafka_topic

# Brokers do not know a new topic for a moment, and a starting broker knows none.
_ABSENT_S = 1.0


def describe(connection: Connection, topic: str) -> Any:
    """A topic's description; raises UnknownTopicError, and as ``Connection.ask``."""
    check_topic_name(topic)  # for a bad name, librdkafka's error is like that of a broker that is down
    try:
        return connection.ask(
            lambda: _descriptions(connection, [kafka_topic(topic)])[kafka_topic(topic)],
            passing=UNKNOWN_TOPIC,
            within_s=_ABSENT_S,
            expected=UNKNOWN_TOPIC,
        )
    except KafkaException:
        raise UnknownTopicError(
            f"there is no topic {kafka_topic(topic)!r} at {connection.address}; create it, or check the name"
        ) from None


def describe_all(connection: Connection, topics: Collection[str]) -> dict[str, Any]:
    """Descriptions of the topics that the broker does not list as missing; raises as ``Connection.ask``."""
    described: dict[str, Any] = {}
    deadline, pending = time.monotonic() + TIMEOUT_S, sorted(set(map(kafka_topic, topics)))
    while pending:
        for topic, future in _descriptions(connection, pending).items():
            if (description := _description(connection, topic, future)) and description.partitions:
                described[topic] = description
        missing = [topic for topic in pending if topic not in described]
        # "No longer exists" is believed only if the list of all topics says so, too.
        listed = connection.metadata().topics if missing else {}
        if pending := [topic for topic in missing if topic in listed]:
            if time.monotonic() > deadline:
                names = ", ".join(pending)
                raise RetryableError(
                    f"the broker at {connection.address} lists {names}, but does not describe it; try again",
                    system=BROKER,
                )
            time.sleep(0.1)
    return {topic: described[kafka_topic(topic)] for topic in topics if kafka_topic(topic) in described}


def _description(connection: Connection, topic: str, future: Future[Any]) -> Any:
    """The requested description, or that of another request if it fails; None for an unknown topic."""
    first = iter([future])
    try:
        return connection.ask(
            lambda: next(first, None) or _descriptions(connection, [topic])[topic], expected=UNKNOWN_TOPIC
        )
    except KafkaException:
        return None


def _descriptions(connection: Connection, topics: list[str]) -> dict[str, Future[Any]]:
    return connection.admin.describe_topics(TopicCollection(topics), request_timeout=TIMEOUT_S)
