"""A session on a cluster: its master is checked first, and its executors get what they need."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tabletopic_kernel.clients.spark import cluster, cluster_probe
from tabletopic_kernel.clients.spark.session import SparkPlace, start_spark
from tabletopic_kernel.clients.spark.versions import FOLDERS, VARIABLE, differences, own_versions
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError, SettingsError
from tabletopic_kernel.model.settings.cluster import SparkSettings
from tests.clients.test_spark import Builder, builder  # noqa: F401 - a fixture
from tests.environment import completed

PLACE = SparkPlace("/java", (), Path("/nowhere"))


def conf_of(builder: Builder, tmp_path: Path, **conf: str) -> dict[str, str]:  # noqa: F811
    """Properties of a session on YARN, whose master is not checked."""
    with pytest.raises(SettingsError, match="no Spark here"):
        start_spark(SparkSettings(master="yarn", conf=conf), SparkPlace("/java", (), tmp_path), {})
    return builder.conf


# --- the master -------------------------------------------------------------------------------------------


def test_masters_are_tried_before_a_jvm_starts() -> None:
    """One of several is enough; what has no address, or one that only Spark knows, is left to Spark."""
    gone = r"spark://127.0.0.1:1 does not respond \(127.0.0.1:1: .*start its m"
    with pytest.raises(RetryableError, match=gone):  # Spark itself would try for two minutes
        start_spark(SparkSettings(master="spark://127.0.0.1:1"), PLACE, {})
    with pytest.raises(RetryableError, match=r"does not respond \(spark..example:7077: .*label empty"):
        cluster.check_master("spark://spark..example:7077")
    with pytest.raises(RetryableError, match=r"correct \[spark\] master"):
        cluster.check_master(f"spark://127.0.0.1:{'9' * 30}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        cluster.check_master(f"spark://127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}")
    for master in ("yarn", "k8s://https://127.0.0.1:1", "spark://what"):
        cluster.check_master(master)


@pytest.mark.parametrize("name", ["SPARK_REMOTE", "SPARK_API_MODE"])
def test_spark_connect_by_a_variable_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyspark would give a session that has no driver here."""
    monkeypatch.setenv(name, "connect")
    with pytest.raises(SettingsError, match="cannot run table topics"):
        start_spark(SparkSettings(), PLACE, {})


# --- executors --------------------------------------------------------------------------------------------


def test_executors_get_what_the_driver_has(builder: Builder, tmp_path: Path) -> None:  # noqa: F811
    """Options of the JVM, but for the driver's log; memory; the versions to compare; a person's own win."""
    conf = conf_of(builder, tmp_path)
    options = conf["spark.executor.extraJavaOptions"]
    assert conf["spark.driver.extraJavaOptions"].endswith(options)
    for one in ("-XX:+UseParallelGC", "-Duser.timezone=UTC"):
        assert one in options
    assert "log4j" not in options
    assert conf["spark.executor.memory"] == "1g"
    assert conf[f"spark.executorEnv.{VARIABLE}"] == own_versions()
    assert conf["spark.task.maxFailures"] == "2"
    own = {"spark.executor.extraJavaOptions": "-XX:+UseZGC -Dx=y", "spark.executor.memory": "8g"}
    conf = conf_of(builder, tmp_path, **own)
    assert conf["spark.executor.extraJavaOptions"].endswith("-Duser.timezone=UTC -XX:+UseZGC -Dx=y")
    assert "ParallelGC" not in conf["spark.executor.extraJavaOptions"]  # a JVM has one collector
    assert conf["spark.executor.memory"] == "8g"


@pytest.mark.parametrize(
    ("conf", "python"), [({}, sys.executable), ({"spark.pyspark.python": "./e/py"}, "./e/py")]
)
def test_the_executors_python_may_be_another(
    conf: dict[str, str],
    python: str,
    builder: Builder,  # noqa: F811
    tmp_path: Path,
) -> None:
    """pyspark reads the variable as the session begins, and sends it with each function."""
    seen: list[str] = []
    builder.starts = lambda: seen.append(os.environ["PYSPARK_PYTHON"])
    conf_of(builder, tmp_path, **conf)
    assert seen == [python]


def test_a_session_on_this_machine_has_none_of_it(builder: Builder, tmp_path: Path) -> None:  # noqa: F811
    """Its Python workers begin without a comparison."""
    with pytest.raises(SettingsError, match="no Spark here"):
        start_spark(SparkSettings(), SparkPlace("/java", (), tmp_path), {})
    assert not [key for key in builder.conf if VARIABLE in key or key == "spark.executor.memory"]
    assert builder.conf["spark.task.maxFailures"] == "1"


def test_work_without_executors_waits_for_the_cluster() -> None:
    """After 15 s, as long as there is work and no executor; a session that does not answer waits for none."""
    status, now = SimpleNamespace(size=lambda: executors + 1), [0.0]  # with the driver
    context = SimpleNamespace(defaultParallelism=2, master="spark://m:1")
    context._jsc = SimpleNamespace(sc=lambda: SimpleNamespace(getExecutorMemoryStatus=lambda: status))
    watch = cluster.ExecutorWatch(SimpleNamespace(sparkContext=context), lambda: now[0])  # type: ignore[arg-type]
    told = []
    for now[0], executors, has_work in (  # noqa: B007 - the status reads it
        *((0, 0, True), (14, 0, True), (15, 0, True), (16, 1, True)),
        *((17, 0, True), (31, 0, True), (32, 0, True), (33, 0, False), (34, 0, True)),
    ):
        watch.look(has_work=has_work)
        told += [(now[0], str(watch.reason))] if watch.reason else []
    assert [at for at, _ in told] == [15, 32]
    assert all("spark://m:1 has provided no executor for 15 s" in words for _, words in told)
    broken: Any = SimpleNamespace(sparkContext=SimpleNamespace())
    watch = cluster.ExecutorWatch(broken, lambda: 0.0)
    watch.look(has_work=True)
    assert watch.reason is None


@pytest.mark.parametrize(
    ("conf", "processors"),
    [
        ({}, 0),
        ({"enabled": "false", "maxExecutors": "4"}, 0),
        ({"enabled": "true", "maxExecutors": "4"}, 4),
        ({"enabled": "true", "maxExecutors": "4", "cores": "2"}, 8),
        ({"enabled": "true", "maxExecutors": "4", "cores": "2", "max": "5"}, 5),
        ({"enabled": "true", "cores": "2"}, 128),
        ({"enabled": "true", "maxExecutors": "2147483647"}, 64),
    ],
)
def test_executors_that_may_come_count(conf: dict[str, str], processors: int) -> None:
    """Dynamic allocation asks for an executor only when more tasks wait than there are processors."""
    names = {"cores": "spark.executor.cores", "max": "spark.cores.max"}
    told = {names.get(key, f"spark.dynamicAllocation.{key}"): text for key, text in conf.items()}
    session: Any = SimpleNamespace(conf=told)
    assert cluster.processors_to_come(session) == processors


# --- versions ---------------------------------------------------------------------------------------------


def test_the_daemon_ends_where_versions_differ() -> None:
    """With the reason on standard error, which Spark puts into its own."""
    wanted = own_versions().replace(f"python:3.{sys.version_info[1]}", "python:2.7")
    done = completed(
        [sys.executable, "-m", "tabletopic_kernel.pipeline.worker.daemon"],
        env={**os.environ, VARIABLE: wanted},
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 1
    assert f"python 3.{sys.version_info[1]} instead of 2.7" in done.stderr
    error = cluster_probe._explained(
        f"x\nError from python worker:\n  {done.stderr} PYTHONPATH was:", "spark://m"
    )
    assert isinstance(error, ActionNeededError)
    assert str(error).startswith("the executor on ")
    assert "instead of 2.7; install this host's packages" in str(error)


def test_versions_are_compared() -> None:
    """By name, and the code, which is what executors run, where the version says nothing."""
    own = own_versions()
    assert differences(own, own) == []
    assert " " not in own
    assert differences("python:3.11,code:ab", "code:ab") == ["python None instead of 3.11"]
    program = (
        "import pkgutil, sys, tabletopic_kernel.pipeline as all_of\n"
        "for one in pkgutil.walk_packages(all_of.__path__, all_of.__name__ + '.'): __import__(one.name)\n"
        "ours = [name for name in sys.modules if name.startswith('tabletopic_kernel.')]\n"
        "print(*sorted({name.split('.')[1] for name in ours}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert tuple(done.stdout.split()) == FOLDERS


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Python in worker has different version: 3.10 than that in driver: 3.11", "have Python 3.10"),
        ("java.io.InvalidClassException: a.B; local class incompatible", "another version of Spark"),
        ('java.io.IOException: Cannot run program "/x/python": error=2', "spark.pyspark.python"),
    ],
)
def test_what_executors_lack_is_told_with_a_remedy(text: str, words: str) -> None:
    """As Spark and Java say it."""
    error = cluster_probe._explained(f"Job aborted\n{text}\n", "spark://m:1")
    assert isinstance(error, ActionNeededError)
    assert words in str(error)
