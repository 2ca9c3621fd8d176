"""The embedded stack with its real servers."""

import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.local import machine, processes, watcher
from tabletopic_kernel.local.stack import SERVERS, LocalStack, StackInfo
from tabletopic_kernel.model.errors import StackError
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.config import embedded_servers
from tabletopic_kernel.workbench.workbench import Workbench
from tests.environment import completed

pytestmark = pytest.mark.integration

STARTER = """
import sys
from pathlib import Path
from tabletopic_kernel.local.stack import LocalStack
LocalStack(Path(sys.argv[1])).up(die_with_parent=sys.argv[2:] == ["--die"])
print("up", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalStack]:
    """A stack of its own, in a folder whose path is not the simplest; stopped afterwards."""
    own = LocalStack(tmp_path / "état of things")
    yield own
    own.down()


def _eventually(condition: Callable[[], object], limit_s: float = 240) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"it never happened; its servers: {_marked()}"
        time.sleep(0.02)


def _marked() -> list[str]:
    """The command line of each process of a stack, whoever's it is."""
    commands = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    return [command[-300:] for command in commands if "-Dtabletopic.server=" in command]


def _processes(local: LocalStack) -> dict[str, int]:
    marks = {processes.mark(name, local.state_dir): name for name in (*SERVERS, watcher.WATCHER)}
    return {marks[its_mark]: found.pid for its_mark, found in processes.find(marks)}


def test_beside_a_kafka_of_ones_own_the_registry_alone_starts(stack: StackInfo, tmp_path: Path) -> None:
    """It needs no broker of the stack's; with both, records of a registered schema become rows."""
    own = Settings(state_dir=str(tmp_path / "state"), kafka={"bootstrap.servers": stack.bootstrap_servers})
    local = LocalStack(Path(own.state_dir), servers=embedded_servers(own))
    running = local.up(die_with_parent=True)
    try:
        assert running.started == ("registry",)
        assert set(_processes(local)) == {"registry", watcher.WATCHER}
        bench, topic = Workbench(own), f"t{uuid.uuid4().hex[:8]}"
        bench.broker.ensure_topic(topic, 1, {})
        text = '{"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}'
        with _registry(running) as registry:
            number = registry.register_schema(f"{topic}-value", Schema(text, "AVRO"))
        producer = Producer({"bootstrap.servers": stack.bootstrap_servers})
        for value in range(10):
            producer.produce(topic, struct.pack(">bI", 0, number) + bytes([value * 2]))
        assert producer.flush(240) == 0
        assert sorted(str(one.value) for one in bench.topic(topic).peek()) == [
            str({"n": number}) for number in range(10)
        ]
        assert bench.servers.away().names == ()
    finally:
        assert local.down() == ["registry"]


def _registry(stack: StackInfo) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": stack.registry_url, "timeout": 60})


def _kill(pid: int) -> None:
    victim = psutil.Process(pid)
    victim.kill()
    with contextlib.suppress(psutil.TimeoutExpired):
        victim.wait(240)


def _start(local: LocalStack, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", STARTER, str(local.state_dir), *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _avro(*fields: str) -> Schema:
    declared = [{"name": name, "type": ["null", "long"], "default": None} for name in fields]
    return Schema(json.dumps({"type": "record", "name": "R", "fields": declared}), "AVRO")


def _produce(info: StackInfo, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": info.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    producer.commit_transaction(30)


def _consume(info: StackInfo, topic: str, count: int) -> list[bytes]:
    settings = {
        "bootstrap.servers": info.bootstrap_servers,
        "group.id": topic,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    values: list[bytes] = []
    try:
        _eventually(
            lambda: values.extend(m.value() for m in consumer.consume(count, 1.0)) or len(values) >= count
        )
    finally:
        consumer.close()
    return values


def _create(info: StackInfo, topic: str) -> None:
    Broker({"bootstrap.servers": info.bootstrap_servers}).ensure_topic(topic, 2, {})


def _same(one: Schema, other: Schema) -> bool:
    # The registry spells Avro in its own way.
    return bool(json.loads(one.schema_str) == json.loads(other.schema_str))


def test_records_and_schemas_survive_a_restart(local: LocalStack) -> None:
    """Two starters at once share one stack; after another program took the broker's port, all is there."""
    with ThreadPoolExecutor(2) as pool:
        infos = list(pool.map(LocalStack.up, (local, LocalStack(local.state_dir))))
    assert infos[0].pids == infos[1].pids
    assert sorted(len(info.started) for info in infos) == [0, 2]
    first = local.up()
    assert local.info() == first
    # Asked at once: a broker that has just started still looks for the coordinator of its groups.
    assert Broker({"bootstrap.servers": first.bootstrap_servers}).group_members("nobody") == []
    _create(first, "kept")
    _produce(first, "kept", [b"1", b"2"])
    with _registry(first) as registry:
        schema_id = registry.register_schema("kept-value", _avro("a"))
    assert set(local.down()) == set(SERVERS)
    assert _processes(local) == {}
    assert local.down() == []
    with socket.create_server((machine.LOOPBACK, int(first.bootstrap_servers.split(":")[1]))):
        second = local.up()
    assert second.bootstrap_servers != first.bootstrap_servers
    assert second.registry_url == first.registry_url
    assert sorted(_consume(second, "kept", 2)) == [b"1", b"2"]
    with _registry(second) as registry:
        assert _same(registry.get_schema(schema_id), _avro("a"))
        assert registry.register_schema("kept-value", _avro("a")) == schema_id
        assert registry.register_schema("kept-value", _avro("a", "b")) != schema_id


def test_servers_of_the_stack_stay_on_this_machine(stack: StackInfo) -> None:
    """Every port is on the loopback interface; no topic is made by itself; asking is fast."""
    for pid in stack.pids.values():
        listening = [
            c.laddr.ip for c in psutil.Process(pid).net_connections() if c.status == psutil.CONN_LISTEN
        ]
        assert {ip.removeprefix("::ffff:") for ip in listening} == {machine.LOOPBACK}
    producer = Producer({"bootstrap.servers": stack.bootstrap_servers, "message.timeout.ms": 1000})
    errors = []
    producer.produce("mistyped-name", b"x", on_delivery=lambda error, message: errors.append(error))
    producer.flush(240)
    assert len(errors) == 1
    assert errors[0] is not None
    admin = AdminClient({"bootstrap.servers": stack.bootstrap_servers})
    assert "mistyped-name" not in admin.list_topics(timeout=60).topics
    local = LocalStack(stack.state_dir)
    times: list[float] = []
    while min(times, default=1) >= 0.05 and len(times) < 100:
        began = time.perf_counter()
        assert local.info() is not None
        times.append(time.perf_counter() - began)
    assert min(times) < 0.05


@pytest.fixture
def registry(stack: StackInfo) -> Iterator[SchemaRegistryClient]:
    """Confluent's client of the stack's registry."""
    with _registry(stack) as client:
        yield client


def test_the_registry_speaks_confluents_language(registry: SchemaRegistryClient) -> None:
    """Register, read by id and subject, refuse what is not backward compatible, know a subject's versions."""
    subject = "language-value"
    first = registry.register_schema(subject, _avro("a"))
    second = registry.register_schema(subject, _avro("a", "b"))
    assert _same(registry.get_schema(second), _avro("a", "b"))
    assert registry.get_versions(subject) == [1, 2]
    assert registry.get_latest_version(subject).schema_id == second
    assert registry.get_config().compatibility_level == "BACKWARD"
    required = {"type": "record", "name": "R", "fields": [{"name": "new", "type": "string"}]}
    with pytest.raises(SchemaRegistryError) as refused:
        registry.register_schema(subject, Schema(json.dumps(required), "AVRO"))
    assert refused.value.http_status_code == 409
    assert registry.register_schema("other-value", _avro("a")) == first
    uses = registry.get_schema_versions(first)
    assert {(use.subject, use.version) for use in uses} >= {(subject, 1), ("other-value", 1)}


def test_a_dead_server_is_replaced_and_the_other_left_alone(local: LocalStack) -> None:
    """Half a stack is not running; up() starts the missing half; nothing acknowledged is lost by a kill."""
    info = local.up()
    _create(info, "kept")
    broker = Broker({"bootstrap.servers": info.bootstrap_servers})
    assert broker.group_members("nobody") == []
    for victim in SERVERS:
        with _registry(info) as registry:
            schema_id = registry.register_schema(f"{victim}-value", _avro(victim))
        _produce(info, "kept", [victim.encode()])
        _kill(info.pids[victim])
        assert local.info() is None
        repaired = local.up()
        assert repaired.started == (victim,)
        survivor = next(name for name in SERVERS if name != victim)
        assert repaired.pids[survivor] == info.pids[survivor]
        with _registry(repaired) as registry:
            assert _same(registry.get_schema(schema_id), _avro(victim))
        assert repaired.bootstrap_servers == info.bootstrap_servers
        assert repaired.registry_url == info.registry_url
        assert broker.group_members("nobody") == []  # a client that was there before
        info = repaired
    assert sorted(_consume(info, "kept", 2)) == sorted(name.encode() for name in SERVERS)
    # A demo leaves servers alone that it did not start: only the one that it repaired goes with it.
    _kill(info.pids["registry"])
    starter = _start(local, "--die")
    assert starter.stdout.readline() == "up\n"
    starter.kill()
    starter.communicate()
    _eventually(lambda: set(_processes(local)) <= {"kafka"})
    assert _processes(local) == {"kafka": info.pids["kafka"]}


@pytest.mark.parametrize("moment", SERVERS)
def test_a_starter_that_is_killed_leaves_nothing_unknown(local: LocalStack, moment: str) -> None:
    """Killed while a server starts, before or after it wrote the pid down: down() finds every server."""
    starter = _start(local)
    _eventually(lambda: moment in _processes(local))
    starter.kill()
    starter.communicate()
    there = _processes(local)
    assert moment in there
    assert set(local.down()) == set(there)
    assert _processes(local) == {}


def test_servers_that_nobody_wrote_down_are_found(local: LocalStack) -> None:
    """Those of a starter that was killed are taken over, not started again; without stack.json they are
    replaced, as nobody can reach them; without the folder down() still ends them.
    """
    starter = _start(local)
    _eventually(lambda: set(_processes(local)) == set(SERVERS))
    there = _processes(local)
    starter.kill()
    starter.communicate()
    before = local.up()
    assert before.pids == there
    assert before.started == ()
    (local.state_dir / "stack.json").unlink()
    after = local.up()
    assert set(after.started) == set(SERVERS)
    assert set(_processes(local).values()) == set(after.pids.values())
    assert not any(psutil.pid_exists(pid) for pid in before.pids.values())
    shutil.rmtree(local.state_dir, ignore_errors=True)
    assert set(local.down()) == set(SERVERS)
    assert _processes(local) == {}


@pytest.mark.parametrize("moment", SERVERS)
def test_ctrl_c_stops_what_was_started(local: LocalStack, moment: str) -> None:
    """An interrupted up() ends its servers before it raises."""
    for _ in range(5):
        starter = _start(local)
        _eventually(lambda: moment in _processes(local))
        starter.send_signal(signal.SIGINT)
        said, errors = starter.communicate(timeout=240)
        if "up" not in said:
            break
        local.down()  # all were up before the signal came
    assert "KeyboardInterrupt" in errors
    assert _processes(local) == {}
    assert local.info() is None


def test_servers_of_a_demo_die_with_it(local: LocalStack) -> None:
    """Even if the starter is killed, nothing is left behind, the watcher included."""
    starter = _start(local, "--die")
    assert starter.stdout.readline() == "up\n"
    assert set(_processes(local)) == {*SERVERS, watcher.WATCHER}
    starter.kill()
    starter.communicate()
    _eventually(lambda: not _processes(local))
    assert local.info() is None
    # One that cannot start takes the other with it, and the watcher; the message has its own last words.
    (local.state_dir / "kafka" / "data" / "meta.properties").write_text(
        "version=1\ncluster.id=x\nnode.id=77\n"
    )
    with pytest.raises(StackError, match=r"(?s)kafka server ended while it started.*77"):
        local.up(die_with_parent=True)
    assert _processes(local) == {}


def test_spark_runs_on_our_java_with_our_jars(stack: StackInfo, tmp_path: Path) -> None:
    """A Spark of its own process starts, reads a topic and a table of the shared catalog."""
    _create(stack, "spark-reads")
    _produce(stack, "spark-reads", [b"x", b"y"])
    program = """
import sys
from pyspark.sql import SparkSession
jars, servers, database, warehouse = sys.argv[1:]
settings = {
    "spark.jars": jars, "spark.ui.enabled": "false", "spark.sql.catalog.lake.type": "jdbc",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.uri": database, "spark.sql.catalog.lake.warehouse": warehouse,
    "spark.sql.catalog.lake.jdbc.schema-version": "V1",
}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
source = {"kafka.bootstrap.servers": servers, "subscribe": "spark-reads"}
topic = spark.read.format("kafka").options(**source)
spark.sql("create table lake.spark_reads.t (value binary)")
topic.load().select("value").writeTo("lake.spark_reads.t").append()
print("rows", spark.table("lake.spark_reads.t").count())
"""
    from pyiceberg.catalog import load_catalog

    from tabletopic_kernel.local.java import jvm

    load_catalog(**stack.catalog).create_namespace("spark_reads")
    jars = ",".join(map(str, jvm.spark_jars()))
    database = f"jdbc:sqlite:{stack.state_dir}/catalog.db?busy_timeout=30000"
    done = completed(
        [sys.executable, "-c", program, jars, stack.bootstrap_servers, database, stack.catalog["warehouse"]],
        env=os.environ | {"JAVA_HOME": str(jvm.spark_java_home(tmp_path))},
        cwd=tmp_path,
    )
    assert "rows 2" in done.stdout, done.stderr[-3000:]
