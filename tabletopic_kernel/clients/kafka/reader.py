"""Reads records for users and for internal topics: a range of offsets, or from an offset on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from tabletopic_kernel.clients.kafka.connection import TIMEOUT_S
from tabletopic_kernel.clients.kafka.connection_errors import ConnectionErrors, explain_silence
from tabletopic_kernel.clients.kafka.librdkafka import make_consumer
from tabletopic_kernel.clients.kafka.offsets import NO_LEADER
from tabletopic_kernel.model.errors import BROKER, RetryableError
from tabletopic_kernel.model.topic_names import kafka_topic

_BATCH = 1_000
_POLL_S = 0.1
_LOOK_S = 0.5
_END = KafkaError._PARTITION_EOF


class KafkaRecord(NamedTuple):
    """A record as the broker has it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


class Reader:
    """One consumer, for one thread; it joins no group and commits no offsets. ``with`` closes it."""

    def __init__(
        self, properties: Mapping[str, str], group_id: str, batch: int = _BATCH, **overrides: Any
    ) -> None:
        """Raises SettingsError if librdkafka refuses the properties; ``overrides`` as ``make_consumer``."""
        self._batch = batch  # so many records do not wait for more
        self._properties, self._errors = properties, ConnectionErrors()
        self._at_end: set[int | None] = set()  # partitions, if ``enable_partition_eof`` is an override
        self._consumer = make_consumer(
            properties,
            group_id=group_id,
            enable_auto_commit="false",
            error_cb=self._errors,
            **{"auto_offset_reset": "earliest", "isolation_level": "read_committed", **overrides},
        )

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """The first and the end offset."""
        source = TopicPartition(topic, partition)
        low, high = self._ask(topic, lambda: self._consumer.get_watermark_offsets(source, timeout=TIMEOUT_S))
        return int(low), int(high)

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        """The first offset at or after a time, None if there is none."""
        request = TopicPartition(topic, partition, timestamp_ms)
        (answer,) = self._ask(topic, lambda: self._consumer.offsets_for_times([request], timeout=TIMEOUT_S))
        return None if answer.offset < 0 else int(answer.offset)

    def read_range(
        self,
        topic: str,
        starts: Mapping[int, int],
        ends: Mapping[int, int],
        going: Callable[[], bool] = lambda: True,
    ) -> Iterator[list[Message]]:
        """Committed records from ``starts`` to before ``ends``, by partition, in batches, while ``going``.

        Ends by the consumer's position: the last offsets may be control records, which are never delivered.
        Raises RetryableError if nothing arrived for ten seconds, or the login is refused.
        """
        waiting = {p for p, start in starts.items() if start < ends.get(p, 0)}
        before, quiet_since = dict(starts), time.monotonic()
        batches = self._batches([TopicPartition(topic, p, starts[p]) for p in waiting])
        while waiting and going():
            batch = next(batches)
            records = [record for record in batch if (record.offset() or 0) < ends[record.partition() or 0]]
            if records:
                yield records
            now = {
                p.partition: p.offset
                for p in self._consumer.position([TopicPartition(topic, p) for p in waiting])
            }
            waiting -= {p for p, offset in now.items() if offset >= ends[p]} | self._at_end
            if batch or now != before:
                before, quiet_since = now, time.monotonic()
            elif time.monotonic() - quiet_since > TIMEOUT_S:
                raise RetryableError(
                    f"the broker did not deliver {topic} within {TIMEOUT_S:.0f} s; try again", system=BROKER
                )

    def follow(
        self, partitions: Sequence[TopicPartition], going: Callable[[], bool]
    ) -> Iterator[list[Message]]:
        """Committed records from ``partitions`` on, in batches, while ``going``; waits out outages (I9).

        After a LoginRefusedError, close the reader, or it logs in again and again.
        """
        batches = self._batches(partitions)
        while going():
            if messages := next(batches):
                yield messages

    def pause(self, topic: str, partition: int) -> None:
        """Stop delivering a followed partition."""
        self._consumer.pause([TopicPartition(topic, partition)])

    def _batches(self, partitions: Sequence[TopicPartition]) -> Iterator[list[Message]]:
        """Batches of what the broker delivers in a tenth of a second, without errors; may be empty."""
        self._consumer.assign(list(partitions))
        topic = partitions[0].topic if partitions else ""
        while True:
            messages = self._ask(topic, lambda: self._consumer.consume(self._batch, timeout=_POLL_S))
            if self._errors.is_hopeless():
                raise explain_silence(self._properties, self._errors, "no response")
            self._at_end |= {m.partition() for m in messages if (e := m.error()) and e.code() == _END}
            if records := [message for message in messages if message.error() is None]:
                self._errors.forget()
            yield records

    def _ask(self, topic: str, ask: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return ask()
            except KafkaException as error:
                if error.args[0].code() not in NO_LEADER or time.monotonic() > deadline:
                    raise RetryableError(
                        f"could not read {topic}: {error.args[0].str()}; try again"
                    ) from error
            time.sleep(_POLL_S)
            # A consumer whose partition had no leader does not look for one again by itself.
            with contextlib.suppress(KafkaException):
                self._consumer.list_topics(topic, timeout=TIMEOUT_S)


def read_records(
    properties: Mapping[str, str], topic: str, starts: Mapping[int, int], ends: Mapping[int, int]
) -> Iterator[list[KafkaRecord]]:
    """As ``Reader.read_range``, to the end of what there is; RetryableError if that is before a start."""
    with Reader(properties, "tabletopic-readers", len(starts), enable_partition_eof="true") as reader:
        for messages in reader.read_range(topic, starts, ends):
            records = [
                KafkaRecord(m.partition(), m.offset(), m.key(), m.value(), m.timestamp()[1])  # type: ignore[arg-type]
                for m in messages
            ]
            if any(record.offset < starts[record.partition] for record in records):
                raise RetryableError(f"{topic} no longer has the offsets {dict(starts)}")
            yield records


def oldest_timestamps(
    properties: Mapping[str, str], behind: Mapping[str, Mapping[int, int]]
) -> dict[str, int]:
    """Timestamp in ms of the oldest record ``behind``, from next offsets on, by topic, if quickly known."""
    oldest: dict[str, int] = {}
    left = dict(behind)
    while left:
        tables = {kafka_topic(name): name for name in left}  # a consumer has one place in a partition
        waiting = {topic: left.pop(name) for topic, name in tables.items()}
        places = [TopicPartition(t, p, at) for t, offsets in waiting.items() for p, at in offsets.items()]
        for (topic, _), stamp in first_timestamps(properties, places).items():
            name = tables[topic]
            oldest[name] = min(stamp, oldest.get(name, stamp))
    return oldest


def first_timestamps(
    properties: Mapping[str, str], places: Sequence[TopicPartition], **overrides: Any
) -> dict[tuple[str, int], int]:
    """Timestamp in ms of the first record at or after each place, if quickly available."""
    stamps: dict[tuple[str, int], int] = {}
    if not places:
        return stamps
    waiting = {(place.topic, place.partition) for place in places}
    until = time.monotonic() + _LOOK_S
    small = {"queued_max_messages_kbytes": 1024, "fetch_message_max_bytes": 65536}
    with Reader(properties, "tabletopic-readers", **small, **overrides) as reader:
        for messages in reader.follow(places, lambda: bool(waiting) and time.monotonic() < until):
            for message in messages:
                topic, partition = str(message.topic()), message.partition() or 0
                if (topic, partition) in waiting:
                    waiting.discard((topic, partition))
                    reader.pause(topic, partition)
                    stamp = int(message.timestamp()[1])
                    if stamp >= 0:  # -1: the record has none
                        stamps[topic, partition] = stamp
    return stamps
