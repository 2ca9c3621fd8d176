"""A producer that continues while things break, in two schema versions, and records what was accepted."""

from __future__ import annotations

import json
import random
import threading
import time
from typing import Any

from confluent_kafka import Producer

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.local.stack import StackInfo
from tests.integration.conftest import Sender


def _record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Row", "fields": list(fields)})


_ID, _TEXT = {"name": "id", "type": "long"}, {"name": "text", "type": "string"}
_EXTRA = {"name": "extra", "type": ["null", "double"], "default": None}
V1 = _record(_ID, _TEXT, {"name": "count", "type": "int"})
# A column more, and a wider one.
V2 = _record(_ID, _TEXT, {"name": "count", "type": "long"}, _EXTRA)
V3 = _record(
    _ID,
    _TEXT,
    {"name": "count", "type": "long"},
    _EXTRA,
    {"name": "late", "type": ["null", "string"], "default": None},
)


def value_of(number: int, schema: str = V1) -> dict[str, Any]:
    """Record ``number`` in ``schema``."""
    value: dict[str, Any] = {"id": number, "text": f"text {number} ✓", "count": number % 1000}
    if schema in (V2, V3):
        value |= {"count": 5_000_000_000 + number, "extra": number / 8}
    return value | ({"late": f"late {number}"} if schema == V3 else {})


class Stream(Sender):
    """Sends to a topic of its own; ``begin`` and ``end`` delimit a steady rate from a thread.

    The first records have version 1, later ones both, as from partly outdated producers. Of those from
    ``begin``, ``bad_share`` cannot become rows; their ``value`` is None.
    """

    def __init__(
        self, stack: StackInfo, topic: str, partitions: int, seed: int = 1, bad_share: float = 0.0
    ) -> None:
        super().__init__(stack, topic)
        self._bad_share = bad_share
        self.partitions = partitions
        self._random = random.Random(seed)
        self._number = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None
        self.make_topic()

    def __post_init__(self) -> None:
        """Like the base class's, but a retried send is not a second record."""
        super().__post_init__()
        self._producer = Producer(
            {
                "bootstrap.servers": self.stack.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": 0,
                "message.timeout.ms": 240_000,
                # librdkafka 2.16 once sent nothing for four minutes after the broker was back. It asks anew
                # who leads the partitions; by default every five minutes.
                "topic.metadata.refresh.interval.ms": 10_000,
            }
        )

    def make_topic(self) -> None:
        """Create the topic."""
        broker = Broker({"bootstrap.servers": self.stack.bootstrap_servers})
        broker.ensure_topic(self.topic, self.partitions, {})

    def send(self, count: int, schema: str = V1) -> None:
        """Send this many records now, distributed over the partitions, and wait until they are accepted."""
        for _ in range(count):
            self._send_one(schema)
        self.flush()

    def begin(self, per_second: int, mixed_after: int = 100) -> None:
        """Keep sending, after ``end`` by a new producer; from record ``mixed_after`` on in both versions."""

        def run() -> None:
            next_at = time.monotonic()
            while not self._stop.is_set():
                newer = self._number >= mixed_after and self._random.random() < 0.5
                self._send_one(V2 if newer else V1, is_bad=self._random.random() < self._bad_share)
                next_at += 1 / per_second
                self._producer.poll(0)
                self._stop.wait(max(0.0, next_at - time.monotonic()))

        def guarded() -> None:
            try:
                run()
            except Exception as error:
                self._error = error

        if self._stop.is_set():
            self._stop.clear()
            self.__post_init__()
        for schema in (V1, V2):  # the registry is asked now, not while it may be away
            self.serialize(schema, value_of(0, schema))
        self._thread = threading.Thread(target=guarded, name=f"stream {self.topic}", daemon=True)
        self._thread.start()

    def end(self) -> int:
        """Stop sending and wait until everything is accepted; returns the number of records. Idempotent."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._producer.flush(120) == 0
        assert len(self.sent) == self._number
        return self._number

    def _send_one(self, schema: str, *, is_bad: bool = False) -> None:
        number = self._number
        self._number += 1
        value = value_of(number, schema)
        data = self.serialize(schema, value)
        if is_bad:  # cut, of an id that nobody registered, or no record at all
            data = (data[:-1], b"\x00\x7f\x00\x00\x00" + data[5:], b"bad %d" % number)[number % 3]
        self.raw(data, None if is_bad else value, key=None, partition=number % self.partitions)
