"""Download sets of jars once, verify and cache them.

Ivy comes with pyspark. A folder in the cache belongs to one version of a set's list and checksums, such as
``ivy.xml`` and ``jars.sha256``, and appears by a rename: complete and verified, or not at all.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tabletopic_kernel.local.machine import file_lock, need_space, stack_errors
from tabletopic_kernel.local.processes import environment
from tabletopic_kernel.local.progress import Report, Step
from tabletopic_kernel.model.errors import StackError

_HERE = Path(__file__).parent
# A class path splits at colons, Spark splits at commas and expands the others, Quarkus fails on brackets.
_IMPOSSIBLE_IN_PATH = frozenset("*,:?[]{}#%\n")
_MANIFEST = "installed.json"
_STEP = "java libraries"


@dataclass(frozen=True)
class JarSet:
    """Jars that are downloaded together; ``download_bytes`` is measured, for progress bars and messages."""

    name: str  # prefix of the folder in the cache
    ivy_file: Path
    checksum_file: Path  # sha256sum's format, names relative to the installed folder
    configurations: tuple[str, ...]
    download_bytes: int

    @property
    def install_bytes(self) -> int:
        """Disk space needed: Ivy's cache, its copy, and unpacked archives."""
        return 3 * self.download_bytes

    def key(self) -> str:
        """Identifies this version of the two files."""
        return hashlib.sha256(self.ivy_file.read_bytes() + self.checksum_file.read_bytes()).hexdigest()[:12]


EVERY_JVM = JarSet(
    "jvm", _HERE / "ivy.xml", _HERE / "jars.sha256", ("kafka", "registry", "spark"), 277_000_000
)
# What Spark needs only for some catalogs and storages, each downloaded when a setting requires it.
EXTRAS = {
    name: JarSet(name, _HERE / "extras.xml", _HERE / "extras.sha256", (name,), size)
    for name, size in (("aws", 67_000_000), ("gcp", 64_300_000), ("postgresql", 1_200_000))
}


@dataclass(frozen=True)
class Jars:
    """The folder of the installed jars, with a subfolder per configuration; archives are unpacked."""

    folder: Path

    def of(self, configuration: str) -> list[Path]:
        """Paths of one configuration's jars, sorted."""
        return sorted((self.folder / configuration).glob("*.jar"))


def cache_dir() -> Path:
    """The download cache: ``$TABLETOPIC_CACHE``, or below ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    if chosen := os.environ.get("TABLETOPIC_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache").absolute() / "tabletopic"


def install(java: Sequence[str], report: Report, wanted: JarSet = EVERY_JVM) -> Jars:
    """The installed jars; the first call downloads them. ``java`` is the command that starts Ivy's JVM.

    Raises StackError: no network, no disk space, no permission to write, or a file with a wrong checksum.
    """
    cache = cache_dir()
    target = cache / f"{wanted.name}-{wanted.key()}"
    if _is_complete(target):
        return Jars(target)
    if bad := _IMPOSSIBLE_IN_PATH.intersection(str(cache)):
        raise StackError(
            f"The cache folder {cache} has {' '.join(sorted(bad))} in its path: "
            "set TABLETOPIC_CACHE to another."
        )
    began = time.monotonic()
    with stack_errors(cache, "TABLETOPIC_CACHE"):
        cache.mkdir(parents=True, exist_ok=True)
        with file_lock(
            cache / "lock",
            lambda: report(Step(_STEP, "started", detail="another process is downloading them")),
        ):
            if not _is_complete(target):
                need_space(cache, wanted.install_bytes, "The download of the Java libraries")
                size = wanted.download_bytes
                report(Step(_STEP, "started", detail=f"fetching into {cache}", total_bytes=size))
                try:
                    _fetch(
                        java,
                        target,
                        wanted,
                        lambda done: report(Step(_STEP, "running", time.monotonic() - began, "", done, size)),
                    )
                except BaseException:
                    report(Step(_STEP, "failed", time.monotonic() - began))
                    raise
                report(Step(_STEP, "done", time.monotonic() - began, str(target)))
    return Jars(target)


def _is_complete(target: Path) -> bool:
    """Whether names and sizes are the same as when the checksums matched; takes milliseconds."""
    try:
        sizes: dict[str, int] = json.loads((target / _MANIFEST).read_bytes())
        return bool(sizes) and all((target / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError):
        return False


def _fetch(java: Sequence[str], target: Path, jar_set: JarSet, on_bytes: Callable[[int], None]) -> None:
    cache = target.parent
    for leftover in cache.glob(".new-*"):  # of a killed process
        shutil.rmtree(leftover, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=".new-", dir=cache))
    fresh = work / target.name
    fresh.mkdir()
    try:
        retrieve(java, cache / "ivy", fresh, on_bytes, jar_set)
        try:
            check(fresh, jar_set)
        except StackError:
            # Ivy's cache is as wrong as its result.
            shutil.rmtree(cache / "ivy", ignore_errors=True)
            raise
        _unpack_archives(fresh)
        sizes = {str(path.relative_to(fresh)): path.stat().st_size for path in _files(fresh)}
        (fresh / _MANIFEST).write_text(json.dumps(sizes), "utf-8")
        if target.exists():  # damaged, or we would not get here; a server may still have it open
            target.rename(work / "damaged")
        fresh.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(cache / "ivy", ignore_errors=True)


def retrieve(
    java: Sequence[str],
    ivy_cache: Path,
    into: Path,
    on_bytes: Callable[[int], None],
    wanted: JarSet = EVERY_JVM,
) -> None:
    """Download everything with Ivy into ``into/<configuration>/``, reusing ``ivy_cache``.

    ``on_bytes`` is called a few times a second with the bytes fetched so far. Raises StackError.
    """
    into.mkdir(parents=True, exist_ok=True)
    ivy_cache.mkdir(parents=True, exist_ok=True)
    log = ivy_cache / "ivy.log"
    # Relative to the working folder: Ivy would take a path with brackets for a pattern.
    pattern = "[conf]/[artifact]-[revision](-[classifier]).[ext]"
    command = [
        *(java[0], "-Xmx256m", "-XX:+UseSerialGC", *java[1:], f"-Divy.default.ivy.user.dir={ivy_cache}"),
        *("-jar", str(_ivy_jar()), "-cache", str(ivy_cache), "-ivy", str(wanted.ivy_file)),
        *("-confs", *wanted.configurations, "-retrieve", pattern),
    ]
    with log.open("wb") as output:
        ivy = subprocess.Popen(
            command,
            cwd=into,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            while ivy.poll() is None:
                on_bytes(_size_bytes(ivy_cache))
                time.sleep(0.2)
        finally:
            ivy.kill()
            ivy.wait()
    if ivy.returncode != 0:
        raise StackError(_why_not(log, wanted))


def _why_not(log: Path, jar_set: JarSet) -> str:
    text = log.read_text("utf-8", "replace")
    if "No space left on device" in text:
        return (
            f"The disk is full ({log.parent}): the download needs {jar_set.install_bytes // 1024**2} MiB; "
            "free some."
        )
    causes = list(dict.fromkeys(re.findall(r"java\.[\w.]+(?:Exception|Error)(?:: [^\n)]*)?", text)))[:3]
    cause = "; ".join(causes) or "the repository cannot be reached"
    return (
        f"The Java libraries could not be fetched (about {jar_set.download_bytes // 10**6} MB, only on the "
        f"first start): {cause}. Check the network and try again; behind "
        "a proxy set JAVA_TOOL_OPTIONS to '-Dhttps.proxyHost=… -Dhttps.proxyPort=…'. "
        f"Ivy's output: {log}"
    )


def _size_bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except OSError:  # renamed in the meantime
            continue
    return total


def _ivy_jar() -> Path:
    pyspark = importlib.util.find_spec("pyspark")
    for folder in (pyspark and pyspark.submodule_search_locations) or ():
        for jar in Path(folder, "jars").glob("ivy-*.jar"):
            return jar
    raise StackError("There is no ivy-*.jar among pyspark's jars: install pyspark again, with pip or conda.")


def check(folder: Path, wanted: JarSet) -> None:
    """Compare ``folder`` with its checksums; raises StackError naming missing, unknown and wrong files."""
    lines = (line.split(maxsplit=1) for line in wanted.checksum_file.read_text("utf-8").splitlines())
    expected = {name: checksum for checksum, name in lines if name.partition("/")[0] in wanted.configurations}
    actual = checksums(folder)
    wrong = sorted(name for name in expected.keys() | actual.keys() if expected.get(name) != actual.get(name))
    if wrong:
        raise StackError(
            f"{len(wrong)} of {len(expected)} Java libraries are not the expected files "
            f"({', '.join(wrong[:5])}): something between here and the repository changes or truncates "
            "downloads. They were deleted; try again."
        )


def checksums(folder: Path) -> dict[str, str]:
    """Name relative to ``folder`` → sha256 of every file in it, by name."""
    sums = {}
    for path in sorted(_files(folder)):
        with path.open("rb") as file:
            sums[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return sums


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _unpack_archives(folder: Path) -> None:
    for archive in folder.glob("*/*.tar.gz"):
        with tarfile.open(archive) as tar:
            tar.extractall(archive.parent, filter="data")
        archive.unlink()
