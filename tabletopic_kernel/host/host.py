"""A host: a member of the hosts' group that runs the table topics of its settings partitions.

Kafka's rebalancing provides failover and scale-out; the epoch in the table fences the previous owner (I5).
Joining, losing and leaving the group act on the same consumer in one thread, so they are one module.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import reduce

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from tabletopic_kernel.clients.kafka.broker import make_consumer
from tabletopic_kernel.clients.kafka.connection_errors import ConnectionErrors, explain_silence
from tabletopic_kernel.clients.login_gate import REFUSED_S
from tabletopic_kernel.host.coordinator import Coordinator
from tabletopic_kernel.host.report import HostReporter
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.host.topics.control_topic import ensure_control_topic
from tabletopic_kernel.host.topics.running_topics import RunningTopics
from tabletopic_kernel.host.topics.settings_topic import SettingsMessage, ensure_settings_topic, parse_desired
from tabletopic_kernel.host.topics.standing_patterns import StandingPatterns
from tabletopic_kernel.model.commit_cycle import backoff_ms
from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.topic_names import HOSTS_GROUP, SETTINGS_TOPIC

_LOG = logging.getLogger(__name__)
LOST = (
    "lost its place in the group, such as after a stall; other hosts may run its topics, and it joins again"
)
# The minimum that brokers allow by default: a dead host's topics wait this long for another host.
_SESSION_MS = 6_000
# A healthy host takes up to this long to learn that it gets a dead host's topics.
_GROUP_BEAT_MS = 500
# How long the broker may hold back an empty fetch response. A dead host's partitions are only in the next
# request, so librdkafka's default of half a second would delay each failover.
_FETCH_WAIT_MS = 100
_HEARTBEAT_S = 2.0
_POLL_S = 0.2
# librdkafka reconnects to a broker at least every 10 s.
_REFUSED_LATELY_S = 25.0
# How long a consumer that lost its partitions has to rejoin. With librdkafka 2.16, after a broker outage of
# half a minute, a consumer never asked for the group again.
_REJOIN_S = 30.0


class Host:
    """Runs table topics from ``start`` to ``stop``. All work on the group happens in one thread."""

    def __init__(self, services: Services) -> None:
        self.id = services.host
        self._services = replace(services, still_mine=self._holds)
        self._reporter = HostReporter(self._services)
        self._stop = threading.Event()
        self._joined = threading.Event()
        self._topics = RunningTopics(self._services)
        self._patterns = StandingPatterns(self._services)
        self._held: set[int] = set()
        self._catching_up: dict[int, dict[str, list[SettingsMessage]]] = {}
        self._last_poll = time.monotonic()
        self._lost_s: float | None = None  # when its partitions were lost, until it has some again
        self.error: Exception | None = None
        self.on_end: Callable[[Exception | None], None] = lambda _: None
        self.waits_for: str | None = None  # why it is not in the group
        self._connection_errors = ConnectionErrors()  # of the group's consumer
        self._denied: str | None = None  # why the broker denies it the group
        self._thread = threading.Thread(target=self._run, name="host", daemon=True)

    def __repr__(self) -> str:
        return f"<Host {self.id} topics={sorted(self.coordinators())}>"

    def start(self) -> None:
        """Join the group; table topics begin as partitions arrive."""
        self._thread.start()

    def stop(self) -> None:
        """Commit staged files, hand over, leave the group. Idempotent."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the host has ended; raises the error that ended it, if any."""
        self._thread.join(timeout_s)
        if self.error is not None:
            raise self.error
        return not self._thread.is_alive()

    def listen(self, on_event: Callable[[events.ControlEvent], None]) -> None:
        """Call ``on_event`` with each event of this host, in the thread that writes it."""
        self._services.control.listen(on_event)

    def wait_until_joined(self, timeout_s: float) -> bool:
        """Whether the group has assigned partitions to this host in time."""
        return self._joined.wait(timeout_s)

    @property
    def has_ended(self) -> bool:
        """Whether it has run and ended, on request or by an error."""
        return self._thread.ident is not None and not self._thread.is_alive()

    @property
    def is_leaving(self) -> bool:
        return self._stop.is_set()

    @property
    def is_in_group(self) -> bool:
        """Whether it believes it is a member of the group, without asking the broker."""
        return self._joined.is_set() and self.waits_for is None and self._thread.is_alive()

    @property
    def silence_s(self) -> float:
        """Seconds since the last iteration of its loop; closing topics delays it."""
        return time.monotonic() - self._last_poll

    @property
    def dropped_events(self) -> int:
        """Events that could not be written to the control topic."""
        return self._services.control.dropped

    def coordinators(self) -> dict[str, Coordinator]:
        return self._topics.coordinators()

    def namespaces(self) -> dict[str | None, str]:
        """For each catalog of this host's topics, a namespace they use; None: the default one."""
        return self._topics.namespaces()

    def progress(self) -> list[events.Progress]:
        return [coordinator.progress() for coordinator in self.coordinators().values()]

    # -- the loop

    def _run(self) -> None:
        try:
            while self._ensure_topics():
                if self._run_in_group():
                    self._rest()
        except Exception as error:
            _LOG.exception("host %s", self.id)
            self.error = error
        finally:
            self._services.control.close()
            self.on_end(self.error)

    def _rest(self) -> None:
        """Pause after a refused login: no client of this host logs in for a minute."""
        error = self._silence()
        self._services.broker.rest(error)
        self._services.control.rest(error)
        self._stop.wait(REFUSED_S)

    def _silence(self) -> RetryableError:
        return explain_silence(self._services.broker.properties, self._connection_errors, "no response")

    def _run_in_group(self) -> bool:
        """Be a member of the group until stopped or shut out; returns whether the login is refused."""
        consumer = make_consumer(
            self._services.broker.properties,
            group_id=HOSTS_GROUP,
            client_id=self.id,
            enable_auto_commit="false",
            auto_offset_reset="earliest",
            session_timeout_ms=_SESSION_MS,
            heartbeat_interval_ms=_GROUP_BEAT_MS,
            fetch_wait_max_ms=_FETCH_WAIT_MS,
            partition_assignment_strategy="cooperative-sticky",
            enable_partition_eof="true",
            error_cb=self._connection_errors,
        )
        self._connection_errors.forget()
        self._lost_s = None
        try:
            consumer.subscribe(
                [SETTINGS_TOPIC], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
            self._loop(consumer)
            return not self._stop.is_set() and self._is_shut_out()
        finally:
            self._patterns.release(self._held)
            self._topics.close(self._topics.of_partitions(None))
            consumer.close()
            self._held.clear()
            self._catching_up.clear()

    def _ensure_topics(self) -> bool:
        """Ensure that the shared topics exist; waits for the broker (I9). False if stopped meanwhile."""
        attempt = 0
        while not self._stop.is_set():
            self._last_poll = time.monotonic()
            try:
                ensure_settings_topic(self._services.broker)
                ensure_control_topic(self._services.broker)
            except RetryableError as error:
                _LOG.warning("host %s: %s", self.id, error)
                self.waits_for = str(error)
                self._stop.wait(backoff_ms(attempt) / 1000)
                attempt += 1
            else:
                self.waits_for = None
                return True
        return False

    def _loop(self, consumer: Consumer) -> None:
        next_beat = 0.0
        while not (self._stop.is_set() or self._is_shut_out() or self._is_left_out(consumer)):
            message = consumer.poll(_POLL_S)
            self._last_poll = time.monotonic()
            self._topics.open_again()
            if message is not None:
                self._take(message)
            self._patterns.look()
            self._update_waits_for()
            now = time.monotonic()
            self._beat(everyone=now >= next_beat)
            if now >= next_beat:
                next_beat = now + _HEARTBEAT_S

    def _is_shut_out(self) -> bool:
        """Whether the login is refused, and no earlier connection keeps its partitions."""
        is_refused = self._connection_errors.refused(_REFUSED_LATELY_S) is not None
        return is_refused and (not self._held or self._connection_errors.is_hopeless(_REFUSED_LATELY_S))

    def _is_left_out(self, consumer: Consumer) -> bool:
        """Whether the consumer lost its partitions and did not rejoin; then a new consumer is needed."""
        if self._lost_s is None or time.monotonic() - self._lost_s < _REJOIN_S:
            return False
        return not consumer.memberid()

    def _update_waits_for(self) -> None:
        if self._connection_errors.refused(_REFUSED_LATELY_S) is not None:
            self.waits_for = str(self._silence())
        else:
            self.waits_for = self._denied

    def _beat(self, *, everyone: bool) -> None:
        """Write heartbeats: of host and topics periodically, of a topic also when its state has changed."""
        if everyone:
            self._reporter.beat(sorted(self.coordinators()))
        for record in self.progress():
            if self._topics.changed(record) or everyone:
                self._services.control.write(
                    events.Heartbeat(
                        topic=record.topic, at_ms=self._services.now_ms(), host=self.id, progress=record
                    )
                )

    # -- partitions of the settings topic

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            partition.offset = OFFSET_BEGINNING
            self._catching_up[partition.partition] = {}
            self._held.add(partition.partition)
        consumer.incremental_assign(partitions)
        self._denied = self._lost_s = None
        self._joined.set()

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._release({partition.partition for partition in partitions})
        consumer.incremental_unassign(partitions)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        _LOG.warning("host %s: %s", self.id, LOST)
        for coordinator in self.coordinators().values():
            coordinator.leave_requests()
        self._on_revoke(consumer, partitions)
        self._lost_s = time.monotonic()

    def _release(self, partitions: set[int]) -> None:
        self._held -= partitions
        for partition in partitions:
            self._catching_up.pop(partition, None)
        self._patterns.release(partitions)
        self._topics.close(self._topics.of_partitions(partitions))

    def _holds(self, topic: str) -> bool:
        """Whether this host still has the topic; False if the loop stalled."""
        is_alive = time.monotonic() - self._last_poll < _SESSION_MS / 1000
        return self._topics.partition_of(topic) in self._held and is_alive

    # -- desired state

    def _take(self, message: Message) -> None:
        error, partition = message.error(), message.partition()
        if error is not None and error.code() == KafkaError._PARTITION_EOF and partition is not None:
            self._catch_up(partition)
            return
        if error is not None and "AUTHORIZATION" in error.name():
            self._denied = (
                f"the broker denied it ({error.str()}): the user needs READ on the group {HOSTS_GROUP} and "
                f"on {SETTINGS_TOPIC}; `tabletopic doctor` has the commands"
            )
            return
        if self._patterns.take(message):
            return
        change = parse_desired(message)
        if change is None or partition is None:
            position = (
                f"{SETTINGS_TOPIC}, partition {partition}, offset {message.offset()}, key {message.key()!r}"
            )
            reason = message.error() or "it names no topic"
            _LOG.warning("host %s: skipping a message: %s: %s", self.id, position, reason)
            return
        if change.refused is not None:
            _LOG.warning("host %s: %s: %s", self.id, change.topic, change.refused)
        if partition in self._catching_up:
            self._catching_up[partition].setdefault(change.topic, []).append(change)
        else:
            self._topics.apply(change, partition)

    def _catch_up(self, partition: int) -> None:
        """Apply each topic's newest message of a partition that was read, and requests of earlier ones."""
        for changes in self._catching_up.pop(partition, {}).values():
            states = filter(None, (change.desired for change in changes))
            requests = [request for desired in states for request in desired.requests]
            newest = reduce(lambda before, change: change.after(before), changes)
            self._topics.apply(newest, partition, requests)
