"""An archive of Spark's classes (the JDK's "class data sharing"), which halves the work of JVM startup.

It is made once, in the background (``jvm.make_later``), by a Spark session that does a little of everything
and, on exit, archives the classes it has loaded. It lies beside the jars and fits one JDK and one class path;
the JVM checks that itself, and starts without the archive if it does not fit.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tabletopic_kernel.local.machine import file_lock
from tabletopic_kernel.local.processes import environment
from tabletopic_kernel.local.progress import Report, Step
from tabletopic_kernel.model.errors import StackError

_STEP = "class archive"
_WORK = ".archive-"
# Built at the lowest priority, with spare processor time.
_LIMIT_S = 1_200.0


def find(java: Path, spark_jars: Sequence[Path]) -> Path | None:
    """The archive for this JDK and these jars; None if it does not exist yet, or cannot be made."""
    archive = _place(java, spark_jars)
    return archive if archive and archive.exists() and archive.stat().st_size else None


def is_due(java: Path, spark_jars: Sequence[Path]) -> bool:
    """Whether making it has not been attempted yet."""
    archive = _place(java, spark_jars)
    return archive is not None and not archive.exists()


def ensure(java: Path, spark_jars: Sequence[Path], report: Report) -> Path | None:
    """The archive for this JDK and these jars, made on first use (10 to 20 s); None: Spark starts slower."""
    if (archive := _place(java, spark_jars)) is not None and not archive.exists():
        try:
            with file_lock(archive.with_name("archive.lock"), lambda: report(Step(_STEP, "started"))):
                if not archive.exists():
                    _make(java, archive, report)
        # Another user's cache, a full disk, a lock that is never released, an overloaded machine.
        except (OSError, StackError, subprocess.TimeoutExpired):
            return None
    return find(java, spark_jars)


def options(archive: Path) -> list[str]:
    """The JVM options to use an archive, without a warning if it does not fit."""
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]


def spark_home() -> Path:
    """The folder of the installed pyspark, found without importing it."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise StackError("pyspark is not installed: pip install pyspark")
    return Path(spec.origin).parent


def _place(java: Path, spark_jars: Sequence[Path]) -> Path | None:
    """The archive's path beside the jars; None without jars."""
    return spark_jars[0].parent.parent / f"spark-{_key(java, spark_jars)}.jsa" if spark_jars else None


def _key(java: Path, spark_jars: Sequence[Path]) -> str:
    """Where the archive is used, and of what it was made: JDK, Spark as it was installed, our jars."""
    spark = spark_home()
    installed = [path.stat().st_mtime_ns for path in (java, spark / "jars")]
    return "-".join(
        hashlib.sha256("\n".join(map(str, words)).encode()).hexdigest()[:12]
        for words in ((java, spark), (*installed, *spark_jars))
    )


def _make(java: Path, archive: Path, report: Report) -> None:
    """Make the archive; an empty file if that fails, so that it is not attempted at every start."""
    began = time.monotonic()
    report(Step(_STEP, "started", detail="once, for faster Spark startup"))
    for leftover in archive.parent.glob(f"{_WORK}*"):  # left by a killed process; we hold the lock
        shutil.rmtree(leftover, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=_WORK, dir=archive.parent))
    try:
        fresh = work / "classes.jsa"
        base = archive.with_name(f"jdk-{archive.stem.partition('-')[2]}.jsa")  # the archive refers to it
        with (work / "log").open("wb") as log:
            training = (sys.executable, "-P", "-m", "tabletopic_kernel.local.java.class_training")
            succeeded = _run([java, "-Xshare:dump", f"-XX:SharedArchiveFile={base}"], log) and _run(
                [*training, work, base, fresh], log
            )
        if not succeeded or not fresh.exists():
            shutil.copyfile(work / "log", archive.with_suffix(".log"))
            archive.touch()
            report(Step(_STEP, "failed", time.monotonic() - began, str(archive.with_suffix(".log"))))
            return
        fresh.rename(archive)
        _remove_older(archive, base)
        report(Step(_STEP, "done", time.monotonic() - began, str(archive)))
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _remove_older(archive: Path, base: Path) -> None:
    """Remove older archives of the same place, 170 MB each; a JVM that uses one keeps it open."""
    for newest in (archive, base):
        kind, place, _ = newest.stem.split("-")
        for older in newest.parent.glob(f"{kind}-{place}-*.jsa"):
            if older != newest:
                older.unlink(missing_ok=True)


def _run(command: Sequence[str | Path], log: object) -> bool:
    own = {
        key: value
        for key, value in environment().items()
        if key not in ("SPARK_CONF_DIR", "JAVA_TOOL_OPTIONS")
    }
    # In our own process group: killing `jvm` kills everything.
    done = subprocess.run(
        list(map(str, command)),
        env=own,
        stdin=subprocess.DEVNULL,
        stdout=log,  # type: ignore[call-overload]
        stderr=subprocess.STDOUT,
        timeout=_LIMIT_S,
        check=False,
    )
    return bool(done.returncode == os.EX_OK)
