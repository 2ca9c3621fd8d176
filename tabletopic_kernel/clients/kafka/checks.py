"""Checks before a cluster is used: properties, before any connection, and the user's permissions.

Brokers report a user's permissions on what the user describes; without an authorizer, everything is allowed.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AclOperation

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.clients.kafka.connection import TIMEOUT_S
from tabletopic_kernel.clients.kafka.java_properties import java_properties
from tabletopic_kernel.clients.kafka.offsets import UNKNOWN_TOPIC
from tabletopic_kernel.model.errors import SettingsError
from tabletopic_kernel.model.redact import HIDDEN, is_secret, mask_property

# Without an address, a client has nothing to connect to.
_ADDRESSES = ("bootstrap.servers", "metadata.broker.list")
# librdkafka does not list its names; the nearest of these, which people set, is suggested for a typo.
_COMMON = """
    acks auto.offset.reset batch.size bootstrap.servers client.dns.lookup client.id client.rack
    compression.type connections.max.idle.ms debug delivery.timeout.ms enable.auto.commit enable.idempotence
    enable.ssl.certificate.verification fetch.max.bytes group.id group.instance.id isolation.level linger.ms
    max.partition.fetch.bytes max.poll.interval.ms message.max.bytes metadata.max.age.ms
    queue.buffering.max.messages receive.message.max.bytes request.timeout.ms retries retry.backoff.ms
    sasl.kerberos.keytab sasl.kerberos.principal sasl.kerberos.service.name sasl.mechanism sasl.mechanisms
    sasl.oauthbearer.client.id sasl.oauthbearer.client.secret sasl.oauthbearer.config sasl.oauthbearer.method
    sasl.oauthbearer.scope sasl.oauthbearer.token.endpoint.url sasl.password sasl.username security.protocol
    session.timeout.ms socket.connection.setup.timeout.ms socket.keepalive.enable socket.timeout.ms
    ssl.ca.location ssl.ca.pem ssl.certificate.location ssl.certificate.pem ssl.cipher.suites
    ssl.endpoint.identification.algorithm ssl.key.location ssl.key.password ssl.key.pem
    ssl.keystore.location ssl.keystore.password statistics.interval.ms transaction.timeout.ms transactional.id
""".split()  # noqa: SIM905 - a list literal would be a page


def check_properties(properties: Mapping[str, str], origins: Mapping[str, str]) -> None:
    """Raise SettingsError with a line for every property that librdkafka or Spark cannot use, and no secret.

    Makes no connection. ``origins`` says where each property was set.
    """
    kafka = {name: value for name, value in properties.items() if name not in _ADDRESSES}
    problems = []
    for name, value in kafka.items():
        complaint = _complaint({name: value})
        # "Failed to create": alone, it lacks its companions; all are tried together below.
        if complaint and not complaint.startswith("Failed to create"):
            problems.append(f"{origins.get(name, 'default')}: {_reason(name, complaint, kafka)}")
    if not problems and (complaint := _complaint(kafka)):
        problems.append(f"[kafka]: {_without_secrets(complaint, kafka)}")
    if not problems:
        java_properties(kafka)  # raises where Spark could not read what every other client can
    if problems:
        raise SettingsError("\n".join(problems))


def _complaint(properties: Mapping[str, str]) -> str | None:
    try:
        Producer({**properties, "log_level": "0"})
    except KafkaException as error:
        return str(error.args[0].str()).strip()
    return None


def _reason(name: str, complaint: str, kafka: Mapping[str, str]) -> str:
    if complaint.startswith("No such configuration property"):
        close = difflib.get_close_matches(name.lower().replace("_", "."), _COMMON)
        hint = f"did you mean {' or '.join(close)}?" if close else "see CONFIGURATION.md of librdkafka"
        return f"librdkafka has no property {name}; {hint}"
    if is_secret(name):
        return f"kafka.{name} = {HIDDEN}: librdkafka refuses this value"
    return f'kafka.{name} = "{mask_property(name, kafka[name])}": {_without_secrets(complaint, kafka)}'


def _without_secrets(text: str, kafka: Mapping[str, str]) -> str:
    for name, value in kafka.items():
        if value and mask_property(name, value) != value:
            text = text.replace(value, mask_property(name, value))
    return text


READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
_ASKED: dict[str, Any] = {"include_authorized_operations": True, "request_timeout": TIMEOUT_S}
# A broker that has just started does not know a group's coordinator yet.
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
    """Arguments of `kafka-acls --add` for missing permissions, without those on topics that do not exist."""
    user = broker.properties.get("sasl.username") or "<name>"
    lines = []
    for topic, operations in topics.items():
        lines += _lines(f"--topic {topic}", operations, _of_topic(broker, topic), user)
    for group, operations in groups.items():
        lines += _lines(f"--group {group}", operations, _of_group(broker, group), user)
    return lines


def _lines(
    resource_options: str, operations: Iterable[AclOperation], allowed: set[AclOperation] | None, user: str
) -> list[str]:
    if allowed is None:  # the broker does not say
        return []
    missing = [
        operation for operation in operations if operation not in allowed and AclOperation.ALL not in allowed
    ]
    options = " ".join(f"--operation {operation.name.title().replace('_', '')}" for operation in missing)
    return [f"--allow-principal User:{user} {options} {resource_options}"] if missing else []


def _of_topic(broker: Broker, topic: str) -> set[AclOperation] | None:
    return _allowed(broker, lambda: broker.admin.describe_topics(TopicCollection([topic]), **_ASKED)[topic])


def _of_group(broker: Broker, group: str) -> set[AclOperation] | None:
    return _allowed(broker, lambda: broker.admin.describe_consumer_groups([group], **_ASKED)[group])


def _allowed(broker: Broker, request: Callable[[], Any]) -> set[AclOperation] | None:
    try:
        described = broker.ask(request, passing=_NOT_YET, expected=_REFUSED | UNKNOWN_TOPIC)
    except KafkaException as error:
        # Only creating a topic shows whether that is allowed.
        return set() if error.args[0].code() in _REFUSED else None
    operations = described.authorized_operations
    return None if operations is None else set(operations)
