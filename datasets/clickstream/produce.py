"""Send a clickstream to a topic: create it, register the schema, frame and pace the records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import cycle, islice
from time import monotonic, sleep
from typing import Final, Literal

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka.schema_registry import Schema
from confluent_kafka.schema_registry.error import SchemaRegistryError

from tabletopic_kernel._datasets.clickstream.avro import Encoder, SchemaVersion, schema_text
from tabletopic_kernel._datasets.clickstream.generator import START, Clickstream, Prebuilt
from tabletopic_kernel._datasets.clickstream.tallies import Tallies
from tabletopic_kernel.clients.kafka.broker import Broker, make_producer
from tabletopic_kernel.clients.proxies import proxy_hint
from tabletopic_kernel.clients.registry.client import registry_client
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError, TableTopicError, UsageError
from tabletopic_kernel.model.topic_names import check_table_topic, kafka_topic

# The caller's properties take precedence. murmur2: a key gets the same partition as with a Java producer.
_PRODUCER: Final = {
    "enable.idempotence": "true",
    "compression.type": "lz4",
    "linger.ms": "20",
    "partitioner": "murmur2_random",
}
_POLL_EVERY: Final = 100  # records; delivery reports wait in librdkafka meanwhile
_TICK_S: Final = 0.005  # paced records go out in ticks: finer only costs CPU
_LONGEST_WAIT_S: Final = 0.1  # a stop takes effect within this time
_CATCH_UP_S: Final = 1.0  # further behind than this, the pace restarts instead of bursting
_PROGRESS_S: Final = 0.2
_REFUSED: Final = {409, 422}  # incompatible, or not a valid schema

_Record = tuple[bytes, bytes, int]


def produce(
    bootstrap: Mapping[str, str],
    registry: Mapping[str, str],
    topic: str,
    count: int,
    *,
    rate: float | None = None,
    seed: int = 7,
    schema_version: SchemaVersion = "v1",
    partitions: int = 4,
    switch_at: int | None = None,
    distinct: int | None = None,
    start: datetime = START,
    record_time: Literal["now", "simulated"] = "now",
    on_progress: Callable[[int], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Tallies:
    """Send ``count`` click events and wait until the broker has acknowledged them all.

    Args:
        bootstrap: librdkafka properties, at least ``bootstrap.servers``.
        registry: properties of confluent_kafka's SchemaRegistryClient, at least ``url``.
        topic: created with ``partitions`` partitions if missing; schemas go to ``<topic>-value``.
        count: number of records.
        rate: records per second; by default as fast as possible.
        seed: determines the events, with ``start``, their simulated beginning.
        schema_version: shape of the events until ``switch_at``.
        partitions: for a new topic.
        switch_at: number of version 1 records after which version 2 is registered and used.
        distinct: encode only this many events, and send them repeatedly: for load tests; ids repeat.
        record_time: ``now`` lets the client stamp the records, so that lag and retention are meaningful;
            ``simulated`` stamps them with the arrival times of the simulation (a new topic then keeps its
            records for ever, as retention would otherwise delete them at once).
        on_progress: called with the number of acknowledged records, up to five times a second and at the end.
        stop: called before each record; True ends the production early.

    Returns:
        The tallies of the records that were sent and acknowledged.

    Raises:
        UsageError: an argument or a property is wrong, or the registry rejects the schema.
        RetryableError: broker or registry do not respond, or records could not be delivered in time.
        ActionNeededError: the broker rejects the records.
    """
    _check(topic, count, rate, partitions)
    _check_versions(count, schema_version, switch_at, distinct)
    keep = {"retention.ms": "-1"} if record_time == "simulated" else {}
    Broker(bootstrap).ensure_topic(topic, partitions, keep)
    with _Schemas(registry, f"{topic}-value") as schemas:
        sender = _Sender(bootstrap, topic)
        if distinct is None:
            stream = Clickstream(seed, schema_version, start)
            records = _live(stream, schemas, count, switch_at)
        else:
            pool = Prebuilt(
                schemas.id_of(schema_version), min(distinct, max(count, 1)), seed, schema_version, start
            )
            records = islice(cycle(pool.records), count)
        sent = _send_all(
            sender,
            records,
            pace=_Pace(rate),
            stamped=record_time == "simulated",
            on_progress=on_progress,
            stop=stop,
        )
    return stream.tallies if distinct is None else pool.tallies(sent)


def send_in_circles(
    bootstrap: Mapping[str, str],
    topic: str,
    records: Sequence[tuple[bytes, bytes]],
    count: int,
    *,
    partitions: int = 4,
    on_progress: Callable[[int], None] | None = None,
) -> None:
    """Send ``count`` records, repeating ``records`` (key, value), until the broker has acknowledged them all.

    Raises:
        UsageError, RetryableError, ActionNeededError: as for ``produce``.
    """
    _check(topic, count, None, partitions)
    Broker(bootstrap).ensure_topic(topic, partitions, {})
    stamped_by_client = ((key, value, 0) for key, value in islice(cycle(records), count))
    _send_all(
        _Sender(bootstrap, topic),
        stamped_by_client,
        pace=_Pace(None),
        stamped=False,
        on_progress=on_progress,
        stop=None,
    )


def _check(topic: str, count: int, rate: float | None, partitions: int) -> None:
    check_table_topic(topic)
    if (name := kafka_topic(topic)) != topic:
        raise UsageError(f"{topic} is a table of the topic {name}: send to {name}")
    if count < 0:
        raise UsageError(f"cannot produce {count} records; use 0 or more")
    if rate is not None and not 0 < rate < float("inf"):
        raise UsageError(f"a rate of {rate} records per second is not possible; use a rate above 0, or none")
    if partitions < 1:
        raise UsageError(f"a topic cannot have {partitions} partitions; use 1 or more")


def _check_versions(count: int, version: SchemaVersion, switch_at: int | None, distinct: int | None) -> None:
    schema_text(version)  # rejects an unknown version
    if distinct is not None and distinct < 1:
        raise UsageError(f"a pool of {distinct} distinct events is empty; use 1 or more")
    if switch_at is None:
        return
    if distinct is not None:
        raise UsageError("switch_at and distinct cannot be combined: a pool has one schema version")
    if version == "v2":
        raise UsageError("switch_at has no meaning with schema version v2: it switches from v1 to v2")
    if not 0 <= switch_at <= count:
        raise UsageError(f"cannot switch the schema after {switch_at} of {count} records")


def _live(stream: Clickstream, schemas: _Schemas, count: int, switch_at: int | None) -> Iterator[_Record]:
    first = count if switch_at is None else switch_at
    yield from _encoded(stream, schemas, first)
    if first < count:
        stream.switch_schema("v2")
        yield from _encoded(stream, schemas, count - first)


def _encoded(stream: Clickstream, schemas: _Schemas, count: int) -> Iterator[_Record]:
    if not count:
        return  # a version without records is not registered
    version = stream.schema_version
    encode = Encoder(version).frame(schemas.id_of(version)).encode
    for event in stream.events(count):
        yield event.key, encode(event.value), event.timestamp_ms


def _send_all(
    sender: _Sender,
    records: Iterator[_Record],
    *,
    pace: _Pace,
    stamped: bool,
    on_progress: Callable[[int], None] | None,
    stop: Callable[[], bool] | None,
) -> int:
    """Send until the records end or ``stop`` returns True; returns the number sent and acknowledged."""
    sent = 0
    report_at = monotonic() + _PROGRESS_S
    while not (stop and stop()):
        wait_s = pace.wait_s()
        if wait_s > 0:
            sleep(min(max(wait_s, _TICK_S), _LONGEST_WAIT_S))
        # Once a record is drawn, it is sent: the tallies count it.
        elif (record := next(records, None)) is not None:
            key, value, timestamp_ms = record
            sender.send(key, value, timestamp_ms if stamped else 0)
            sent += 1
        else:
            break
        if wait_s > 0 or sent % _POLL_EVERY == 0:
            sender.poll()
            if on_progress and monotonic() >= report_at:
                report_at = monotonic() + _PROGRESS_S
                on_progress(sender.acknowledged)
    while sender.waiting():
        if on_progress:
            on_progress(sender.acknowledged)
    sender.confirm(sent)
    if on_progress:
        on_progress(sent)
    return sent


class _Pace:
    """Evenly spaced turns; ``rate`` per second, None for no limit."""

    def __init__(self, rate: float | None) -> None:
        self._gap_s = 1 / rate if rate else 0.0
        self._due_s = monotonic()

    def wait_s(self) -> float:
        """Seconds until the next turn; 0 means now, and counts the turn."""
        if not self._gap_s:
            return 0.0
        now_s = monotonic()
        if now_s < self._due_s:
            return self._due_s - now_s
        self._due_s = max(self._due_s, now_s - _CATCH_UP_S) + self._gap_s
        return 0.0


class _Schemas:
    """Registers versions of the click event's schema under one subject, each on first use."""

    def __init__(self, properties: Mapping[str, str], subject: str) -> None:
        self._subject = subject
        self._url = properties.get("url", "")
        try:
            self._client = registry_client({"timeout": 10, **properties})
        except (ValueError, TypeError) as error:
            raise UsageError(f"the registry settings cannot be used: {error}") from error

    def __enter__(self) -> _Schemas:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.__exit__(*error)  # closes its connections

    def id_of(self, version: SchemaVersion) -> int:
        """The registry's id for this version."""
        try:
            return self._client.register_schema(self._subject, Schema(schema_text(version), "AVRO"))
        except SchemaRegistryError as error:
            if error.http_status_code in _REFUSED:
                raise UsageError(
                    f"the registry at {self._url} refuses the click events' schema {version} for "
                    f"{self._subject} ({error.error_message}); is the topic used for something else?"
                ) from error
            raise RetryableError(f"the registry at {self._url} failed: {error}") from error
        except Exception as error:  # its HTTP library's errors have no public base class
            raise RetryableError(
                f"the registry at {self._url} does not respond ({type(error).__name__}: {error}); "
                f"is it running?{proxy_hint(self._url)}"
            ) from error


class _Sender:
    """A producer that counts delivery reports and raises the error of the first lost record."""

    def __init__(self, bootstrap: Mapping[str, str], topic: str) -> None:
        self._producer = make_producer({**_PRODUCER, **bootstrap})
        self._topic = topic
        self._lost: KafkaError | None = None
        self.acknowledged = 0

    def send(self, key: bytes, value: bytes, timestamp_ms: int) -> None:
        """Enqueue one record, waiting while the queue is full; timestamp 0 means now."""
        while True:
            try:
                self._producer.produce(
                    self._topic, value, key, on_delivery=self._delivered, timestamp=timestamp_ms
                )
            except BufferError:
                self.poll(_LONGEST_WAIT_S)
            except KafkaException as error:
                raise self._error(error.args[0]) from error
            else:
                return

    def poll(self, timeout_s: float = 0) -> None:
        """Process delivery reports."""
        self._producer.poll(timeout_s)
        if self._lost is not None:
            raise self._error(self._lost)

    def waiting(self) -> bool:
        """Wait briefly for outstanding records; returns whether there still are any."""
        left = self._producer.flush(_PROGRESS_S)
        if self._lost is not None:
            raise self._error(self._lost)
        return left > 0

    def confirm(self, sent: int) -> None:
        """Raise unless each record sent was acknowledged."""
        if self.acknowledged != sent:
            raise ActionNeededError(
                f"{sent} records were sent to {self._topic} and {self.acknowledged} acknowledged; "
                "the topic's content does not match the tallies: produce to a new topic"
            )

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.acknowledged += 1
        elif self._lost is None:
            self._lost = error

    def _error(self, problem: KafkaError) -> TableTopicError:
        after = f"after {self.acknowledged} records"
        if problem.retriable() or problem.code() in {KafkaError._MSG_TIMED_OUT, KafkaError._TRANSPORT}:
            return RetryableError(
                f"the broker does not take records for {self._topic} {after}: {problem.str()}"
            )
        return ActionNeededError(f"the broker refuses records for {self._topic} {after}: {problem.str()}")
