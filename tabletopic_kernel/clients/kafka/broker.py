"""The broker, through librdkafka: topics, offsets, and group members.

Longer than other modules, as all requests to a broker share the same waits, retries and explanations.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
import struct
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from tabletopic_kernel.clients.kafka.connection_errors import ConnectionErrors, explain_silence
from tabletopic_kernel.clients.kafka.idle_clients import IDLE_CLIENTS
from tabletopic_kernel.clients.login_gate import LoginGate
from tabletopic_kernel.model.errors import (
    ActionNeededError,
    RetryableError,
    SettingsError,
    UnknownTopicError,
)
from tabletopic_kernel.model.topic_names import check_topic_name

T = TypeVar("T")
TIMEOUT_S = 10.0
_RECONNECT_S = 2.0
# librdkafka goes on to ask a former leader, or none, until it has new metadata.
_STALE_S = 1.0
# A topic that the controller has created is unknown to brokers for a moment, as any is to one that starts.
_ABSENT_S = 1.0
# A refused login or certificate is known within a second; requests alone would take their whole timeout,
# while librdkafka logs in again up to 20 times a second, whatever its reconnect.backoff.max.ms.
_FIRST_LOOKS_S, _LOOK_S = (0.1, 0.2, 0.4, 0.8), 0.05
# Without a logger, librdkafka prints connection errors to stderr; users get errors with a remedy instead.
_LOG = logging.getLogger("tabletopic.librdkafka")
# A partition has no leader for a moment: while the topic is new, or its broker restarts or was too slow.
NO_LEADER = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._NOENT,  # no partition that was asked for has one
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
}
_MAY_NOT = {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
UNKNOWN_TOPIC = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}


@dataclass(frozen=True)
class TopicFacts:
    """A topic's identity (I8), and its first and end offsets by partition."""

    topic: str
    cluster_id: str
    topic_id: str
    first: dict[int, int]
    end: dict[int, int]
    internal: bool = False  # by the broker, it is one of Kafka's own


@dataclass(frozen=True)
class TopicEnds:
    """A topic's id, and its end offsets by partition."""

    topic_id: str
    end: dict[int, int]


def make_admin(properties: Mapping[str, str], errors: ConnectionErrors | None = None) -> AdminClient:
    """An admin client whose connections report to ``errors``.

    Raises SettingsError if librdkafka refuses the properties.
    """
    return _made(AdminClient, properties, {"error_cb": errors} if errors else {})


def make_consumer(properties: Mapping[str, str], **more: Any) -> Consumer:
    """A consumer; ``more`` has underscores for dots, and wins. Raises as ``make_admin``."""
    return _made(Consumer, properties, more)


def make_producer(properties: Mapping[str, str], **more: Any) -> Producer:
    """A producer; see ``make_consumer``."""
    return _made(Producer, properties, more)


def _made(kind: Callable[[dict[str, Any]], T], properties: Mapping[str, str], more: Mapping[str, Any]) -> T:
    if not {"bootstrap.servers", "metadata.broker.list"} & properties.keys():
        raise SettingsError(
            "[kafka] bootstrap.servers is not set and no local stack is running; `tabletopic up` starts one"
        )
    ours = {key if key == "error_cb" else key.replace("_", "."): value for key, value in more.items()}
    try:
        return kind({"log_level": 0, "logger": _LOG, **properties, **ours})
    except KafkaException as error:
        raise SettingsError(f"[kafka] {error.args[0].str()}") from error


def assigned(raw: bytes) -> list[tuple[str, int]]:
    """(topic, partition) pairs of a member's assignment; empty before it has one.

    Source: Kafka's ConsumerProtocolAssignment: version, [topic, [partition]], user data; big-endian.

    >>> assigned(bytes.fromhex("0001" "00000001" "0001" "78" "00000002" "00000000" "00000007" "00000000"))
    [('x', 0), ('x', 7)]
    """
    if not raw:
        return []
    pairs: list[tuple[str, int]] = []
    (topics,) = struct.unpack_from(">i", raw, 2)
    at = 6
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", raw, at)
        topic = raw[at + 2 : at + 2 + length].decode()
        at += 2 + length
        (count,) = struct.unpack_from(">i", raw, at)
        pairs += [(topic, partition) for partition in struct.unpack_from(f">{count}i", raw, at + 4)]
        at += 4 + 4 * count
    return pairs


def _has_leader(metadata: Any, partitions: Iterable[TopicPartition]) -> bool:
    """Whether any of the partitions has a leader that is online."""
    topics = metadata.topics
    listed = (topics[one.topic].partitions.get(one.partition) for one in partitions if one.topic in topics)
    return any(one is not None and one.leader in metadata.brokers for one in listed)


class Broker:
    """Queries to one cluster."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.properties = dict(properties)
        self._met = ConnectionErrors()
        self._gate = LoginGate()
        self._admin: AdminClient | None = make_admin(properties, self._met)
        self._lock = threading.Lock()  # guards _admin and _met
        self._renewing = threading.Lock()
        self._worn_out: list[AdminClient] = []
        self._renewed_s = float("-inf")
        self.address = self.properties.get("bootstrap.servers", "")
        IDLE_CLIENTS.add(self)

    @property
    def admin(self) -> AdminClient:
        """The client; LoginRefusedError is raised for a minute after the login was refused.

        A client logs in by itself until it is released: keep it in no variable, as errors keep variables.
        """
        with self._lock:
            self._gate.check()
            if self._admin is None:
                self._met = ConnectionErrors()
                self._admin = make_admin(self.properties, self._met)
            return self._admin

    def topics(self) -> list[str]:
        """All topics; raises RetryableError when the broker does not respond."""
        return sorted(self.partition_counts())

    def partition_counts(self) -> dict[str, int]:
        """The number of partitions of every topic, by name; raises as ``topics``."""
        found = self._metadata().topics
        return {name: len(found[name].partitions) for name in sorted(found)}

    def cluster_id(self) -> str:
        """The cluster's id."""
        described = self._wait(lambda: self.admin.describe_cluster(request_timeout=TIMEOUT_S))
        return str(described.cluster_id)

    def facts(self, topic: str) -> TopicFacts:
        """Identity and offsets of a topic, read-committed.

        Raises:
            UsageError: there is no such topic.
            RetryableError: the broker does not respond.
        """
        described = self._describe(topic)
        partitions = [partition.id for partition in described.partitions]
        return TopicFacts(
            topic=topic,
            cluster_id=self.cluster_id(),
            topic_id=str(described.topic_id),
            first=self._offsets(topic, partitions, OffsetSpec.earliest()),
            end=self._offsets(topic, partitions, OffsetSpec.latest()),
            internal=bool(described.is_internal),
        )

    def topic_id(self, topic: str) -> str:
        """The topic's id, which a re-created topic does not share. Raises as ``facts``."""
        return str(self._describe(topic).topic_id)

    def end_offsets(self, topics: Iterable[str]) -> dict[str, dict[int, int]]:
        """End offsets by topic and partition, read-committed; unknown topics are left out."""
        return {topic: found.end for topic, found in self.ends(topics).items()}

    def ends(self, topics: Iterable[str]) -> dict[str, TopicEnds]:
        """Ids and end offsets by topic, read-committed; unknown topics are left out."""
        asked: dict[TopicPartition, OffsetSpec] = {}
        result: dict[str, TopicEnds] = {}
        for topic, description in self._described(list(topics)).items():
            result[topic] = TopicEnds(str(description.topic_id), {})
            for partition in description.partitions:
                asked[TopicPartition(topic, partition.id)] = OffsetSpec.latest()
        for (topic, partition), offset in self._list_offsets(asked).items():
            result[topic].end[partition] = offset
        return result

    def first_offsets(self, partitions: Mapping[str, Iterable[int]]) -> dict[str, dict[int, int]]:
        """The first offset that is still there, by topic and partition, of partitions that exist."""
        asked = {
            TopicPartition(topic, p): OffsetSpec.earliest() for topic in partitions for p in partitions[topic]
        }
        result: dict[str, dict[int, int]] = {topic: {} for topic in partitions}
        for (topic, partition), offset in self._list_offsets(asked).items():
            result[topic][partition] = offset
        return result

    def _described(self, topics: list[str]) -> dict[str, Any]:
        """Descriptions of the topics that the broker does not list as missing."""
        found: dict[str, Any] = {}
        deadline, wanted = time.monotonic() + TIMEOUT_S, topics
        while wanted:
            for topic, future in self._descriptions(wanted).items():
                try:
                    described = self._description(topic, future)
                except KafkaException as error:
                    if error.args[0].code() not in UNKNOWN_TOPIC:
                        raise self.explain(error) from error
                else:
                    if described.partitions:  # every topic has some
                        found[topic] = described
            missing = [topic for topic in wanted if topic not in found]
            # "No longer exists" is believed only if the list of all topics says so, too.
            listed = self.partition_counts() if missing else {}
            if wanted := [topic for topic in missing if topic in listed]:
                if time.monotonic() > deadline:
                    names = ", ".join(wanted)
                    raise RetryableError(
                        f"the broker at {self.address} lists {names}, but does not describe it; try again"
                    )
                time.sleep(0.1)
        return found

    def offsets_at(self, topic: str, partitions: Iterable[int], timestamp_ms: int) -> dict[int, int]:
        """The first offset at or after a time, by partition; the end offset if there is none."""
        chosen = list(partitions)
        found = self._offsets(topic, chosen, OffsetSpec.for_timestamp(timestamp_ms))
        end = self._offsets(topic, chosen, OffsetSpec.latest())
        return {p: end[p] if found[p] < 0 else found[p] for p in chosen}

    def ensure_topic(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        """Create an internal topic if it does not exist (with the broker's default replication)."""
        check_topic_name(topic)
        if topic in self.topics():
            return
        try:
            self._create(
                NewTopic(topic, num_partitions=partitions, replication_factor=-1, config=dict(config))
            )
        except KafkaException as error:
            if error.args[0].code() in _MAY_NOT:
                user = self.properties.get("sasl.username") or "<name>"
                raise ActionNeededError(
                    f"the user may not create the topic {topic} on {self.address}; create it, or run "
                    f"kafka-acls --add --allow-principal User:{user} --operation Create --topic {topic}"
                ) from error
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self.explain(error) from error
        deadline = time.monotonic() + TIMEOUT_S
        while topic not in self.end_offsets([topic]):  # the response comes before all brokers know it
            if time.monotonic() > deadline:
                raise RetryableError(f"the broker at {self.address} created {topic} but does not list it")
            time.sleep(0.1)

    def _create(self, new: NewTopic) -> None:
        """Raises KafkaException; waits out a moment in which too few brokers are there for the replicas."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                self._asked(lambda: self.admin.create_topics([new], request_timeout=TIMEOUT_S)[new.topic])
                return
            except KafkaException as error:
                is_passing = error.args[0].code() == KafkaError.INVALID_REPLICATION_FACTOR
                if not is_passing or time.monotonic() > deadline:
                    raise
            time.sleep(0.1)

    def topic_config(self, topic: str) -> dict[str, str]:
        """The topic's configuration, e.g. ``retention.ms``."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        found = self._wait(
            lambda: self.admin.describe_configs([resource], request_timeout=TIMEOUT_S)[resource]
        )
        return {name: entry.value for name, entry in found.items()}

    def group_members(self, group: str) -> list[tuple[str, list[tuple[str, int]]]]:
        """Client id and assigned (topic, partition) pairs of every live member of a group."""
        deadline, again = time.monotonic() + _RECONNECT_S, False
        while True:
            try:
                # Not describe_consumer_groups: after a broker restart, an existing client never gets a
                # response again, and librdkafka 2.16 aborts the process when that client is released.
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)
                    found: list[Any] = self.admin.list_groups(group, timeout=TIMEOUT_S)
                break
            except KafkaException as error:
                # After a restart, the first request only finds out that the connection is gone, however late.
                if error.args[0].code() != KafkaError._TRANSPORT or (again and time.monotonic() > deadline):
                    raise self.explain(error) from error
            again = True
            time.sleep(0.1)
        return [(member.client_id, assigned(member.assignment)) for one in found for member in one.members]

    def _describe(self, topic: str) -> Any:
        check_topic_name(topic)  # for a bad name, librdkafka's error is like that of a broker that is down
        deadline = time.monotonic() + _ABSENT_S
        while True:
            try:
                return self._description(topic)
            except KafkaException as error:
                if error.args[0].code() not in UNKNOWN_TOPIC:
                    raise self.explain(error) from error
                if time.monotonic() > deadline:
                    raise UnknownTopicError(
                        f"there is no topic {topic!r} at {self.address}; create it, or check the name"
                    ) from None
            time.sleep(0.1)

    def _description(self, topic: str, under_way: concurrent.futures.Future[Any] | None = None) -> Any:
        return self._asked(lambda: self._descriptions([topic])[topic], under_way)

    def _descriptions(self, topics: list[str]) -> dict[str, concurrent.futures.Future[Any]]:
        described: dict[str, concurrent.futures.Future[Any]] = self.admin.describe_topics(
            TopicCollection(topics), request_timeout=TIMEOUT_S
        )
        return described

    def _offsets(self, topic: str, partitions: Iterable[int], spec: OffsetSpec) -> dict[int, int]:
        asked = {TopicPartition(topic, partition): spec for partition in partitions}
        return {partition: offset for (_, partition), offset in self._list_offsets(asked).items()}

    def _list_offsets(self, asked: dict[TopicPartition, OffsetSpec]) -> dict[tuple[str, int], int]:
        found: dict[tuple[str, int], int] = {}
        began, asked_again, refreshed = time.monotonic(), False, False
        waiting = dict(asked)
        while waiting:
            futures = self.admin.list_offsets(
                waiting, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=TIMEOUT_S
            )
            errors: list[KafkaException] = []
            for partition, future in futures.items():
                try:
                    found[partition.topic, partition.partition] = self._result(future).offset
                except KafkaException as error:
                    errors.append(error)
            waiting = {p: spec for p, spec in waiting.items() if (p.topic, p.partition) not in found}
            waited_s = time.monotonic() - began
            lasting = [one for one in errors if one.args[0].code() not in NO_LEADER | UNKNOWN_TOPIC]
            if lasting:
                if asked_again or not self._may_ask_again(lasting[0]):
                    raise self.explain(lasting[0]) from lasting[0]
                asked_again, began = True, time.monotonic()
            elif errors and waited_s > (TIMEOUT_S if refreshed else 3 * TIMEOUT_S):
                raise self.explain(errors[0]) from errors[0]
            elif errors and waited_s > _STALE_S:
                refreshed = self._refresh(waiting, errors)
            if waiting:
                time.sleep(_STALE_S if refreshed else 0.1)
        return found

    def _refresh(self, waiting: Iterable[TopicPartition], errors: Iterable[KafkaException]) -> bool:
        """Get new metadata, or a new client where that does not help; whether the broker responded."""
        with contextlib.suppress(KafkaException):
            metadata = self._listed(_RECONNECT_S)
            lacks_leaders = any(error.args[0].code() == KafkaError._NOENT for error in errors)
            # While no leader is online, a new client finds none either, and each old one is kept.
            return not (lacks_leaders and _has_leader(metadata, waiting)) or self._renew(self.admin)
        return False

    def _wait(self, ask: Callable[[], concurrent.futures.Future[T]]) -> T:
        try:
            return self._asked(ask)
        except KafkaException as error:
            raise self.explain(error) from error

    def _asked(
        self,
        ask: Callable[[], concurrent.futures.Future[T]],
        under_way: concurrent.futures.Future[T] | None = None,
    ) -> T:
        """The response; asked once more if only the connection or the client failed."""
        try:
            return self._result(under_way or ask())
        except KafkaException as error:
            if not self._may_ask_again(error):
                raise
        return self._result(ask())

    def _may_ask_again(self, error: KafkaException) -> bool:
        """Whether the broker may be well: it had closed an idle connection, or responds to a new client."""
        code = error.args[0].code()
        return code == KafkaError._TRANSPORT or (
            code == KafkaError._TIMED_OUT and self._renew_unless_refused()
        )

    def _renew_unless_refused(self) -> bool:
        """Replace the client after a request without a response, unless its login is refused."""
        self.admin.poll(0)  # runs the callback of errors
        return self._met.refused() is None and self._renew(self.admin)

    def _metadata(self) -> Any:
        for look_s in _FIRST_LOOKS_S:
            with contextlib.suppress(KafkaException):
                return self._listed(min(look_s, TIMEOUT_S))
            self.admin.poll(0)  # runs the callback of errors
            if self._met.is_hopeless():
                raise self._explain("it refuses all logins")
        try:
            return self._listed(TIMEOUT_S)
        except KafkaException as error:
            raise self.explain(error) from error

    def _listed(self, timeout_s: float) -> Any:
        answer = self.admin.list_topics(timeout=timeout_s)
        self._met.forget()
        return answer

    def _result(self, future: concurrent.futures.Future[T]) -> T:
        """The future's result; fails early if no broker admits the client."""
        while True:
            try:
                answer = future.result(timeout=_LOOK_S)
                self._met.forget()
                return answer
            except concurrent.futures.TimeoutError:
                self.admin.poll(0)
                if self._met.is_hopeless():
                    raise self._explain("it refuses all logins") from None

    def _explain(self, request: str) -> RetryableError:
        error = explain_silence(self.properties, self._met, request)
        self.rest(error)
        return error

    def rest(self, error: Exception) -> None:
        """Do not log in for a minute if ``error``, of any client of the cluster, is a refusal."""
        self._gate.met(error)
        if not self._gate.is_open:
            with self._lock:
                self._admin = None

    def close_if_refused(self) -> None:
        """Rest as after a refused request, although there was none; see ``idle_clients``."""
        with self._lock, contextlib.suppress(KafkaException):
            if self._admin is None:  # resting already; what it met must not prolong that again and again
                return
            self._admin.poll(0)
        if self._met.is_hopeless():
            self._explain("it refuses all logins")

    def _renew(self, worn_out: AdminClient) -> bool:
        """Replace the client, if the broker responds to a new one; whether there is a new one now.

        A client that existed while the broker hung never finds a controller again, although it gets metadata.
        It is kept: releasing it may abort the process.
        """
        with self._renewing:
            # Requests of the one before time out until then; each of them asks for a new client.
            is_new = time.monotonic() - self._renewed_s < TIMEOUT_S
            if self._admin is not worn_out or is_new:
                return True
            fresh = make_admin(self.properties, self._met)
            with contextlib.suppress(KafkaException):
                fresh.list_topics(timeout=_RECONNECT_S)
                self._worn_out.append(worn_out)
                self._admin, self._renewed_s = fresh, time.monotonic()
                return True
            return False

    def explain(self, error: KafkaException) -> RetryableError | ActionNeededError:
        """The error of a request, with its remedy."""
        problem = error.args[0]
        if problem.code() == KafkaError._TIMED_OUT:
            self._renew_unless_refused()
        else:
            self.admin.poll(0)  # runs the callback of errors
        name = problem.name() if hasattr(problem, "name") else ""
        if "AUTHORIZATION" in name or "AUTHENTICATION" in name:
            return ActionNeededError(f"the broker at {self.address} does not allow it: {problem.str()}")
        message = f"{problem.str()}{name}" if problem.str().endswith(": ") else problem.str()
        if problem.code() > 0:  # the broker's own; librdkafka's are negative
            return RetryableError(f"the broker at {self.address} does not respond ({message}); see its log")
        return self._explain(message)
