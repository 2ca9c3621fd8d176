"""Questions to a broker, through librdkafka: topics, offsets, and group members."""

from __future__ import annotations

import struct
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ConfigResource, NewTopic, OffsetSpec, ResourceType

from tabletopic_kernel.clients.kafka.connection import RECONNECT_S, TIMEOUT_S, Connection
from tabletopic_kernel.clients.kafka.descriptions import describe, describe_all
from tabletopic_kernel.clients.kafka.librdkafka import make_consumer, make_producer
from tabletopic_kernel.clients.kafka.offsets import ends_now, list_offsets
from tabletopic_kernel.clients.kafka.reader import KafkaRecord, read_records
from tabletopic_kernel.model.errors import BROKER, ActionNeededError, RetryableError
from tabletopic_kernel.model.topic_names import check_topic_name, kafka_topic

__all__ = ["Broker", "TopicEnds", "TopicFacts", "assigned", "make_consumer", "make_producer"]
_MAY_NOT = {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}


@dataclass(frozen=True)
class TopicFacts:
    """A topic's identity (I8), and its first and end offsets by partition."""

    topic: str
    cluster_id: str
    topic_id: str
    first: dict[int, int]
    end: dict[int, int]
    internal: bool = False  # one of Kafka's own, says the broker


@dataclass(frozen=True)
class TopicEnds:
    """A topic's id, end offsets by partition, and the offsets ``waiting`` there, in open transactions."""

    topic_id: str
    end: dict[int, int]
    waiting: dict[int, int] = field(default_factory=dict)


def assigned(raw: bytes) -> list[tuple[str, int]]:
    """(topic, partition) pairs of a member's assignment; empty before it has one.

    Source: Kafka's ConsumerProtocolAssignment: version, [topic, [partition]], user data; big-endian.

    >>> assigned(bytes.fromhex("0001" "00000001" "0001" "78" "00000002" "00000000" "00000007" "00000000"))
    [('x', 0), ('x', 7)]
    """
    if not raw:
        return []
    pairs: list[tuple[str, int]] = []
    (topics,) = struct.unpack_from(">i", raw, 2)
    offset = 6
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", raw, offset)
        topic = raw[offset + 2 : offset + 2 + length].decode()
        offset += 2 + length
        (count,) = struct.unpack_from(">i", raw, offset)
        pairs += [(topic, partition) for partition in struct.unpack_from(f">{count}i", raw, offset + 4)]
        offset += 4 + 4 * count
    return pairs


class Broker(Connection):
    """Questions to one cluster. All raise RetryableError when the broker does not respond."""

    def topics(self) -> list[str]:
        return sorted(self.partition_counts())

    def partition_counts(self) -> dict[str, int]:
        """The number of partitions of every topic, by name."""
        topics = self.metadata().topics
        return {name: len(topics[name].partitions) for name in sorted(topics)}

    def cluster_id(self) -> str:
        return str(self.ask(lambda: self.admin.describe_cluster(request_timeout=TIMEOUT_S)).cluster_id)

    def facts(self, topic: str) -> TopicFacts:
        """Identity and offsets of a topic, read-committed; raises UnknownTopicError."""
        described = describe(self, topic)
        partitions = [partition.id for partition in described.partitions]
        return TopicFacts(
            topic=topic,
            cluster_id=self.cluster_id(),
            topic_id=str(described.topic_id),
            first=self._offsets({topic: partitions}, OffsetSpec.earliest())[topic],
            end=self._offsets({topic: partitions}, OffsetSpec.latest())[topic],
            internal=bool(described.is_internal),
        )

    def topic_id(self, topic: str) -> str:
        """The topic's id, which a re-created topic does not share. Raises as ``facts``."""
        return str(describe(self, topic).topic_id)

    def end_offsets(self, topics: Iterable[str]) -> dict[str, dict[int, int]]:
        """End offsets by topic and partition, read-committed; unknown topics are left out."""
        return {topic: ends.end for topic, ends in self.ends(topics).items()}

    def ends(self, topics: Iterable[str]) -> dict[str, TopicEnds]:
        """Ids and end offsets by topic, read-committed; unknown topics are left out."""
        described = describe_all(self, list(topics))
        partitions = {topic: [p.id for p in answer.partitions] for topic, answer in described.items()}
        # First the high watermarks: at the end offsets, asked for later, there may be newer records.
        high = self._offsets(partitions, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
        ends = self._offsets(partitions, OffsetSpec.latest())
        waiting = {
            topic: {p: high[topic][p] - end for p, end in of_topic.items() if high[topic][p] > end}
            for topic, of_topic in ends.items()
        }
        return {
            topic: TopicEnds(str(described[topic].topic_id), ends[topic], waiting[topic]) for topic in ends
        }

    def ends_now(self, partitions: Mapping[str, int]) -> dict[str, dict[int, int]]:
        """End offsets of topics with so many partitions; see ``offsets.ends_now``."""
        return ends_now(self, partitions)

    def first_offsets(self, partitions: Mapping[str, Iterable[int]]) -> dict[str, dict[int, int]]:
        """The first offset that is still there, by topic and partition, of partitions that exist."""
        return self._offsets(partitions, OffsetSpec.earliest())

    def offsets_at(self, topic: str, partitions: Iterable[int], timestamp_ms: int) -> dict[int, int]:
        """The first offset at or after a time, by partition; the end offset if there is none."""
        chosen = list(partitions)
        first = self._offsets({topic: chosen}, OffsetSpec.for_timestamp(timestamp_ms))[topic]
        end = self._offsets({topic: chosen}, OffsetSpec.latest())[topic]
        return {p: end[p] if first[p] < 0 else first[p] for p in chosen}

    def read(
        self, topic: str, starts: Mapping[int, int], ends: Mapping[int, int]
    ) -> Iterator[list[KafkaRecord]]:
        """Committed records of ranges of offsets, by a consumer that lives as long; see ``read_records``."""
        return read_records(self.properties, kafka_topic(topic), starts, ends)

    def ensure_topic(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        """Create an internal topic if it does not exist (with the broker's default replication)."""
        check_topic_name(topic)
        if topic in self.topics():
            return
        new = NewTopic(topic, num_partitions=partitions, replication_factor=-1, config=dict(config))
        try:
            self.ask(
                lambda: self.admin.create_topics([new], request_timeout=TIMEOUT_S)[topic],
                passing={KafkaError.INVALID_REPLICATION_FACTOR},  # too few brokers are there for a moment
                expected=_MAY_NOT | {KafkaError.TOPIC_ALREADY_EXISTS},
            )
        except KafkaException as error:
            if error.args[0].code() in _MAY_NOT:
                user = self.properties.get("sasl.username") or "<name>"
                raise ActionNeededError(
                    f"the user may not create the topic {topic} on {self.address}; create it, or run "
                    f"kafka-acls --add --allow-principal User:{user} --operation Create --topic {topic}"
                ) from error
        deadline = time.monotonic() + TIMEOUT_S
        while topic not in self.end_offsets([topic]):  # the response comes before all brokers know it
            if time.monotonic() > deadline:
                raise RetryableError(
                    f"the broker at {self.address} created {topic} but does not list it", system=BROKER
                )
            time.sleep(0.1)

    def topic_config(self, topic: str) -> dict[str, str]:
        """The topic's configuration, e.g. ``retention.ms``."""
        resource = ConfigResource(ResourceType.TOPIC, kafka_topic(topic))
        config = self.ask(
            lambda: self.admin.describe_configs([resource], request_timeout=TIMEOUT_S)[resource]
        )
        return {name: entry.value for name, entry in config.items()}

    def group_members(self, group: str) -> list[tuple[str, list[tuple[str, int]]]]:
        """Client id and assigned (topic, partition) pairs of every live member of a group."""

        def listed() -> list[Any]:
            # Not describe_consumer_groups: after a broker restart, an existing client never gets a response
            # again, and librdkafka 2.16 aborts the process when that client is released.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                return self.admin.list_groups(group, timeout=TIMEOUT_S)

        listings = self.ask(listed, passing={KafkaError._TRANSPORT}, within_s=RECONNECT_S)
        return [(m.client_id, assigned(m.assignment)) for listing in listings for m in listing.members]

    def _offsets(
        self,
        partitions: Mapping[str, Iterable[int]],
        spec: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> dict[str, dict[int, int]]:
        """By topic and partition; topics of one Kafka topic share the questions."""
        wanted = {topic: list(chosen) for topic, chosen in partitions.items()}
        requests = {TopicPartition(kafka_topic(t), p): spec for t, chosen in wanted.items() for p in chosen}
        offsets = list_offsets(self, requests, isolation)
        return {t: {p: offsets[kafka_topic(t), p] for p in chosen} for t, chosen in wanted.items()}
