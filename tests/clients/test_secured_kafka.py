"""Every login method on a real broker, through librdkafka and Spark; and the errors when it fails."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.clients.kafka.checks import DESCRIBE, READ, WRITE, missing_rights
from tabletopic_kernel.clients.kafka.java_properties import java_properties, portable_properties
from tabletopic_kernel.clients.kafka.ranges.reading import read_ranges
from tabletopic_kernel.host.topics.control_topic import ensure_control_topic
from tabletopic_kernel.host.topics.settings_topic import ensure_settings_topic
from tabletopic_kernel.local.stack import StackInfo
from tabletopic_kernel.model.errors import ActionNeededError, LoginRefusedError, RetryableError
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.model.topic_names import CONTROL_TOPIC, HOSTS_GROUP, SETTINGS_TOPIC
from tabletopic_kernel.pipeline.source import warm_up_options
from tabletopic_kernel.workbench.workbench import Workbench
from tests.servers.certificates import Authority
from tests.servers.secured_kafka import PASSWORD, PLAIN_USER, SecuredKafka
from tests.servers.token_server import TokenServer

pytestmark = pytest.mark.integration

WAYS = (
    "TLS", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "PKCS#12", "PEM files", "PEM text", "OIDC",
    "unsigned tokens",
)  # fmt: skip
RECORDS = 200
LIFETIME_S = 25  # of a token


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """A broker with a listener per method."""
    with TokenServer() as tokens, SecuredKafka(tmp_path_factory.mktemp("kafka"), tokens) as broker:
        yield broker


def _bench(properties: dict[str, str], stack: StackInfo, folder: Path) -> Workbench:
    """A workbench on the secured broker, with the stack's registry and catalog."""
    settings = {"registry": {"url": stack.registry_url}, "catalog": dict(stack.catalog)}
    return Workbench(Settings(state_dir=str(folder), kafka=properties, **settings))


def _filled(kafka: SecuredKafka, properties: dict[str, str]) -> str:
    """A topic with so many records."""
    topic = f"t{uuid.uuid4().hex[:8]}"
    kafka.create_topic(topic, 2)
    producer = Producer({**properties, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(topic, json.dumps({"n": number}).encode())
    assert producer.flush(240) == 0
    return topic


@pytest.mark.parametrize("way", WAYS)
def test_both_clients_log_in(kafka: SecuredKafka, stack: StackInfo, tmp_path: Path, way: str) -> None:
    """By one section: librdkafka, also without files, as on executors, and Spark's source in Java."""
    properties = kafka.clients()[way]
    topic = _filled(kafka, properties)
    facts = Broker(properties).facts(topic)
    sent = sorted(json.dumps({"n": number}).encode() for number in range(RECORDS))
    for ours in (properties, portable_properties(properties)):
        batches = list(read_ranges(ours, topic, facts.first, facts.end, headers=False))
        assert sorted(value for batch in batches for value in batch["value"].to_pylist()) == sent
    source = _bench(properties, stack, tmp_path).host_spark().read.format("kafka")
    read = source.options(**warm_up_options(java_properties(properties), topic)).load()
    assert sorted(bytes(row.value) for row in read.select("value").collect()) == sent


@pytest.mark.parametrize("way", ["SCRAM-SHA-256", "PEM files", "unsigned tokens"])
def test_records_become_rows(kafka: SecuredKafka, stack: StackInfo, tmp_path: Path, way: str) -> None:
    """Each record once: hosts, their group, the control topic and Spark's source log in by one section."""
    properties = kafka.clients()[way]
    topic, namespace = _filled(kafka, properties), f"n{uuid.uuid4().hex[:8]}"
    bench = _bench(properties, stack, tmp_path)
    host = bench.host()
    host.start()
    try:
        bench.enable(topic, {"namespace": namespace, "commit_interval_ms": 500, "value_format": "json"})
        _wait_for_rows(bench, topic, RECORDS)
    finally:
        host.stop()
    table = bench.open_catalog().load_table(bench.table_of(topic))
    assert sorted(table.scan().to_arrow()["n"].to_pylist()) == list(range(RECORDS))


def _wait_for_rows(bench: Workbench, topic: str, count: int) -> None:
    deadline = time.monotonic() + 240
    while (status := bench.status(topic)[0]).rows != count:
        assert status.state != "failed", status.error
        assert time.monotonic() < deadline, status
        time.sleep(0.3)


def test_tokens_that_expire_while_a_host_runs(kafka: SecuredKafka, stack: StackInfo, tmp_path: Path) -> None:
    """The broker ends a connection whose token is over: each client gets its next one in time."""
    topic, namespace = f"t{uuid.uuid4().hex[:8]}", f"n{uuid.uuid4().hex[:8]}"
    kafka.create_topic(topic, 2)
    kafka.tokens.lifetime_s, given = LIFETIME_S, kafka.tokens.given
    bench = _bench(kafka.clients()["OIDC"], stack, tmp_path)
    producer = Producer({"bootstrap.servers": kafka.address("PLAINTEXT"), "log_level": 0})
    host = bench.host()
    host.start()
    try:
        bench.enable(topic, {"namespace": namespace, "commit_interval_ms": 500, "value_format": "json"})
        began, sent = time.monotonic(), 0
        while time.monotonic() < began + 2 * LIFETIME_S:
            producer.produce(topic, json.dumps({"n": sent}).encode())
            sent += 1
            assert producer.flush(240) == 0
            time.sleep(0.2)
        _until(lambda: bench.status(topic)[0].rows == sent, lambda: bench.status(topic))
        _until(lambda: host.waits_for is None, lambda: host.waits_for)
        refused = [event for event in bench.events(topic) if event.type in ("Failed", "CommitFailed")]
        assert not refused
    finally:
        kafka.tokens.lifetime_s = 300
        host.stop()
    assert kafka.tokens.given - given > 4  # two lifetimes of at least three clients
    table = bench.open_catalog().load_table(bench.table_of(topic))
    assert sorted(table.scan().to_arrow()["n"].to_pylist()) == list(range(sent))


def _other_authority(kafka: SecuredKafka, folder: Path) -> dict[str, str]:
    return kafka.clients()["TLS"] | {"ssl.ca.location": str(Authority(folder, "Another CA").path)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda kafka, _: kafka.login("PLAIN", sasl_password="no"), "refuses the login.*sasl.password"),
        (lambda kafka, _: kafka.login("SCRAM-SHA-512", sasl_password="no"), "refuses the login.*credentials"),
        (_other_authority, "TLS with the broker.*ssl.ca.location"),
        (
            lambda kafka, _: kafka.clients()["TLS"] | {"bootstrap.servers": kafka.address("MTLS")},
            "TLS with the broker.*client certificate",
        ),
        (
            lambda kafka, _: kafka.clients()["OIDC"] | {"sasl.oauthbearer.client.secret": "no"},
            r"refuses the login.*sasl.oauthbearer\.\*",
        ),
    ],
    ids=["PLAIN password", "SCRAM password", "another CA", "no client certificate", "OIDC secret"],
)
@pytest.mark.parametrize("ask", ["topics", "facts"])
def test_what_is_wrong_is_said(
    kafka: SecuredKafka,
    tmp_path: Path,
    given: Callable[[SecuredKafka, Path], dict[str, str]],
    message: str,
    ask: str,
) -> None:
    """Soon, with the setting to look at: it is no broker that does not respond."""
    began = time.monotonic()
    broker = Broker(given(kafka, tmp_path))
    with pytest.raises(LoginRefusedError, match=message):
        broker.topics() if ask == "topics" else broker.facts("some-topic")
    assert time.monotonic() - began < 60


def test_a_secured_listener_and_no_protocol(kafka: SecuredKafka) -> None:
    """It accepts connections and answers nothing: the protocol is the first thing to look at."""

    def ask(listener: str) -> None:
        with pytest.raises(RetryableError, match=r"security\.protocol is not set"):
            Broker({"bootstrap.servers": kafka.address(listener)}).topics()

    with ThreadPoolExecutor(3) as pool:  # they wait
        list(pool.map(ask, ("TLS", "LOGIN", "UNSIGNED")))


def test_rights_that_are_missing(kafka: SecuredKafka) -> None:
    """As arguments of `kafka-acls`; no more than needed, and none once they are given."""
    topic, ours = f"t{uuid.uuid4().hex[:8]}", f"c{uuid.uuid4().hex[:8]}"
    for name in (topic, ours):
        kafka.create_topic(name)
    broker = Broker(kafka.login("PLAIN", sasl_username=PLAIN_USER))
    wanted = {topic: (READ, DESCRIBE), ours: (READ, WRITE, DESCRIBE), "not-there": (READ,)}
    who = f"--allow-principal User:{PLAIN_USER}"
    assert missing_rights(broker, wanted, {"g": (READ,)}) == [
        f"{who} --operation Read --operation Describe --topic {topic}",
        f"{who} --operation Read --operation Write --operation Describe --topic {ours}",
        f"{who} --operation Read --topic not-there",
        f"{who} --operation Read --group g",
    ]
    for name in (topic, ours, "not-there"):
        kafka.allow(AclOperation.READ, topic=name)
    kafka.allow(AclOperation.WRITE, topic=ours)
    kafka.allow(AclOperation.READ, group="g")
    # To read or write a topic is to describe it; a new rule takes a moment.
    _until(
        lambda: missing_rights(broker, wanted, {"g": (READ,)}) == [],
        lambda: missing_rights(broker, wanted, {"g": (READ,)}),
    )
    with pytest.raises(ActionNeededError, match="--operation Create --topic new"):
        broker.ensure_topic("new", 1, {})


def test_a_broker_that_asks_for_nothing(kafka: SecuredKafka, stack: StackInfo) -> None:
    """Everything is allowed there, and to super users."""
    wanted = ({"__tabletopic.control": (READ, WRITE)}, {"tabletopic-hosts": (READ,)})
    for properties in ({"bootstrap.servers": stack.bootstrap_servers}, kafka.login("PLAIN")):
        assert missing_rights(Broker(properties), *wanted) == []


def _until(look: Callable[[], bool], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + 240
    while not look():
        assert time.monotonic() < deadline, what()
        time.sleep(0.2)


def test_a_host_that_may_not_join_says_so(kafka: SecuredKafka, stack: StackInfo, tmp_path: Path) -> None:
    """It waits with the right that is missing, and goes on once it is given."""
    ensure_settings_topic(Broker(kafka.login("PLAIN")))
    ensure_control_topic(Broker(kafka.login("PLAIN")))
    for name in (SETTINGS_TOPIC, CONTROL_TOPIC):
        kafka.allow(AclOperation.READ, topic=name)
    host = _bench(kafka.login("PLAIN", sasl_username=PLAIN_USER), stack, tmp_path).host()
    host.start()
    try:
        _until(lambda: f"READ on the group {HOSTS_GROUP}" in (host.waits_for or ""), lambda: host.waits_for)
        assert host.error is None  # nor did the control topic, which it may not write, end it
        kafka.allow(AclOperation.READ, group=HOSTS_GROUP)
        _until(lambda: host.waits_for is None, lambda: host.waits_for)
        assert host.wait_until_joined(240)
    finally:
        host.stop()


def test_a_password_that_is_right_no_more(kafka: SecuredKafka, stack: StackInfo, tmp_path: Path) -> None:
    """A host that runs says so, logs in seldom, and goes on once the password is right again."""
    host = _bench(kafka.login("SCRAM-SHA-512"), stack, tmp_path).host()
    host.start()
    try:
        assert host.wait_until_joined(240)
        kafka.scram_password("another")
        kafka.stop()
        kafka.start()
        _until(lambda: "refuses the login" in (host.waits_for or ""), lambda: host.waits_for)
        kafka.scram_password(PASSWORD)
        _until(lambda: host.waits_for is None, lambda: host.waits_for)
        assert host.error is None
    finally:
        kafka.scram_password(PASSWORD)
        host.stop()
