"""Which transactions keep records from readers."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import TopicPartition

from tabletopic_kernel.clients.kafka.broker import Broker, TopicEnds
from tabletopic_kernel.clients.kafka.reader import first_timestamps
from tabletopic_kernel.model.progress.open_transaction import MOMENT_MS, OpenTransaction
from tabletopic_kernel.model.topic_names import kafka_topic


def open_transactions(
    broker: Broker, ends: Mapping[str, TopicEnds], now_ms: int
) -> dict[str, list[OpenTransaction]]:
    """Transactions open for longer than a moment, by topic; ``ends``: just asked for.

    The time is by the producer's clock. So the broker is asked again: a transaction with records of last year
    has usually ended by then.
    """
    topics = {kafka_topic(name): facts for name, facts in ends.items()}
    places = [
        TopicPartition(topic, p, facts.end[p]) for topic, facts in topics.items() for p in facts.waiting
    ]
    if not places:
        return {}
    begun = first_timestamps(broker.properties, places, isolation_level="read_uncommitted")
    later = broker.ends({place.topic for place in places})
    result: dict[str, list[OpenTransaction]] = {}
    for place in places:
        topic, partition, offset = place.topic, place.partition, place.offset
        since_ms, facts = begun.get((topic, partition)), later.get(topic)
        is_young = since_ms is not None and now_ms - since_ms < MOMENT_MS
        if facts is None or facts.end.get(partition) != offset or partition not in facts.waiting or is_young:
            continue
        result.setdefault(topic, []).append(
            OpenTransaction(topic, partition, offset, facts.waiting[partition], since_ms, broker.address)
        )
    return {name: result[kafka_topic(name)] for name in ends if kafka_topic(name) in result}
