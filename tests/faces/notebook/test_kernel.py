"""A real kernel on real servers: it becomes the host, is interrupted, is killed, and another continues."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.local.stack import StackInfo
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.workbench import Workbench
from tests.faces.notebook.kernels import TableTopicKernel
from tests.integration.conftest import Sender
from tests.recovery.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1500)]
TOPIC = "kernel_story"
SCHEMA = (
    '{"type":"record","name":"Story","fields":[{"name":"n","type":"long"},{"name":"place","type":"string"}]}'
)
ENABLE = f"%topic enable {TOPIC} --commit-interval 300ms --wait --timeout 7m"


@pytest.fixture
def sender(quiet_stack: StackInfo) -> Iterator[Sender]:
    """A topic with 100 records."""
    Broker({"bootstrap.servers": quiet_stack.bootstrap_servers}).ensure_topic(TOPIC, 2, {})
    made = Sender(quiet_stack, TOPIC)
    made.avro(SCHEMA, *({"n": n, "place": "NL" if n % 4 else "DE"} for n in range(100)))
    yield made
    made.registry.close()


@pytest.fixture
def kernels() -> Iterator[list[TableTopicKernel]]:
    """Kernels started by a test; remaining ones are stopped."""
    started: list[TableTopicKernel] = []
    yield started
    for kernel in started:
        if kernel.manager.is_alive():
            kernel.shut_down()


def test_a_kernel_is_a_host_until_it_dies_and_the_next_goes_on(
    quiet_stack: StackInfo, sender: Sender, kernels: list[TableTopicKernel]
) -> None:
    """Enable, query, interrupt, kill -9, go on in another kernel: every record is in the table once."""
    bench = Workbench(Settings(state_dir=str(quiet_stack.state_dir)))
    first = TableTopicKernel(quiet_stack.state_dir)
    kernels.append(first)

    # The objects wait until they are used.
    lazy = first.run("spark, workbench, lake")
    assert "started when first used" in lazy.value
    assert not first.children()

    # No host lives, so this kernel becomes one; the table has all records.
    enabled = first.run(ENABLE)
    assert enabled.error == ""
    assert "running" in enabled.value
    assert "<table" in enabled.html
    assert enabled.stdout == ""
    assert f"-{first.pid}-" in first.run("%topic host").value
    assert bench.status(TOPIC)[0].host in bench.hosts()

    # SQL by both engines, with a variable, and how fresh the rows are.
    first.run("place = 'NL'")
    for engine in ("duckdb", "spark"):
        asked = first.run(f"%lake --engine {engine} SELECT count(*) AS n FROM {TOPIC} WHERE place = $place")
        assert asked.value.splitlines()[:3] == [" n", "75", "1 row"], asked
        assert f"default.{TOPIC}: snapshot {bench.status(TOPIC)[0].snapshot_id}" in asked.value
    kept = first.run(f"%lake kept << SELECT * FROM {TOPIC}")
    assert "kept: 100 rows" in kept.value
    assert first.run("spark.sql('SELECT 1').count(), type(spark).__name__").value == "(1, 'SparkSession')"

    # The newest records can be seen before they are in the table; a bad one says why.
    assert "DE" in first.run(f"%topic peek {TOPIC} -n 5").value
    wrong = first.run(f"%lake SELECT nothing FROM {TOPIC}")
    assert "nothing" in wrong.stderr
    assert "Traceback" not in wrong.stderr

    # An interrupt ends the cell and nothing else: Spark and the topic go on.
    jvm = first.children()[0]
    sleeping = first.begin("import time; print('asleep', flush=True); time.sleep(600)")
    first.wait_for_output(sleeping, "asleep")
    first.manager.interrupt_kernel()
    assert first.finish(sleeping, 60).error.startswith("KeyboardInterrupt")
    sender.avro(SCHEMA, *({"n": n, "place": "NL"} for n in range(100, 150)))
    assert "150 in" in first.run(f"%topic wait {TOPIC}").value
    assert jvm.is_running()

    # kill -9: its Spark ends too. The next kernel goes on where the table ends.
    epoch = bench.status(TOPIC)[0].epoch
    first.kill()
    sender.avro(SCHEMA, *({"n": n, "place": "NL"} for n in range(150, 200)))
    wait_until("the JVM of the killed kernel ends", lambda: not _lives(jvm))
    second = TableTopicKernel(quiet_stack.state_dir)
    kernels.append(second)
    again = second.run(ENABLE)
    assert again.error == "", again
    assert bench.status(TOPIC)[0].epoch > epoch
    rows = second.run(
        "%lake SELECT count(*) AS rows, count(DISTINCT n) AS numbers, count(DISTINCT place) AS places "
        f"FROM (SELECT n, (_kafka_metadata.partition, _kafka_metadata.offset) AS place FROM {TOPIC})"
    )
    assert rows.value.splitlines()[1].split() == ["200", "200", "200"]

    # Asked to shut down, the kernel lets go of the topic and leaves nothing behind.
    second.run(f"%topic disable {TOPIC}")
    below = second.children()
    second.shut_down()
    wait_until("the host leaves the group", lambda: not bench.hosts())
    wait_until("nothing is left", lambda: not any(map(_lives, below)))


def _lives(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_the_answer_to_a_cell_holds_no_secrets(tmp_path: Path, kernels: list[TableTopicKernel]) -> None:
    """It quotes the error and those of expressions beside what the page shows; nbclient prints it."""
    kernel = TableTopicKernel(tmp_path)
    kernels.append(kernel)
    kernel.run(
        "from tabletopic_kernel.model.redact import learn\nlearn({'sasl.password': 'hunter2-secret'})\n"
        "def fail():\n    raise ValueError('no entry for ' + 'hunter2' + '-secret')"
    )
    for cell, expressions in (("fail()", {}), ("1", {"asked": "fail()"})):
        reply = kernel.client.execute_interactive(
            cell, user_expressions=expressions, output_hook=lambda _: None, timeout=60
        )
        text = str(reply["content"])
        assert "no entry for ***" in text
        assert "hunter2-secret" not in text
