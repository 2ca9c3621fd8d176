"""Records become rows on Google's and Azure's storage, by Spark's workers, and DuckDB counts them."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tabletopic_kernel.local.stack import StackInfo
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.doctor import check_server
from tabletopic_kernel.workbench.workbench import Workbench
from tests.catalogs.lakes import Lake

pytestmark = [pytest.mark.integration, pytest.mark.servers]
RECORDS = 200


@pytest.mark.parametrize(
    "lake", ["SQLite, Google Cloud Storage", "SQLite, Azure"], indirect=True, scope="module"
)
def test_records_become_rows(lake: Lake, stack: StackInfo, tmp_path: Path) -> None:
    """The whole path, after doctor has written, read and deleted a file there."""
    checks = {check.name: check for check in check_server("catalog", lake.properties)}
    assert checks["storage"].status == "ok", checks["storage"]
    topic = f"t{uuid.uuid4().hex[:8]}"
    broker = {"bootstrap.servers": stack.bootstrap_servers}
    admin = AdminClient(broker)
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result()
    producer = Producer(broker)
    for number in range(RECORDS):
        producer.produce(topic, json.dumps({"n": number}).encode())
    assert producer.flush(30) == 0
    servers = {"registry": {"url": stack.registry_url}, "catalog": lake.properties}
    bench = Workbench(Settings(state_dir=str(tmp_path), kafka=broker, **servers))
    host = bench.host()
    host.start()
    try:
        bench.enable(topic, {"commit_interval_ms": 500, "value_format": "json", "namespace": topic})
        deadline = time.monotonic() + 120
        while (status := bench.status(topic)[0]).rows != RECORDS:
            assert status.state != "failed", status.error
            assert time.monotonic() < deadline, status
            time.sleep(0.3)
    finally:
        host.stop()
    found = bench.query(f"SELECT count(*) AS n, sum(n) AS s FROM {topic}.{topic}").rows.to_pylist()
    assert found == [{"n": RECORDS, "s": sum(range(RECORDS))}]
