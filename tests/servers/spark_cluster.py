"""A standalone Spark cluster: a master, and workers that come and go, each with a folder of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import psutil
import pyspark

from tabletopic_kernel.local import machine
from tabletopic_kernel.local.java import jvm
from tabletopic_kernel.local.processes import send
from tests.servers.aws import DIE_WITH_PARENT

_PACKAGE = "org.apache.spark.deploy"
_EXECUTOR = "CoarseGrainedExecutorBackend"
_PYTHON = "tabletopic_kernel.pipeline.worker.daemon"
# Of all clusters here, in the settings of whoever uses them.
SECRET = {"spark.authenticate.secret": "of-the-tests-clusters"}


def own_disk(*folders: Path) -> list[str]:
    """A command prefix that gives a program separate, empty disks at ``folders``."""
    mounts = " && ".join(f'mount -t tmpfs none "{folder}"' for folder in folders)
    script = f'{mounts} && exec "$@"'
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]


def has_own_disks(folder: Path) -> bool:
    """Whether this user may use ``own_disk``."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*own_disk(folder), "true"], capture_output=True, check=False).returncode == 0


class SparkCluster:
    """A master from ``with`` on; everything that it and its workers started ends with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "cluster.log"
        self._properties = folder / "cluster.properties"
        told = {"spark.authenticate": "true", **SECRET}
        self._properties.write_text("".join(f"{key} {text}\n" for key, text in told.items()))
        self.port = machine.free_port(set())
        self._started: list[psutil.Popen] = []

    @property
    def url(self) -> str:
        """The URL for [spark] master."""
        return f"spark://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._start("master.Master", "--port", str(self.port))
        deadline = time.monotonic() + 240
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                return self
            assert time.monotonic() < deadline, self.log.read_text()[-3000:]
            time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._started):
            self.kill(process)

    def add_worker(
        self, name: str, *, before: Sequence[str] = (), python_path: str | None = None
    ) -> psutil.Popen:
        """Start a worker of one core and 1 GiB.

        Args:
            name: of its folder.
            before: prefix of its command.
            python_path: path of its executors' Python; by default this process's.
        """
        work = self._folder / name
        memory = ("--cores", "1", "--memory", "1g", "--work-dir", str(work), self.url)
        return self._start("worker.Worker", *memory, before=before, python_path=python_path)

    def _start(
        self, what: str, *options: str, before: Sequence[str] = (), python_path: str | None = None
    ) -> psutil.Popen:
        java = [str(jvm.java()), "-Xmx256m", "-cp", f"{Path(pyspark.__file__).parent}/jars/*"]
        here = ["--host", "127.0.0.1", "--webui-port", "0", "--properties-file", str(self._properties)]
        told = {
            **os.environ,
            # As bin/load-spark-env.sh says; without it a worker looks for a build of Spark.
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_SCALA_VERSION": "2.13",
            # Of executors; the wheel's own Java lacks a module.
            "JAVA_HOME": str(jvm.spark_java_home(self._folder)),
            "PYTHONPATH": os.environ.get("PYTHONPATH", "") if python_path is None else python_path,
            "PATH": os.pathsep.join([f"{sys.base_prefix}/bin", os.environ.get("PATH", "")]),
            # Where executors keep their jars and archives: killed, they leave them.
            "SPARK_LOCAL_DIRS": str(self._folder / "local"),
        }
        with self.log.open("ab") as log:
            process = psutil.Popen(
                [*DIE_WITH_PARENT, *before, *java, f"{_PACKAGE}.{what}", *here, *options],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env=told,
            )
        self._started.append(process)
        return process

    def executors(self, worker: psutil.Popen) -> list[psutil.Process]:
        """The executors that a worker runs; a program that one of them starts is a copy of it at first."""
        running = {process.pid: process for process in _below(worker) if _EXECUTOR in _words(process)}
        return [process for process in running.values() if _parent(process) not in running]

    def pythons(self, worker: psutil.Popen) -> list[str]:
        """The interpreters that run a worker's Python tasks."""
        return [_words(one).split()[0] for one in _below(worker) if _PYTHON in _words(one)]

    def runs_python(self, worker: psutil.Popen) -> bool:
        """Whether a Python task has run at a worker: its executor has the daemon."""
        return bool(self.pythons(worker))

    def kill(self, process: psutil.Process) -> None:
        """Kill a process of the cluster, and its descendants."""
        for one in [*_below(process), process]:
            send(one, signal.SIGKILL)
        if process in self._started:
            process.wait()


def _below(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.children(recursive=True)
    return []


def _parent(process: psutil.Process) -> int | None:
    with contextlib.suppress(psutil.Error):
        return process.ppid()
    return None


def _words(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""
