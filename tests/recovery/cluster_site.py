"""A Spark cluster, S3, and the settings of a user who has both."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tabletopic_kernel.local.stack import StackInfo
from tabletopic_kernel.workbench.config import load_settings
from tabletopic_kernel.workbench.workbench import Workbench
from tests.environment import without_settings
from tests.servers.aws import Aws
from tests.servers.spark_cluster import SECRET, SparkCluster, has_own_disks, own_disk

_PACKAGE = Path(__file__).parents[2] / "tabletopic_kernel"


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

    def add_worker(self, name: str, *, without_checkout: bool = False) -> subprocess.Popen[bytes]:
        """A worker that sees the host's state folder, and optionally this package, as empty."""
        hidden = [self.state, *([_PACKAGE] if without_checkout else [])]
        before = own_disk(*hidden) if has_own_disks(self.state) else []
        path = "" if without_checkout else None
        worker: subprocess.Popen[bytes] = self.cluster.add_worker(name, before=before, python_path=path)
        return worker


@contextlib.contextmanager
def open_site(stack: StackInfo, folder: Path, conf: Mapping[str, str]) -> Iterator[Site]:
    """A master without workers, and tables on S3; ``conf``: more of [spark.conf]."""
    (folder / "state").mkdir()
    with Aws(folder / "aws") as aws, SparkCluster(folder / "cluster") as cluster:
        store = "\n".join(f'"{key}" = "{text}"' for key, text in aws.properties().items())
        (folder / "tabletopic.toml").write_text(f"""
state_dir = "{folder}/state"
[kafka]
"bootstrap.servers" = "{stack.bootstrap_servers}"
[registry]
url = "{stack.registry_url}"
[catalog]
type = "sql"
uri = "sqlite:///{folder}/catalog.db?timeout=30"
warehouse = "s3://{aws.bucket("lake")}/tables"
{store}
[spark]
master = "{cluster.url}"
shared_network = true
[spark.conf]
"spark.executor.memory" = "512m"
"spark.driver.host" = "127.0.0.1"
""")
        with (folder / "tabletopic.toml").open("a") as file:
            file.writelines(f'"{key}" = "{text}"\n' for key, text in {**SECRET, **conf}.items())
        settings = load_settings(environ={"TABLETOPIC_CONFIG": "tabletopic.toml"}, cwd=folder).settings
        yield Site(cluster, folder, Workbench(settings))


@contextlib.contextmanager
def serving(site: Site) -> Iterator[subprocess.Popen[bytes]]:
    """`tabletopic serve` with the site's settings; it must exit cleanly."""
    with (site.folder / "host.log").open("wb") as out:
        started = subprocess.Popen(
            [sys.executable, "-m", "tabletopic_kernel.faces.cli", "serve", "--config", "tabletopic.toml"],
            cwd=site.folder,
            env=without_settings(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        yield started
    except BaseException:
        started.kill()
        started.wait()
        raise
    started.terminate()
    assert started.wait(240) == 0, (site.folder / "host.log").read_text()[-3000:]
