"""What the drill finds out of transactions whose end it did not see."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.local.stack import StackInfo
from tests.drill import streams
from tests.drill.streams import Fate, Sent, StreamPlan


@pytest.mark.integration
def test_the_log_says_how_a_transaction_ended(stack: StackInfo) -> None:
    """Of a producer that died with a transaction open, and of one that died after its commit."""
    kafka = {"bootstrap.servers": stack.bootstrap_servers}
    name = f"ended-{uuid.uuid4().hex[:8]}"
    Broker(kafka).ensure_topic(name, 2, {})
    plan = StreamPlan(name, "json", 2, True, {})
    stream = streams.Stream(plan, kafka, {"url": stack.registry_url}, seed=1)
    stream.producer.init_transactions(60)
    for is_committed in (True, False):
        records: list[Sent] = []
        stream.producer.begin_transaction()
        for _ in range(6):
            stream.send_one(records)
        stream.producer.flush(60)
        assert len(records) == 6
        if is_committed:
            stream.producer.commit_transaction(60)
        stream.begin_anew(records)
        assert records == []
    assert sorted(one.number for one in stream.sent) == list(range(6))
    assert {one.fate for one in stream.sent} == {Fate.ROW}
    # Of one that is no longer in the log nobody can say.
    stream.producer.begin_transaction()
    stream.send_one(records)
    stream.producer.flush(60)
    (last,) = records
    place = TopicPartition(name, last.partition, -1)
    stream.producer.commit_transaction(60)
    admin = AdminClient(kafka)
    admin.delete_records([place])[place].result()
    stream.begin_anew(records)
    assert stream.sent[-1] == replace(last, fate=Fate.UNSURE)
    stream.producer.flush()
