"""Whether a cluster's executors share the warehouse with the driver: a real master and worker."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
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


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A standalone Spark master and worker; executors have their own working folder."""
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.add_worker("work")
        yield cluster


@pytest.fixture
def cluster(started: SparkCluster) -> str:
    """Its URL."""
    return started.url


PROGRAM = """
import json
import sys
from pathlib import Path
from tabletopic_kernel.clients.spark import cluster, cluster_probe
from tabletopic_kernel.clients.spark.session import SparkPlace, start_spark
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.settings.cluster import SparkSettings
from tabletopic_kernel.local.java import jvm

master, folder, conf = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
cluster_probe._WAIT_S, cluster.EXECUTOR_WAIT_S = 300.0, float(conf.pop("wait_s"))
conf = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1", **conf}
jars = tuple(str(path) for path in jvm.spark_jars())
home = str(jvm.spark_java_home(folder, jvm.archive_of("spark").find()))
session = start_spark(SparkSettings(master=master, conf=conf), SparkPlace(home, jars, folder / "logs"), {})
for name in sys.argv[4:]:
    try:
        if name == "versions":
            print("ran", len(cluster_probe.check_executors(session)), flush=True)
            continue
        cluster_probe.check_shared_storage(session, {}, name)
        print("shared", name, flush=True)
    except TableTopicError as error:
        print(type(error).__name__, error, flush=True)
session.stop()
"""


def told_by(
    cluster: str, tmp_path: Path, *warehouses: str, secret: dict[str, str] = SECRET, **conf: str
) -> tuple[list[str], str]:
    """A driver's report on each warehouse with these properties, one line each; and its standard error."""
    (tmp_path / "lake").mkdir()
    given = json.dumps({"wait_s": "300", **secret, **conf})
    done = completed(
        [sys.executable, "-c", PROGRAM, cluster, str(tmp_path / "state"), given, *warehouses],
        cwd=tmp_path / "lake",
    )
    return done.stdout.splitlines(), done.stderr[-3000:]


@pytest.mark.integration
def test_executors_share_the_warehouse_or_not(started: SparkCluster, cluster: str, tmp_path: Path) -> None:
    """A folder that means another place to each process is found out; nothing of the probe is left."""
    lake = f"file://{tmp_path}/lake"
    # The working folder, of which executors have others.
    told, errors = told_by(cluster, tmp_path, lake, "file:///proc/self/cwd", lake, "versions")
    assert [told[0], *told[2:]] == [f"shared {lake}", f"shared {lake}", "ran 2"], errors
    assert told[1].startswith("ActionNeededError executors do not write where this host reads: the one on ")
    assert "cannot use file:///proc/self/cwd" in told[1]
    assert "FileNotFoundError" in told[1]
    assert list((tmp_path / "lake").iterdir()) == []
    logs = started.log.read_text() + (tmp_path / "state" / "logs" / "spark.log").read_text()
    assert "CoarseGrainedExecutorBackend" in logs
    assert SECRET["spark.authenticate.secret"] not in logs


@pytest.mark.integration
def test_executors_without_this_program_are_told_of(cluster: str, tmp_path: Path) -> None:
    """The reason names what they lack, and the Python to install it for."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "sitecustomize.py").write_text(
        "import sys\n"
        "class Lacks:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.split('.')[0] == 'tabletopic_kernel':\n"
        "            raise ModuleNotFoundError(f\"No module named '{name}'\")\n"
        "sys.meta_path.insert(0, Lacks())\n"
    )
    lake = f"file://{tmp_path}/lake"
    conf = {"spark.executorEnv.PYTHONPATH": str(tmp_path / "elsewhere")}
    told, errors = told_by(cluster, tmp_path, lake, **conf)
    assert told, errors
    assert told[0].startswith(f"ActionNeededError the executors of {cluster} do not have this program"), (
        errors
    )
    assert "No module named" in told[0]
    assert "spark.pyspark.python" in told[0]
    assert list((tmp_path / "lake").iterdir()) == []


@pytest.mark.integration
def test_executors_with_other_versions_are_told_of(cluster: str, tmp_path: Path) -> None:
    """Those of the executors and of this host are named, and what to do about it."""
    other = tmp_path / "elsewhere" / "pyarrow-0.9.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: pyarrow\nVersion: 0.9\n")
    paths = os.pathsep.join([str(other.parent), os.environ.get("PYTHONPATH", "")])
    told, errors = told_by(cluster, tmp_path, "versions", **{"spark.executorEnv.PYTHONPATH": paths})
    assert told, errors
    assert f"has other versions than this host: pyarrow 0.9 instead of {version('pyarrow')}; inst" in told[0]
    assert told[0].startswith("ActionNeededError the executor on ")


@pytest.mark.integration
def test_a_cluster_without_executors_is_told_of(cluster: str, tmp_path: Path) -> None:
    """No worker has the memory: it ends after a time, with what to look for."""
    lake = f"file://{tmp_path}/lake"
    told, errors = told_by(cluster, tmp_path, lake, **{"spark.executor.memory": "8g", "wait_s": "3"})
    assert told, errors
    assert told[0].startswith(f"RetryableError waits for the cluster: {cluster} has provided no executor"), (
        errors
    )
    assert list((tmp_path / "lake").iterdir()) == []


@pytest.mark.integration
def test_a_cluster_whose_secret_is_not_set_is_refused(cluster: str, tmp_path: Path) -> None:
    """A network of its own is declared, not assumed."""
    told, errors = told_by(cluster, tmp_path, secret={})
    assert told == []
    assert f"SettingsError: Spark's cluster {cluster} has no secret" in errors


STOPPED = """
import sys
from pathlib import Path
from tabletopic_kernel.clients.spark.session import SparkPlace, forget, is_alive, start_spark
from tabletopic_kernel.model.settings.cluster import SparkSettings
from tabletopic_kernel.local.java import jvm

folder = Path(sys.argv[1])
home = str(jvm.spark_java_home(folder, jvm.archive_of("spark").find()))
place = SparkPlace(home, tuple(map(str, jvm.spark_jars())), folder / "logs")
session = start_spark(SparkSettings(master="local[1]"), place, {})
print(is_alive(session))
session.sparkContext._jsc.sc().stop()
print(is_alive(session))
forget(session)
session = start_spark(SparkSettings(master="local[1]"), place, {})
print(is_alive(session), session.range(3).count())
session.stop()
"""


@pytest.mark.integration
def test_an_application_that_was_ended_is_begun_anew(tmp_path: Path) -> None:
    """As by a cluster whose master went away: the JVM lives, and its session is of no use any more."""
    done = completed([sys.executable, "-c", STOPPED, str(tmp_path)])
    assert done.stdout.split() == ["True", "False", "True", "3"], done.stderr[-3000:]
