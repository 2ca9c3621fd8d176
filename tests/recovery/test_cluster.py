"""Table topics on a standalone Spark cluster: executors come, die, are missing; no record is lost.

Workers have their own folders, no access to the host's state folder, and another Python; tables are on S3.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tabletopic_kernel.local.stack import StackInfo
from tests.recovery.checks import check_exact, newest_ledger, wait_for_commits, wait_until_lag_is_0
from tests.recovery.cluster_site import Site, open_site, serving
from tests.recovery.hosts import Hosts
from tests.recovery.stream import Stream
from tests.recovery.terminal import run
from tests.recovery.waiting import wait_until

pytestmark = pytest.mark.integration
_ROOT = Path(__file__).parents[2]
# Measured: 2 to 4 s (`measure_cluster lost`), and 21 s on two cores that had ten times their work.
_RECOVERS_S = 120.0
_ELASTIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "5s",
    "spark.executor.cores": "1",
}
# JVMs start by the dozen here, on a machine that may have other things to do.
_STARTS_S = 600.0


def packed_python(folder: Path) -> Path:
    """The same packages for a separate Python, as an archive that Spark sends to executors."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    paths = [str(_ROOT), *(path for path in sys.path if path.endswith("site-packages"))]
    (packages / "same.pth").write_text("\n".join(paths))
    return Path(shutil.make_archive(str(folder), "gztar", folder))


@pytest.fixture
def site(stack: StackInfo, tmp_path: Path) -> Iterator[Site]:
    """Executors run a separate Python with the same packages."""
    packed = {
        "spark.archives": f"{packed_python(tmp_path / 'packed')}#environment",
        "spark.pyspark.python": "./environment/bin/python",
    }
    with open_site(stack, tmp_path, packed) as opened:
        yield opened


@pytest.fixture
def host(site: Site) -> Iterator[subprocess.Popen[bytes]]:
    """`tabletopic serve` with the settings of the site."""
    with serving(site) as started:
        yield started


@pytest.fixture
def elastic(stack: StackInfo, tmp_path: Path) -> Iterator[Site]:
    """Executors come and go with the work, and run the output of `tabletopic pack`."""
    with tempfile.TemporaryDirectory() as name:  # too large to be kept, as pytest keeps its folders
        packed = Path(name) / "executors.pex"
        done = run(tmp_path / "state", tmp_path, "pack", str(packed), "--uncompressed")
        assert done.returncode == 0, done.stdout
        assert f'[spark.conf] "spark.files" = "{packed}"' in done.stdout
        sent = {"spark.files": str(packed), "spark.pyspark.python": f"./{packed.name}"}
        root = {"spark.executorEnv.PEX_ROOT": f"{name}/unpacked"}
        with open_site(stack, tmp_path, {**sent, **root, **_ELASTIC}) as opened:
            yield opened
        shutil.rmtree(tmp_path / "cluster")  # each executor has a copy


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


def test_executors_of_what_was_packed_come_with_the_work_and_go(
    hosts: Hosts, elastic: Site, new_stream: Callable[..., Stream]
) -> None:
    """By dynamic allocation, from none to two and back, where the checkout cannot be seen; rows are exact."""
    hosts.exactly(0)
    workers = [elastic.add_worker(name, without_checkout=True) for name in ("one", "two")]
    most, pythons = 0, set[str]()

    def executors() -> int:
        nonlocal most
        found = sum(len(elastic.cluster.executors(worker)) for worker in workers)
        pythons.update(*(elastic.cluster.pythons(worker) for worker in workers))
        most = max(most, found)
        return found

    def all_gone() -> bool:
        return executors() == 0

    with serving(elastic) as host:
        stream = new_stream(4)
        for _ in range(3):  # of a task each; a producer keeps 100,000 at most
            stream.send(50_000)
        elastic.bench.enable(stream.topic, {"commit_interval_ms": "500ms"})
        try:
            for _ in range(2):
                wait_until("executors come with the work", executors, _STARTS_S)
                ends = sum(elastic.bench.broker.end_offsets([stream.topic])[stream.topic].values())

                def reached(wanted: int = ends) -> bool:
                    executors()
                    ledger = newest_ledger(elastic.bench, stream.topic)
                    return ledger is not None and sum(ledger.next_offsets.values()) == wanted

                wait_until("all is committed", reached, _STARTS_S)
                wait_until("idle executors go", all_gone, _STARTS_S)
                assert host.poll() is None
                stream.send(1_000)
            wait_until_lag_is_0(elastic.bench, stream.topic, limit_s=_STARTS_S)
            check_exact(elastic.bench, stream)
        finally:
            elastic.bench.disable(stream.topic)
    assert most == 2
    # The file begins in any Python of the machine, then in the one that it has unpacked; never in the host's.
    assert any("unpacked" in python for python in pythons), pythons
    assert not any(python.startswith(sys.prefix) for python in pythons), pythons
