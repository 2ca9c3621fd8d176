"""Whoever reaches the broker, or can set a property of a table, chooses no code and hurts no other topic."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tabletopic_kernel.faces.jupyter_server.overview import rows
from tabletopic_kernel.host.topics.settings_topic import partition_of
from tabletopic_kernel.local.stack import StackInfo
from tabletopic_kernel.model.settings.table_names import table_identifier
from tabletopic_kernel.model.topic_names import SETTINGS_TOPIC
from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.conftest import Sender

pytestmark = [pytest.mark.story, pytest.mark.usefixtures("host")]

SCHEMA = '{"type": "record", "name": "Row", "fields": [{"name": "id", "type": "long"}]}'
INI = """[loggers]
keys=root
[handlers]
keys=mark
[formatters]
keys=
[logger_root]
handlers=mark
[handler_mark]
class=StreamHandler
args=(open({!r}, "w"),)
"""


@pytest.fixture
def hostile(tmp_path: Path) -> tuple[dict[str, str], Path]:
    """Properties that run a file, which belongs to another account if possible, and the sign that it ran."""
    ini, ran = tmp_path / "logging.ini", tmp_path / "ran"
    ini.write_text(INI.format(str(ran)))
    if os.getuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(ini, nobody.pw_uid, nobody.pw_gid)
    return {"py-io-impl": "logging.config.fileConfig", str(ini): "x"}, ran


def test_a_message_without_a_password_runs_nothing(
    stack: StackInfo,
    bench: Workbench,
    new_topic: Callable[..., Sender],
    caught_up: Callable[..., Any],
    hostile: tuple[dict[str, str], Path],
) -> None:
    """In no host, status or overview: its topic runs on and says why; one that only it names has a row."""
    properties, ran = hostile
    sender = new_topic()
    topic = bench.topic(sender.topic)
    sender.avro(SCHEMA, {"id": 1})
    topic.enable(commit_interval_ms="200ms")
    caught_up(sender.topic)
    ghost = f"{sender.topic}-ghost"
    producer = Producer({"bootstrap.servers": stack.bootstrap_servers})
    for name in (sender.topic, ghost):
        value = json.dumps({"topic": name, "settings": {"table_properties": properties}})
        partitions = len(bench.broker.end_offsets([SETTINGS_TOPIC])[SETTINGS_TOPIC])
        producer.produce(SETTINGS_TOPIC, key=name, value=value, partition=partition_of(name, partitions))
    assert producer.flush(30) == 0
    try:
        sender.avro(SCHEMA, {"id": 2})
        caught_up(sender.topic)
        assert topic.status().state == "running"
        for found in ({one.topic: one.error for one in bench.status()}, _errors(bench)):
            assert "'py-io-impl' is not a property for Iceberg's writers" in (found[ghost] or "")
            assert "'py-io-impl' is not a property for Iceberg's writers" in (found[sender.topic] or "")
        topic.enable(commit_interval_ms="200ms")
        assert bench.desired_topic(sender.topic).refused is None
    finally:
        bench.disable(ghost)
    assert not ran.exists()


def _errors(bench: Workbench) -> dict[str, str | None]:
    return {row["topic"]: row["error"] for row in rows(bench)}


def test_a_property_of_a_table_runs_nothing(
    bench: Workbench,
    new_topic: Callable[..., Sender],
    caught_up: Callable[..., Any],
    hostile: tuple[dict[str, str], Path],
) -> None:
    """In no query, commit, compaction or overview; it makes no difference to any of them."""
    properties, ran = hostile
    sender = new_topic()
    topic = bench.topic(sender.topic)
    sender.avro(SCHEMA, {"id": 1})
    desired = topic.enable(commit_interval_ms="200ms")
    caught_up(sender.topic)
    name = table_identifier(sender.topic, desired.settings)
    table = bench.open_catalog().load_table(name)
    table.transaction().set_properties(properties).commit_transaction()
    sender.avro(SCHEMA, {"id": 2})
    caught_up(sender.topic)
    assert (done := topic.compact()) is not None
    assert done.error is None
    rows_now = bench.query(f"SELECT count(*) AS n FROM {'.'.join(name)}").rows["n"].to_pylist()
    assert rows_now == [2]
    assert (topic.status().error, _errors(bench)[sender.topic]) == (None, None)
    assert topic.health() is not None
    assert bench.open_catalog().load_table(name).properties["py-io-impl"] == properties["py-io-impl"]
    assert not ran.exists()
