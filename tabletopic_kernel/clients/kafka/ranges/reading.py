"""Reads ranges of a topic's offsets: to their exact ends, or not at all."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import time
from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from tabletopic_kernel.clients.kafka.connection import TIMEOUT_S
from tabletopic_kernel.clients.kafka.connection_errors import check_listening, explain_silence
from tabletopic_kernel.clients.kafka.offsets import NO_LEADER
from tabletopic_kernel.clients.kafka.ranges.consumer import PlainConsumer, Problem, RangeConsumer
from tabletopic_kernel.clients.kafka.ranges.copying import take_function
from tabletopic_kernel.clients.kafka.ranges.idle_consumers import IDLE_CONSUMERS, Connect
from tabletopic_kernel.clients.kafka.ranges.native import NativeConsumer
from tabletopic_kernel.model.errors import BROKER, RetryableError

_LOG = logging.getLogger(__name__)
_POLL_S: Final = 0.1
_LEADERS_S: Final = 1.0  # fetching alone looks for unknown leaders once a second
_PATIENCE_S: Final = 60.0  # with a broker that responds: a long answer may be under way, or aborted records
# librdkafka tries again by itself. It also asks for the coordinator of the group, which is not needed here.
_PASSING: Final = NO_LEADER | {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
}


@functools.cache
def why_slow() -> str | None:
    """Why records are read without the C function; None: they are read with it."""
    try:
        take_function()
    except OSError as error:
        return str(error)
    return None


@functools.cache
def _warn(why: str) -> None:
    _LOG.warning("Kafka is read several times slower, without the C function: %s", why)


def make_range_consumer(properties: Mapping[str, str]) -> RangeConsumer:
    """The fastest for these properties; raises SettingsError if librdkafka refuses them."""
    if properties.get("sasl.oauthbearer.metadata.authentication.type") == "aws_iam":
        return PlainConsumer(properties)  # its tokens come from confluent_kafka, not from librdkafka
    if why := why_slow():
        _warn(why)
        return PlainConsumer(properties)
    return NativeConsumer(properties)


def read_ranges(
    properties: Mapping[str, str],
    topic: str,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    *,
    headers: bool,
    seconds: float = math.inf,
    connect: Connect = make_range_consumer,
) -> Iterator[pa.RecordBatch]:
    """Committed records from ``starts`` to before ``ends``, by partition; see ``SOURCE_SCHEMA``.

    After so many ``seconds`` it ends with what has arrived.

    A range ends with a record, or the end of its partition, at its end or behind it: its last offsets may
    have no record (control records, compaction, aborted transactions). Raises RetryableError if the broker no
    longer has a start, does not respond, or does not deliver; LoginRefusedError; librdkafka's SettingsError.
    """
    ranges = {p: start for p, start in starts.items() if start < ends.get(p, 0)}
    if not ranges:
        return
    consumer = IDLE_CONSUMERS.take(properties, connect) or connect(properties)
    is_usable = False
    try:
        yield from _Reading(consumer, properties, topic, ranges).batches(ends, seconds, headers=headers)
        if not consumer.open:
            consumer.end()
            is_usable = True
    except KafkaException as error:
        raise RetryableError(f"could not read {topic}: {error.args[0].str()}; try again") from error
    finally:  # after any error, and if the reader left, nobody knows what it is doing
        if is_usable:
            IDLE_CONSUMERS.give(properties, connect, consumer)
        else:
            consumer.close()


class _Reading:
    def __init__(
        self, consumer: RangeConsumer, properties: Mapping[str, str], topic: str, starts: Mapping[int, int]
    ) -> None:
        self._consumer, self._properties, self._topic, self._starts = consumer, properties, topic, starts
        self._unseen = set(starts)  # partitions whose first record has not arrived

    def batches(self, ends: Mapping[int, int], seconds: float, *, headers: bool) -> Iterator[pa.RecordBatch]:
        self._responds(_LEADERS_S)
        now_s = time.monotonic()
        consumer, quiet_since = self._consumer, now_s
        ask_s, until_s = quiet_since + TIMEOUT_S, quiet_since + seconds
        consumer.begin(self._topic, self._starts, ends, headers=headers)
        while consumer.open:
            is_late = now_s > until_s
            pulled = consumer.pull(_POLL_S, flush=is_late)
            if pulled.problem is not None:
                self._raise_unless_passing(pulled.problem)
            self._check_firsts()
            if pulled.batch is not None:
                yield pulled.batch
            if is_late:
                return
            now_s = time.monotonic()
            if pulled.moved and pulled.problem is None:
                quiet_since, ask_s = now_s, now_s + TIMEOUT_S
                consumer.errors.forget()
            elif consumer.errors.is_hopeless():
                raise explain_silence(self._properties, consumer.errors, "no response")
            elif now_s > ask_s:
                check_listening(self._properties)
                quiet_s = now_s - quiet_since
                if quiet_s > _PATIENCE_S or not self._responds(TIMEOUT_S):
                    raise RetryableError(
                        f"the broker did not deliver {self._topic} within {quiet_s:.0f} s; try again",
                        system=BROKER,
                    )
                ask_s = now_s + TIMEOUT_S

    def _responds(self, timeout_s: float) -> bool:
        """Whether the broker answers a question about the topic, for which librdkafka finds its leaders."""
        with contextlib.suppress(KafkaException):
            self._consumer.log_start(self._topic, next(iter(self._starts)), timeout_s)
            return True
        return False

    def _check_firsts(self) -> None:
        """Raise if a first record is behind its start because the log begins there now (I8)."""
        if not self._unseen:
            return
        for partition, first in self._consumer.firsts().items():
            start, is_new = self._starts[partition], partition in self._unseen
            if is_new and first > start < self._consumer.log_start(self._topic, partition, TIMEOUT_S):
                raise self._gap(partition, f"the first is {first:,}")
            self._unseen.discard(partition)

    def _raise_unless_passing(self, problem: Problem) -> None:
        if problem.code in _PASSING:
            return
        error = KafkaError(problem.code)
        text = problem.text or error.str()
        if problem.code == KafkaError._AUTO_OFFSET_RESET:
            raise self._gap(problem.partition, text)
        address = self._properties.get("bootstrap.servers", "")
        if "AUTHORIZATION" in error.name():
            raise RetryableError(f"the broker at {address} does not allow it: {text}", system=BROKER)
        raise RetryableError(f"could not read {self._topic}: {text}; try again")

    def _gap(self, partition: int, why: str) -> RetryableError:
        # The next start from the ledger finds what is missing, and stops the topic or skips it.
        return RetryableError(
            f"the broker no longer has all records of partition {partition} of {self._topic} from offset "
            f"{self._starts[partition]:,} on: {why}",
            system=BROKER,
        )
