"""A consumer that delivers ranges of offsets as record batches; here by ``confluent_kafka``, without C."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from tabletopic_kernel.clients.kafka.connection_errors import ConnectionErrors
from tabletopic_kernel.clients.kafka.librdkafka import make_consumer
from tabletopic_kernel.clients.kafka.ranges.batches import RECORDS, ROOM, batch_of

# A task's records that were fetched and not yet read: more is fetched again by the next task. A fetch whose
# turn comes while as much waits is looked at again soon. All records of a range are there: only a fetch
# behind its end waits, and with it the first fetch of the next range.
DEFAULTS: Final = {
    "queued.max.messages.kbytes": "8192",
    "fetch.queue.backoff.ms": "2",
    "fetch.wait.max.ms": "5",
    "socket.nagle.disable": "true",
}
# Missing offsets are an error, and never skipped silently (I8).
REQUIRED: Final = {
    "group.id": "tabletopic-readers",
    "enable.auto.commit": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
}
_POLL_RECORDS: Final = 10_000


class Problem(NamedTuple):
    """An error that librdkafka delivers among the records; some pass."""

    code: int
    partition: int
    text: str


class Pulled(NamedTuple):
    """What arrived: a batch, once it is full or all ranges have ended; ``moved``: anything at all."""

    batch: pa.RecordBatch | None
    problem: Problem | None
    moved: bool


class RangeConsumer(Protocol):
    """One connection, for one thread at a time; it joins no group and commits no offsets."""

    errors: ConnectionErrors

    def begin(self, topic: str, starts: Mapping[int, int], ends: Mapping[int, int], *, headers: bool) -> None:
        """Read ranges, none of them empty."""

    def pull(self, timeout_s: float, *, flush: bool = False) -> Pulled:
        """What arrives within the time; ``flush``: hand over all that has arrived, however little."""

    @property
    def open(self) -> bool:
        """Whether a range has not ended."""

    def firsts(self) -> dict[int, int]:
        """The offset of each range's first record, if it has arrived."""

    def log_start(self, topic: str, partition: int, timeout_s: float) -> int:
        """The first offset that the broker has; raises KafkaException."""

    def end(self) -> None:
        """Fetch nothing until the next ``begin``; raises KafkaException."""

    def close(self) -> None:
        """End the connection."""


class PlainConsumer:
    """By ``Consumer.consume``; see ``RangeConsumer``. Several times slower than C."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Raises SettingsError if librdkafka refuses the properties."""
        self.errors = ConnectionErrors()
        properties = {**DEFAULTS, **properties, **REQUIRED}
        self._consumer = make_consumer(properties, error_cb=self.errors)
        self._topic, self._headers = "", False
        self._ends: dict[int, int] = {}  # of the ranges that have not ended
        self._next: dict[int, int] = {}
        self._firsts: dict[int, int] = {}
        self._held: list[Message] = []
        self._bytes = 0

    def begin(self, topic: str, starts: Mapping[int, int], ends: Mapping[int, int], *, headers: bool) -> None:
        self._topic, self._headers = topic, headers
        self._ends, self._next, self._firsts = dict(ends), dict(starts), {}
        self._held, self._bytes = [], 0
        self._consumer.assign([TopicPartition(topic, p, offset) for p, offset in starts.items()])

    @property
    def open(self) -> bool:
        return bool(self._ends)

    def firsts(self) -> dict[int, int]:
        return self._firsts

    def pull(self, timeout_s: float, *, flush: bool = False) -> Pulled:
        messages = self._consumer.consume(1, timeout_s)  # a call with a time waits for all that it may take
        if messages:
            messages += self._consumer.consume(_POLL_RECORDS - 1, 0)
        problems = [problem for message in messages if (problem := self._take(message))]
        batch = None
        full = len(self._held) > RECORDS - _POLL_RECORDS or self._bytes >= ROOM["value"]
        if self._held and (full or flush or not self._ends):
            batch = batch_of(self._held, headers=self._headers)
            self._held, self._bytes = [], 0
        return Pulled(batch, problems[0] if problems else None, bool(messages))

    def _take(self, message: Message) -> Problem | None:
        partition, offset, error = message.partition() or 0, message.offset() or 0, message.error()
        end = self._ends.get(partition)
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            return Problem(error.code(), partition, error.str())
        if end is None or (error is None and offset < self._next[partition]):
            return None
        if error is None and offset < end:
            self._firsts.setdefault(partition, offset)
            self._held.append(message)
            self._bytes += len(message.value() or b"") + len(message.key() or b"")
            self._next[partition] = offset + 1
        if offset + (error is None) >= end:
            del self._ends[partition]
            if self._ends:
                self._consumer.incremental_unassign([TopicPartition(self._topic, partition)])
        return None

    def log_start(self, topic: str, partition: int, timeout_s: float) -> int:
        place = TopicPartition(topic, partition)
        answer: Any = self._consumer.get_watermark_offsets(place, timeout=timeout_s)
        if answer is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return int(answer[0])

    def end(self) -> None:
        self._consumer.unassign()

    def close(self) -> None:
        self._consumer.close()
