"""Whether a cluster's executors share the warehouse with the driver: a real master and worker."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tabletopic_kernel.clients.spark import cluster_probe
from tabletopic_kernel.model.errors import ActionNeededError
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.workbench import Workbench
from tests.environment import completed
from tests.servers.spark_cluster import SECRET, SparkCluster

MASTER = "spark://127.0.0.1:1"
SERVERS = {
    "kafka": {"bootstrap.servers": "127.0.0.1:1"},
    "registry": {"url": "http://127.0.0.1:1"},
    "catalog": {"type": "sql", "uri": "sqlite://", "warehouse": "file:/lake"},
}


class Bench(Workbench):
    """Its Spark is on ``master``; it has these sessions in turn, and clusters pass unless told otherwise."""

    def __init__(self, folder: Path, master: str = MASTER, **catalog: str) -> None:
        told = {**SERVERS, "spark": {"master": master}, "state_dir": str(folder)}
        super().__init__(Settings.model_validate({**told, "catalog": {**SERVERS["catalog"], **catalog}}))
        self.sessions: list[Any] = ["session"]
        self.tried: list[tuple[object, str | None]] = []
        self.outcome: Callable[[], None] = lambda: None

    def plain_session(self, _: object) -> Any:
        """The next one; the last one stays."""
        return self.sessions.pop(0) if len(self.sessions) > 1 else self.sessions[0]

    def check_cluster(self, session: object, _: object, warehouse: str | None) -> None:
        """As told."""
        self.tried.append((session, warehouse))
        self.outcome()


def test_each_session_of_a_cluster_is_tried_once(tmp_path: Path) -> None:
    """A session that failed is tried again, one that passed is not."""
    workbench = Bench(tmp_path)
    workbench.sessions = ["first", "first", "first", "second"]

    def fail_once() -> None:
        if len(workbench.tried) == 1:
            raise ActionNeededError("not shared")

    workbench.outcome = fail_once
    with pytest.raises(ActionNeededError):
        workbench.host_spark()
    assert [workbench.host_spark() for _ in range(3)] == ["first", "first", "second"]
    assert workbench.tried == [("first", "file:/lake")] * 2 + [("second", "file:/lake")]


@pytest.mark.parametrize("master", ["local", "local[2]", "local-cluster[1,1,1024]"])
def test_nothing_is_tried_locally(master: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A local master costs no job and no file, and the module of the trial is not even loaded."""
    session = SimpleNamespace()  # whoever asks it for anything fails
    monkeypatch.delitem(sys.modules, cluster_probe.__name__)
    workbench = Bench(tmp_path, master, warehouse=f"file://{tmp_path}/lake")
    workbench.sessions = [session]
    assert workbench.host_spark() is session
    assert workbench.tried == []
    assert cluster_probe.__name__ not in sys.modules
    assert list(tmp_path.iterdir()) == []


PROGRAM = """
import json
import sys
from pathlib import Path
from tabletopic_kernel.clients.spark import cluster, cluster_probe
from tabletopic_kernel.clients.spark.session import SparkPlace, forget, is_alive, start_spark
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.settings.cluster import SparkSettings
from tabletopic_kernel.local.java import jvm

master, folder = sys.argv[1], Path(sys.argv[2])
home = str(jvm.spark_java_home(folder, jvm.archive_of("spark").find()))
place = SparkPlace(home, tuple(map(str, jvm.spark_jars())), folder / "logs")
for conf, questions in json.loads(sys.argv[3]):
    cluster_probe._WAIT_S, cluster.EXECUTOR_WAIT_S = 300.0, float(conf.pop("wait_s"))
    conf = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1", **conf}
    said = []
    for question in questions:
        try:
            if not said:
                session = start_spark(SparkSettings(master=master, conf=conf), place, {})
            if question == "versions":
                said.append(f"ran {len(cluster_probe.check_executors(session))}")
            elif question == "end":  # as by a cluster whose master went away: the JVM lives
                before = is_alive(session)
                session.sparkContext._jsc.sc().stop()
                said.append(f"was alive: {before}, is alive: {is_alive(session)}")
                forget(session)
            else:
                cluster_probe.check_shared_storage(session, {}, question)
                said.append(f"shared {question}")
        except TableTopicError as error:
            said.append(f"{type(error).__name__} {error}")
    if not said[0].startswith("SettingsError"):
        session.stop()
    print(json.dumps(said), flush=True)
"""
_LACKS = """
import sys
class Lacks:
    def find_spec(self, name, *_):
        if name.split(".")[0] == "tabletopic_kernel":
            raise ModuleNotFoundError(f"No module named '{name}'")
sys.meta_path.insert(0, Lacks())
"""
_OTHER = "Metadata-Version: 2.1\nName: pyarrow\nVersion: 0.9\n"


@dataclass(frozen=True)
class Told:
    """What one driver said of its applications on a cluster, and the logs of both."""

    cluster: str
    lake: str
    logs: str
    no_secret: list[str]
    usual: list[str]
    without_program: list[str]
    other_versions: list[str]
    no_executor: list[str]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, class_archive: None) -> Iterator[Told]:
    """Of a standalone master and worker; executors have their own working folder."""
    folder = tmp_path_factory.mktemp("probe")
    (folder / "lacks").mkdir()
    (folder / "lacks" / "sitecustomize.py").write_text(_LACKS)
    other = folder / "other" / "pyarrow-0.9.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text(_OTHER)
    (folder / "lake").mkdir()
    lake, paths = f"file://{folder}/lake", "spark.executorEnv.PYTHONPATH"
    usual = {"wait_s": "300", **SECRET}
    others = os.pathsep.join([str(other.parent), os.environ.get("PYTHONPATH", "")])
    applications: list[tuple[dict[str, str], list[str]]] = [
        ({"wait_s": "300"}, [lake]),  # the first, as a JVM keeps what it was started with
        # The second is the working folder, of which executors have others.
        (usual, [lake, "file:///proc/self/cwd", lake, "versions", "end"]),
        ({**usual, paths: str(folder / "lacks")}, [lake]),
        ({**usual, paths: others}, ["versions"]),
        ({**usual, "spark.executor.memory": "8g", "wait_s": "3"}, [lake]),
    ]
    with SparkCluster(folder / "cluster") as cluster:
        cluster.add_worker("work")
        done = completed(
            [sys.executable, "-c", PROGRAM, cluster.url, str(folder / "state"), json.dumps(applications)],
            cwd=folder / "lake",
        )
        said = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(said) == len(applications), done.stderr[-3000:]
        logs = cluster.log.read_text() + (folder / "state" / "logs" / "spark.log").read_text()
        assert list((folder / "lake").iterdir()) == []  # nothing of a probe is left
        yield Told(cluster.url, lake, logs, *said)


@pytest.mark.integration
def test_executors_share_the_warehouse_or_not(told: Told) -> None:
    """A folder that means another place to each process is found out; logs have no secret."""
    said = told.usual
    assert [said[0], *said[2:4]] == [f"shared {told.lake}", f"shared {told.lake}", "ran 2"], said
    assert said[1].startswith("ActionNeededError executors do not write where this host reads: the one on ")
    assert "cannot use file:///proc/self/cwd" in said[1]
    assert "FileNotFoundError" in said[1]
    assert "CoarseGrainedExecutorBackend" in told.logs
    assert SECRET["spark.authenticate.secret"] not in told.logs


@pytest.mark.integration
def test_executors_without_this_program_are_told_of(told: Told) -> None:
    """The reason names what they lack, and the Python to install it for."""
    (said,) = told.without_program
    assert said.startswith(f"ActionNeededError the executors of {told.cluster} do not have this program")
    assert "No module named" in said
    assert "spark.pyspark.python" in said


@pytest.mark.integration
def test_executors_with_other_versions_are_told_of(told: Told) -> None:
    """Those of the executors and of this host are named, and what to do about it."""
    (said,) = told.other_versions
    assert f"has other versions than this host: pyarrow 0.9 instead of {version('pyarrow')}; inst" in said
    assert said.startswith("ActionNeededError the executor on ")


@pytest.mark.integration
def test_a_cluster_without_executors_is_told_of(told: Told) -> None:
    """No worker has the memory: it ends after a time, with what to look for."""
    (said,) = told.no_executor
    assert said.startswith(f"RetryableError waits for the cluster: {told.cluster} has provided no executor")


@pytest.mark.integration
def test_a_cluster_whose_secret_is_not_set_is_refused(told: Told) -> None:
    """A network of its own is declared, not assumed."""
    (said,) = told.no_secret
    assert said.startswith(f"SettingsError Spark's cluster {told.cluster} has no secret")


@pytest.mark.integration
def test_an_application_that_was_ended_is_begun_anew(told: Told) -> None:
    """As by a cluster whose master went away: its session is of no use any more, and the next one is."""
    assert told.usual[-1] == "was alive: True, is alive: False"
    assert told.without_program
