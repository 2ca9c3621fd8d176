"""A cluster that reaches other disks than its host: nothing that it wrote is committed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tabletopic_kernel.local.stack import StackInfo
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.workbench import Workbench
from tests.environment import without_settings
from tests.recovery.hosts import Hosts
from tests.recovery.stream import Stream
from tests.recovery.terminal import run
from tests.recovery.waiting import wait_until
from tests.servers.spark_cluster import SECRET, SparkCluster, has_own_disks, own_disk

pytestmark = pytest.mark.integration
HELD_S = 240.0


def settings_file(stack: StackInfo, folder: Path, master: str, *, shared: bool) -> None:
    """Settings of a user with their own broker, warehouse and cluster."""
    words = "true" if shared else "false"
    (folder / "tabletopic.toml").write_text(f"""
[kafka]
"bootstrap.servers" = "{stack.bootstrap_servers}"
[registry]
url = "{stack.registry_url}"
[catalog]
type = "sql"
uri = "sqlite:///{folder}/catalog.db?timeout=30"
warehouse = "file://{folder}/warehouse"
[spark]
master = "{master}"
shared_files = {words}
shared_network = {words}
[spark.conf]
"spark.executor.memory" = "512m"
"spark.driver.host" = "127.0.0.1"
"spark.authenticate.secret" = "{SECRET["spark.authenticate.secret"]}"
""")
    (folder / "warehouse").mkdir(exist_ok=True)


def test_a_cluster_that_reaches_neither_files_nor_broker_is_refused(
    stack: StackInfo, new_stream: Callable[..., Stream], tmp_path: Path
) -> None:
    """By every command that would use it, with the setting that says otherwise."""
    stream = new_stream(1)
    stream.send(1)
    settings_file(stack, tmp_path, "spark://127.0.0.1:1", shared=False)
    state = tmp_path / "state"
    for words in (("serve",), ("enable", stream.topic), ("plan", stream.topic), ("doctor",)):
        told = run(state, tmp_path, *words)
        assert told.returncode != 0, words
        for one in ("shared_files", "shared_network"):
            assert one in told.stdout, (words, told.stdout)
    assert stream.topic not in run(state, tmp_path, "status").stdout


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """A master, and a worker with another disk in place of the warehouse."""
    (tmp_path / "warehouse").mkdir()
    if not has_own_disks(tmp_path / "warehouse"):
        pytest.skip("only root may give a process a disk of its own")
    with SparkCluster(tmp_path / "cluster") as started:
        started.add_worker("work", before=own_disk(tmp_path / "warehouse"))
        yield started.url


def test_executors_with_a_disk_of_their_own_commit_nothing(
    stack: StackInfo, hosts: Hosts, cluster: str, new_stream: Callable[..., Stream], tmp_path: Path
) -> None:
    """The settings say that the warehouse is shared, and it is not: the topic waits and says so, unread."""
    hosts.exactly(0)
    stream = new_stream(1)
    stream.send(50)
    settings_file(stack, tmp_path, cluster, shared=True)
    state = tmp_path / "state"
    enabled = run(state, tmp_path, "enable", stream.topic, "--commit-interval", "500ms")
    assert enabled.returncode == 0, enabled.stdout
    with (tmp_path / "host.log").open("wb") as out:
        host = subprocess.Popen(
            [sys.executable, "-m", "tabletopic_kernel.faces.cli", "serve", "--config", "tabletopic.toml"],
            cwd=tmp_path,
            env={**without_settings(), "TABLETOPIC_STATE_DIR": str(state)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(
            "the host says that its executors write elsewhere",
            lambda: "do not write where this host reads" in run(state, tmp_path, "status").stdout,
            limit_s=480,
        )
    finally:
        host.terminate()
        assert host.wait(HELD_S) == 0, (tmp_path / "host.log").read_text()
        run(state, tmp_path, "disable", stream.topic)
    assert not list((tmp_path / "warehouse").rglob("*.parquet"))
    told = Workbench(Settings(state_dir=str(stack.state_dir))).events(stream.topic)
    assert not [event for event in told if event.type in ("FilesStaged", "Committed")]
