"""The ports of a Spark session answer nobody who lacks its secrets: a real session, a client without them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.spark_peer import SparkPeer, call_python

pytestmark = pytest.mark.integration

PROGRAM = """
import json
import sys
from pathlib import Path
from tabletopic_kernel.clients.spark.session import SparkPlace, start_spark
from tabletopic_kernel.local.java import jvm
from tabletopic_kernel.model.settings.cluster import SparkSettings


class Called:
    count = 0

    def run(self):
        self.count += 1

    class Java:
        implements = ["java.lang.Runnable"]


folder = Path(sys.argv[1])
home = str(jvm.spark_java_home(folder, jvm.archive_of("spark").find()))
place = SparkPlace(home, tuple(map(str, jvm.spark_jars())), folder)
session = start_spark(SparkSettings(master=sys.argv[2], conf=json.loads(sys.argv[3])), place, {})
context = session.sparkContext
context.parallelize([1], 1).count()  # broadcasts the task
gateway, called = context._gateway, Called()
rpc = int(context._jsc.sc().getConf().get("spark.driver.port"))
block_manager = context._jvm.org.apache.spark.SparkEnv.get().blockManager().blockManagerId().port()
print(json.dumps({
    "rpc": rpc,
    "block_manager": block_manager,
    "callbacks": gateway._callback_server.get_listening_port(),
    "name": gateway.gateway_property.pool.put(called),
}), flush=True)
sys.stdin.readline()
before = called.count
thread = context._jvm.java.lang.Thread(called)  # one of the JVM's own
thread.start()
thread.join()
print(json.dumps([before, called.count]), flush=True)
sys.stdin.readline()
session.stop()
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, class_archive: None) -> Iterator[Any]:
    """A running session, and its ports."""
    folder = str(tmp_path_factory.mktemp("ports"))
    words = [sys.executable, "-c", PROGRAM, folder, "local[1]", "{}"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process, json.loads(process.stdout.readline())
        process.communicate("\n\n", timeout=240)


@pytest.mark.parametrize("port", ["rpc", "block_manager"])
def test_blocks_are_for_executors_only(session: Any, port: str) -> None:
    """A broadcast contains the keys of the storage."""
    with pytest.raises(PermissionError, match="SASL"):
        SparkPeer(session[1][port]).fetch("broadcast_0_piece0")


def test_only_the_jvm_calls_python(session: Any) -> None:
    """A call by anybody else reaches no object, and those of the JVM arrive."""
    process, ports = session
    assert call_python(ports["callbacks"], ports["name"], "run") == "refused"
    process.stdin.write("\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline()) == [0, 1]
