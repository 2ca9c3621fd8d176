"""Offsets of partitions, whose leaders come and go: of the first or last record, or of a time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from tabletopic_kernel.clients.kafka.connection import RECONNECT_S, TIMEOUT_S, Connection
from tabletopic_kernel.model.topic_names import kafka_topic

# librdkafka keeps using a stale leader until its metadata is refreshed.
_STALE_S = 1.0
# A partition has no leader for a moment: while the topic is new, or its broker restarts or was too slow.
NO_LEADER = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._NOENT,  # no requested partition has a leader
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
}
UNKNOWN_TOPIC = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}


def list_offsets(
    connection: Connection,
    requests: Mapping[TopicPartition, OffsetSpec],
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> dict[tuple[str, int], int]:
    """Offsets by topic and partition; raises as ``Connection.ask``."""
    offsets: dict[tuple[str, int], int] = {}
    began_s, is_repeated, refreshed = time.monotonic(), False, False
    waiting = dict(requests)
    while waiting:
        futures = connection.admin.list_offsets(waiting, isolation_level=isolation, request_timeout=TIMEOUT_S)
        errors: list[KafkaException] = []
        for partition, future in futures.items():
            try:
                offsets[partition.topic, partition.partition] = connection.result(future).offset
            except KafkaException as error:
                errors.append(error)
        waiting = {p: spec for p, spec in waiting.items() if (p.topic, p.partition) not in offsets}
        waited_s = time.monotonic() - began_s
        lasting = [error for error in errors if error.args[0].code() not in NO_LEADER | UNKNOWN_TOPIC]
        if lasting:
            if is_repeated or not connection.may_ask_again(lasting[0]):
                raise connection.explain(lasting[0]) from lasting[0]
            is_repeated, began_s = True, time.monotonic()
        elif errors and waited_s > (TIMEOUT_S if refreshed else 3 * TIMEOUT_S):
            raise connection.explain(errors[0]) from errors[0]
        elif errors and waited_s > _STALE_S:
            refreshed = _refresh(connection, waiting, errors)
        if waiting:
            time.sleep(_STALE_S if refreshed else 0.1)
    return offsets


def ends_now(connection: Connection, partitions: Mapping[str, int]) -> dict[str, dict[int, int]]:
    """End offsets by topic and partition, read-committed, by one request that nothing repeats.

    ``partitions``: how many, by topic. A topic is left out if a partition has no answer; raises as
    ``Connection.ask`` if all are.
    """
    latest = OffsetSpec.latest()
    counts = {kafka_topic(topic): count for topic, count in partitions.items()}
    requests = {TopicPartition(topic, p): latest for topic, count in counts.items() for p in range(count)}
    ends: dict[str, dict[int, int]] = {topic: {} for topic, count in counts.items() if count}
    if not requests:
        return ends
    futures = connection.admin.list_offsets(
        requests, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=TIMEOUT_S
    )
    for partition, future in futures.items():
        try:
            end = connection.result(future).offset
        except KafkaException as error:
            ends.pop(partition.topic, None)
            if not ends:
                raise connection.explain(error) from error
        else:
            if partition.topic in ends:
                ends[partition.topic][partition.partition] = end
    return {topic: ends[kafka_topic(topic)] for topic in partitions if kafka_topic(topic) in ends}


def _refresh(
    connection: Connection, waiting: Iterable[TopicPartition], errors: Iterable[KafkaException]
) -> bool:
    """Get new metadata, or a new client where that does not help; whether the broker responded."""
    with contextlib.suppress(KafkaException):
        metadata = connection.listed(RECONNECT_S)
        lacks_leaders = any(error.args[0].code() == KafkaError._NOENT for error in errors)
        # While no leader is online, a new client finds none either, and each old one is kept.
        return not (lacks_leaders and _has_leader(metadata, waiting)) or connection.renew(connection.admin)
    return False


def _has_leader(metadata: Any, partitions: Iterable[TopicPartition]) -> bool:
    topics = metadata.topics
    listed = (topics[p.topic].partitions.get(p.partition) for p in partitions if p.topic in topics)
    return any(partition is not None and partition.leader in metadata.brokers for partition in listed)
