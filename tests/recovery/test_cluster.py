"""Table topics on a standalone Spark cluster: executors come, are killed, are missing; no record is lost.

Workers have folders of their own, no state folder of the host, and another Python; tables lie on S3.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tabletopic_kernel.local.stack import StackInfo
from tabletopic_kernel.workbench.config import load_settings
from tabletopic_kernel.workbench.workbench import Workbench
from tests.recovery.checks import check_exact, wait_for_commits, wait_until_lag_is_0
from tests.recovery.hosts import Hosts
from tests.recovery.stream import Stream
from tests.recovery.terminal import environment, run
from tests.recovery.waiting import wait_until
from tests.servers.aws import Aws
from tests.servers.spark_cluster import SparkCluster, has_own_disks, own_disk

pytestmark = pytest.mark.integration
_ROOT = Path(__file__).parents[2]
# Measured: 21 s, on two cores that had ten times their work.
_RECOVERS_S = 120.0
# JVMs start by the dozen here, on a machine that may have other things to do.
_STARTS_S = 600.0


@dataclass
class Site:
    """A cluster whose workers share neither folders nor Python with the host that uses it."""

    cluster: SparkCluster
    folder: Path
    bench: Workbench

    @property
    def state(self) -> Path:
        """The host's state folder."""
        return self.folder / "state"

    def add_worker(self, name: str) -> subprocess.Popen[bytes]:
        """A worker to whom the host's state folder is an empty one."""
        before = own_disk(self.state) if has_own_disks(self.state) else []
        worker: subprocess.Popen[bytes] = self.cluster.add_worker(name, before=before)
        return worker


def packed_python(folder: Path) -> Path:
    """The same packages for a Python of its own, as an archive that Spark sends to executors."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    paths = [str(_ROOT), *(path for path in sys.path if path.endswith("site-packages"))]
    (packages / "same.pth").write_text("\n".join(paths))
    return Path(shutil.make_archive(str(folder), "gztar", folder))


@pytest.fixture
def site(stack: StackInfo, tmp_path: Path) -> Iterator[Site]:
    """A master without workers, S3, and settings of a person who has both."""
    (tmp_path / "state").mkdir()
    with Aws(tmp_path / "aws") as aws, SparkCluster(tmp_path / "cluster") as cluster:
        store = "\n".join(f'"{key}" = "{text}"' for key, text in aws.properties().items())
        (tmp_path / "tabletopic.toml").write_text(f"""
state_dir = "{tmp_path}/state"
[kafka]
"bootstrap.servers" = "{stack.bootstrap_servers}"
[registry]
url = "{stack.registry_url}"
[catalog]
type = "sql"
uri = "sqlite:///{tmp_path}/catalog.db?timeout=30"
warehouse = "s3://{aws.bucket("lake")}/tables"
{store}
[spark]
master = "{cluster.url}"
shared_network = true
[spark.conf]
"spark.executor.memory" = "512m"
"spark.driver.host" = "127.0.0.1"
"spark.archives" = "{packed_python(tmp_path / "packed")}#environment"
"spark.pyspark.python" = "./environment/bin/python"
""")
        settings = load_settings(environ={}, cwd=tmp_path).settings
        yield Site(cluster, tmp_path, Workbench(settings))


@pytest.fixture
def host(site: Site) -> Iterator[subprocess.Popen[bytes]]:
    """`tabletopic serve` with the settings of the site."""
    with (site.folder / "host.log").open("wb") as out:
        started = subprocess.Popen(
            [sys.executable, "-m", "tabletopic_kernel.faces.cli", "serve"],
            cwd=site.folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    yield started
    started.terminate()
    assert started.wait(240) == 0, (site.folder / "host.log").read_text()[-3000:]


def test_executors_come_and_go_and_no_record_is_lost(
    hosts: Hosts, site: Site, host: subprocess.Popen[bytes], new_stream: Callable[..., Stream]
) -> None:
    """None at first, one, another that joins, the first one killed, none again."""
    hosts.exactly(0)
    stream = new_stream(4)
    stream.send(100)
    site.bench.enable(stream.topic, {"commit_interval_ms": "500ms"})

    def waits() -> bool:
        status = site.bench.status(stream.topic)[0]
        return status.state == "waiting" and "waits for the cluster: " in str(status.error)

    try:
        wait_until("it waits for a cluster without workers", waits, _STARTS_S)
        one = site.add_worker("one")
        wait_until_lag_is_0(site.bench, stream.topic, limit_s=_STARTS_S)
        two = site.add_worker("two")
        wait_until("the second worker has an executor", lambda: site.cluster.executors(two), _STARTS_S)
        stream.begin(200)
        wait_until("the second worker is used", lambda: site.cluster.runs_python(two), _STARTS_S)

        (executor,) = site.cluster.executors(one)
        killed_at = time.monotonic()
        site.cluster.kill(executor)
        wait_for_commits(site.bench, stream.topic, 2)
        assert time.monotonic() - killed_at < _RECOVERS_S

        site.cluster.kill(one)
        site.cluster.kill(two)
        wait_until("its batch waits for a cluster without executors", waits, _STARTS_S)
        site.add_worker("three")
        stream.end()
        wait_until_lag_is_0(site.bench, stream.topic, limit_s=_STARTS_S)
        assert site.bench.status(stream.topic)[0].error is None
        check_exact(site.bench, stream)
    finally:
        site.bench.disable(stream.topic)
    assert host.poll() is None


def test_doctor_runs_a_task_for_each_executor(site: Site) -> None:
    """And says within seconds what a cluster without a master or without executors lacks."""
    site.add_worker("one")
    told = run(site.state, site.folder, "doctor").stdout
    assert "in this host's versions, and read and wrote where tables lie" in told
    site.cluster.__exit__()
    began = time.monotonic()
    told = run(site.state, site.folder, "doctor").stdout
    assert f"{site.cluster.url} does not answer" in told
    assert time.monotonic() - began < _RECOVERS_S
