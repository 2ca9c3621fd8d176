"""What the user may do on the broker, and the `kafka-acls` lines for what is missing.

Brokers tell a user's rights on what he describes; one without an authorizer tells that all is allowed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation

from tabletopic_kernel.clients.kafka.broker import TIMEOUT_S, Broker

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
_NOT_THERE = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}
_NOT_YET = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}
_REFUSED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
}


def missing_rights(
    broker: Broker, topics: Mapping[str, Iterable[AclOperation]], groups: Mapping[str, Iterable[AclOperation]]
) -> list[str]:
    """Arguments of `kafka-acls --add` for each right that is wanted and missing; empty when none is.

    Of a topic that is not there nothing is said. Raises RetryableError where the broker does not answer.
    """
    user = broker.properties.get("sasl.username") or "<name>"
    lines = []
    for topic, wanted in topics.items():
        lines += _lines(f"--topic {topic}", wanted, _of_topic(broker, topic), user)
    for group, wanted in groups.items():
        lines += _lines(f"--group {group}", wanted, _of_group(broker, group), user)
    return lines


def _lines(
    what: str, wanted: Iterable[AclOperation], allowed: set[AclOperation] | None, user: str
) -> list[str]:
    if allowed is None:  # the broker does not tell
        return []
    missing = [
        operation for operation in wanted if operation not in allowed and AclOperation.ALL not in allowed
    ]
    options = " ".join(f"--operation {operation.name.title().replace('_', '')}" for operation in missing)
    return [f"--allow-principal User:{user} {options} {what}"] if missing else []


def _of_topic(broker: Broker, topic: str) -> set[AclOperation] | None:
    described = broker.admin.describe_topics(
        TopicCollection([topic]), include_authorized_operations=True, request_timeout=TIMEOUT_S
    )
    try:
        return _operations(described[topic].result())
    except KafkaException as error:
        if error.args[0].code() in _NOT_THERE:
            return None  # whether it may be created, only creating it tells
        return _refused(broker, error)


def _of_group(broker: Broker, group: str) -> set[AclOperation] | None:
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        described = broker.admin.describe_consumer_groups(
            [group], include_authorized_operations=True, request_timeout=TIMEOUT_S
        )
        try:
            return _operations(described[group].result())
        except KafkaException as error:
            # A broker that has just started does not know yet who coordinates the group.
            if error.args[0].code() not in _NOT_YET or time.monotonic() > deadline:
                return _refused(broker, error)
        time.sleep(0.2)


def _operations(described: Any) -> set[AclOperation] | None:
    operations = described.authorized_operations
    return None if operations is None else set(operations)


def _refused(broker: Broker, error: KafkaException) -> set[AclOperation]:
    if error.args[0].code() in _REFUSED:
        return set()
    raise broker.explain(error) from error
