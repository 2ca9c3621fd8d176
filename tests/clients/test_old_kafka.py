"""Brokers with fewer features than the embedded one: Kafka 2.8, and one without optional APIs or ids."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.local.stack import StackInfo
from tabletopic_kernel.model.ledger import NO_TOPIC_ID
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.table.topic_table import TopicTable
from tabletopic_kernel.workbench.doctor.run import check_server
from tabletopic_kernel.workbench.workbench import Workbench
from tests.servers.old_kafka import OldKafka

pytestmark = [pytest.mark.integration, pytest.mark.servers]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldKafka]:
    """One for all."""
    with OldKafka(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


def _bench(address: str, stack: StackInfo, folder: Path) -> Workbench:
    servers = {"registry": {"url": stack.registry_url}, "catalog": dict(stack.catalog)}
    return Workbench(Settings(state_dir=str(folder), kafka={"bootstrap.servers": address}, **servers))


def _send(address: str, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": address, "log_level": 0, "enable.idempotence": True})
    for number in numbers:
        producer.produce(topic, json.dumps({"n": number}).encode())
    assert producer.flush(240) == 0


def _wait_for_rows(bench: Workbench, topic: str, count: int) -> None:
    deadline = time.monotonic() + 240
    while (status := bench.status(topic)[0]).rows != count:
        assert status.state != "failed", status.error
        assert time.monotonic() < deadline, status
        time.sleep(0.3)


@pytest.mark.parametrize("way", ["2.8", "without optional APIs"])
def test_the_main_path(kafka: OldKafka, stack: StackInfo, tmp_path: Path, way: str) -> None:
    """Rows, the ledger, the next owner and doctor: the settings topic and the hosts' group are there, too."""
    address = kafka.address if way == "2.8" else kafka.plain_address
    topic, namespace = f"t{uuid.uuid4().hex[:8]}", f"n{uuid.uuid4().hex[:8]}"
    kafka.create_topic(topic, 2)
    has_ids = Broker({"bootstrap.servers": address}).topic_id(topic) != NO_TOPIC_ID
    assert has_ids == (way == "2.8")
    _send(address, topic, range(200))
    for owner, count in ((1, 200), (2, 300)):
        bench = _bench(address, stack, tmp_path / str(owner))
        host = bench.host()
        host.start()
        try:
            if owner == 1:
                bench.enable(
                    topic, {"namespace": namespace, "commit_interval_ms": 500, "value_format": "json"}
                )
            else:
                _send(address, topic, range(200, 300))
            _wait_for_rows(bench, topic, count)
            checks = list(check_server("kafka", {"bootstrap.servers": address}))
            assert {check.status for check in checks} == {"ok"}, checks
        finally:
            host.stop()
    catalog, place = bench.open_catalog(), bench.table_of(topic)
    assert sorted(catalog.load_table(place).scan().to_arrow()["n"].to_pylist()) == list(range(300))
    table = TopicTable.load(catalog, place, topic)
    assert (table.ledger.epoch, sum(table.ledger.next_offsets.values())) == (2, 300)
    assert kafka.listener.hidden or way == "2.8"
