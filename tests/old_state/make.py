"""Writes ``state.tar.xz``: the state folder that a user of an earlier version has.

With that version's own code and environment, here commit da41df11::

    git worktree add /tmp/old da41df11 && cd /tmp/old && make lint
    .venv/bin/python /path/to/this/tests/old_state/make.py /path/to/this/tests/old_state/state.tar.xz

The folder has a topic with commits of two schema versions, dead letters, waiting records, and files that its
killed host had staged; a paused topic; and one that was disabled.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.local.stack import LocalStack, StackInfo
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.model.topic_names import CONTROL_TOPIC
from tabletopic_kernel.workbench.workbench import Workbench

FOR_EVER = {"retention.ms": "-1"}
KEPT = ("kafka/data", "registry", "catalog.db", "warehouse", "stack.json")


def schema(*more: dict[str, Any]) -> str:
    """An Avro record of clicks."""
    fields = [{"name": "id", "type": "long"}, {"name": "day", "type": "string"}, *more]
    return json.dumps({"type": "record", "name": "Click", "fields": fields})


V1 = schema({"name": "count", "type": "int"})
V2 = schema({"name": "count", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None})


def click(number: int) -> dict[str, Any]:
    """A record of either version."""
    return {"id": number, "day": f"2026-11-{20 + number % 2}", "count": number * 10, "note": f"note {number}"}


def until(done: Callable[[], Any]) -> None:
    """Wait for it."""
    deadline = time.monotonic() + 240
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.2)


class User:
    """Who made the folder."""

    def __init__(self, stack: StackInfo) -> None:
        self.bench = Workbench(Settings(state_dir=str(stack.state_dir)))
        self.kafka = {"bootstrap.servers": stack.bootstrap_servers}
        self.registry = SchemaRegistryClient({"url": stack.registry_url, "timeout": 10})
        self.producer = Producer(self.kafka)
        for topic in ("clicks", "orders", "gone"):
            Broker(self.kafka).ensure_topic(topic, 2 if topic == "clicks" else 1, FOR_EVER)

    def clicks(self, text: str, *numbers: int) -> bytes:
        """Send clicks, to partitions in turn; returns the last one's bytes."""
        serialize = AvroSerializer(self.registry, text)
        framed = b""
        for number in numbers:
            framed = serialize(click(number), SerializationContext("clicks", MessageField.VALUE)) or b""
            self.producer.produce("clicks", framed, key=b"k%d" % number, partition=number % 2)
        self.producer.flush(60)
        return framed

    def raw(self, topic: str, *values: bytes) -> None:
        """Send bytes to partition 0."""
        for value in values:
            self.producer.produce(topic, value, partition=0)
        self.producer.flush(60)

    def caught_up(self, topic: str) -> None:
        """Wait for lag 0."""
        until(lambda: self.bench.status(topic)[0].lag_records == 0)

    def keep_events(self) -> None:
        """The broker deletes them after a week; this folder gets older."""
        entry = ConfigEntry("retention.ms", "-1", incremental_operation=AlterConfigOpType.SET)
        topic = ConfigResource(ResourceType.TOPIC, CONTROL_TOPIC, incremental_configs=[entry])
        admin = AdminClient(self.kafka)
        for future in admin.incremental_alter_configs([topic]).values():
            future.result(60)

    def story(self) -> None:
        """All that happened while the host ran."""
        often = {"commit_interval_ms": "500ms"}
        self.clicks(V1, *range(10))
        self.bench.enable(
            "clicks", {**often, "partition_by": ["day"], "sort_by": ["id"], "key_format": "string"}
        )
        self.caught_up("clicks")
        framed = self.clicks(V2, *range(10, 16))
        self.caught_up("clicks")
        newest = int.from_bytes(framed[1:5], "big")
        later = b"\0" + (newest + 1).to_bytes(4, "big") + framed[5:]  # an id that nobody has registered yet
        self.raw("clicks", b"not framed", later)
        self.caught_up("clicks")
        for number in range(16, 20):
            self.clicks(V1 if number % 2 else V2, number)
            self.caught_up("clicks")
        for topic in ("orders", "gone"):
            self.raw(topic, b'{"id": 1, "price": 2.5}', b'{"id": 2}', b'{"id": ')
            self.bench.enable(topic, {**often, "value_format": "json", "errors": "skip"})
            self.caught_up(topic)
        self.bench.disable("gone")
        self.bench.pause("orders")
        until(lambda: self.bench.status("orders")[0].state == "paused")
        self.raw("orders", b'{"id": 3}')
        self.bench.pause("clicks")
        until(lambda: self.bench.status("clicks")[0].state == "paused")
        self.clicks(V2, 20, 21)
        self.bench.alter("clicks", {"commit_interval_ms": "1h"})
        self.bench.resume("clicks")
        until(lambda: self.bench.status("clicks")[0].staged_rows == 2)
        self.keep_events()


def main(archive: Path) -> None:
    """Make the folder, and pack what belongs to it."""
    with tempfile.TemporaryDirectory() as name:
        state = Path(name).resolve() / "state"
        stack = LocalStack(state)
        user = User(stack.up(die_with_parent=True))
        log = (Path(name) / "host.log").open("wb")
        serve = [sys.executable, "-m", "tabletopic_kernel.faces.cli", "--state-dir", str(state), "serve"]
        host = subprocess.Popen(serve, stdout=log, stderr=log)
        try:
            user.story()
        finally:
            host.kill()
            host.wait()
            user.clicks(V1, 22)  # which no host has read
            stack.down()
        with tarfile.open(archive, "w:xz", preset=9) as tar:
            for each in KEPT:
                tar.add(state / each, each)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
