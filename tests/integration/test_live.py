"""Live reads on the real stack: beside a running host, and of topics that none runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from tabletopic_kernel.host.host import Host
from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.rows import V1, V2, row_v1, row_v2

pytestmark = pytest.mark.story
EACH = "SELECT _kafka_metadata.partition AS p, _kafka_metadata.offset AS o, id, name FROM {}$live"


def _places(bench: Workbench, topic: str) -> list[tuple[int, int]]:
    rows = bench.query(EACH.format(topic)).rows.to_pylist()
    return sorted((row["p"], row["o"]) for row in rows)


def _sent(sender: Any) -> list[tuple[int, int]]:
    return sorted((record.partition, record.offset) for record in sender.sent)


def test_what_was_acknowledged_is_seen_at_once(
    bench: Workbench, host: Host, new_topic: Callable[..., Any]
) -> None:
    """Each acknowledged record is in the next live answer once, under commits, evolution and compaction."""
    sender = new_topic(partitions=2)
    topic = bench.topic(sender.topic)
    sender.avro(V1, *(row_v1(n) for n in range(20)))
    bench.enable(sender.topic, {"commit_interval_ms": "500ms"})
    topic.wait(240)
    for number in range(20):
        schema, row = (V1, row_v1) if number < 10 else (V2, row_v2)
        sender.avro(schema, *(row(number * 100 + n) for n in range(30)))
        assert _places(bench, sender.topic) == _sent(sender)
        if number == 12:
            topic.ask_for_compaction()
    answer = topic.scan(live=True)
    assert sorted(answer.rows["id"].to_pylist()) == sorted(record.value["id"] for record in sender.sent)
    assert answer.tables[0].live is not None


def test_a_topic_that_nobody_runs(bench: Workbench, host: Host, new_topic: Callable[..., Any]) -> None:
    """Paused and disabled topics are read from the ledger; open and aborted transactions are not read."""
    sender = new_topic()
    sender.avro(V1, row_v1(1))
    bench.enable(sender.topic, {"commit_interval_ms": "500ms"})
    bench.topic(sender.topic).wait(240)
    bench.pause(sender.topic)
    sender.avro(V1, row_v1(2))
    sender.raw(b"no schema id")
    sender.flush()
    settings = {"bootstrap.servers": sender.stack.bootstrap_servers, "transactional.id": sender.topic}
    producer = Producer({**settings, "log_level": 0})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(sender.topic, sender.serialize(V1, row_v1(3)))
    producer.flush()
    answer = bench.query(EACH.format(sender.topic))
    assert sorted(answer.rows["id"].to_pylist()) == [1, 2]
    producer.abort_transaction()
    sender.avro(V2, row_v2(4))
    bench.disable(sender.topic)
    answer = bench.query(EACH.format(sender.topic))
    assert sorted(answer.rows["id"].to_pylist()) == [1, 2, 4]
    live = answer.tables[0].live
    assert live is not None
    assert (live.refused, live.records) == ({"no_schema_id": 1}, 3)
